"""The soak: everything at once on one server, for an hour, with changes and failures; answers are right, and memory flat.

    python soak.py --seconds 3600 --chaos 600 --json soak.json

Requests over all APIs, batches, shared memory, Unix sockets, sequences, pipelines, Python graphs, and streams go on while models and graphs are loaded anew, a
model file is broken and fixed, Python workers are killed, and clients send what is wrong or leave. Beside that, for
the first part of the time, tests/chaos runs. It ends with 1 if an answer was wrong, a request failed that had no reason
to, or the memory of the server and its workers grew by more than the limit after the first sixth of the time.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from served import ROOT, Served  # noqa: I001  Its path is that of the chaos test, too.
from mixed import Mixed
from engines import Process, ended
from load import Client, Load, right_answers
from run import FIGURES

# Windows that memory is looked at in: the median of each, so that what is in flight at a moment does not count.
WINDOWS = 12
# Windows of the warm-up: caches fill, and every kind of request has been there.
WARM = WINDOWS // 6
# Sequences at once, and steps a second of all of them.
LIVE, RATE = 40, 40
# Samples of memory in all, and the seconds between two at least: each takes time of the processor from what is measured.
SAMPLES, PAUSE = 600, 0.5


def growth(samples, seconds):
    """The medians of memory in each window in MB, and by which share of the first after the warm-up the largest is more."""
    windows = [[] for _ in range(WINDOWS)]
    for at, server, workers, _ in samples:
        windows[min(int(at / seconds * WINDOWS), WINDOWS - 1)].append(server + workers)
    medians = [round(statistics.median(window), 1) for window in windows if window]
    rest = medians[WARM:]
    return medians, max(rest) / rest[0] - 1 if rest else 0.0


class Soak:
    """One run."""

    def __init__(self, folder, options):
        self.folder, self.options, self.samples = folder, options, []

    async def run(self):
        """Start everything, wait, and end it; gives the report."""
        options = self.options
        self.served = await Served(self.folder).start()
        client = Client(self.served.port, self.served.rest_port)
        table = await right_answers(client)
        self.sequences = Load(client, table, LIVE, RATE, options.seed)
        self.mixed = Mixed(self.served, options.seed, options.pace)
        chaos = self.chaos()
        await self.watch()
        await self.mixed.end()
        await self.sequences.end()
        await client.close()
        lacks = await self.served.lacks()
        await self.served.close()
        wrong, self.figures = await self.end_of(chaos)
        return self.report(lacks + wrong)

    def chaos(self):
        """Start the chaos test, if there is time for it."""
        if not self.options.chaos:
            return None
        command = [sys.executable, str(ROOT / "tests/chaos/run.py"), "chaos"]
        command += ["--seconds", str(self.options.chaos), "--seed", str(self.options.seed), "--live", "300", "--rate", "100"]
        return Process("chaos", self.folder, *command)

    async def end_of(self, chaos):
        """Wait for the end of the chaos test; gives what is wrong with it, and its figures."""
        if chaos is None:
            return [], ""
        code = await asyncio.to_thread(chaos.popen.wait, 120)
        lines = [line for line in chaos.tail().splitlines() if line.startswith(FIGURES)]
        figures = "".join(lines).removeprefix(FIGURES)
        return [] if code == 0 else [f"chaos ended with {code}: {chaos.tail()}"], figures

    async def watch(self):
        """Take memory at times, until the time is over."""
        begun, seconds = time.monotonic(), self.options.seconds
        shown = begun
        while (now := time.monotonic()) - begun < seconds:
            assert self.served.process.popen.poll() is None, f"the server has ended: {self.served.process.tail()}"
            self.samples.append((round(now - begun, 1), *self.served.memory(), self.served.files()))
            if now - shown > 60:
                shown = now
                self.progress()
            await asyncio.sleep(min(max(seconds / SAMPLES, PAUSE), seconds + begun - now))

    def progress(self):
        """A line about how it goes."""
        at, server, workers, files = self.samples[-1]
        kinds = self.mixed.kinds.values()
        done, failed = sum(kind.done for kind in kinds), sum(kind.failed for kind in kinds)
        steps = len(self.sequences.steps)
        print(f"{at:7.1f} s: {done} done, {failed} failed, {steps} steps; {server:.1f} + {workers:.1f} MB, {files} files", flush=True)

    def report(self, others):
        """What was done, what came of it, and what is wrong."""
        options, load = self.options, self.sequences
        kinds = {name: kind.report() for name, kind in self.mixed.kinds.items()}
        errors = [f"{name}: {error}" for name, kind in kinds.items() for error in kind["errors"]]
        errors += [f"{name}: nothing was done" for name, kind in kinds.items() if not kind["done"]]
        bad = {name: getattr(load, name) for name in ("wrong", "lost", "refused", "failures")}
        errors += [f"sequences, {name}: {each.error}" for name, found in bad.items() for each in found[:20]]
        errors += others
        medians, grown = growth(self.samples, options.seconds)
        if grown > options.memory / 100:
            errors.append(f"memory grew by {grown:.1%}, more than {options.memory} %: {medians} MB")
        sequences = {"sequences": load.counts["sequences"], "steps": len(load.steps)}
        sequences |= {name: len(found) for name, found in bad.items()}
        memory = {"windows_mb": medians, "growth": round(grown, 4), "limit": options.memory / 100}
        memory |= {"samples": [dict(zip(("at", "server_mb", "workers_mb", "files"), sample)) for sample in self.samples]}
        head = {"seconds": options.seconds, "seed": options.seed, "passed": not errors, "errors": errors}
        return head | {"kinds": kinds, "sequences": sequences, "chaos": self.figures, "memory": memory}


async def interruptible(work):
    """Do some work. An interrupt may reach what was started as well, whose end is then no error."""
    try:
        return await work
    except Exception:
        if asyncio.current_task().cancelling():
            raise asyncio.CancelledError from None
        raise


def show(report):
    """The report for people."""
    print(f"\n{'kind':16} {'done':>8} {'failed':>7} {'p50 ms':>8} {'p99 ms':>9} {'longest':>9}")
    for name, kind in report["kinds"].items():
        times = f"{kind['p50_ms']:8.1f} {kind['p99_ms']:9.1f} {kind['longest_ms']:9.1f}"
        print(f"{name:16} {kind['done']:8} {kind['failed']:7} {times}")
    print("sequences:", ", ".join(f"{value} {name}" for name, value in report["sequences"].items()))
    if report["chaos"]:
        print(f"chaos: {report['chaos']}")
    memory = report["memory"]
    print(f"memory, MB: {memory['windows_mb']}; grew by {memory['growth']:.1%} at most after the first sixth")
    for error in report["errors"]:
        print(f"  ERROR {error}")
    print("passed" if report["passed"] else f"{len(report['errors'])} errors")


def main():
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600, help="how long it lasts")
    parser.add_argument("--chaos", type=float, default=0, help="how long the chaos test runs beside it, in seconds")
    parser.add_argument("--pace", type=float, default=1, help="how many times longer the pauses between good requests are")
    parser.add_argument("--memory", type=float, default=3, help="by how many percent memory may grow")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--json", type=Path, help="where the report goes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ovms-soak-") as folder, ended():
        print(f"soak, {options.seconds:.0f} s, seed {options.seed}", flush=True)
        try:
            report = asyncio.run(interruptible(Soak(Path(folder), options).run()))
        except KeyboardInterrupt:
            sys.exit(130)
    show(report)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(not report["passed"])


if __name__ == "__main__":
    main()
