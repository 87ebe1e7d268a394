"""The module `pyovms` in Python alone follows the same rules as the one in the server."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLAIN = ROOT / "src" / "python" / "plain"


def rules():
    sys.path.insert(0, str(PLAIN))
    try:
        spec = importlib.util.spec_from_file_location(
            "tensor_rules", Path(__file__).with_name("tensor_rules.py")
        )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert Path(sys.modules["pyovms"].__file__).parent == PLAIN
        return module.RULES
    finally:
        sys.path.remove(str(PLAIN))


@pytest.mark.parametrize("rule", rules().values(), ids=rules())
def test_rule(rule):
    rule()


def test_a_plain_interpreter_imports_it():
    code = "import pyovms; t = pyovms.Tensor('a', b'bc'); print(bytes(t), memoryview(t).shape)"
    ended = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(PLAIN)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "b'bc' (2,)\n"
