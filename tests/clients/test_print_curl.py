"""`ovms infer --print-curl` over gRPC: what grpcurl does with it, done by other means.

The messages are read with protobuf's own reader of JSON, and their types come by reflection, as grpcurl has
them.
"""

import json
import shlex
import subprocess

import grpc
import pytest
from conftest import PROGRAM
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

NUMBERS = list(range(10))


def infer(server, *arguments):
    """What the program writes."""
    command = [PROGRAM, "infer", "--url", server.grpc, *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True, timeout=60).stdout


def messages_of(text):
    """Each of the objects that follow each other."""
    decoder = json.JSONDecoder()
    text = text.strip()
    while text:
        value, end = decoder.raw_decode(text)
        yield value
        text = text[end:].strip()


def grpcurl(command):
    """Does what a printed command says."""
    words = shlex.split(command)
    assert words[:2] == ["grpcurl", "-plaintext"]
    options, data, rest = [], "", []
    words = iter(words[2:])
    for word in words:
        if word == "-H":
            name, value = next(words).split(": ", 1)
            options.append((name, value))
        elif word == "-d":
            data = next(words)
        else:
            rest.append(word)
    address, path = rest
    service, method = path.split("/")
    with grpc.insecure_channel(address) as channel:
        known = ProtoReflectionDescriptorDatabase(channel)
        pool = descriptor_pool.DescriptorPool(known)
        found = pool.FindServiceByName(service).methods_by_name[method]
        kind = message_factory.GetMessageClass(found.input_type)
        answer = message_factory.GetMessageClass(found.output_type)
        requests = [
            json_format.ParseDict(value, kind(), descriptor_pool=pool)
            for value in messages_of(data)
        ]
        call = channel.stream_stream if found.client_streaming else channel.unary_unary
        call = call(
            f"/{path}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        if found.client_streaming:
            return list(call(iter(requests), timeout=20, metadata=options))
        return call(requests[0], timeout=20, metadata=options)


@pytest.mark.parametrize("flags", [[], ["--raw"], ["--header", "x-a=it's"], ["--id", "it's one"]])
def test_kserve(serve, flags):
    """Values one by one, and bytes."""
    server = serve("dummy")
    command = infer(server, "dummy", "-i", json.dumps(NUMBERS), "--print-curl", *flags)
    got = grpcurl(command)
    assert list(memoryview(got.raw_output_contents[0]).cast("f")) == [n + 1 for n in NUMBERS]
    assert got.id == ("it's one" if "--id" in flags else "")


@pytest.mark.parametrize(
    "model, values",
    [
        ("passthrough_f32", '[[1.5, NaN, -Infinity]]'),
        ("passthrough_f16", "[[1.5, -2]]"),
        ("passthrough_u64", "[[1, 4294967295]]"),
        ("passthrough_boolean", "[[true, false]]"),
        ("passthrough_string", '["it\'s", "größe"]'),
    ],
)
def test_datatypes(serve, model, values):
    """The same bytes come back as without the detour."""
    server = serve(model)
    given = ["-i", f"in={values}"]
    got = grpcurl(infer(server, model, *given, "--print-curl"))
    straight = json.loads(infer(server, model, *given, "--output", "json"))
    assert list(got.outputs[0].shape) == straight["outputs"][0]["shape"]
    command = [PROGRAM, "infer", "--url", server.grpc, model, *given, "--output", "raw"]
    raw = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    assert got.raw_output_contents[0] == raw


def test_tensorflow_serving(serve):
    """Predict, and the questions about a model."""
    server = serve("dummy")
    tfs = ["dummy", "--api", "tfs-grpc", "--print-curl"]
    got = grpcurl(infer(server, *tfs, "-i", json.dumps(NUMBERS)))
    assert len(got.outputs) == 1
    assert got.outputs["a"].tensor_shape.dim[1].size == 10
    states = grpcurl(infer(server, *tfs, "--status"))
    assert states.model_version_status[0].version == 1
    assert "signature_def" in grpcurl(infer(server, *tfs, "--metadata")).metadata


def test_questions_and_streams(serve):
    """States, inputs and outputs, and many messages at once."""
    server = serve("dummy")
    states = grpcurl(infer(server, "--status", "--print-curl"))
    assert [model.name for model in states.models] == ["dummy"]
    metadata = grpcurl(infer(server, "dummy", "--metadata", "--print-curl"))
    assert metadata.inputs[0].name == "b"
    rows = json.dumps([NUMBERS, NUMBERS])
    stream = ["dummy", "-i", f"b={rows}", "--stream", "--axis", "0", "--print-curl"]
    got = grpcurl(infer(server, *stream))
    assert [answer.error_message for answer in got] == ["", ""]
