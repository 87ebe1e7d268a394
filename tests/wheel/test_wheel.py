"""The wheel, in fresh environments of each Python at hand, on a file system without the sources.

WHEEL names it. PYTHONS may name further interpreters, separated by spaces; without it, those are taken that PATH has.
"""

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHEEL = Path(os.environ["WHEEL"]).absolute()
LIMIT = 600.0
START_LIMIT = 60.0
OLDEST, NEWEST = 11, 14

HANDLER = """\
import inflection
from pyovms import Tensor


class OvmsPythonModel:
    def initialize(self, kwargs):
        self.output = kwargs["output_names"][0]

    def execute(self, inputs):
        return [Tensor(self.output, [inflection.pluralize(text) for text in inputs[0].texts()])]
"""

GRAPH = """\
input_stream: "OVMS_PY_TENSOR:one"
output_stream: "OVMS_PY_TENSOR:many"
node {
  name: "plural"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_stream: "ONE:one"
  output_stream: "MANY:many"
  node_options: {
    [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions]: {
      handler_path: "plural.py"
    }
  }
}
"""


def pythons():
    """The interpreters to try, by their versions."""
    named = shlex.split(os.environ.get("PYTHONS", ""))
    named += [f"python3.{minor}" for minor in range(OLDEST, NEWEST + 1)] + [sys.executable]
    found = {}
    for name in named:
        path = shutil.which(name)
        asked = path and subprocess.run(
            [path, "-c", "import sys, venv, ensurepip; print(sys.version_info[1])"], capture_output=True, text=True
        )
        if asked and asked.returncode == 0 and int(asked.stdout) >= OLDEST:
            found.setdefault(int(asked.stdout), path)
    return found


PYTHONS = pythons()


def without_sources():
    """The beginning of a command that hides the sources, if the system lets us."""
    begin = ["unshare", "--mount", "--map-root-user", "sh", "-c", f"mount -t tmpfs none {shlex.quote(str(ROOT))} && exec \"$@\"", "sh"]
    try:
        hidden = subprocess.run([*begin, "test", "!", "-e", str(ROOT / "Makefile")], capture_output=True)
    except FileNotFoundError:
        return None
    return begin if hidden.returncode == 0 else None


HIDE = without_sources()


class Place:
    """An environment with the wheel, and a home of its own."""

    def __init__(self, home, python):
        self.home = home
        self.prefix = home / "env"
        self.variables = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
        for name in ("PIP_CONFIG_FILE", "PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "SSL_CERT_FILE"):
            if name in os.environ:
                self.variables[name] = os.environ[name]
        cache = subprocess.run([sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True)
        self.variables["PIP_CACHE_DIR"] = cache.stdout.strip()
        subprocess.run([python, "-m", "venv", self.prefix], check=True, timeout=LIMIT)
        wheel = shutil.copy(WHEEL, home)
        self.run(self.prefix / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, "inflection")

    def command(self, command):
        return [*(HIDE or []), *[str(part) for part in command]]

    def run(self, *command, **more):
        """Run a command that is to succeed, and return what it prints."""
        done = subprocess.run(
            self.command(command), capture_output=True, text=True, timeout=LIMIT, cwd=self.home, env=self.variables, **more
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def ovms(self, *arguments, **more):
        return self.run(self.prefix / "bin/ovms", *arguments, **more)

    def serve(self, *arguments, program=None):
        """Start a server, wait until it is ready, and return it with its port."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        log = self.home / "log"
        program = program or [self.prefix / "bin/ovms"]
        with log.open("wb") as out:
            server = subprocess.Popen(
                self.command([*program, "serve", *arguments, "--port", port, "--grpc_bind_address", "127.0.0.1"]),
                stdout=out, stderr=subprocess.STDOUT, cwd=self.home, env=self.variables,
            )  # fmt: skip
        end = time.monotonic() + START_LIMIT
        while " ready\n" not in log.read_text():
            if server.poll() is not None or time.monotonic() > end:
                server.kill()
                pytest.fail(log.read_text())
            time.sleep(0.02)
        return server, port


@pytest.fixture(scope="module", params=range(OLDEST, NEWEST + 1), ids=lambda minor: f"3.{minor}")
def place(request, tmp_path_factory):
    """One place for each Python; `-rs` says at the end which are not at hand."""
    if request.param not in PYTHONS:
        pytest.skip(f"there is no Python 3.{request.param} here: the wheel is untested with it")
    return Place(tmp_path_factory.mktemp("home"), PYTHONS[request.param])


def stop(server):
    server.terminate()
    assert server.wait(timeout=30) == 0


def test_the_wheel_is_for_old_systems_and_small():
    assert WHEEL.name.endswith("-py3-none-manylinux_2_28_x86_64.whl")
    assert WHEEL.stat().st_size <= 20_000_000
    names = zipfile.ZipFile(WHEEL).namelist()
    for end in (
        "scripts/ovms",
        "data/share/man/man1/ovms-serve.1",
        "data/share/bash-completion/completions/ovms",
        "data/share/zsh/site-functions/_ovms",
        "data/share/fish/vendor_completions.d/ovms.fish",
        "pyovms/_pyovms.abi3.so",
        "pyovms/__init__.pyi",
        "pyovms/py.typed",
        "pyovms/worker.py",
    ):
        assert [name for name in names if name.endswith(end)], end


def test_the_sources_are_hidden():
    if HIDE is None:
        pytest.skip("the system lets nobody mount in a namespace: sources are visible to the wheel's tests")


def test_the_demo_is_served_and_asked_at_once(place):
    setup = json.loads(place.ovms("setup", "--output", "json"))
    assert setup["origin"] == "own_environment" and not setup["installed"], setup
    server, port = place.serve("--demo")
    try:
        shutil.copy(ROOT / "fixtures/images/star.png", place.home)
        answer = place.ovms("infer", "classifier", "--url", f"localhost:{port}", "-i", "@star.png", "--top", "1")
        assert "0.9" in answer, answer
    finally:
        stop(server)


def test_a_handler_uses_a_package_of_the_environment(place):
    (place.home / "plural.py").write_text(HANDLER)
    (place.home / "graph.pbtxt").write_text(GRAPH)
    entry = {"name": "plural", "base_path": str(place.home)}
    (place.home / "config.json").write_text(json.dumps({"model_config_list": [], "mediapipe_config_list": [entry]}))
    server, port = place.serve("--config_path", place.home / "config.json")
    try:
        arguments = ["infer", "plural", "--url", f"localhost:{port}", "-i", '["box", "leaf"]', "--output", "json"]
        assert '"boxes"' in (answer := place.ovms(*arguments)), answer
    finally:
        stop(server)


def test_the_package_is_importable(place):
    program = "import pyovms; print(pyovms.Tensor('x', ['a', 'b']).texts())"
    assert place.run(place.prefix / "bin/python", "-c", program) == "['a', 'b']\n"


def test_it_runs_without_being_installed(tmp_path):
    uvx = shutil.which("uvx", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    assert uvx, "uv is among deploy/wheel/requirements.txt"
    place = Place.__new__(Place)
    place.home, place.prefix = tmp_path, tmp_path
    place.variables = {**os.environ, "HOME": str(tmp_path)}
    for name in ("OPENVINO_INSTALL_DIR", "VIRTUAL_ENV", "OVMS"):
        place.variables.pop(name, None)
    wheel = shutil.copy(WHEEL, tmp_path)
    uvx = shutil.copy(uvx, tmp_path)
    shutil.copy(Path(shutil.which("uv", path=str(Path(sys.executable).parent))), tmp_path)
    minor, _ = max(PYTHONS.items())
    place.run(uvx, "--python", PYTHONS[minor], "--from", wheel, "ovms", "--version")
    server, port = place.serve("--demo", program=[uvx, "--python", PYTHONS[minor], "--from", wheel, "ovms"])
    stop(server)
