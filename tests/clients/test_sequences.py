"""Sequences of requests to stateful models, as Triton's clients and others send them."""

import queue

import numpy as np
import ovmsclient
import pytest
import requests
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from prometheus_client.parser import text_string_to_metric_families
from tritonclient.utils import InferenceServerException

from conftest import FIXTURES

TOTAL = "running_total"
LARGEST = 2**64 - 1


@pytest.fixture
def server(serve):
    """A server of running totals."""
    return serve(TOTAL, "--stateful", "--metrics_enable")


@pytest.fixture(params=["grpc", "http"])
def client(request, server):
    """Triton's client of either transport, and its module."""
    if request.param == "grpc":
        made = triton_grpc.InferenceServerClient(server.grpc)
        yield made, triton_grpc
    else:
        made = triton_http.InferenceServerClient(server.rest, concurrency=4)
        yield made, triton_http
    made.close()


def tensor(module, value, name="x", shape=(1, 4)):
    """An input of one number, again and again."""
    made = module.InferInput(name, list(shape), "FP32")
    made.set_data_from_numpy(np.full(shape, value, np.float32))
    return made


def parts(result):
    """Total, id by output, and id by parameter of an answer."""
    response = result.get_response()
    if isinstance(response, dict):
        parameter = response["parameters"]["sequence_id"]
    else:
        choice = response.parameters["sequence_id"]
        parameter = getattr(choice, choice.WhichOneof("parameter_choice"))
    (total,) = set(result.as_numpy("total").flatten().tolist())
    ids = result.as_numpy("sequence_id")
    assert (ids.dtype, ids.shape) == (np.uint64, (1,))
    return total, int(ids[0]), parameter


@pytest.mark.parametrize("sequence", [7, 2**63 - 1, "7", str(LARGEST)], ids=str)
def test_triton_sequence(client, sequence):
    """Start, middle and end, by numbers and by texts."""
    client, module = client
    infer = lambda value, **more: parts(
        client.infer(TOTAL, [tensor(module, value)], sequence_id=sequence, **more)
    )
    number = int(sequence)
    assert infer(1, sequence_start=True) == (1, number, sequence)
    assert infer(2) == (3, number, sequence)
    assert infer(4, priority=1, timeout=60_000_000) == (7, number, sequence)
    assert infer(8, sequence_end=True) == (15, number, sequence)
    with pytest.raises(InferenceServerException) as caught:
        infer(16)
    assert caught.value.message() == "Sequence with provided ID does not exist"
    assert caught.value.status() in ("StatusCode.NOT_FOUND", "404")


def test_triton_sequence_of_one_request(client):
    """Both marks at once, as often as one likes."""
    client, module = client
    for value in range(3):
        result = client.infer(
            TOTAL, [tensor(module, value)], sequence_id=5, sequence_start=True, sequence_end=True
        )
        assert parts(result) == (value, 5, 5)


def test_triton_errors(client):
    """Texts and codes reach the client's exceptions."""
    client, module = client

    def refused(**more):
        with pytest.raises(InferenceServerException) as caught:
            client.infer(TOTAL, [tensor(module, 1)], **more)
        return caught.value.message(), caught.value.status()

    client.infer(TOTAL, [tensor(module, 1)], sequence_id=9, sequence_start=True)
    try:
        text, code = refused(sequence_id=9, sequence_start=True)
        assert text == "Sequence with provided ID already exists"
        assert code in ("StatusCode.ALREADY_EXISTS", "409")
        text, code = refused(sequence_id="nine", sequence_start=True)
        assert text.startswith("Invalid value of request parameter sequence_id")
        assert code in ("StatusCode.INVALID_ARGUMENT", "400")
        text, code = refused()
        assert text == "Sequence ID has not been provided in request inputs"
        assert code in ("StatusCode.INVALID_ARGUMENT", "400")
    finally:
        client.infer(TOTAL, [tensor(module, 1)], sequence_id=9, sequence_end=True)


def test_triton_outputs(client):
    """The id comes with the outputs that are asked for."""
    client, module = client

    def infer(names, **more):
        outputs = [module.InferRequestedOutput(name) for name in names]
        result = client.infer(
            TOTAL, [tensor(module, 1)], outputs=outputs, sequence_id=11, **more
        )
        return result.as_numpy("total"), result.as_numpy("sequence_id")

    total, sequence = infer(["total"], sequence_start=True)
    assert (total.tolist(), sequence.tolist()) == ([[1] * 4], [11])
    total, sequence = infer(["sequence_id"])
    assert (total, sequence.tolist()) == (None, [11])
    total, sequence = infer(["sequence_id", "total"], sequence_end=True)
    assert (total.tolist(), sequence.tolist()) == ([[3] * 4], [11])


def test_triton_special_inputs(client):
    """Ids and marks among the inputs; the server picks an id."""
    client, module = client

    def infer(value, **specials):
        inputs = [tensor(module, value)]
        for name, number in specials.items():
            dtype = np.uint64 if name == "sequence_id" else np.uint32
            special = module.InferInput(name, [1], np.dtype(dtype).name.upper())
            special.set_data_from_numpy(np.array([number], dtype))
            inputs.append(special)
        result = client.infer(TOTAL, inputs)
        return result.as_numpy("total")[0, 0], int(result.as_numpy("sequence_id")[0])

    total, sequence = infer(1, sequence_control_input=1)
    assert total == 1
    assert infer(2, sequence_id=sequence) == (3, sequence)
    assert infer(4, sequence_id=sequence, sequence_control_input=2) == (7, sequence)
    assert infer(1, sequence_id=LARGEST, sequence_control_input=1) == (1, LARGEST)
    assert infer(1, sequence_id=LARGEST, sequence_control_input=2) == (2, LARGEST)


def test_triton_grpc_async(server):
    """A whole sequence in flight at once over one connection, for many rounds."""
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        # Calls made before there is a connection are sent in any order.
        assert client.is_server_live()
        for sequence in range(1, 41):
            answers = queue.Queue()
            for step in range(8):
                client.async_infer(
                    TOTAL,
                    [tensor(triton_grpc, 1 << step)],
                    lambda result, error, step=step: answers.put((step, result, error)),
                    request_id=str(step),
                    sequence_id=sequence,
                    sequence_start=step == 0,
                    sequence_end=step == 7,
                )
            for _ in range(8):
                step, result, error = answers.get(timeout=30)
                assert error is None, (sequence, step, str(error))
                assert parts(result) == ((2 << step) - 1, sequence, sequence)


def test_triton_http_async(server):
    """Sequences side by side."""
    with triton_http.InferenceServerClient(server.rest, concurrency=8) as client:
        for step in range(6):
            calls = [
                client.async_infer(
                    TOTAL,
                    [tensor(triton_http, sequence)],
                    sequence_id=sequence,
                    sequence_start=step == 0,
                    sequence_end=step == 5,
                )
                for sequence in range(101, 109)
            ]
            for sequence, call in zip(range(101, 109), calls, strict=True):
                assert parts(call.get_result()) == (sequence * (step + 1), sequence, sequence)


def test_speech(serve):
    """A recording, frame by frame over both transports in turn."""
    server = serve("vad_stateful", "--stateful")
    frames = np.load(FIXTURES / "sequences/vad_frames.npy")
    expected = np.load(FIXTURES / "expected/vad_prob.npy")
    found = []
    with (
        triton_grpc.InferenceServerClient(server.grpc) as first,
        triton_http.InferenceServerClient(server.rest) as second,
    ):
        for index, frame in enumerate(frames):
            client, module = [(first, triton_grpc), (second, triton_http)][index % 2]
            audio = module.InferInput("audio", list(frame.shape), "FP32")
            audio.set_data_from_numpy(frame)
            result = client.infer(
                "vad_stateful",
                [audio],
                sequence_id="3",
                sequence_start=index == 0,
                sequence_end=index == len(frames) - 1,
            )
            found.append(result.as_numpy("prob")[0, 0])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_ovmsclient(server):
    """The client that the model server's makers wrote, over REST, which takes lists as they are."""
    client = ovmsclient.make_http_client(server.rest)
    x = np.ones((1, 4), np.float32)

    def predict(**specials):
        outputs = client.predict({"x": x, **specials}, TOTAL)
        return outputs["total"].tolist(), outputs["sequence_id"].tolist()

    started = predict(sequence_id=[21], sequence_control_input=[1])
    assert started == ([[1] * 4], [21])
    assert predict(sequence_id=[21]) == ([[2] * 4], [21])
    assert predict(sequence_id=[21], sequence_control_input=[2]) == ([[3] * 4], [21])


def test_across_protocols(server):
    """One sequence, begun by one client and gone on with by another."""
    url = server.url(f"/v1/models/{TOTAL}:predict")
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        one = [tensor(triton_grpc, 1)]
        started = client.infer(TOTAL, one, sequence_id=31, sequence_start=True)
        assert parts(started) == (1, 31, 31)
        body = {"inputs": {"x": [[1] * 4], "sequence_id": [31]}}
        middle = requests.post(url, json=body, timeout=10).json()
        assert middle == {"outputs": {"total": [[2] * 4], "sequence_id": [31]}}
        ended = client.infer(TOTAL, one, sequence_id="31", sequence_end=True)
        assert parts(ended) == (3, 31, "31")


def test_metrics(server):
    """Prometheus' own parser reads the families of sequences."""

    def samples():
        page = requests.get(server.url("/metrics"), timeout=10).text
        return {
            family.name: (family.type, sample.value)
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if family.name.startswith("ovms_sequences_")
        }

    before = samples()
    body = {"inputs": {"x": [[1] * 4], "sequence_id": [41], "sequence_control_input": [1]}}
    url = server.url(f"/v1/models/{TOTAL}:predict")
    assert requests.post(url, json=body, timeout=10).status_code == 200
    after = samples()
    assert set(after) == {
        f"ovms_sequences_{name}" for name in ("active", "started", "ended", "evicted", "refused")
    }
    assert after["ovms_sequences_active"][0] == "gauge"
    for name in ("ovms_sequences_active", "ovms_sequences_started"):
        assert after[name][1] == before[name][1] + 1
    body["inputs"]["sequence_control_input"] = [2]
    assert requests.post(url, json=body, timeout=10).status_code == 200
    assert samples()["ovms_sequences_ended"][1] == before["ovms_sequences_ended"][1] + 1
