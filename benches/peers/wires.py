"""Requests of the comparison as bytes, and the answers to them: KServe v2 over gRPC, and REST with binary data and JSON."""

import http.client
import json
import struct
from dataclasses import dataclass, field

import grpc
import numpy as np
from tritonclient.grpc import service_pb2

GRPC_PATH = "/inference.GRPCInferenceService/ModelInfer"
LENGTH_HEADER = "inference-header-content-length"
LIMIT = 30.0  # seconds for one answer

NAMES = {"grpc": "gRPC", "binary": "REST, binary", "json": "REST, JSON"}


@dataclass(frozen=True)
class Model:
    """A model with one input and one output of single precision."""

    name: str
    folder: str
    input: str
    shape: tuple
    output: str
    wires: tuple = ("grpc", "binary", "json")
    # Of the output, for the configuration of Triton.
    output_shape: tuple = ()
    with_perf_analyzer: bool = True

    def tensor(self):
        """The input of all requests."""
        count = int(np.prod(self.shape))
        return (np.arange(count, dtype=np.float32) % 251).reshape(self.shape)


@dataclass(frozen=True)
class Request:
    """A request as h2load sends it."""

    path: str
    body: bytes
    headers: dict = field(default_factory=dict)


def framed(message):
    """A gRPC message with its prefix."""
    return struct.pack(">BI", 0, len(message)) + message


def rest_path(model):
    """The path of inference over REST."""
    return f"/v2/models/{model.name}/infer"


def request(wire, model):
    """The request of a wire for a model."""
    tensor = model.tensor()
    if wire == "grpc":
        message = service_pb2.ModelInferRequest(model_name=model.name)
        message.inputs.add(name=model.input, datatype="FP32", shape=model.shape)
        message.raw_input_contents.append(tensor.tobytes())
        headers = {"content-type": "application/grpc", "te": "trailers"}
        return Request(GRPC_PATH, framed(message.SerializeToString()), headers)
    described = {"name": model.input, "datatype": "FP32", "shape": model.shape}
    path = rest_path(model)
    if wire == "json":
        body = json.dumps({"inputs": [described | {"data": tensor.ravel().tolist()}]})
        return Request(path, body.encode(), {"content-type": "application/json"})
    data = tensor.tobytes()
    described["parameters"] = {"binary_data_size": len(data)}
    head = json.dumps({"inputs": [described], "parameters": {"binary_data_output": True}}).encode()
    headers = {"content-type": "application/octet-stream", LENGTH_HEADER: str(len(head))}
    return Request(path, head + data, headers)


@dataclass(frozen=True)
class Answer:
    """The bytes of an answer (of gRPC with the prefix), and the tensor in it."""

    body: bytes
    tensor: np.ndarray
    headers: dict = field(default_factory=dict)


def ask(wire, model, ports):
    """Sends the request once; raises if the answer is none."""
    sent = request(wire, model)
    if wire == "grpc":
        message = _call(ports.grpc, sent)
        answer = service_pb2.ModelInferResponse.FromString(message)
        return Answer(framed(message), _of_message(answer))
    connection = http.client.HTTPConnection("127.0.0.1", ports.rest, timeout=LIMIT)
    try:
        connection.request("POST", sent.path, sent.body, sent.headers)
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status != 200:
        raise ValueError(f"HTTP {response.status}: {body[:200].decode(errors='replace')}")
    length = response.getheader(LENGTH_HEADER)
    headers = {LENGTH_HEADER: length} if length else {}
    return Answer(body, _of_json(wire, body, length), headers)


def _call(port, sent):
    options = [("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(f"127.0.0.1:{port}", options) as channel:
        return channel.unary_unary(sent.path)(sent.body[5:], timeout=LIMIT)


def _of_message(answer):
    output = answer.outputs[0]
    if answer.raw_output_contents:
        values = np.frombuffer(answer.raw_output_contents[0], np.float32)
    else:
        values = np.array(output.contents.fp32_contents, np.float32)
    return values.reshape(output.shape)


def _of_json(wire, body, length):
    head = int(length) if length else len(body)
    output = json.loads(body[:head])["outputs"][0]
    if wire == "binary":
        if head == len(body):
            raise ValueError("the answer has no binary data")
        size = output["parameters"]["binary_data_size"]
        values = np.frombuffer(body[head : head + size], np.float32)
    else:
        values = np.array(output["data"], np.float32)
    return values.reshape(output["shape"])
