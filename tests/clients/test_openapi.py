"""The OpenAPI document: valid, about what is served, and enough for a generator to make a client that works."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import requests
from browser import Browser, find
from openapi_spec_validator import OpenAPIV31SpecValidator

from conftest import FIXTURES

LIMIT = 240.0
# Those that are made to fail: at a load, or in each inference.
FAILING = {"broken", "running_fail"}
# Their numbers have no form in JSON.
BINARY = {"passthrough_bf16", "passthrough_f16"}
# The last one has variables that the device runs as tensors of sequences alone.
STATEFUL = {"vad_stateful", "running_total", "running_others"}
# Those that a small text suits.
GRAPHS = ["streamer", "text"]
PIPELINE = {
    "name": "chain 2",
    "inputs": ["b"],
    "nodes": [
        {
            "name": f"node{number}",
            "model_name": "dummy",
            "type": "DL model",
            "inputs": [{"b": {"node_name": before, "data_item": item}}],
            "outputs": [{"data_item": "a", "alias": "out"}],
        }
        for number, before, item in ((1, "request", "b"), (2, "node1", "out"))
    ],
    "outputs": [{"a": {"node_name": "node2", "data_item": "out"}}],
}
ONE = {"BOOL": True, "BYTES": "text"}


@pytest.fixture(scope="module")
def server(running, tmp_path_factory):
    """A server of the fixtures: models, stateful models, a pipeline, and graphs."""
    models = []
    for path in sorted((FIXTURES / "models").iterdir()):
        if path.is_dir() and path.name not in FAILING:
            entry = {"name": path.name, "base_path": str(path), "stateful": path.name in STATEFUL}
            models.append({"config": entry})
    graphs = [
        {"name": f"{name} graph", "base_path": str(FIXTURES / "graphs" / name)} for name in GRAPHS
    ]
    config = {
        "model_config_list": models,
        "pipeline_config_list": [PIPELINE],
        "mediapipe_config_list": graphs,
    }
    path = tmp_path_factory.mktemp("openapi") / "config.json"
    path.write_text(json.dumps(config))
    return running.start("openapi", "--config_path", str(path))


@pytest.fixture(scope="module")
def document(server):
    """The document."""
    answer = requests.get(server.url("/openapi.json"), timeout=20)
    assert answer.status_code == 200
    return answer.json()


@pytest.fixture(scope="module")
def client(document, tmp_path_factory):
    """The client that the generator makes of the document."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "openapi.json").write_text(json.dumps(document))
    (folder / "settings.yml").write_text("post_hooks: []\npackage_name_override: made\n")
    done = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json"]
        + ["--config", "settings.yml", "--meta", "none", "--output-path", "made", "--fail-on-warning"],
        cwd=folder, capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    yield importlib.import_module("made")
    sys.path.remove(str(folder))


def resolved(document, schema):
    """The schema that a reference names."""
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def example(document, request):
    """A request that a schema describes, each tensor as small as it may be."""
    items = resolved(document, request)["properties"]["inputs"]["items"]
    inputs = []
    for schema in items.get("anyOf", [items]):
        tensor = resolved(document, schema)["properties"]
        datatype = tensor["datatype"].get("const", "BYTES")
        lengths = re.findall(r"[^(),]+", tensor["shape"].get("description", "(1)"))
        shape = [int(length.split("..")[0]) if length != "any" else 1 for length in lengths]
        count = 1
        for length in shape:
            count *= length
        data = [ONE.get(datatype, 1)] * count
        inputs.append({"name": tensor["name"]["const"], "shape": shape, "datatype": datatype, "data": data})
    return {"inputs": inputs}


def test_the_document_is_valid(document):
    OpenAPIV31SpecValidator(document).validate()


def test_it_has_everything_that_is_ready(server, document):
    index = requests.post(server.url("/v2/repository/index"), json={"ready": True}, timeout=20).json()
    tags = {tag["name"] for tag in document["tags"]}
    assert tags == {"server", *(entry["name"] for entry in index)}


def modules_by_path(client, verb="infer"):
    """The modules of a client's inferences, by their paths."""
    found = {}
    for file in (Path(client.__path__[0]) / "api").glob(f"*/{verb}_*.py"):
        [path] = re.findall(r'"url": "([^"]+)"', file.read_text())
        found[path] = importlib.import_module(f"made.api.{file.parent.name}.{file.stem}")
    return found


def test_a_generated_client_calls_every_fixture(server, document, client):
    modules = modules_by_path(client)
    connection = client.Client(base_url=f"http://{server.rest}")
    called = []
    for path, methods in document["paths"].items():
        if not path.endswith("/infer"):
            continue
        operation = methods["post"]
        [tag] = operation["tags"]
        body = example(document, operation["requestBody"]["content"]["application/json"]["schema"])
        if tag in STATEFUL:
            # Either form says it all; in the other one, the sequence would stay.
            body["inputs"] = [it for it in body["inputs"] if not it["name"].startswith("sequence_")]
            body["parameters"] = {"sequence_id": 7, "sequence_start": True, "sequence_end": True}
        module = modules[path]
        kind = next(
            value for name, value in vars(module).items()
            if name.endswith("InferRequest") and isinstance(value, type)
        )  # fmt: skip
        answer = module.sync_detailed(client=connection, body=kind.from_dict(body))
        if tag in BINARY:
            assert answer.status_code == 400 and b"has no JSON form" in answer.content
            continue
        assert answer.status_code == 200, (path, answer.content)
        assert answer.parsed.to_dict() == json.loads(answer.content), path
        called.append(tag)
    assert {"dummy", "chain 2", "vad_stateful", "text graph"} <= set(called)
    assert len(called) > 40


def test_the_document_has_what_requests_may_have(document):
    schemas = document["components"]["schemas"]

    def inputs(name):
        return schemas[f"{name}.InferRequest"]["properties"]["inputs"]["items"]["anyOf"]

    names = {resolved(document, schema)["properties"]["name"]["const"] for schema in inputs("running_total")}
    assert names >= {"sequence_id", "sequence_control_input"}
    assert "data" not in schemas["dummy.Input0"]["required"]
    paths = document["paths"]
    infer = paths["/v2/models/dummy/infer"]["post"]["responses"]
    assert set(infer) == {"200", "400", "404", "409", "412", "500", "503", "504"}
    assert list(paths["/metrics"]["get"]["responses"]["200"]["content"]) == ["text/plain"]


def test_a_generated_client_generates(server, document, client):
    """The generate extension: an object for models, and events for graphs."""
    connection = client.Client(base_url=f"http://{server.rest}")
    once = modules_by_path(client, "generate")["/v2/models/dummy/generate"]
    kind = client.models.DummyGenerateRequest
    answer = once.sync_detailed(client=connection, body=kind.from_dict({"b": list(range(10))}))
    assert answer.status_code == 200, answer.content
    assert answer.parsed.to_dict()["a"] == [float(number) for number in range(1, 11)]
    path = "/v2/models/streamer%20graph/generate_stream"
    events = modules_by_path(client, "generate_stream")[path]
    kind = client.models.StreamerGraphGenerateRequest
    answer = events.sync_detailed(client=connection, body=kind.from_dict({"prompt": "the model"}))
    assert answer.status_code == 200 and answer.parsed.count("data: ") > 3
    described = document["paths"]["/v2/models/dummy/generate_stream"]["post"]["responses"]["200"]
    assert list(described["content"]) == ["text/event-stream"]
    # What has no form in JSON has no such path.
    assert not any("f16/generate" in path for path in document["paths"])


def test_the_page_has_every_path_and_nothing_from_elsewhere(server, document):
    answer = requests.get(server.url("/docs"), timeout=20)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    for path in document["paths"]:
        assert path in answer.text, path
    # What has lines keeps them.
    assert "<pre tabindex=\"0\">{\n" in answer.text and "\\u{a}" not in answer.text
    assert "<script" not in answer.text and "http://" not in answer.text and "https://" not in answer.text


@pytest.mark.skipif(find() is None, reason="no chromium here")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
def test_the_page_fits_in_a_browser(server, document, width, dark, tmp_path):
    """Sixty names in its list of links: each is read in one line, and none is out of reach."""
    browser = Browser(tmp_path)
    try:
        page = browser.page(width, 844, dark=dark)
        page.open(server.url("/docs"))
        page.screenshot(tmp_path / "docs.png")
        links = page.ask(
            "[...document.querySelectorAll('nav a')].map((it) => {"
            " const { left, right, height } = it.getBoundingClientRect();"
            " return [it.textContent, left, right, height]; })"
        )
        assert len(links) == len(document["tags"]) > 50
        for name, left, right, height in links:
            assert 0 <= left < right <= width and height < 40, (name, left, right, height)
        assert page.ask("document.documentElement.scrollWidth") == width
        assert page.errors() == []
    finally:
        browser.close()


def test_both_go_with_the_dashboard(running):
    flags = ["--model_name", "dummy", "--model_path", str(FIXTURES / "models/dummy"), "--no_dashboard"]
    server = running.start("bare", *flags)
    for path in ("/openapi.json", "/docs"):
        assert requests.get(server.url(path), timeout=20).status_code == 404
