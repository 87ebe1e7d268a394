"""Counts what requests cost, and holds it against the figures that are stored.

    python compare.py [--update | --build]

Exits 1 if a request takes over 3 % more instructions or allocations than `figures.json` says,
which `--update` writes. Where valgrind is missing, or the figures were taken with another compiler or
another system library, it says so and exits 0. `--build` only builds what is run then.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STORED = HERE / "figures.json"
LIMIT = 0.03
FIGURES = ("instructions", "allocations")
# What the runtime does within an inference is no part of the request path, nor is the code that it makes as it
# goes, which is of no library.
RUNTIME = re.compile(r"/lib(openvino|tbb|hwloc)[^/]*$|^[?]+$")
# The files of one benchmark: one for each thread and process.
FILE = re.compile(r"^callgrind\.requests\.(\w+)\.(?!.*\b(old|log)\b)")


class Failed(Exception):
    """The figures cannot be measured."""


def check(stored, now):
    """Hold figures against those that are stored: what has grown, and what else there is to report."""
    grown, notices = [], []
    for name, figures in now.items():
        before = stored.get(name)
        if before is None:
            grown.append(f"{name}: no figures are stored")
            continue
        for kind in FIGURES:
            if kind not in before:
                grown.append(f"{name}: {kind} are not stored")
                continue
            old, new = before[kind], figures[kind]
            if new > old * (1 + LIMIT):
                grown.append(f"{name}: {kind} have grown from {old} to {new} a request ({change(old, new)})")
            elif new < old * (1 - LIMIT):
                notices.append(f"{name}: {kind} have fallen from {old} to {new} a request ({change(old, new)})")
    for name in stored:
        if name not in now:
            grown.append(f"{name}: figures are stored, and nothing was counted")
    return grown, notices


def change(old, new):
    """How far a figure went, in percent."""
    if old == 0:
        return "0.0 %" if new == 0 else "new"
    return f"{(new / old - 1) * 100:+.1f} %"


def other(stored, made):
    """Whether figures were taken with something else than there is: the notice then, or None."""
    differ = [f"{key} {stored.get(key)}, here {value}" for key, value in made.items() if stored.get(key) != value]
    if not differ:
        return None
    return (
        f"NOTICE: the guard compares nothing: its figures were taken with {'; '.join(differ)}. "
        "`make guard-update` on a tree without changes takes them again"
    )


def table(stored, now):
    """The figures beside each other."""
    rows = []
    for name, figures in now.items():
        row = [name]
        for kind in FIGURES:
            old, new = stored.get(name, {}).get(kind), figures[kind]
            row += ["—" if old is None else f"{old:,}", "→", f"{new:,}", "" if old is None else change(old, new)]
        rows.append(row)
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    group = sum(widths[1:5]) + 6
    heads = [f"{kind}: stored → now".rjust(group) for kind in FIGURES]
    lines = [f"{'a request':{widths[0]}}  {heads[0]}  {heads[1].strip()}"]
    for row in rows:
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def report(stored, now):
    """Print how it went; the exit code."""
    print(table(stored, now))
    grown, notices = check(stored, now)
    for notice in notices:
        print(f"NOTICE: {notice}")
    if notices:
        print("`make guard-update` stores what has fallen, so that it stays.")
    if not grown:
        return 0
    for line in grown:
        print(f"FAILED: {line}", file=sys.stderr)
    print(
        f"A request costs more than {LIMIT:.0%} beyond what benches/guard/figures.json says. If that is meant "
        "to be: `make guard-update` writes the figures; commit them with the change, and say in the commit's "
        "message why they grew.",
        file=sys.stderr,
    )
    return 1


def output(*command):
    """What a command says, or a reason why it says nothing."""
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise Failed(str(error)) from error


def valgrind():
    """The program, of the system or of the tests' tools; None if it is missing or does not start."""
    for place in (shutil.which("valgrind"), str(ROOT / "target/tools/bin/valgrind")):
        if place and Path(place).exists():
            return place
    return None


def openvino():
    """The version of the runtime."""
    folder = Path(os.environ.get("OPENVINO_INSTALL_DIR", ROOT / ".venv"))
    for place in sorted(folder.glob("**/openvino-*.dist-info")):
        return place.name.removeprefix("openvino-").removesuffix(".dist-info")
    return "unknown"


def made_with(program):
    """What the figures depend on, besides the code."""
    return {
        "rustc": output("rustc", "--version"),
        "openvino": openvino(),
        "valgrind": output(program, "--version"),
        "libc": "-".join(platform.libc_ver()),
    }


def build():
    """The command that builds the benchmarks, and its environment."""
    environment = dict(os.environ)
    environment.setdefault("OPENVINO_INSTALL_DIR", str(ROOT / ".venv"))
    # In one piece, as a release is, and not for the next build after a change.
    environment["CARGO_INCREMENTAL"] = "0"
    # What the library depends on is that of the tests, with the features that all members together ask for; the
    # library itself is as in a release.
    settings = ("opt-level=3", "debug-assertions=false", "overflow-checks=false")
    release = [word for it in settings for word in ("--config", f"profile.dev.package.ovms-engine.{it}")]
    return ["cargo", "bench", "--locked", "--profile", "dev", "--bench", "guard", *release], environment


def count(program):
    """Run the benchmarks: figures of one request, by name."""
    command, environment = build()
    counted = int(re.search(r"const COUNTED: usize = (\d+);", (HERE / "main.rs").read_text())[1])
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as allocations:
        environment |= {
            # Not through PATH: build scripts run again when that changes.
            "GUNGRAUN_RUNNER": str(ROOT / "target/guard-runner/bin/gungraun-runner"),
            "GUNGRAUN_HOME": home,
            "GUARD_ALLOCATIONS": allocations,
            "GUNGRAUN_VALGRIND_BIN": program,
        }
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(f"{done.stdout}{done.stderr}\n{' '.join(command)} has failed")
        instructions = {}
        for path in sorted(Path(home).rglob("callgrind.*")):
            if match := FILE.match(path.name):
                of_thread = instructions_of(path.read_text())
                instructions[match[1]] = instructions.get(match[1], 0) + of_thread
        if not instructions:
            names = sorted(str(path.relative_to(home)) for path in Path(home).rglob("*"))
            raise Failed(f"{done.stdout}no profiles among {names[:40]}")
        return {
            name: {
                "instructions": round(instructions[name] / counted),
                "allocations": round(int((Path(allocations) / name).read_text()) / counted),
            }
            for name in sorted(instructions)
        }


def instructions_of(profile):
    """What was counted of a thread, but for the runtime (the manual of callgrind, "Callgrind Format")."""
    names = {}
    # The library of what follows.
    library = ""
    instructions = 0
    is_call = False
    for line in profile.splitlines():
        if match := re.match(r"^(c?)ob=(?:\((\d+)\) ?)?(.*)$", line):
            called, number, name = match.groups()
            # Names may be numbered, and are then given once.
            name = names.setdefault(number, name) if number else name
            if not called:
                library = name
        elif line.startswith("calls="):
            is_call = True
        elif re.match(r"^[+*\-\d]", line):
            # The line after a call is what the call cost, which is counted where it was spent.
            if not is_call and not RUNTIME.search(library):
                instructions += int(line.split()[1])
            is_call = False
    return instructions


def main(arguments):
    """Count, and compare or store."""
    update = arguments == ["--update"]
    program = valgrind()
    if program is None:
        print("NOTICE: the guard is skipped: valgrind is missing (apt-get install valgrind)")
        return 0
    stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    try:
        made = made_with(program)
        if not update and (notice := other(stored.get("made_with", {}), made)):
            print(notice)
            return 0
        if arguments == ["--build"]:
            command, environment = build()
            return subprocess.run([*command, "--no-run"], cwd=ROOT, env=environment).returncode
        now = count(program)
    except Failed as error:
        print(error, file=sys.stderr)
        return 1
    if update:
        print(table(stored.get("requests", {}), now))
        STORED.write_text(json.dumps({"made_with": made, "requests": now}, indent=2) + "\n")
        return 0
    return report(stored.get("requests", {}), now)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
