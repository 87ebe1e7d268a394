"""The package `pyovms` in a plain interpreter: the same as in the server."""

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from conftest import PROGRAM

# Removed with the process.
INSTALLED = tempfile.TemporaryDirectory()
PLACE = Path(INSTALLED.name)


def rules():
    if not (PLACE / "pyovms").exists():
        subprocess.run(
            [PROGRAM, "graph", "stubs", "--into", PLACE], check=True, capture_output=True
        )
    sys.path.insert(0, str(PLACE))
    try:
        spec = importlib.util.spec_from_file_location(
            "tensor_rules", Path(__file__).with_name("tensor_rules.py")
        )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert Path(sys.modules["pyovms"].__file__).parent == PLACE / "pyovms"
        return module.RULES
    finally:
        sys.path.remove(str(PLACE))


@pytest.mark.parametrize("rule", rules().values(), ids=rules())
def test_rule(rule):
    rule()


def test_a_plain_interpreter_imports_it():
    code = """
import pyovms
t = pyovms.Tensor("a", b"bc")
print(bytes(t), memoryview(t).shape, pyovms.trace_context())
"""
    ended = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(PLACE)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "b'bc' (2,) {}\n"


def test_a_worker_that_has_died_costs_no_stranger_and_no_other_worker():
    code = """
import os, time
from pyovms import worker
begun, begins = os.pipe()
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os.close(begins)
    time.sleep(100)
os.close(begins)
os.read(begun, 1)
kill, asked = os.kill, []
def refuses(*call):
    asked.append(call)
    raise PermissionError
os.kill = os.killpg = refuses
now = time.monotonic()
# Its parent is no descendant.
print(worker.cleared(os.getpgid(os.getppid()), now - 1), asked)
print(worker.cleared(child, now + 60), worker.cleared(child, now - 1), len(asked))
worker.end()
print(len(asked))
os.kill = kill
worker.end()
print(worker.cleared(child, now + 60))
"""
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(PLACE)},
        capture_output=True,
        text=True,
        timeout=60,
        start_new_session=True,
    )
    assert ended.stdout == "True []\nFalse True 2\n3\nTrue\n", ended.stderr
