"""Runs the fuzzer over each target, one after the other, and says how far it came.

New inputs go to target/fuzz/corpus/TARGET; an input that fails goes to target/fuzz/failures, and its command is shown. With --keep, what
reaches more than the corpus of the tree, and is small, is copied to fuzz/corpus.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "fuzz" / "corpus"
WORK = ROOT / "target" / "fuzz"

# Most inputs that are kept for a target beside its seeds, and most bytes of one.
MOST, LONGEST = 24, 1024


def libfuzzer(program, target, *arguments):
    """Run the fuzzer; its exit code and what it says."""
    environment = {**os.environ, "FUZZ_TARGET": target, "RUST_BACKTRACE": "1"}
    done = subprocess.run(
        [program, *map(str, arguments)], env=environment, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    return done.returncode, done.stderr


def number(pattern, text):
    """The last number that a pattern finds, or 0."""
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def fuzz(program, target, seconds, runs, longest):
    """Fuzz one target; whether all inputs passed."""
    work, failures = WORK / "corpus" / target, WORK / "failures"
    work.mkdir(parents=True, exist_ok=True)
    failures.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    code, text = libfuzzer(
        program,
        target,
        f"-max_total_time={seconds}",
        f"-runs={runs}",
        f"-max_len={longest}",
        "-timeout=25",
        "-rss_limit_mb=4096",
        "-print_final_stats=1",
        f"-artifact_prefix={failures}/{target}-",
        work,
        CORPUS / target,
    )
    took = time.monotonic() - begun
    runs = number(r"stat::number_of_executed_units: (\d+)", text)
    cover = number(r"cov: (\d+)", text)
    kept = number(r"corp: (\d+)", text)
    print(f"| `{target}` | {runs:,} | {took:.0f} | {runs / max(took, 1):,.0f} | {cover:,} | {kept:,} |", flush=True)
    if code != 0:
        print(text[-6000:], file=sys.stderr)
        for path in sorted(failures.glob(f"{target}-*")):
            print(f"again: FUZZ_TARGET={target} {program} {path}", file=sys.stderr)
    return code == 0


def keep(program, target):
    """Copy the inputs that reach something that those of the tree do not."""
    work = WORK / "corpus" / target
    if not work.is_dir():
        return
    with tempfile.TemporaryDirectory() as merged:
        libfuzzer(program, target, "-merge=1", f"-max_len={LONGEST}", merged, CORPUS / target, work)
        known = {path.read_bytes() for path in (CORPUS / target).iterdir()}
        found = [path for path in Path(merged).iterdir() if path.read_bytes() not in known]
        found = [path for path in found if path.stat().st_size <= LONGEST]
        # The smallest say the most for their bytes.
        for path in sorted(found, key=lambda path: (path.stat().st_size, path.name))[:MOST]:
            (CORPUS / target / f"found-{path.name[:12]}").write_bytes(path.read_bytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help="names of folders in fuzz/corpus; all if there are none")
    parser.add_argument("--program", required=True, type=Path, help="the fuzzer that `make fuzz` builds")
    parser.add_argument("--seconds", type=int, default=60, help="at most, for each target")
    parser.add_argument("--runs", type=int, default=-1, help="inputs for each target, unless the time ends before")
    parser.add_argument("--longest", type=int, default=4096, help="most bytes of an input")
    parser.add_argument("--keep", action="store_true", help="copy what was found to fuzz/corpus")
    options = parser.parse_args()
    known = sorted(path.name for path in CORPUS.iterdir())
    targets = options.targets or known
    strangers = sorted(set(targets) - set(known))
    if strangers:
        parser.error(f"there is no target {', '.join(strangers)}; the targets are {', '.join(known)}")
    program = options.program.resolve()
    print("| target | inputs | s | inputs/s | branches | corpus |\n|---|--:|--:|--:|--:|--:|", flush=True)
    passed = [fuzz(program, target, options.seconds, options.runs, options.longest) for target in targets]
    if options.keep:
        for target in targets:
            keep(program, target)
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
