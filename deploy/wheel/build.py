#!/usr/bin/env python3
"""Builds the wheel: the program, the package `pyovms`, completions, and manual pages.

Both compiled parts are linked by zig against the C library of manylinux_2_28, and audited for it. The wheel is for any
Python from 3.11 on, since the module has the stable interface and the program links none.

    build.py OUT      with the packages of requirements.txt in the environment of this interpreter
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "target/wheel"
PLATFORM = "manylinux_2_28"
TRIPLE = "x86_64-unknown-linux-gnu"
# What PyPI takes is more; this is what a first `pip install` should wait for.
MAX_BYTES = 20_000_000


def run(*command: str | Path, folder: Path = ROOT, **environment: str) -> None:
    """Runs a command, at the top of the tree by default, with the programs of this interpreter's environment in front."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, **environment}
    subprocess.run([str(part) for part in command], cwd=folder, check=True, env=variables)


def build_module() -> Path:
    """Returns the compiled module of the package, for the stable interface of Python 3.11."""
    target = WORK / "module"
    run(
        "cargo-zigbuild", "rustc", "--release", "--locked", "--package", "pyovms", "--features", "extension",
        "--crate-type", "cdylib", "--target", f"{TRIPLE}.{PLATFORM.removeprefix('manylinux_').replace('_', '.')}",
        "--target-dir", target, "--", "-C", "strip=symbols",
        PYO3_NO_PYTHON="1",
    )  # fmt: skip
    return target / TRIPLE / "release/libpyovms.so"


def stage_package(module: Path) -> None:
    """Puts the package together, as the program carries it."""
    package = WORK / "python/pyovms"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(ROOT / "pyovms/python/pyovms", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(module, package / "_pyovms.abi3.so")


def stage_data(program: Path | None) -> None:
    """Puts completions and, with a program that writes them, manual pages where shells and man look below a prefix."""
    share = WORK / "data/data/share"
    shutil.rmtree(share, ignore_errors=True)
    places = {
        "ovms.bash": "bash-completion/completions/ovms",
        "_ovms": "zsh/site-functions/_ovms",
        "ovms.fish": "fish/vendor_completions.d/ovms.fish",
    }
    for name, place in places.items():
        (share / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "completions" / name, share / place)
    if program:
        run(program, "man", "--dir", share / "man/man1")


def pack(module: Path, out: Path) -> Path:
    """Returns the wheel with what is staged. The program is compiled by the first call."""
    run(
        "maturin", "build", "--release", "--locked", "--zig", "--compatibility", PLATFORM, "--target", TRIPLE,
        "--target-dir", WORK / "program", "--out", out,
        folder=ROOT / "deploy/wheel", OVMS_PYTHON_MODULE=str(module),
    )  # fmt: skip
    [wheel] = out.glob("ovms-*.whl")
    return wheel


def audit(wheel: Path) -> None:
    """Ends with an error if the program or the module needs a newer system than the wheel says."""
    auditwheel = Path(sys.executable).parent / "auditwheel"
    shown = subprocess.run([auditwheel, "show", wheel], check=True, capture_output=True, text=True).stdout
    print(shown.strip())
    found = platform(shown)
    if found is None or found > platform(f'"{PLATFORM}_"'):
        sys.exit(f"the wheel is for {PLATFORM}, and what is in it for {found or 'no platform that auditwheel names'}")


def platform(text: str) -> tuple[int, ...] | None:
    """Returns the version of the C library of the platform tag that a report of auditwheel names."""
    found = re.search(r'"manylinux_(\d+)_(\d+)_', " ".join(text.split()))
    return tuple(int(number) for number in found.groups()) if found else None


def main() -> None:
    out = Path(sys.argv[1]).absolute()
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("ovms-*.whl"):
        old.unlink()
    module = build_module()
    stage_package(module)
    stage_data(None)
    pack(module, out)
    stage_data(WORK / "program" / TRIPLE / "release/ovms")
    wheel = pack(module, out)
    audit(wheel)
    size = wheel.stat().st_size
    print(f"{wheel.relative_to(ROOT) if wheel.is_relative_to(ROOT) else wheel}: {size / 1e6:.1f} MB")
    if size > MAX_BYTES:
        sys.exit(f"the wheel is larger than {MAX_BYTES / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
