"""Tools that know nothing of the protocol: they ask for health, and learn the rest by reflection."""

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

SERVICE = "inference.GRPCInferenceService"


@pytest.fixture
def channel(serve):
    """A connection to the server of `dummy`."""
    with grpc.insecure_channel(serve("dummy").grpc) as made:
        yield made


def test_health(channel):
    """The server and its service are known to the health service."""
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", SERVICE):
        answer = health.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    with pytest.raises(grpc.RpcError) as caught:
        health.Check(health_pb2.HealthCheckRequest(service="stranger"))
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


def test_watched_health(channel):
    """A watcher gets the state at once."""
    watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
    watch.cancel()


def test_inference_by_reflection(channel):
    """A call whose messages are made of what reflection reports."""
    known = ProtoReflectionDescriptorDatabase(channel)
    assert SERVICE in known.get_services()
    # A pool of its own: the messages of other clients have the same names.
    pool = descriptor_pool.DescriptorPool()
    file = known.FindFileContainingSymbol(SERVICE)
    copy = descriptor_pb2.FileDescriptorProto()
    copy.CopyFrom(file)
    pool.Add(copy)
    method = pool.FindServiceByName(SERVICE).methods_by_name["ModelInfer"]
    request = message_factory.GetMessageClass(method.input_type)()
    answer = message_factory.GetMessageClass(method.output_type)
    json_format.ParseDict(
        {
            "model_name": "dummy",
            "inputs": [
                {
                    "name": "b",
                    "datatype": "FP32",
                    "shape": [1, 10],
                    "contents": {"fp32_contents": [1.0] * 10},
                }
            ],
        },
        request,
        descriptor_pool=pool,
    )
    call = channel.unary_unary(
        f"/{SERVICE}/ModelInfer",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=answer.FromString,
    )
    got = call(request, timeout=20)
    assert got.outputs[0].name == "a"
    assert got.raw_output_contents[0] == bytes.fromhex("00000040") * 10
