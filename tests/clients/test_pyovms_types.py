"""Type checkers that others wrote, with the stub of `pyovms` as `ovms graph stubs` installs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PROGRAM

# The scripts of both are beside the interpreter.
BIN = Path(sys.executable).parent
CHECKERS = {
    "mypy": [BIN / "mypy", "--strict", "--cache-dir", os.devnull],
    "pyright": [BIN / "basedpyright", "--level", "error", "--pythonpath", sys.executable],
}

HANDLER = '''
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy

import pyovms
from pyovms import Tensor

if TYPE_CHECKING:
    from pyovms import Arguments, Model


class OvmsPythonModel:
    def initialize(self, kwargs: Arguments) -> None:
        self.output: str = kwargs["output_names"][0]

    def execute(self, inputs: list[Tensor]) -> list[Tensor]:
        texts = [text.upper() for text in inputs[0].texts()]
        empty = pyovms.empty("zeros", [1, 10], "FP32")
        numpy.asarray(empty)[:] = 0
        headers: dict[str, str] = pyovms.trace_context()
        texts += headers.values()
        images: list[bytes] = inputs[0].elements()
        first: int = inputs[0].shape[0] + inputs[0].size + len(memoryview(inputs[0]))
        outputs = [Tensor(self.output, texts), Tensor("bytes", images), empty]
        return [*outputs, Tensor("count", bytes(first), shape=(first,), datatype="UINT8")]


class Generator:
    def execute(self, inputs: list[Tensor]) -> Iterator[list[Tensor]]:
        yield [Tensor("array", numpy.zeros(3)), Tensor("same", inputs[0])]


models: list[Model] = [OvmsPythonModel(), Generator()]
'''

# Each of these lines is an error.
MISTAKES = [
    'Tensor("a", ["text", 1])',
    'Tensor("a", 1.5)',
    'pyovms.empty("a", 3, "FP32")',
    "pyovms.trace_context()[0]",
    "Tensor('a', b'').elements().decode()",
    "models[0].execute([b'no tensor'])",
    "models.append(Tensor('a', b''))",
    "pyovms.missing",
]


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A folder with the package."""
    folder = tmp_path_factory.mktemp("packages")
    subprocess.run([PROGRAM, "graph", "stubs", "--into", folder], check=True, capture_output=True)
    return folder


def check(checker, folder, packages, text):
    """Check a file; gives the exit code, and what is said."""
    (folder / "handler.py").write_text(text)
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(packages)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    ended = subprocess.run(
        [*CHECKERS[checker], "handler.py"],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(packages)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_handler_passes(checker, tmp_path, packages):
    code, said = check(checker, tmp_path, packages, HANDLER)
    assert code == 0, said


@pytest.mark.parametrize("checker", CHECKERS)
def test_mistakes_are_found(checker, tmp_path, packages):
    code, said = check(checker, tmp_path, packages, HANDLER + "\n".join(MISTAKES))
    assert code == 1, said
    first = HANDLER.count("\n") + 1
    for line in range(first, first + len(MISTAKES)):
        assert f"handler.py:{line}:" in said, said


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_new_graph_passes(checker, tmp_path, packages):
    new = [PROGRAM, "graph", "new", "g", "-i", "text:BYTES", "--output-name", "loud:BYTES"]
    subprocess.run(new, check=True, capture_output=True, cwd=tmp_path)
    code, said = check(checker, tmp_path, packages, (tmp_path / "g/model.py").read_text())
    assert code == 0, said


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_new_node_of_a_pipeline_and_its_test_pass(checker, tmp_path, packages):
    new = [PROGRAM, "pipeline", "new", "--python-node", "scale"]
    subprocess.run(new, check=True, capture_output=True, cwd=tmp_path)
    for file in ("scale.py", "test_scale.py"):
        code, said = check(checker, tmp_path, packages, (tmp_path / "scale" / file).read_text())
        assert code == 0, said


@pytest.mark.parametrize("checker", CHECKERS)
def test_the_stub_itself_passes(checker, packages):
    ended = subprocess.run(
        [*CHECKERS[checker], packages / "pyovms/__init__.pyi"], capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
