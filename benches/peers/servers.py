"""The servers of the comparison: what starts each, with one model."""

import http.client
import json
import os
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import processes, wires
from .clients import find

ROOT = Path(__file__).resolve().parents[2]
RUNTIMES = Path(__file__).resolve().parent / "runtimes"
# As in `make bench`: the defaults of ovms, and single precision.
PROPERTIES = {
    "PERFORMANCE_HINT": "LATENCY",
    "ENABLE_CPU_PINNING": False,
    "INFERENCE_PRECISION_HINT": "f32",
}
START_LIMIT = 90.0
SHARED_MEMORY = Path("/dev/shm")


class StartError(Exception):
    """A server that is not there or did not become ready."""


@dataclass(frozen=True)
class Ports:
    """Ports on loopback."""

    grpc: int
    rest: int
    metrics: int


@dataclass
class Launch:
    """What to start."""

    command: list
    environment: dict = field(default_factory=dict)
    # What the server leaves in shared memory begins so.
    shared_memory: str = ""
    has_health: bool = True


def free_ports():
    """Ports that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = Ports(*(each.getsockname()[1] for each in sockets))
    for each in sockets:
        each.close()
    return ports


@dataclass(frozen=True)
class Tools:
    """Where things are, with what the servers say: the answers of ovms, for nginx, and versions."""

    program: Path
    installed: Path
    reasons: dict
    answers: dict = field(default_factory=dict)
    reported: dict = field(default_factory=dict)

    def python(self, name):
        """The interpreter of a server's environment."""
        path = self.installed / name / "bin/python"
        if not path.exists():
            raise StartError(f"not installed: {self.reasons.get(name, 'run benches/peers/install.py')}")
        return path

    def packages(self, name):
        """The folder of its packages."""
        return next((self.installed / name / "lib").glob("python3*")) / "site-packages"

    def tool(self, name):
        """A program of the system or of Debian's packages."""
        path = find(name, self.installed / "tools/bin") or find(name, ROOT / "target/tools/bin")
        if not path:
            raise StartError(f"not installed: {self.reasons.get(name, 'run benches/peers/install.py')}")
        return path

    def perf_analyzer(self):
        """perf_analyzer, and the folders of the libraries it wants."""
        program = self.python("perf_analyzer").parent / "perf_analyzer"
        folder = self.installed / "perf_analyzer"
        files = [*folder.glob("debian/usr/lib/*/libb64.so.0d"), *folder.glob("lib/**/libcudart.so.12")]
        return program, sorted({file.parent for file in files})


def of_model(model):
    """The environment of the runtimes in Python."""
    path = next((ROOT / model.folder / "1").glob("*.xml"))
    return {
        "PEERS_MODEL": str(path),
        "PEERS_PROPERTIES": json.dumps(PROPERTIES),
        "PEERS_RUNTIMES": str(RUNTIMES),
        "PYTHONPATH": str(RUNTIMES),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def ovms(tools, model, ports, folder):
    """ovms, with its defaults but for the precision."""
    if not os.access(tools.program, os.X_OK):
        raise StartError(f"{tools.program} is not there: cargo build --release")
    command = [tools.program, "serve", "--model_name", model.name, "--model_path", ROOT / model.folder]
    command += ["--plugin_config", json.dumps(PROPERTIES), "--log_level", "WARNING"]
    command += ["--port", ports.grpc, "--grpc_bind_address", "127.0.0.1"]
    command += ["--rest_port", ports.rest, "--rest_bind_address", "127.0.0.1"]
    return Launch(command)


def nginx(tools, model, ports, folder):
    """nginx, which receives requests and answers with a file: the recorded answers of ovms."""
    program = tools.tool("nginx")
    answers = folder / "answers"
    answers.mkdir()
    for wire in wires.NAMES:
        recorded = tools.answers.get((model.name, wire))
        (answers / wire).write_bytes(recorded.body if recorded else b"")
    binary = tools.answers.get((model.name, "binary"))
    values = {
        "USER": "user root root;" if os.geteuid() == 0 else "",
        "FOLDER": folder,
        "GRPC": ports.grpc,
        "REST": ports.rest,
        "GRPC_PATH": wires.GRPC_PATH,
        "REST_PATH": wires.rest_path(model),
        "LENGTH": binary.headers[wires.LENGTH_HEADER] if binary else 0,
    }
    text = (RUNTIMES / "nginx.conf").read_text()
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    (folder / "nginx.conf").write_text(text)
    command = [program, "-p", folder, "-c", folder / "nginx.conf", "-e", "stderr"]
    return Launch(command, has_health=False)


def triton(tools, model, ports, folder):
    """Triton with its Python backend."""
    python = tools.python("triton")
    packages = tools.packages("triton")
    bundle = packages / "pytriton/tritonserver"
    version = f"{packages.parent.name.removeprefix('python')}"
    stub = bundle / "python_backend_stubs" / version / "triton_python_backend_stub"
    if not stub.exists():
        raise StartError(f"its Python backend has no program for Python {version}")
    backend = folder / "backends/python"
    backend.mkdir(parents=True)
    for file in [*(bundle / "backends/python").iterdir(), stub]:
        if not (backend / file.name).exists():
            (backend / file.name).symlink_to(file)
    repository = folder / "models" / model.name
    (repository / "1").mkdir(parents=True)
    (repository / "1/model.py").symlink_to(RUNTIMES / "triton_model.py")
    (repository / "config.pbtxt").write_text(
        'backend: "python"\n'
        f'input {{ name: "{model.input}" data_type: TYPE_FP32 dims: {list(model.shape)} }}\n'
        f'output {{ name: "{model.output}" data_type: TYPE_FP32 dims: {list(model.output_shape)} }}\n'
        "instance_group { kind: KIND_CPU count: 1 }\n"
    )
    prefix = f"ovms_peers_{os.getpid()}_"
    command = [bundle / "bin/tritonserver", "--model-repository", folder / "models"]
    command += ["--backend-directory", folder / "backends"]
    command += ["--backend-config", f"python,shm-region-prefix-name={prefix}"]
    command += ["--http-address", "127.0.0.1", "--http-port", ports.rest]
    command += ["--grpc-address", "127.0.0.1", "--grpc-port", ports.grpc]
    command += ["--metrics-address", "127.0.0.1", "--metrics-port", ports.metrics, "--log-info", "false"]
    library = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    environment = of_model(model)
    # The backend starts whichever Python is first.
    environment["PATH"] = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    environment["PYTHONPATH"] += f"{os.pathsep}{packages}"
    environment["LD_LIBRARY_PATH"] = f"{packages / 'nvidia_pytriton.libs'}{os.pathsep}{library}"
    return Launch(command, environment, prefix)


def mlserver(tools, model, ports, folder):
    """MLServer, which infers in its own process: a pool of one other process costs it more."""
    python = tools.python("mlserver")
    settings = {"host": "127.0.0.1", "http_port": ports.rest, "grpc_port": ports.grpc}
    settings |= {"metrics_endpoint": None, "parallel_workers": 0, "debug": False}
    (folder / "settings.json").write_text(json.dumps(settings))
    described = {"name": model.name, "implementation": "mlserver_runtime.OpenvinoRuntime"}
    (folder / "model-settings.json").write_text(json.dumps(described))
    return Launch([python.parent / "mlserver", "start", folder], of_model(model))


def kserve(tools, model, ports, folder):
    """KServe's server in Python, without a log line for each request."""
    command = [tools.python("kserve"), RUNTIMES / "kserve_server.py", "--model_name", model.name]
    command += ["--http_port", ports.rest, "--grpc_port", ports.grpc]
    command += ["--enable_latency_logging", "false"]
    return Launch(command, of_model(model) | {"KSERVE_LOGLEVEL": "WARNING"})


# In the order of the tables.
SERVERS = {"ovms": ovms, "triton": triton, "mlserver": mlserver, "kserve": kserve, "nginx": nginx}
# What a server does not have, with the words of the tables.
WITHOUT = {("mlserver", "binary"): "has no binary data over REST"}


class Running:
    """A server that runs with one model."""

    def __init__(self, name, tools, model, folder):
        self.name = name
        self.model = model
        self.ports = free_ports()
        self.folder = folder
        folder.mkdir(parents=True)
        self.launch = SERVERS[name](tools, model, self.ports, folder)
        self.log = folder / "log"
        self.process = processes.start(
            self.launch.command, self.log, self.launch.environment, folder
        )

    def wait_ready(self):
        """Waits until it says that it is, and its ports are open."""
        end = time.monotonic() + START_LIMIT
        while not self._is_ready():
            if self.process.poll() is not None:
                raise StartError(f"ended with exit code {self.process.returncode}: {self._last_line()}")
            if time.monotonic() > end:
                raise StartError(f"not ready after {START_LIMIT:.0f} s: {self._last_line()}")
            time.sleep(0.05)

    def _is_ready(self):
        try:
            socket.create_connection(("127.0.0.1", self.ports.grpc), timeout=1).close()
            status, _ = self._get(f"/v2/models/{self.model.name}/ready")
        except (OSError, http.client.HTTPException):
            return False
        return status == 200 or not self.launch.has_health

    def _get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.ports.rest, timeout=5)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def version(self):
        """The version that the server says it has; none if it has no metadata."""
        if not self.launch.has_health:
            return ""
        return json.loads(self._get("/v2")[1]).get("version", "")

    def _last_line(self):
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip()[:200] if lines else "no output"

    def cpu_seconds(self):
        """Processor time of all its processes so far."""
        return processes.cpu_seconds(self.process.pid)

    def memory_mb(self):
        """Resident memory of all its processes."""
        return processes.memory_mb(self.process.pid)

    def stop(self):
        """Ends it, and removes what it has left in shared memory."""
        processes.stop(self.process)
        if self.launch.shared_memory:
            for file in SHARED_MEMORY.glob(f"{self.launch.shared_memory}*"):
                file.unlink(missing_ok=True)
