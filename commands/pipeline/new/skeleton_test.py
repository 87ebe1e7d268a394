"""Tests of the handler of the Python node `@NAME@`, without a server.

In this folder: python -m unittest

The module pyovms is part of the server. For tests, `ovms graph stubs`
puts one into the virtual environment.
"""

from __future__ import annotations

import importlib.util
import pathlib
import unittest
from array import array
from typing import Any

from pyovms import Tensor

FOLDER = pathlib.Path(__file__).resolve().parent


def load(params: dict[str, str]) -> Any:
    """Make the object of the handler, as the server does."""
    path = FOLDER / "@FILE@"
    spec = importlib.util.spec_from_file_location("handler", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    node = module.OvmsPythonModel()
    node.initialize(
        {
            "node_name": "@NAME@_node",
            "input_names": ["input"],
            "output_names": ["output"],
            "base_path": str(FOLDER),
            "params": params,
        }
    )
    return node


class HandlerTest(unittest.TestCase):
    def test_multiplies(self) -> None:
        node = load({"scale": "2"})
        sent = Tensor("input", array("f", [1, 2, -3, 0]), shape=(2, 2))
        (got,) = node.execute([sent])
        self.assertEqual(got.name, "output")
        self.assertEqual(got.shape, (2, 2))
        self.assertEqual(got.datatype, "FP32")
        self.assertEqual(list(array("f", bytes(got.data))), [2, 4, -6, 0])
        node.finalize()

    def test_refuses_other_types(self) -> None:
        wrong = Tensor("input", b"", shape=(0,), datatype="OTHER")
        with self.assertRaises(ValueError):
            load({}).execute([wrong])


if __name__ == "__main__":
    unittest.main()
