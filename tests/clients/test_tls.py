"""TLS: the secure channels of gRPC, Triton's clients, requests, and Python's ssl."""

import datetime
import ipaddress
import socket
import ssl

import grpc
import numpy as np
import pytest
import requests
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from grpc_health.v1 import health_pb2, health_pb2_grpc

BODY = {"inputs": [{"name": "b", "shape": [1, 10], "datatype": "FP32", "data": [1.0] * 10}]}


def certificate(name, key, issuer=None, authority=False):
    """A certificate for this machine; `issuer` is the certificate and key of its authority."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.timezone.utc)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    signer, signing = issuer or (None, key)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False
        )
    )
    if authority:
        usage = dict.fromkeys(
            ["digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
             "key_agreement", "encipher_only", "decipher_only"], False
        )  # fmt: skip
        made = made.add_extension(
            x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True
        )
    return made.sign(signing, hashes.SHA256())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with an authority, and pairs of a server (RSA) and a client (ECDSA)."""
    folder = tmp_path_factory.mktemp("certificates")
    key = ec.generate_private_key(ec.SECP256R1())
    authority = certificate("authority", key, authority=True)
    (folder / "ca.pem").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    for name, own in [
        ("server", rsa.generate_private_key(65537, 2048)),
        ("client", ec.generate_private_key(ec.SECP256R1())),
    ]:
        pem = certificate(name, own, (authority, key)).public_bytes(serialization.Encoding.PEM)
        (folder / f"{name}.pem").write_bytes(pem)
        # The older form of keys, which openssl writes for RSA and ECDSA.
        form = serialization.PrivateFormat.TraditionalOpenSSL
        text = own.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        (folder / f"{name}.key").write_bytes(text)
    return folder


@pytest.fixture(scope="module")
def pair(made):
    """Flags of a server with its pair."""
    return ["--tls_cert", str(made / "server.pem"), "--tls_key", str(made / "server.key")]


@pytest.fixture(scope="module")
def server(serve, pair):
    """A server with TLS on both ports."""
    return serve("dummy", *pair)


@pytest.fixture(scope="module")
def mutual(serve, made, pair):
    """A server that wants certificates of clients, and TLS 1.3."""
    return serve(
        "dummy", *pair, "--tls_client_ca", str(made / "ca.pem"), "--tls_min_version", "1.3"
    )


def read(path):
    """The bytes of a file."""
    return path.read_bytes()


def test_channel(server, made):
    """A secure channel of gRPC: the health service, by name and by address."""
    credentials = grpc.ssl_channel_credentials(read(made / "ca.pem"))
    for host in ["localhost", "127.0.0.1"]:
        with grpc.secure_channel(f"{host}:{server.port}", credentials) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=10)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_triton_grpc(server, made):
    """An inference by Triton's gRPC client."""
    client = triton_grpc.InferenceServerClient(
        f"localhost:{server.port}", ssl=True, root_certificates=str(made / "ca.pem")
    )
    tensor = triton_grpc.InferInput("b", [1, 10], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 10), np.float32))
    answer = client.infer("dummy", [tensor])
    np.testing.assert_array_equal(answer.as_numpy("a"), np.full((1, 10), 2, np.float32))
    client.close()


def test_triton_http(server, made):
    """An inference by Triton's HTTP client."""
    context = ssl.create_default_context(cafile=str(made / "ca.pem"))
    client = triton_http.InferenceServerClient(
        f"localhost:{server.rest_port}", ssl=True, ssl_context_factory=lambda: context
    )
    tensor = triton_http.InferInput("b", [1, 10], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 10), np.float32))
    answer = client.infer("dummy", [tensor])
    np.testing.assert_array_equal(answer.as_numpy("a"), np.full((1, 10), 2, np.float32))
    client.close()


def test_requests(server, made):
    """Several requests of one session, and none without the authority."""
    url = f"https://localhost:{server.rest_port}/v2/models/dummy/infer"
    with requests.Session() as session:
        # Variables of the environment would go before it.
        session.trust_env = False
        session.verify = str(made / "ca.pem")
        for _ in range(3):
            answer = session.post(url, json=BODY, timeout=20)
            assert answer.json()["outputs"][0]["data"] == [2.0] * 10
    with pytest.raises(requests.exceptions.SSLError):
        requests.post(url, json=BODY, timeout=20)


def handshake(port, made, minimum=None, maximum=None, protocols=()):
    """Version and protocol (ALPN) that a handshake ends with."""
    context = ssl.create_default_context(cafile=str(made / "ca.pem"))
    context.minimum_version = minimum or ssl.TLSVersion.MINIMUM_SUPPORTED
    context.maximum_version = maximum or ssl.TLSVersion.MAXIMUM_SUPPORTED
    if protocols:
        context.set_alpn_protocols(protocols)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as stream:
            return stream.version(), stream.selected_alpn_protocol()


def test_versions_and_protocols(server, mutual, made):
    """TLS 1.2 unless 1.3 is the least; HTTP/2 on the one port, HTTP/1.1 on the other."""
    both = ["h2", "http/1.1"]
    assert handshake(server.port, made, protocols=both) == ("TLSv1.3", "h2")
    assert handshake(server.rest_port, made, protocols=both) == ("TLSv1.3", "http/1.1")
    assert handshake(server.port, made)[1] is None
    old = ssl.TLSVersion.TLSv1_2
    assert handshake(server.port, made, maximum=old)[0] == "TLSv1.2"
    with pytest.raises(ssl.SSLError):
        handshake(mutual.port, made, maximum=old)
    with pytest.raises(ssl.SSLError):
        handshake(server.port, made, protocols=["http/1.1"])


def test_mutual_grpc(mutual, made):
    """A channel with a certificate of the client is served, and one without is not."""
    authority = read(made / "ca.pem")
    own = grpc.ssl_channel_credentials(
        authority, read(made / "client.key"), read(made / "client.pem")
    )
    with grpc.secure_channel(f"localhost:{mutual.port}", own) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        assert stub.Check(health_pb2.HealthCheckRequest(), timeout=10).status == 1
    without = grpc.ssl_channel_credentials(authority)
    with grpc.secure_channel(f"localhost:{mutual.port}", without) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE


def test_mutual_rest(mutual, made):
    """The same over REST."""
    url = f"https://localhost:{mutual.rest_port}/v2/models/dummy/infer"
    authority = str(made / "ca.pem")
    own = (str(made / "client.pem"), str(made / "client.key"))
    answer = requests.post(url, json=BODY, verify=authority, cert=own, timeout=20)
    assert answer.json()["outputs"][0]["data"] == [2.0] * 10
    with pytest.raises(requests.exceptions.ConnectionError):
        requests.post(url, json=BODY, verify=authority, timeout=20)
