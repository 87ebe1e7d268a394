"""Servers for clients that others wrote.

OVMS names the program under test. It finds the runtime as it always does, so
OPENVINO_INSTALL_DIR may have to be set.
"""

import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
PROGRAM = os.environ.get("OVMS", str(ROOT / "target/debug/ovms"))
# Keeps floats as they are on processors that would compute in bf16.
PLUGIN_CONFIG = '{"INFERENCE_PRECISION_HINT":"f32"}'
START_LIMIT = 30.0
# Where ports of servers are.
PORTS = range(10_000, 12_000)
# What a shell starts in the background ignores Ctrl-C, and so would all that is started here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass
class Server:
    """A running server of one fixture model."""

    model: str
    port: int
    rest_port: int

    @property
    def grpc(self):
        """The address for gRPC clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def rest(self):
        """The address for REST clients."""
        return f"127.0.0.1:{self.rest_port}"

    def url(self, path):
        """A URL on the REST side."""
        return f"http://{self.rest}{path}"


def free_ports(count):
    """Ports that were free a moment ago, and that the system gives to no outgoing connection."""
    return list(itertools.islice(filter(is_free, random.sample(PORTS, len(PORTS))), count))


def is_free(port):
    """Tells whether a server may listen on a port."""
    with socket.socket() as it:
        try:
            it.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def program(name):
    """A program of the system, or what tests/tools/install.py has unpacked; `None` without."""
    paths = [os.environ["PATH"], str(ROOT / "target/tools/bin"), "/usr/sbin"]
    return shutil.which(name, path=os.pathsep.join(paths))


def wait_ready(process, log):
    """Wait until the log says that the server is ready."""
    end = time.monotonic() + START_LIMIT
    while " ready\n" not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.01)


@dataclass
class Running:
    """The servers that run, and where their logs go."""

    logs: Path
    processes: list

    def start(self, name, *flags):
        """Start a server with flags, and wait until it is ready."""
        port, rest_port = free_ports(2)
        arguments = ["serve", *flags]
        arguments += ["--port", str(port), "--grpc_bind_address", "127.0.0.1"]
        arguments += ["--rest_port", str(rest_port), "--rest_bind_address", "127.0.0.1"]
        self.launch(name, arguments)
        return Server(name, port, rest_port)

    def launch(self, name, arguments):
        """Start the program with arguments, and wait until the server is ready; gives process and log."""
        log = self.logs / f"{len(self.processes)}-{name}"
        with log.open("wb") as out:
            process = subprocess.Popen([PROGRAM, *arguments], stdout=out, stderr=subprocess.STDOUT)
        self.processes.append(process)
        wait_ready(process, log)
        return process, log


@pytest.fixture(scope="session")
def running(tmp_path_factory):
    """What starts servers, which end with the tests."""
    running = Running(tmp_path_factory.mktemp("logs"), [])
    yield running
    for process in running.processes:
        process.terminate()
    codes = [process.wait(timeout=20) for process in running.processes]
    assert not any(codes), f"a server ended badly: {codes}"


@pytest.fixture(scope="session")
def serve(running):
    """A function that serves a fixture model with more flags: one server each, for all tests."""
    servers = {}

    def start(model, *flags):
        key = (model, *flags)
        if key not in servers:
            path = str(FIXTURES / "models" / model)
            asked = ["--model_name", model, "--model_path", path]
            asked += ["--plugin_config", PLUGIN_CONFIG, *flags]
            servers[key] = running.start(model, *asked)
        return servers[key]

    return start


@pytest.fixture(scope="session")
def serve_config(running):
    """A function that serves what a configuration file names: one server each, for all tests."""
    servers = {}

    def start(path):
        if path not in servers:
            servers[path] = running.start(path.parent.name, "--config_path", str(path))
        return servers[path]

    return start
