"""Measures what the settings of docs/performance.md do, and writes its tables.

    python3 benches/tuning.py target/release/ovms [--rounds 5] [--write docs/performance.md]

Each row is a server of its own with the settings of the row, asked by `ovms infer`. The rows of a table are
measured in turn, several times, and what is written is the median of each cell. Nothing beyond Python's own
library is needed. Without --write the tables go to stdout.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from functools import partial

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "fixtures/models"
# A large network, if `make bench` has made it.
RESNET = ROOT / "target/bench-models/resnet50"
F32 = {"INFERENCE_PRECISION_HINT": "f32"}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Bench:
    def __init__(self, program, seconds, rounds):
        self.program = str(pathlib.Path(program).resolve())
        self.seconds = seconds
        self.rounds = rounds

    @contextlib.contextmanager
    def server(self, model, *flags, plugin=None):
        """Serves a model, and says how long it took until it was ready."""
        self.port, self.rest_port = free_port(), free_port()
        command = [self.program, "serve", "--model_name", "m", "--model_path", str(MODELS / model)]
        command += ["--port", str(self.port), "--rest_port", str(self.rest_port), "--log_level", "ERROR"]
        command += ["--grpc_bind_address", "127.0.0.1", "--rest_bind_address", "127.0.0.1"]
        command += ["--plugin_config", json.dumps(F32 | (plugin or {})), *flags]
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not self.is_ready():
                if process.poll() is not None or time.monotonic() - began > 120:
                    sys.exit(f"did not start: {' '.join(command)}")
                time.sleep(0.002)
            yield time.monotonic() - began
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)

    def is_ready(self):
        address = f"http://127.0.0.1:{self.rest_port}/v2/health/ready"
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def infer(self, *flags):
        port = self.rest_port if any("rest" in flag for flag in flags) else self.port
        command = [self.program, "infer", "m", "--url", f"127.0.0.1:{port}", "--random", *flags]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            sys.exit(f"{' '.join(command)}: {run.stderr}")
        return run.stdout

    def load(self, concurrency, *flags):
        """Requests a second, and the latencies in milliseconds."""
        flags = ["--duration", f"{self.seconds}s", "--concurrency", str(concurrency), *flags]
        report = json.loads(self.infer("--warmup", "20", "--output", "json", *flags))
        if report["failed"]:
            sys.exit(f"failed: {report['errors']}")
        return report["ok_per_second"], report["latency_ms"]

    def both(self, *flags):
        """Cells for one client and for 16."""
        one, alone = self.load(1, *flags)
        many, together = self.load(16, *flags)
        return one, alone["p50"], many, together["p50"], together["p99"]

    def medians(self, rows, formats):
        """Measures the rows in turn, round after round: other work of the machine meets all of them alike."""
        rounds = [[measure() for _, measure in rows] for _ in range(self.rounds)]
        for (name, _), *cells in zip(rows, *rounds, strict=True):
            middle = [statistics.median(cell) for cell in zip(*cells, strict=True)]
            yield f"| {name} | {' | '.join(map(format, middle, formats))} |"


BOTH = (".0f", ".2f", ".0f", ".2f", ".2f")


def hints(bench):
    """Settings of streams of the device."""
    yield "| `--plugin-config` | 1 client: requests/s | p50 ms | 16 clients: requests/s | p50 ms | p99 ms |"
    yield "|---|--:|--:|--:|--:|--:|"

    def measure(plugin):
        with bench.server("classifier", plugin=plugin):
            return bench.both()

    rows = [
        ("none, which is `LATENCY`", {}),
        ("`THROUGHPUT`", {"PERFORMANCE_HINT": "THROUGHPUT"}),
        ("`NUM_STREAMS` 1", {"NUM_STREAMS": 1}),
        ("`NUM_STREAMS` 2", {"NUM_STREAMS": 2}),
        ("`NUM_STREAMS` 4", {"NUM_STREAMS": 4}),
    ]
    yield from bench.medians([(name, partial(measure, plugin)) for name, plugin in rows], BOTH)


def nireq(bench):
    """How many requests the device has at a time."""
    yield "| `--nireq`, with `NUM_STREAMS` 2 | 1 client: requests/s | p50 ms | 16 clients: requests/s | p50 ms | p99 ms |"
    yield "|---|--:|--:|--:|--:|--:|"

    def measure(count):
        with bench.server("classifier", "--nireq", str(count), plugin={"NUM_STREAMS": 2}):
            return bench.both()

    yield from bench.medians([(str(count), partial(measure, count)) for count in (1, 2, 4, 8)], BOTH)


def batches(bench):
    """Several images in one request."""
    yield "| `--batch-size` | 1 client: images/s | p50 ms of a request | 4 clients: images/s | p50 ms of a request |"
    yield "|---|--:|--:|--:|--:|"

    def measure(size):
        with bench.server("classifier", "--batch_size", str(size)):
            one, alone = bench.load(1)
            many, together = bench.load(4)
            return one * size, alone["p50"], many * size, together["p50"]

    rows = [(str(size), partial(measure, size)) for size in (1, 4, 16)]
    yield from bench.medians(rows, (".0f", ".2f", ".0f", ".2f"))


def shapes(bench):
    """The first request of a new shape, and the ones after it."""
    yield "| shape | first request with 4 images, ms | the next ones, p50 ms |"
    yield "|---|--:|--:|"
    value = "image:FP32:4,3,224,224="

    def measure(size):
        with bench.server("classifier", "--batch_size", size):
            first = json.loads(bench.infer("-i", value, "--repeat", "1", "--output", "json"))
            _, later = bench.load(1, "-i", value)
            return first["latency_ms"]["max"], later["p50"]

    rows = [(f"`--batch-size {size}`", partial(measure, size)) for size in ("4", "1:8", "auto")]
    yield from bench.medians(rows, (".1f", ".2f"))


def cache(bench):
    """The time until the server is ready."""
    model = RESNET if RESNET.is_dir() else MODELS / "ocr_det"
    yield f"| `{model.name}` | seconds until ready |"
    yield "|---|--:|"

    def start(*flags):
        with bench.server(model, *flags) as seconds:
            return (seconds,)

    def first():
        with tempfile.TemporaryDirectory() as folder:
            return start("--cache_dir", folder)

    with tempfile.TemporaryDirectory() as folder:
        start("--cache_dir", folder)
        rows = [
            ("without `--cache-dir`", start),
            ("first start with it", first),
            ("later starts with it", partial(start, "--cache_dir", folder)),
        ]
        yield from bench.medians(rows, (".2f",))


def apis(bench):
    """The same request over each protocol."""
    yield "| `ovms infer` with | 40 bytes, 1 client: requests/s | p50 ms | 16 clients: requests/s | 600 KB, 1 client: requests/s | p50 ms | 16 clients: requests/s |"
    yield "|---|--:|--:|--:|--:|--:|--:|"

    def measure(flags):
        cells = []
        for model in ("dummy", "fullsize"):
            with bench.server(model):
                one, alone = bench.load(1, *flags)
                many, _ = bench.load(16, *flags)
                cells += [one, alone["p50"], many]
        return cells

    ways = (
        "--api kserve-grpc",
        "--api kserve-grpc --typed",
        "--api kserve-rest",
        "--api kserve-rest --json-data",
        "--api tfs-grpc",
        "--api tfs-rest",
    )
    rows = [(f"`{flags}`", partial(measure, flags.split())) for flags in ways]
    yield from bench.medians(rows, (".0f", ".2f", ".0f") * 2)


def machine(bench):
    """What the figures are of."""
    info = pathlib.Path("/proc/cpuinfo").read_text()
    name = re.search(r"model name\s*: (.*)", info)
    version = subprocess.run([bench.program, "--version"], capture_output=True, text=True, check=True)
    yield f"{name[1] if name else 'unknown processor'}, {os.cpu_count()} cores, {version.stdout.strip()}; medians of {bench.rounds} rounds, {bench.seconds} s a cell."


TABLES = {table.__name__: table for table in (machine, hints, nireq, batches, shapes, cache, apis)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--seconds", type=int, default=1, help="how long each cell is measured in a round")
    parser.add_argument("--rounds", type=int, default=5, help="how often each cell is measured")
    parser.add_argument("--write", type=pathlib.Path, help="the page whose tables are replaced")
    parser.add_argument("--only", choices=TABLES, action="append", help="this table")
    options = parser.parse_args()
    bench = Bench(options.program, options.seconds, options.rounds)
    for name in options.only or TABLES:
        table = "\n".join(TABLES[name](bench))
        print(f"\n{name}\n\n{table}", flush=True)
        if options.write:
            begin, end = f"<!-- tuning: {name} -->", "<!-- end -->"
            text = options.write.read_text()
            before, rest = text.split(begin)
            _, after = rest.split(end, 1)
            options.write.write_text(f"{before}{begin}\n{table}\n{end}{after}")


if __name__ == "__main__":
    main()
