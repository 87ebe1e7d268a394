"""Identities: API keys, tokens, and certificates, as clients that others wrote send them."""

import base64
import hashlib
import json
import time

import grpc
import numpy as np
import pytest
import requests
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from test_tls import made, pair  # noqa: F401
from tritonclient.utils import InferenceServerException

KEY = "ovms_key_of_a_client"
BODY = {"inputs": [{"name": "b", "shape": [1, 10], "datatype": "FP32", "data": [1.0] * 10}]}


def base64url(data):
    """Text of bytes, as tokens have it."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value):
    """Text of a number of a key."""
    return base64url(value.to_bytes((value.bit_length() + 7) // 8, "big"))


class Signer:
    """The keys of an issuer, one for each kind."""

    def __init__(self):
        self.rsa = rsa.generate_private_key(65537, 2048)
        self.ec = ec.generate_private_key(ec.SECP384R1())
        self.ed = ed25519.Ed25519PrivateKey.generate()

    def keys(self):
        """The key set."""
        own, point = self.rsa.public_key().public_numbers(), self.ec.public_key().public_numbers()
        raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
        x, y = (base64url(part.to_bytes(48, "big")) for part in (point.x, point.y))
        keys = [
            {"kty": "RSA", "kid": "rsa", "n": number(own.n), "e": number(own.e)},
            {"kty": "EC", "kid": "ec", "crv": "P-384", "x": x, "y": y, "alg": "ES384"},
            {
                "kty": "OKP",
                "kid": "ed",
                "crv": "Ed25519",
                "x": base64url(self.ed.public_key().public_bytes(*raw)),
            },
        ]
        return json.dumps({"keys": keys})

    def sign(self, algorithm, message):
        """The signature of a message."""
        size = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}
        if algorithm == "EdDSA":
            return self.ed.sign(message)
        digest = size[algorithm[2:]]
        if algorithm.startswith("ES"):
            r, s = utils.decode_dss_signature(self.ec.sign(message, ec.ECDSA(digest)))
            return r.to_bytes(48, "big") + s.to_bytes(48, "big")
        if algorithm.startswith("PS"):
            salt = padding.PSS(padding.MGF1(digest), digest.digest_size)
            return self.rsa.sign(message, salt, digest)
        return self.rsa.sign(message, padding.PKCS1v15(), digest)

    def token(self, algorithm, key, **claims):
        """A token of `ann`."""
        usual = {"iss": "https://id.example", "aud": "ovms", "sub": "ann", "exp": time.time() + 600}
        header = {"typ": "JWT", "alg": algorithm, "kid": key}
        parts = [json.dumps(part).encode() for part in (header, usual | claims)]
        message = ".".join(base64url(part) for part in parts)
        return f"{message}.{base64url(self.sign(algorithm, message.encode()))}"


@pytest.fixture(scope="module")
def signer():
    """An issuer."""
    return Signer()


@pytest.fixture(scope="module")
def auth(tmp_path_factory, signer):
    """A file of identities, and the key set of the issuer beside it."""
    folder = tmp_path_factory.mktemp("auth")
    (folder / "keys.json").write_text(signer.keys())
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    text = f"""
max_failures_per_minute = 0

[[jwt]]
issuer = "https://id.example"
audience = "ovms"
jwks = "keys.json"

[[identity]]
name = "client"
keys = ["sha256:{digest}"]
tokens = [{{ subject = "ann" }}]
infer = ["dummy"]
metrics = true
"""
    (folder / "auth.toml").write_text(text)
    return folder / "auth.toml"


@pytest.fixture(scope="module")
def server(serve, auth):
    """A server that asks for identities."""
    return serve("dummy", "--auth", str(auth), "--metrics_enable")


def tensor(kind):
    """Ten ones, for one of Triton's clients."""
    tensor = kind.InferInput("b", [1, 10], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 10), np.float32))
    return tensor


HEADERS = [{"authorization": f"Bearer {KEY}"}, {"x-api-key": KEY}]


@pytest.mark.parametrize("headers", HEADERS)
def test_triton_grpc(server, headers):
    """Every call of Triton's gRPC client with a key, and none without."""
    client = triton_grpc.InferenceServerClient(server.grpc)
    assert client.is_server_live() and client.is_server_ready()
    answer = client.infer("dummy", [tensor(triton_grpc)], headers=headers)
    np.testing.assert_array_equal(answer.as_numpy("a"), np.full((1, 10), 2, np.float32))
    assert client.is_model_ready("dummy", headers=headers)
    assert client.get_model_metadata("dummy", headers=headers).name == "dummy"
    assert len(client.get_model_repository_index(headers=headers).models) == 1
    assert client.get_inference_statistics("dummy", headers=headers).model_stats
    for call in [
        lambda: client.infer("dummy", [tensor(triton_grpc)]),
        lambda: client.get_model_metadata("dummy"),
        lambda: client.get_model_repository_index(headers={"x-api-key": "wrong"}),
    ]:
        with pytest.raises(InferenceServerException) as refused:
            call()
        assert "UNAUTHENTICATED" in refused.value.status()
    with pytest.raises(InferenceServerException) as refused:
        client.unregister_system_shared_memory(headers=headers)
    assert "PERMISSION_DENIED" in refused.value.status()
    with pytest.raises(InferenceServerException) as refused:
        client.infer("other", [tensor(triton_grpc)], headers=headers)
    assert "NOT_FOUND" in refused.value.status()
    client.close()


@pytest.mark.parametrize("headers", HEADERS)
def test_triton_stream(server, headers):
    """A stream of Triton's gRPC client, whose head has the key."""
    client = triton_grpc.InferenceServerClient(server.grpc)
    for given, is_good in [(headers, True), (None, False)]:
        came = []
        client.start_stream(lambda result, error: came.append((result, error)), headers=given)
        try:
            client.async_stream_infer("dummy", [tensor(triton_grpc)])
        except InferenceServerException:
            # It was refused before anything was sent.
            assert not is_good
        end = time.monotonic() + 20
        while not came and time.monotonic() < end:
            time.sleep(0.01)
        client.stop_stream()
        result, error = came[0]
        assert (error is None) == is_good, error
        if not is_good:
            assert "no credentials" in str(error)
    client.close()


@pytest.mark.parametrize("headers", HEADERS)
def test_triton_http(server, headers):
    """Triton's HTTP client with a key, and none without."""
    client = triton_http.InferenceServerClient(server.rest)
    assert client.is_server_live() and client.is_server_ready()
    answer = client.infer("dummy", [tensor(triton_http)], headers=headers)
    np.testing.assert_array_equal(answer.as_numpy("a"), np.full((1, 10), 2, np.float32))
    assert client.get_model_metadata("dummy", headers=headers)["name"] == "dummy"
    with pytest.raises(InferenceServerException) as refused:
        client.infer("dummy", [tensor(triton_http)])
    assert refused.value.status() == "401"
    with pytest.raises(InferenceServerException) as refused:
        client.load_model("dummy", headers=headers)
    assert refused.value.status() == "403"
    client.close()


def test_tokens(server, signer):
    """Tokens of every algorithm, signed by another library."""
    url = server.url("/v2/models/dummy/infer")
    for algorithm, key in [
        *((f"{kind}{size}", "rsa") for kind in ["RS", "PS"] for size in [256, 384, 512]),
        ("ES384", "ec"),
        ("EdDSA", "ed"),
    ]:
        for claims, status in [({}, 200), ({"sub": "bob"}, 401), ({"exp": 7}, 401)]:
            token = signer.token(algorithm, key, **claims)
            headers = {"authorization": f"Bearer {token}"}
            answer = requests.post(url, json=BODY, headers=headers, timeout=20)
            assert answer.status_code == status, (algorithm, claims, answer.text)
    # A secret that is the public key, and no signature at all.
    part = base64url(json.dumps({"sub": "ann", "iss": "https://id.example"}).encode())
    for algorithm in ["HS256", "none", "None"]:
        head = base64url(json.dumps({"alg": algorithm, "kid": "rsa"}).encode())
        headers = {"authorization": f"Bearer {head}.{part}."}
        assert requests.post(url, json=BODY, headers=headers, timeout=20).status_code == 401


def test_scraper(server):
    """The metrics page, as Prometheus asks for it."""
    headers = {"authorization": f"Bearer {KEY}"}
    answer = requests.get(server.url("/metrics"), headers=headers, timeout=20)
    assert answer.ok and "ovms_" in answer.text
    answer = requests.get(server.url("/metrics"), timeout=20)
    assert answer.status_code == 401 and "Bearer" in answer.headers["www-authenticate"]
    # A password is for pages alone.
    answer = requests.get(server.url("/metrics"), auth=("prometheus", KEY), timeout=20)
    assert answer.status_code == 401


def test_health_and_reflection(server):
    """Health is open, and reflection is not."""
    with grpc.insecure_channel(server.grpc) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        assert stub.Check(health_pb2.HealthCheckRequest(), timeout=10).status == 1
        question = reflection_pb2.ServerReflectionRequest(list_services="")
        reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
        with pytest.raises(grpc.RpcError) as refused:
            list(reflection.ServerReflectionInfo(iter([question]), timeout=10))
        assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
        metadata = [("x-api-key", KEY)]
        answers = reflection.ServerReflectionInfo(iter([question]), timeout=10, metadata=metadata)
        names = [service.name for answer in answers for service in answer.list_services_response.service]
        assert "inference.GRPCInferenceService" in names


def test_call_credentials(serve, auth, made, pair, signer):  # noqa: F811
    """Call credentials of gRPC, which need TLS: the token goes with each call of the channel."""
    server = serve("dummy", *pair, "--auth", str(auth))
    transport = grpc.ssl_channel_credentials((made / "ca.pem").read_bytes())
    for token, code in [(KEY, None), (signer.token("ES384", "ec"), None), ("wrong", "UNAUTHENTICATED")]:
        credentials = grpc.composite_channel_credentials(
            transport, grpc.access_token_call_credentials(token)
        )
        with grpc.secure_channel(f"localhost:{server.port}", credentials) as channel:
            question = reflection_pb2.ServerReflectionRequest(list_services="")
            reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
            asked = reflection.ServerReflectionInfo(iter([question]), timeout=10)
            if code is None:
                assert list(asked)
                continue
            with pytest.raises(grpc.RpcError) as refused:
                list(asked)
            assert refused.value.code().name == code
