"""Strings and encoded images, with Triton's clients for gRPC and HTTP."""

import io

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from PIL import Image
from tritonclient.utils import InferenceServerException

from conftest import FIXTURES

WORDS = ["žluťoučký", "", "a longer string than fits into itself"]


@pytest.fixture(params=["grpc", "http"])
def transport(request):
    """A module of Triton's clients."""
    return {"grpc": grpc, "http": http}[request.param]


@pytest.fixture
def client(serve, transport):
    """A function that connects to the server of a model."""
    clients = []

    def connect(model):
        server = serve(model)
        address = server.grpc if transport is grpc else server.rest
        clients.append(transport.InferenceServerClient(address))
        return clients[-1]

    yield connect
    for each in clients:
        each.close()


def strings(transport, name, values, **form):
    """An input of strings."""
    values = np.array(values, dtype=object)
    made = transport.InferInput(name, list(values.shape), "BYTES")
    made.set_data_from_numpy(values, **form)
    return made


def texts(values):
    """Strings of an answer, which are bytes unless they came in JSON."""
    return [value if isinstance(value, str) else value.decode() for value in values]


def image(name):
    """The bytes of an image and its pixels as the server gives them: blue first."""
    data = (FIXTURES / "images" / name).read_bytes()
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    return data, pixels[:, :, ::-1].astype(np.float32)


def test_strings(client, transport):
    """Strings come back, whatever bytes they have."""
    raw = [word.encode() for word in WORDS] + [b"\0\xff"]
    given = [strings(transport, "in", raw)]
    for wanted in (None, [transport.InferRequestedOutput("out")]):
        answer = client("passthrough_string").infer("passthrough_string", given, outputs=wanted)
        assert answer.as_numpy("out").tolist() == raw


@pytest.mark.parametrize("binary", [True, False], ids=["binary answer", "json answer"])
def test_strings_in_json(serve, binary):
    """JSON strings come back in either form."""
    given = [strings(http, "in", WORDS, binary_data=False)]
    wanted = [http.InferRequestedOutput("out", binary_data=binary)]
    client = http.InferenceServerClient(serve("passthrough_string").rest)
    answer = client.infer("passthrough_string", given, outputs=wanted)
    assert texts(answer.as_numpy("out")) == WORDS


def test_rows(client, transport):
    """Rows of bytes stand for strings."""
    answer = client("text").infer("text", [strings(transport, "text", WORDS)])
    assert texts(answer.as_numpy("text_string")) == WORDS


@pytest.mark.parametrize(("name", "tolerance"), [("star.png", 0), ("star.jpg", 4)])
def test_images(client, transport, name, tolerance):
    """An image arrives as its pixels; decoders of JPEG differ by a few levels."""
    data, pixels = image(name)
    for count in (1, 2):
        given = [strings(transport, "image", [data] * count)]
        answer = client("image_any").infer("image_any", given).as_numpy("out")
        assert answer.shape == (count, *pixels.shape)
        assert np.abs(answer - pixels).max() <= tolerance


def test_resized(client, transport):
    """Images of any size become those that the model takes."""
    given = [strings(transport, "image", [image("star.png")[0], image("star.jpg")[0]])]
    answer = client("image_fixed").infer("image_fixed", given).as_numpy("out")
    assert answer.shape == (2, 4, 6, 3) and answer.dtype == np.uint8


def test_no_image(client, transport):
    """What is no image is refused with the reason."""
    with pytest.raises(InferenceServerException) as caught:
        client("image_any").infer("image_any", [strings(transport, "image", [b"no image"])])
    status = {grpc: "StatusCode.INVALID_ARGUMENT", http: "400"}[transport]
    assert caught.value.status() == status
    assert caught.value.message() == (
        "Image parsing failed - image 0: found neither JPEG nor PNG; input name: image"
    )
