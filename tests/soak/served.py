"""The server of the soak: what it serves, what is changed there while it serves, and the memory that it takes."""

import json
import os
import shutil
import sys
from pathlib import Path

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "chaos"))
from engines import HEALTH, PROGRAM, ROOT, Process, free_ports, until  # noqa: E402

MODELS, GRAPHS = ROOT / "fixtures/models", ROOT / "fixtures/graphs"
PLUGIN = {"INFERENCE_PRECISION_HINT": "f32"}
# Prefix of the shared memory objects that it takes.
SHARED = "/ovms_soak_"
# The largest message that it takes, in bytes.
MAX_MESSAGE = 4 << 20

# Requests wait for each other, so that there are batches of a model that takes no time.
BATCHING = {"max_batch": 8, "max_delay_us": 2000}

UNARY = """
input_stream: "OVMS_PY_TENSOR:text"
output_stream: "OVMS_PY_TENSOR:out"
node {
  name: "handler"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_stream: "INPUT:text"
  output_stream: "OUTPUT:out"
  node_options: {
    [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions]: { handler_path: "handler.py" }
  }
}
"""
# Capital letters; `bad` is an error, and `pid` the process that it runs in.
UPPER = """
import os

from pyovms import Tensor

class OvmsPythonModel:
    def execute(self, inputs):
        text = bytes(inputs[0])
        if text == b"bad":
            raise ValueError("bad text")
        return [Tensor("out", str(os.getpid()).encode() if text == b"pid" else text.upper())]
"""
# As many numbers as it is asked for.
COUNTER = """
from pyovms import Tensor

class OvmsPythonModel:
    def execute(self, inputs):
        count = int(bytes(inputs[0])[4:])
        for number in range(count):
            yield [Tensor("token", number.to_bytes(8, "little"), shape=(1,), datatype="INT64")]
"""


def node(name, source, item):
    """A node of a pipeline that runs `dummy`."""
    return {
        "name": name,
        "type": "DL model",
        "model_name": "dummy",
        "inputs": [{"b": {"node_name": source, "data_item": item}}],
        "outputs": [{"data_item": "a", "alias": "a"}],
    }


def pipeline(name, nodes, **more):
    """A pipeline of such nodes."""
    outputs = [{"a": {"node_name": nodes[-1]["name"], "data_item": "a"}}]
    return {"name": name, "inputs": ["b"], "nodes": nodes, "outputs": outputs, **more}


class Served:
    """One `ovms` with everything, in a folder that can be changed."""

    def __init__(self, folder):
        self.folder, self.changes, self.nireq = folder, 0, 1
        self.port, self.rest_port = free_ports(2)
        self.grpc_socket, self.rest_socket = folder / "grpc.sock", folder / "rest.sock"
        self.rest = f"http://127.0.0.1:{self.rest_port}"
        for name, handler in (("upper", UPPER), ("mortal", UPPER)):
            (folder / name).mkdir()
            (folder / name / "graph.pbtxt").write_text(UNARY)
            (folder / name / "handler.py").write_text(handler)
        (folder / "counter").mkdir()
        text = (GRAPHS / "streamer/graph.pbtxt").read_text()
        (folder / "counter/graph.pbtxt").write_text(text.replace("writer.py", "handler.py"))
        (folder / "counter/handler.py").write_text(COUNTER)
        shutil.copytree(MODELS / "dummy", folder / "fragile")
        self.write()

    def write(self):
        """Write the configuration file."""
        model = lambda name, path, **more: {  # noqa: E731
            "config": {"name": name, "base_path": str(path), "plugin_config": PLUGIN, **more}
        }
        config = {
            "model_config_list": [
                # Another number of infer requests is another configuration, so that it is loaded again.
                model("dummy", MODELS / "dummy", nireq=self.nireq),
                model("copy", MODELS / "passthrough_f32"),
                model("vad_stateful", MODELS / "vad_stateful", stateful=True, max_sequence_number=2000),
                model("fragile", self.folder / "fragile"),
                model("together", MODELS / "passthrough_f32", nireq=self.nireq, dynamic_batching=BATCHING),
                model("bag", MODELS / "bag", nireq=1, dynamic_batching=BATCHING),
            ],
            "pipeline_config_list": [
                pipeline("chain", [node("first", "request", "b"), node("second", "first", "a")]),
                pipeline("split", [node("part", "request", "b")], demultiply_count=-1),
            ],
            "mediapipe_config_list": [{"name": name} for name in ("upper", "mortal", "counter")],
        }
        (self.folder / "config.json").write_text(json.dumps(config))

    async def start(self):
        """Start it, and wait until it serves."""
        command = [PROGRAM, "serve", "--config_path", str(self.folder / "config.json")]
        command += ["--port", str(self.port), "--grpc_bind_address", "127.0.0.1"]
        command += ["--rest_port", str(self.rest_port), "--rest_bind_address", "127.0.0.1"]
        command += ["--file_system_poll_wait_seconds", "0", "--max_message_size", str(MAX_MESSAGE)]
        command += ["--grpc_unix_socket", str(self.grpc_socket), "--rest_unix_socket", str(self.rest_socket)]
        command += ["--shared_memory", SHARED, "--metrics_enable", "--log_level", "WARNING"]
        self.process = Process("server", self.folder, *command)
        await self.process.serves(self.rest_port, HEALTH, " 200 ")
        self.http = aiohttp.ClientSession()
        return self

    async def lacks(self):
        """What is not as it should be at the end: batches that there were none of, and regions that are left."""
        lacks = []
        for name in ("together", "bag"):
            stats = json.loads(await self.page(f"/v2/models/{name}/stats"))["model_stats"]
            sizes = {size["batch_size"] for version in stats for size in version.get("batch_stats", [])}
            if max(sizes, default=0) < 2:
                lacks.append(f"{name}: no batches, but {sizes}")
            metadata = json.loads(await self.page(f"/v2/models/{name}"))
            lacks += [f"{name}: {key} {text}" for key, text in metadata.get("properties", {}).items()]
        left = json.loads(await self.page("/v2/systemsharedmemory/status"))
        return lacks + [f"a region is left: {region}" for region in left]

    async def close(self):
        """Stop it in order, once it is at nothing any more."""

        async def is_idle():
            return "\novms_pending_requests 0\n" in await self.page("/metrics")

        await until(is_idle, "the server is not idle")
        await self.http.close()
        await self.process.stop()

    async def page(self, path):
        """The text of a page."""
        async with self.http.get(self.rest + path) as response:
            return await response.text()

    async def reload(self):
        """Have it look at its files; gives status and text."""
        async with self.http.post(f"{self.rest}/v1/config/reload") as response:
            return response.status, await response.text()

    async def changed(self):
        """Have it look at its files, which have changed for the better."""
        status, text = await self.reload()
        assert status == 201, f"reload: {status} {text[:300]}"

    async def change_model(self):
        """A model is loaded again, and the pipelines with it."""
        self.nireq = 3 - self.nireq
        self.write()
        await self.changed()

    async def change_graph(self):
        """Graphs get new handlers, and with them new workers."""
        self.changes += 1
        for name, handler in (("upper", UPPER), ("counter", COUNTER)):
            (self.folder / name / "handler.py").write_text(f"{handler}\n# {self.changes}\n")
        await self.changed()

    async def break_model(self):
        """A version comes whose file ends in the middle; then it is fixed, serves, and goes."""
        new, good = self.folder / "fragile/2", self.folder / "fragile/1"
        shutil.copytree(good, new)
        whole = (good / "model.xml").read_text()
        (new / "model.xml").write_text(whole[: len(whole) // 2])
        status, text = await self.reload()
        assert status >= 400 and "fragile" in text, f"reload of a broken file: {status} {text}"
        (new / "model.xml").write_text(whole)
        await self.changed()
        assert '"version":"2","state":"AVAILABLE"' in await self.page("/v1/models/fragile")
        shutil.rmtree(new)
        await self.changed()

    def memory(self):
        """Memory of the server, and of all processes that it has started, in MB."""
        return own(self.process.popen.pid), sum(map(own, below(self.process.popen.pid)))

    def files(self):
        """Number of files and sockets that it has open."""
        return len(os.listdir(f"/proc/{self.process.popen.pid}/fd"))


def below(process):
    """All processes below one."""
    found = []
    for thread in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            own = [int(child) for child in thread.read_text().split()]
        except OSError:
            continue
        for child in own:
            found += [child, *below(child)]
    return found


def own(process):
    """Memory of a process that is of no file, in MB, a shared page by its share; 0 if it has just ended.

    Pages of files are shared with whatever else runs on the machine, and come and go as the system likes.
    """
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:"))) / 1024
