"""The loads, which others wrote: h2load and perf_analyzer. Both are closed loops: a client has one request at a time."""

import csv
import math
import os
import re
import shutil
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import wires

LIMIT = 120.0  # seconds for one run
# Windows of perf_analyzer in a run: as many as it wants to have seen.
WINDOWS = 3


class LoadError(Exception):
    """A load that did not come to figures."""


@dataclass(frozen=True)
class Load:
    """Figures of one run: requests a second, and latencies in milliseconds."""

    count: int
    rate: float
    p50: float
    p99: float


def find(name, folder):
    """A program of the system, or one of a folder."""
    path = os.pathsep.join([str(folder), os.environ.get("PATH", ""), "/usr/sbin"])
    return shutil.which(name, path=path)


def percentile(values, share):
    """The smallest value that a share of all does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def parse_h2load(text, log, answer_bytes=None):
    """Reads what h2load says, and its log with a line for each request.

    A failure of gRPC is a status of 200 with trailers and without a message, which h2load takes for a success:
    with `answer_bytes` each answer must have as many.
    """
    match = re.search(r"^finished in [\d.]+(?:us|ms|s|m|h), ([\d.]+) req/s", text, re.MULTILINE)
    counts = re.search(r"^requests: (\d+) total, .* (\d+) succeeded, (\d+) failed", text, re.MULTILINE)
    data = re.search(r"^traffic: .*, \S+ \((\d+)\) data", text, re.MULTILINE)
    if not (match and counts and data):
        raise LoadError(f"h2load: {text.strip().splitlines()[-1] if text.strip() else 'no output'}")
    total, succeeded, failed = map(int, counts.groups())
    if failed or succeeded != total:
        raise LoadError(f"{total - succeeded} of {total} requests failed")
    if answer_bytes is not None and int(data[1]) != answer_bytes * total:
        raise LoadError(f"answers of {int(data[1]) / total:.1f} bytes, expected {answer_bytes}")
    lines = [line.split("\t") for line in log.splitlines()]
    if len(lines) != total or any(status != "200" for _, status, _ in lines):
        raise LoadError(f"h2load's log has {len(lines)} lines of {total}, or a status that is not 200")
    latencies = [int(micros) / 1000 for _, _, micros in lines]
    return Load(total, float(match[1]), statistics.median(latencies), percentile(latencies, 0.99))


class H2load:
    """h2load with the request of one model over one wire to one server."""

    def __init__(self, program, wire, model, ports, folder):
        sent = wires.request(wire, model)
        self.body = Path(folder) / f"{model.name}.{wire}"
        self.body.write_bytes(sent.body)
        port = ports.grpc if wire == "grpc" else ports.rest
        self.command = [program, "--threads=1", f"--data={self.body}"]
        if wire != "grpc":
            self.command.append("--h1")
        self.command += [f"--header={name}: {value}" for name, value in sent.headers.items()]
        self.url = f"http://127.0.0.1:{port}{sent.path}"
        self.log = Path(folder) / "h2load.log"

    def run(self, clients, count, answer_bytes=None):
        """Sends so many requests, and returns when all are answered."""
        self.log.unlink(missing_ok=True)
        counts = [f"--clients={clients}", f"--requests={count}", f"--log-file={self.log}"]
        text = _run([*self.command, *counts, self.url])
        log = self.log.read_text() if self.log.exists() else ""
        return parse_h2load(text, log, answer_bytes)

    def calibrate(self, clients, seconds, answer_bytes=None):
        """How many requests take so many seconds, found by sending some of them; a warm-up as well."""
        count, wanted = clients, clients
        while True:
            load = self.run(clients, count, answer_bytes)
            wanted = max(clients, round(load.rate * seconds))
            if count * 5 >= wanted:
                return wanted
            # What a new connection costs makes the first few slow.
            count = min(wanted // 4, count * 20)


def parse_perf_analyzer(text):
    """Reads the file that perf_analyzer writes: one line below the heads, latencies in microseconds."""
    rows = list(csv.DictReader(text.splitlines()))
    if len(rows) != 1:
        raise LoadError("perf_analyzer wrote no figures")
    row = rows[0]
    return Load(0, float(row["Inferences/Second"]), float(row["p50 latency"]) / 1000, float(row["p99 latency"]) / 1000)


def perf_analyzer(program, libraries, model, ports, clients, seconds, folder):
    """Runs perf_analyzer over gRPC, for so many seconds in all."""
    output = Path(folder) / "perf_analyzer.csv"
    output.unlink(missing_ok=True)
    command = [program, "-m", model.name, "-u", f"127.0.0.1:{ports.grpc}", "-i", "grpc", "--async"]
    command += ["--concurrency-range", clients, "--max-threads", 1, "-f", output]
    command += ["--measurement-interval", round(seconds * 1000 / WINDOWS)]
    # Any three windows do: turns in alternation say what varies.
    command += ["--max-trials", WINDOWS, "--stability-percentage", 1000000]
    _run(command, {"LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries))})
    if not output.exists():
        raise LoadError("perf_analyzer wrote no figures")
    return parse_perf_analyzer(output.read_text())


def _run(command, environment=None):
    command = [str(part) for part in command]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
        )
    except subprocess.TimeoutExpired:
        raise LoadError(f"no end within {LIMIT:.0f} s") from None
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise LoadError(f"{Path(command[0]).name}: {said[-1] if said else f'exit code {done.returncode}'}")
    return done.stdout
