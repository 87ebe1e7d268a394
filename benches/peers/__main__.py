"""The command line of the comparison; `make bench-peers` installs what it needs and calls it.

    PYTHONPATH=benches .venv/bin/python -m peers --program target/release/ovms
"""

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from . import table
from .clients import LoadError
from .measure import BASE, Plan, measure
from .servers import ROOT, SERVERS, StartError, Tools
from .wires import Model

MODELS = [
    Model("dummy", "fixtures/models/dummy", "b", (1, 10), "a", output_shape=(1, 10)),
    Model("fullsize", "fixtures/models/fullsize", "image", (1, 3, 224, 224), "mean", output_shape=(1, 3)),
    # JSON would measure the texts of 150,000 numbers twice.
    Model(
        "resnet50",
        "target/bench-models/resnet50",
        "image",
        (1, 3, 224, 224),
        "scores",
        wires=("grpc", "binary"),
        output_shape=(1, 1000),
        with_perf_analyzer=False,
    ),
]
PACKAGES = {"triton": "nvidia-pytriton", "mlserver": "mlserver", "kserve": "kserve"}


def names(text):
    """A list of names with commas, ovms among them in any case."""
    wanted = [name for name in text.replace(",", " ").split() if name]
    unknown = set(wanted) - SERVERS.keys()
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(SERVERS)}")
    return tuple(name for name in SERVERS if name == BASE or not wanted or name in wanted)


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(prog="peers", description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/ovms")
    parser.add_argument("--installed", type=Path, default=ROOT / "target/peers")
    parser.add_argument("--peers", type=names, default=names(""), help="some of them, with commas")
    parser.add_argument("--models", default="", help="some of them, with commas")
    parser.add_argument("--seconds", type=float, default=1.2, help="length of a turn")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each server")
    parser.add_argument("--json", type=Path, help="a file for the figures of each turn")
    parser.add_argument("--write", type=Path, help="the page whose blocks are replaced")
    return parser.parse_args()


def machine():
    """The processor, and how many of them."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{model or platform.machine()}, {os.cpu_count()} cores"


def first_line(command, environment=None):
    """The first line that a program says about itself."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return (done.stdout or done.stderr).strip().partition("\n")[0]


def versions(tools, servers):
    """The versions of servers and loads, of those that are there."""
    found = {BASE: first_line([tools.program, "--version"])}
    for name in servers:
        with contextlib.suppress(StartError, StopIteration):
            if name == "nginx":
                found[name] = first_line([tools.tool("nginx"), "-v"]).removeprefix("nginx version: ")
            elif name in PACKAGES:
                tools.python(name)
                path = [str(tools.packages(name))]
                package = next(importlib.metadata.distributions(name=PACKAGES[name], path=path))
                runtime = next(importlib.metadata.distributions(name="openvino", path=path))
                found[name] = f"{PACKAGES[name]} {package.version}, OpenVINO {runtime.version}"
                if tools.reported.get(name) not in (None, package.version):
                    found[name] += f", which says {tools.reported[name]}"
    with contextlib.suppress(StartError):
        found["h2load"] = first_line([tools.tool("h2load"), "--version"])
    with contextlib.suppress(StartError):
        program, libraries = tools.perf_analyzer()
        environment = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries))}
        found["perf_analyzer"] = first_line([program, "--version"], environment)
    return found


def main():
    """Measures, prints the tables, and writes them."""
    asked = arguments()
    wanted = asked.models.replace(",", " ").split()
    models = tuple(model for model in MODELS if not wanted or model.name in wanted)
    missing = [model.folder for model in models if not (ROOT / model.folder).is_dir()]
    if missing or not models:
        sys.exit(f"no such model: {', '.join(missing) or asked.models}; `make bench-peers` makes resnet50")
    file = asked.installed / "reasons.json"
    reasons = json.loads(file.read_text()) if file.exists() else {}
    tools = Tools(asked.program.absolute(), asked.installed.absolute(), reasons)
    # SIGTERM ends the servers too, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="ovms-peers-"))
    try:
        plan = Plan(
            asked.peers,
            models,
            asked.seconds,
            asked.rounds,
            tools,
            folder,
            say=lambda text: print(text, file=sys.stderr, flush=True),
        )
        cells, reasons = measure(plan)
        found = versions(tools, asked.peers)
    except (StartError, LoadError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    minutes = (time.monotonic() - began) / 60
    run = (
        f"{machine()}; {found[BASE]}; {found['h2load']}; {datetime.now(UTC):%Y-%m-%d}; medians of {asked.rounds} turns of "
        f"{asked.seconds:g} s, {minutes:.1f} minutes in all."
    )
    made = table.blocks(run, cells, asked.peers, found, reasons)
    for name, block in made.items():
        print(f"\n## {name}\n\n{block}")
    if asked.json:
        document = {"run": run, "versions": found, "reasons": reasons, "cells": [c.document() for c in cells]}
        asked.json.write_text(json.dumps(document, indent=1) + "\n")
    if asked.write:
        page = asked.write.read_text()
        for name, block in made.items():
            page = table.replaced(page, name, block)
        asked.write.write_text(page)


if __name__ == "__main__":
    main()
