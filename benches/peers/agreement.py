"""`ovms bench` beside perf_analyzer, on the same server and load: what they report, and what they take of the processor.

`python -m peers.agreement --program PATH [--write docs/bench.md]`, by `make bench-client`.
"""

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from . import clients
from .servers import Tools

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- agreement -->\n", "<!-- /agreement -->\n"
# Seconds of a window of either; both take three that agree.
WINDOW = 1.0
# Requests of the start of a client, which are not measured.
WARM = 10


@dataclass
class Found:
    """What a client reports, and its processor time for each request that it has sent."""

    rate: float
    p50: float
    cpu: float


@dataclass
class LoadCase:
    """A model under a load."""

    model: str
    path: Path
    words: str
    ours: list
    theirs: list


def cases():
    """The loads: those that the server keeps up with, and those that take all of the machine."""
    fixtures, bench = ROOT / "fixtures/models", ROOT / "target/bench-models"
    open_loop = (["--rate", "200"], ["--request-rate-range", "200"])
    one = (["--concurrency", "1"], ["--concurrency-range", "1"])
    four = (["--concurrency", "4"], ["--concurrency-range", "4"])
    return [
        LoadCase("dummy", fixtures / "dummy", "200 requests/s", *open_loop),
        LoadCase("classifier", fixtures / "classifier", "1 client", *one),
        LoadCase("resnet50", bench / "resnet50", "1 client", *one),
        LoadCase("resnet50", bench / "resnet50", "4 clients", *four),
        LoadCase("dummy", fixtures / "dummy", "4 clients, all of the machine", *four),
    ]


@dataclass
class PortPair:
    """The ports of a server."""

    grpc: int
    rest: int


@contextlib.contextmanager
def serving(program, case, folder):
    """A server of the model of a case, until the end of the block."""
    with contextlib.ExitStack() as held:
        bound = [held.enter_context(socket.socket()) for _ in range(2)]
        for one in bound:
            one.bind(("127.0.0.1", 0))
        ports = PortPair(*(one.getsockname()[1] for one in bound))
    command = [program, "serve", "--model-name", case.model, "--model-path", case.path]
    command += ["--port", str(ports.grpc), "--grpc-bind-address", "127.0.0.1"]
    command += ["--rest-port", str(ports.rest), "--rest-bind-address", "127.0.0.1", "--log-level", "ERROR"]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            for _ in range(600):
                url = f"http://127.0.0.1:{ports.rest}/v2/models/{case.model}/ready"
                with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=10):
                    break
                time.sleep(0.1)
            yield ports
        finally:
            server.terminate()


def run(command, environment, count):
    """Runs a client; returns what it prints, and its processor time for each request in seconds.

    `count` is asked how many requests there were. Its start is left out, which is no part of what a request costs.
    """
    first = count()
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as notes:
        with subprocess.Popen(command, env=environment, stdout=output, stderr=notes) as client:
            deadline = time.monotonic() + 180
            begin = end = None
            while client.poll() is None:
                if time.monotonic() > deadline:
                    client.kill()
                    raise RuntimeError(f"{command[0]}: it does not end")
                requests = count()
                with contextlib.suppress(OSError):
                    seen = Seen(time.clock_gettime(clock_of(client.pid)), requests)
                    if begin is None and requests - first >= WARM:
                        begin = seen
                    end = seen
                time.sleep(0.1)
        output.seek(0)
        notes.seek(0)
        text, errors = output.read(), notes.read()
    if client.returncode:
        raise RuntimeError(f"{command[0]}: {text}{errors}")
    if begin is None or end.requests == begin.requests:
        raise RuntimeError(f"{command[0]}: it sends too little to be measured")
    return text, (end.cpu - begin.cpu) / (end.requests - begin.requests)


@dataclass
class Seen:
    """A process at a moment: its processor time in seconds, and the requests so far."""

    cpu: float
    requests: int


def clock_of(pid):
    """The number of the clock of a process's time on processors (clock_getcpuclockid(3), as Linux makes it)."""
    return (~pid << 3) | 2


def sent(model, port):
    """The requests that the server has had for a model."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/models/{model}/stats", timeout=10) as answer:
        (figures,) = json.load(answer)["model_stats"]
    return int(figures["inference_stats"]["success"]["count"])


def ours(program, case, ports, _folder):
    """A run of `ovms bench`."""
    command = [program, "bench", case.model, "--api", "kserve-grpc", "--url", f"127.0.0.1:{ports.grpc}"]
    command += ["--interval", f"{WINDOW}s", "--output", "json", *case.ours]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OVMS_")}
    text, cpu = run(command, environment, lambda: sent(case.model, ports.rest))
    (level,) = json.loads(text)["levels"]
    return Found(level["rate"], level["latency_us"]["p50"] / 1e3, cpu * 1e6)


def theirs(tool, case, ports, folder):
    """A run of perf_analyzer."""
    program, libraries = tool
    output = Path(folder) / "perf_analyzer.csv"
    output.unlink(missing_ok=True)
    command = [str(program), "-m", case.model, "-i", "grpc", "-u", f"127.0.0.1:{ports.grpc}", "-f", str(output)]
    command += ["--measurement-interval", str(round(WINDOW * 1000)), "--percentile", "50", *case.theirs]
    # By itself it ends with an error on a machine where three windows in a row differ by more than a tenth.
    command += ["--stability-percentage", "30"]
    libraries = os.pathsep.join(map(str, libraries))
    _, cpu = run(command, os.environ | {"LD_LIBRARY_PATH": libraries}, lambda: sent(case.model, ports.rest))
    load = clients.parse_perf_analyzer(output.read_text())
    return Found(load.rate, load.p50, cpu * 1e6)


def compare(case, pairs, one, other):
    """The medians of both, and those of the ratios of pairs, as a row of the table."""
    found = []
    for turn in range(pairs):
        order = [one, other] if turn % 2 == 0 else [other, one]
        done = {side: side() for side in order}
        found.append((done[one], done[other]))
    cells = [f"`{case.model}`", case.words]
    for field, digits in (("rate", 4), ("p50", 4), ("cpu", 3)):
        values = [(getattr(left, field), getattr(right, field)) for left, right in found]
        left, right = (statistics.median(side) for side in zip(*values, strict=True))
        ratios = sorted(mine / its for mine, its in values)
        cells += [f"{left:.{digits}g}", f"{right:.{digits}g}", f"{statistics.median(ratios):.3f}"]
    return "| " + " | ".join(cells) + " |"


HEAD = """| model | load | ovms, requests/s | perf_analyzer | ratio | ovms, p50 ms | perf_analyzer | ratio | ovms, CPU µs a request | perf_analyzer | ratio |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|
"""


def write(path, table):
    """Puts the table in its place on a page."""
    text = path.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    path.write_text(text[:begin] + table + text[end:])


def main():
    """Measures all loads, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--installed", type=Path, default=ROOT / "target/peers")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    program = given.program.resolve()
    tool = Tools(program, given.installed, {}).perf_analyzer()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            with serving(program, case, Path(folder)) as ports:
                rows.append(
                    compare(
                        case,
                        given.pairs,
                        lambda: ours(program, case, ports, folder),
                        lambda: theirs(tool, case, ports, folder),
                    )
                )
            print(rows[-1], flush=True)
    if given.write:
        write(given.write, HEAD + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
