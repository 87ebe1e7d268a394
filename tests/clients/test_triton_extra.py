"""What Triton's clients and load generators call besides the protocol, and the metrics page."""

import os
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from prometheus_client.openmetrics.parser import text_string_to_metric_families as strict
from prometheus_client.parser import text_string_to_metric_families
from tritonclient.utils import InferenceServerException

from conftest import ROOT

# The last release of the client with the load generator in its wheel came before the one that the
# other tests use.
PERF_ANALYZER = "tritonclient==2.47.0"

# The load generator is linked to two libraries that a run on tensors in memory does not call; these
# take their place. Each function fails.
LIBRARIES = {
    "libcudart.so.12": [
        "cudaFree",
        "cudaGetErrorName",
        "cudaGetErrorString",
        "cudaIpcGetMemHandle",
        "cudaMalloc",
        "cudaMemcpy",
        "cudaSetDevice",
    ],
    "libb64.so.0d": [
        "base64_decode_block",
        "base64_encode_block",
        "base64_encode_blockend",
        "base64_init_decodestate",
        "base64_init_encodestate",
    ],
}


@pytest.fixture(params=["grpc", "http"])
def client(request, serve):
    """Triton's client of either transport, its module, and the server with a metrics page."""
    server = serve("dummy", "--metrics_enable")
    if request.param == "grpc":
        made = triton_grpc.InferenceServerClient(server.grpc)
        yield made, triton_grpc, server
    else:
        made = triton_http.InferenceServerClient(server.rest)
        yield made, triton_http, server
    made.close()


def test_open_metrics(serve):
    """The strict parser of the standard reads the page, and finds the names of the other format."""

    def families(accept, parse):
        request = urllib.request.Request(server.url("/metrics"), headers={"accept": accept})
        with urllib.request.urlopen(request) as answer:
            assert answer.headers["content-type"].startswith(accept.split(";")[0])
            found = list(parse(answer.read().decode()))
        return {sample.name for family in found for sample in family.samples}

    server = serve("dummy", "--metrics_enable")
    usual = families("text/plain", text_string_to_metric_families)
    open_metrics = families("application/openmetrics-text; version=1.0.0", strict)
    assert "ovms_requests_success" in open_metrics
    # The parser of the older format gives counters the ending of the newer one.
    assert open_metrics == {name.removesuffix("_total") for name in usual}


def tensor(module):
    """The input of the model."""
    made = module.InferInput("b", [1, 10], "FP32")
    made.set_data_from_numpy(np.zeros((1, 10), np.float32))
    return made


def as_json(client, module, call, *args):
    """An answer as JSON, from either transport."""
    kwargs = {"as_json": True} if module is triton_grpc else {}
    return getattr(client, call)(*args, **kwargs)


def test_model_config(client):
    """The configuration has the inputs and outputs of the metadata."""
    client, module, _ = client
    config = as_json(client, module, "get_model_config", "dummy")
    config = config.get("config", config)
    assert (config["name"], config["backend"]) == ("dummy", "openvino")
    assert config.get("max_batch_size", 0) == 0
    for kind, name in [("input", "b"), ("output", "a")]:
        (entry,) = config[kind]
        assert (entry["name"], entry["data_type"]) == (name, "TYPE_FP32")
        assert [int(length) for length in entry["dims"]] == [1, 10]
    with pytest.raises(InferenceServerException, match="Model with requested name is not found"):
        client.get_model_config("stranger")


def test_statistics(client):
    """Counts rise by what was sent."""
    client, module, _ = client

    def counts():
        answer = as_json(client, module, "get_inference_statistics", "dummy")
        (entry,) = answer["model_stats"]
        stages = entry["inference_stats"]
        names = ["success", "queue", "compute_input", "compute_infer", "compute_output"]
        return [int(stages.get(name, {}).get("count", 0)) for name in names]

    before = counts()
    for _ in range(3):
        client.infer("dummy", [tensor(module)])
    assert counts() == [count + 3 for count in before]


def test_shared_memory_is_forgotten(client):
    """What load generators do before they begin."""
    client, module, _ = client
    client.unregister_system_shared_memory()
    client.unregister_cuda_shared_memory()
    assert not as_json(client, module, "get_system_shared_memory_status")
    with pytest.raises(InferenceServerException, match="start the server with --shared-memory"):
        client.register_system_shared_memory("x", "/x", 1)
    with pytest.raises(InferenceServerException, match="loaded and unloaded by the server"):
        client.load_model("dummy")


def test_parameters(client):
    """Priority, time limit and sequence of a request for a model without state."""
    client, module, _ = client
    answer = client.infer(
        "dummy",
        [tensor(module)],
        priority=3,
        timeout=60_000_000,
        sequence_id=5,
        sequence_start=True,
        sequence_end=True,
    )
    np.testing.assert_array_equal(answer.as_numpy("a"), np.ones((1, 10), np.float32))


def test_extensions(client):
    """Load generators look for the statistics before they ask for them."""
    client, module, _ = client
    assert "statistics" in as_json(client, module, "get_server_metadata")["extensions"]


def test_metrics_page(client):
    """Prometheus' own parser reads the page."""
    client, module, server = client

    def families():
        with urllib.request.urlopen(server.url("/metrics")) as answer:
            assert answer.headers["content-type"].startswith("text/plain")
            text = answer.read().decode()
        return {family.name: family for family in text_string_to_metric_families(text)}

    interface = "gRPC" if module is triton_grpc else "REST"

    def successes():
        wanted = {"interface": interface, "method": "ModelInfer", "version": "1"}
        (value,) = [
            sample.value
            for sample in families()["ovms_requests_success"].samples
            if wanted.items() <= sample.labels.items()
        ]
        return value

    before = successes()
    client.infer("dummy", [tensor(module)])
    assert successes() == before + 1
    found = families()
    assert found["ovms_requests_success"].type == "counter"
    assert found["ovms_streams"].type == "gauge"
    assert len(found["ovms_requests_fail"].samples) == 12
    times = found["ovms_request_time_us"]
    assert times.type == "histogram"
    bounds = [
        sample.labels["le"]
        for sample in times.samples
        if sample.name.endswith("_bucket") and sample.labels["interface"] == interface
    ]
    assert bounds == [str(10 * 9**i // 5**i) for i in range(33)] + ["+Inf"]


@pytest.fixture(scope="session")
def perf_analyzer(tmp_path_factory):
    """Triton's load generator, and the environment that it starts in."""
    store = ROOT / "target" / "perf_analyzer"
    program = store / "perf_analyzer"
    if not program.exists():
        wheels = tmp_path_factory.mktemp("wheels")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        pip += ["--disable-pip-version-check", "--only-binary", ":all:", "--dest", str(wheels)]
        subprocess.run([*pip, PERF_ANALYZER], check=True, timeout=300)
        (wheel,) = wheels.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (name,) = [name for name in archive.namelist() if name.endswith("bin/perf_analyzer")]
            content = archive.read(name)
        store.mkdir(parents=True, exist_ok=True)
        for name, functions in LIBRARIES.items():
            stand_in(store / name, functions)
        part = store / "part"
        part.write_bytes(content)
        part.chmod(0o755)
        part.rename(program)
    return program, os.environ | {"LD_LIBRARY_PATH": str(store)}


def generate_load(perf_analyzer, server, *arguments, attempts=3):
    """Run the load generator; return all that it prints.

    On a busy machine it stops now and then before its last requests, for good: its threads hand over their work without
    the lock that their waits need. A run that does so is repeated if the server owes it no answer.
    """
    program, environment = perf_analyzer
    for attempt in range(attempts):
        with subprocess.Popen(
            [str(program), *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as run:
            try:
                output, _ = run.communicate(timeout=40)
            except subprocess.TimeoutExpired:
                with urllib.request.urlopen(server.url("/metrics")) as answer:
                    lines = answer.read().decode().splitlines()
                run.kill()
                output, _ = run.communicate()
                assert "ovms_pending_requests 0" in lines, (lines, output)
                assert attempt + 1 < attempts, output
                continue
        assert run.returncode == 0, output
        assert "Failed" not in output, output
        return output
    return None


def stand_in(path: Path, functions):
    """Make a library whose functions fail."""
    source = path.with_suffix(".c")
    source.write_text("".join(f"int {name}(void) {{ return -1; }}\n" for name in functions))
    versions = path.with_suffix(".map")
    versions.write_text(f"{path.name} {{ global: *; }};\n")
    command = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{path.name}"]
    command += [f"-Wl,--version-script,{versions}", "-o", str(path), str(source)]
    subprocess.run(command, check=True)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the load generator is for x86-64")
@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize("more", [[], ["--async"]], ids=["sync", "async"])
def test_perf_analyzer(serve, perf_analyzer, protocol, more):
    """The load generator runs as it is, and finds its requests in the server's statistics."""
    server = serve("dummy", "--metrics_enable")
    address = server.grpc if protocol == "grpc" else server.rest
    command = ["-m", "dummy", "-i", protocol, "-u", address, *more]
    command += ["--request-count", "300", "--concurrency-range", "4"]
    output = generate_load(perf_analyzer, server, *command)
    assert "Server: " in output and "Inference count: " in output, output


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the load generator is for x86-64")
@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize(
    ("model", "more"),
    [("dummy", []), ("dummy", ["--async"]), ("add", []), ("passthrough_string", ["--shape", "in:3"])],
    ids=["sync", "async", "two-inputs", "strings"],
)
def test_perf_analyzer_with_shared_memory(serve, perf_analyzer, protocol, model, more):
    """The load generator registers regions for its inputs and outputs, uses them, and forgets them."""
    # Its keys are made of the names of inputs and outputs.
    server = serve(model, "--shared_memory", "/", "--metrics_enable")
    address = server.grpc if protocol == "grpc" else server.rest
    command = ["-m", model, "-i", protocol, "-u", address, *more]
    command += ["--shared-memory", "system", "--output-shared-memory-size", "1024"]
    command += ["--request-count", "300", "--concurrency-range", "4"]
    output = generate_load(perf_analyzer, server, *command)
    assert "Inference count: " in output, output


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the load generator is for x86-64")
@pytest.mark.parametrize(
    ("protocol", "more"),
    # Without waiting for answers, requests of a sequence go over several HTTP connections, which keep
    # no order among them: not a matter of the server.
    [("grpc", "--sync"), ("grpc", "--async"), ("http", "--sync")],
)
def test_perf_analyzer_of_sequences(serve, perf_analyzer, protocol, more):
    """The load generator finds that requests are parts of sequences, starts and ends them."""
    server = serve("running_total", "--stateful", "--metrics_enable")
    address = server.grpc if protocol == "grpc" else server.rest

    def count(name):
        with urllib.request.urlopen(server.url("/metrics")) as answer:
            (line,) = [
                line
                for line in answer.read().decode().splitlines()
                if line.startswith(f"ovms_sequences_{name}{{")
            ]
        return int(line.split()[-1])

    before = [count("started"), count("ended"), count("active")]
    command = ["-m", "running_total", "-i", protocol, "-u", address, more]
    command += ["--request-count", "300", "--concurrency-range", "4", "--sequence-length", "10"]
    output = generate_load(perf_analyzer, server, *command)
    assert "Sequence count: " in output, output
    started, ended, active = [
        now - then
        for now, then in zip([count("started"), count("ended"), count("active")], before, strict=True)
    ]
    assert started >= 20 and ended == started and active == 0, (started, ended, active)
