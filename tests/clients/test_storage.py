"""The server on models in cloud storage: emulators of S3 and Azure, and S3's for Google's."""

import datetime
import ipaddress
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
import tritonclient.http as triton
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from conftest import FIXTURES, PLUGIN_CONFIG, PROGRAM, ROOT, START_LIMIT, free_ports, wait_ready

sys.path.insert(0, str(ROOT / "tests/azurite"))
import blobs  # noqa: E402

BIN = ROOT / ".venv/bin"
NOBODY = ("AWS_", "S3_", "AZURE_", "GOOGLE_", "STORAGE_", "SSL_CERT_")
# For requests to the emulators, never through a proxy.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Emulator:
    """A program that says where it listens."""

    def __init__(self, log, command):
        with log.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        end = time.monotonic() + START_LIMIT
        while not (lines := self.addresses(log.read_text())):
            assert self.process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        self.port = int(lines[0])

    @staticmethod
    def addresses(text):
        """The ports in a log."""
        lines = [line for line in text.splitlines() if "//127.0.0.1:" in line]
        return [line.rsplit(":", 1)[1].strip() for line in lines]

    def s3(self, method, path, body=b""):
        """A call of S3 in somebody's name."""
        headers = {
            "Authorization": "AWS4-HMAC-SHA256 Credential=id/20260101/us-east-1/s3/aws4_request,"
            " SignedHeaders=host, Signature=0",
            "Content-Type": "application/octet-stream",
            # For those who come without a name.
            "x-amz-acl": "public-read",
        }
        url = f"http://127.0.0.1:{self.port}/{path}"
        request = urllib.request.Request(url, data=body, headers=headers, method=method)
        OPENER.open(request, timeout=20).close()

    def stop(self):
        """End it."""
        self.process.kill()
        self.process.wait(timeout=20)


@pytest.fixture
def emulator(tmp_path):
    """A function that starts an emulator."""
    running = []

    def start(*command):
        log = tmp_path / f"emulator{len(running)}"
        running.append(Emulator(log, [str(part) for part in command]))
        return running[-1]

    yield start
    for each in running:
        each.stop()


@pytest.fixture
def serve_from(tmp_path):
    """A function that serves a base path with an environment; returns port, log and process."""
    running = []

    def start(base_path, environment, *flags, wait=True):
        port, rest_port = free_ports(2)
        log = tmp_path / f"server{len(running)}"
        command = [PROGRAM, "serve", "--model_name", "dummy", "--model_path", base_path]
        command += ["--port", str(port), "--grpc_bind_address", "127.0.0.1"]
        command += ["--rest_port", str(rest_port), "--rest_bind_address", "127.0.0.1"]
        command += ["--plugin_config", PLUGIN_CONFIG, *flags]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(NOBODY)}
        kept |= {"OVMS_MODEL_CACHE": str(tmp_path / "cache"), "NO_COLOR": "1"} | environment
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=kept)
        running.append(process)
        if wait:
            wait_ready(process, log)
        return f"127.0.0.1:{rest_port}", log, process

    yield start
    for process in running:
        process.terminate()
    for process in running:
        process.wait(timeout=20)


def files():
    """The files of the model `dummy`, which adds 1."""
    folder = FIXTURES / "models/dummy/1"
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def check(address, version=""):
    """The model answers."""
    with triton.InferenceServerClient(address) as client:
        tensor = triton.InferInput("b", [1, 10], "FP32")
        tensor.set_data_from_numpy(np.arange(10, dtype=np.float32).reshape(1, 10))
        answer = client.infer("dummy", [tensor], model_version=version)
        name = client.get_model_metadata("dummy")["outputs"][0]["name"]
        assert answer.as_numpy(name).tolist() == [[float(i + 1) for i in range(10)]]


def with_dummy(server):
    """Puts the model into a bucket of S3."""
    server.s3("PUT", "models")
    for name, body in files().items():
        server.s3("PUT", f"models/dummy/1/{name}", body)
    return server


KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}


@pytest.fixture
def s3(emulator):
    """S3 with the model."""
    return with_dummy(emulator(BIN / "moto_server", "-H", "127.0.0.1", "-p", "0"))


def test_s3(s3, serve_from):
    """From S3; the second start needs no download."""
    environment = KEYS | {"S3_ENDPOINT": f"http://127.0.0.1:{s3.port}"}
    address, log, _ = serve_from("s3://models/dummy", environment)
    check(address)
    assert "downloaded" in log.read_text()
    address, log, _ = serve_from("s3://models/dummy", environment)
    check(address)
    assert "downloading" not in log.read_text()


def test_new_and_changed_versions(s3, serve_from):
    """A new version is served, and a changed one loaded again."""
    environment = KEYS | {"S3_ENDPOINT": f"http://127.0.0.1:{s3.port}"}
    flags = ["--file_system_poll_wait_seconds", "0", "--model_version_policy", '{"all":{}}']
    address, log, _ = serve_from("s3://models/dummy", environment, *flags)
    for name, body in files().items():
        s3.s3("PUT", f"models/dummy/2/{name}", body)
    reload(address)
    check(address, "2")
    loads = log.read_text().count("downloading")
    s3.s3("PUT", "models/dummy/2/readme.txt", b"new")
    reload(address)
    assert log.read_text().count("downloading") == loads, "no load reads it"
    s3.s3("PUT", "models/dummy/2/model.xml", files()["model.xml"] + b"\n")
    reload(address)
    check(address, "2")
    assert log.read_text().count("downloading") == loads + 1
    for name in [*files(), "readme.txt"]:
        s3.s3("DELETE", f"models/dummy/2/{name}")
    reload(address)
    check(address)
    with pytest.raises(Exception, match="version"):
        check(address, "2")


def test_a_version_that_fails_is_downloaded_once(s3, serve_from):
    """A version that cannot be loaded is tried again with the same copy."""
    environment = KEYS | {"S3_ENDPOINT": f"http://127.0.0.1:{s3.port}"}
    flags = ["--file_system_poll_wait_seconds", "0"]
    address, log, _ = serve_from("s3://models/dummy", environment, *flags)
    for name in files():
        s3.s3("PUT", f"models/dummy/2/{name}", b"broken")
    for _ in range(3):
        with pytest.raises(urllib.error.HTTPError):
            reload(address)
    check(address)
    assert log.read_text().count("downloading") == 2


def reload(address):
    """Ask for a reload."""
    url = f"http://{address}/v1/config/reload"
    with OPENER.open(urllib.request.Request(url, method="POST"), timeout=30) as answer:
        assert answer.status in (200, 201)


def test_s3_over_tls(emulator, serve_from, tmp_path):
    """Over TLS, with an authority of our own."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (tmp_path / "certificate").write_bytes(certificate.public_bytes(pem))
    plain = serialization.NoEncryption()
    pkcs8 = serialization.PrivateFormat.PKCS8
    (tmp_path / "key").write_bytes(key.private_bytes(pem, pkcs8, plain))
    moto = [BIN / "moto_server", "-H", "127.0.0.1", "-p", "0"]
    server = emulator(*moto, "-c", tmp_path / "certificate", "-k", tmp_path / "key")
    environment = KEYS | {"S3_ENDPOINT": f"https://127.0.0.1:{server.port}"}
    trusted = {"SSL_CERT_FILE": str(tmp_path / "certificate")}
    log, process = serve_from("s3://models/dummy", environment | trusted, wait=False)[1:]
    assert process.wait(timeout=20) == 1
    # The connection was made and the bucket asked for.
    assert "bucket `models` does not exist" in log.read_text()
    log, process = serve_from("s3://models/dummy", environment, wait=False)[1:]
    assert process.wait(timeout=20) == 1
    assert "certificate" in log.read_text().lower()


def test_azure(emulator, serve_from):
    """From Azure Blob Storage."""
    azurite = emulator(
        ROOT / "target/azurite/azurite",
        *["--blobHost", "127.0.0.1", "--blobPort", "0"],
        *["--inMemoryPersistence", "--disableTelemetry", "--silent"],
    )
    blobs.make_container(azurite.port, "models")
    for name, body in files().items():
        blobs.put(azurite.port, f"models/dummy/1/{name}", body)
    environment = {"AZURE_STORAGE_CONNECTION_STRING": blobs.connection_string(azurite.port)}
    check(serve_from("az://models/dummy", environment)[0])


def test_google(s3, serve_from):
    """From Google Cloud Storage, for which S3's emulator stands in, as a public bucket."""
    environment = {"STORAGE_EMULATOR_HOST": f"127.0.0.1:{s3.port}", "HOME": "/nonexistent"}
    check(serve_from("gs://models/dummy", environment)[0])


def test_configuration_file(s3, serve_from, tmp_path):
    """Beside a model on disk, in a configuration file."""
    models = {
        "dummy": "s3://models/dummy",
        "local": str(FIXTURES / "models/dummy"),
    }
    entries = [{"config": {"name": name, "base_path": path}} for name, path in models.items()]
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_config_list": entries}))
    environment = os.environ | KEYS | {"OVMS_MODEL_CACHE": str(tmp_path / "cache")}
    environment |= {"S3_ENDPOINT": f"http://127.0.0.1:{s3.port}"}
    rest_port, log = free_ports(1)[0], tmp_path / "server"
    command = [PROGRAM, "serve", "--config_path", path, "--rest_port", str(rest_port)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)
    try:
        wait_ready(process, log)
        check(f"127.0.0.1:{rest_port}")
    finally:
        process.terminate()
        process.wait(timeout=20)


@pytest.mark.parametrize(
    ("base_path", "environment", "text"),
    [
        ("s3://modles/dummy", KEYS, "bucket `modles` does not exist"),
        ("s3://models/dumy", KEYS, "there are no objects below it"),
        ("s3://models/dummy", {"AWS_ACCESS_KEY_ID": "id"}, "`AWS_SECRET_ACCESS_KEY` is not"),
        ("az://models/dummy", {}, "set AZURE_STORAGE_CONNECTION_STRING"),
        ("azfs://share/dummy", {}, "Azure file shares are not supported"),
        ("s3://127.0.0.1:9/models/dummy", KEYS, "cannot reach http://127.0.0.1:9"),
    ],
)
def test_errors_end_the_start(s3, serve_from, base_path, environment, text):
    """A base path that cannot be read ends the start within seconds, in words."""
    if "127.0.0.1" not in base_path:
        environment = environment | {"S3_ENDPOINT": f"http://127.0.0.1:{s3.port}"}
    started = time.monotonic()
    _, log, process = serve_from(base_path, environment, wait=False)
    assert process.wait(timeout=30) == 1
    assert time.monotonic() - started < 15
    assert text in log.read_text()
