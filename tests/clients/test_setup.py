"""`ovms setup` from nothing to a server, with a real installation."""

import os
import subprocess

from conftest import PROGRAM

# What would lead to a runtime that is there already.
ELSEWHERE = ["OPENVINO_INSTALL_DIR", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH"]


def test_install(tmp_path):
    """The runtime is installed, works, and is found again."""
    env = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    command = [PROGRAM, "setup", "--dir", str(tmp_path / "runtime")]
    for verb in ("installed", "found"):
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert f" {verb} and working: {tmp_path}" in done.stdout
    python = str(tmp_path / "runtime/bin/python")
    listed = subprocess.check_output([python, "-m", "pip", "list", "--format=freeze"], text=True)
    names = {line.split("==")[0] for line in listed.split()}
    assert {"openvino", "numpy"} <= names <= {"openvino", "numpy", "pip", "setuptools"}
    # Without what is left out, which is telemetry.
    subprocess.run([python, "-c", "import numpy, openvino; openvino.Core()"], check=True, timeout=60)
    env["OPENVINO_INSTALL_DIR"] = str(tmp_path / "runtime")
    command = [PROGRAM, "serve", "--model_name=m", "--model_path=/nonexistent", "--port=1"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert f" from {tmp_path}" in done.stdout, done.stderr
