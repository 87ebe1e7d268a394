"""Triton's generate extension, through HTTP clients that others wrote."""

import base64
import json

import httpx
import numpy as np
import pytest
import requests
import tritonclient.http as triton

from conftest import FIXTURES

WORDS = "waits for the picture and the answer waits for the answer and the server reads the server sends the request ."
PROMPT = {"prompt": "the model", "id": "7"}


@pytest.fixture(scope="module")
def examples(serve_config):
    """The server of the example graphs."""
    return serve_config(FIXTURES / "graphs/config.json")


def event(line):
    """The object of a line of a stream, if it has one."""
    return json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else None


def by_requests(url, body):
    """Events as `requests` reads them."""
    with requests.post(url, json=body, stream=True, timeout=30) as response:
        response.raise_for_status()
        assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert "Content-Encoding" not in response.headers
        yield from filter(None, map(event, response.iter_lines(decode_unicode=True)))


def by_httpx(url, body):
    """Events as `httpx` reads them."""
    with httpx.stream("POST", url, json=body, timeout=30) as response:
        assert response.status_code == 200
        yield from filter(None, map(event, response.iter_lines()))


@pytest.mark.parametrize("client", [by_requests, by_httpx])
def test_words_come_one_by_one(examples, client):
    """With the name of the graph, the id, and the time of each."""
    url = examples.url("/v2/models/streamer/generate_stream")
    *words, last = client(url, PROMPT)
    assert " ".join(word["token"] for word in words) == WORDS
    for at, word in enumerate(words):
        head = {"model_name": "streamer", "model_version": "1", "id": "7", "OVMS_MP_TIMESTAMP": at}
        assert word == head | {"token": word["token"]}
    assert last["end_signal"] == len(words)


def test_a_client_that_leaves_does_no_harm(examples):
    """Neither to the next one, nor to the connections of its session."""
    url = examples.url("/v2/models/streamer/generate_stream")
    with requests.Session() as session:
        for _ in range(5):
            with session.post(url, json=PROMPT, stream=True, timeout=30) as response:
                assert next(response.iter_lines()).startswith(b"data: ")
            whole = session.post(url, json=PROMPT, timeout=30)
            assert whole.text.count("data: ") == len(WORDS.split()) + 1


def test_errors_have_a_status(examples):
    """If they come before any event."""
    for path, body, status in [
        ("stranger/generate_stream", PROMPT, 404),
        ("streamer/generate_stream", {"prompt": ["the model"], "strange": [1]}, 400),
        ("streamer/generate", [], 400),
    ]:
        response = requests.post(examples.url(f"/v2/models/{path}"), json=body, timeout=30)
        assert response.status_code == status, response.text
        assert response.headers["Content-Type"] == "application/json"
        assert response.json()["error"]


def test_models_answer_once(serve):
    """Values and lists, and what a client compresses."""
    server = serve("dummy")
    data = list(range(10))
    right = {"model_name": "dummy", "model_version": "1", "a": [float(value + 1) for value in data]}
    assert requests.post(server.url("/v2/models/dummy/generate"), json={"b": data}, timeout=30).json() == right
    (only,) = by_requests(server.url("/v2/models/dummy/generate_stream"), {"b": [data]})
    assert only == right
    with triton.InferenceServerClient(server.rest) as client:
        assert "generate" in client.get_server_metadata()["extensions"]


def test_images_are_bytes(serve):
    """An image in base64 is what a tensor of its pixels is."""
    server = serve("image_fixed")
    star = (FIXTURES / "images/star.png").read_bytes()
    url = server.url("/v2/models/image_fixed/generate")
    came = requests.post(url, json={"image": {"b64": base64.b64encode(star).decode()}}, timeout=30).json()
    tensor = triton.InferInput("image", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([star], dtype=object))
    with triton.InferenceServerClient(server.rest) as client:
        right = client.infer("image_fixed", [tensor]).as_numpy("out")
    assert came["out"] == right.ravel().tolist()
