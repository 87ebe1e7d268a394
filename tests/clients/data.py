"""One row for each datatype: values that its fixture model gives back.

The CPU plugin computes in 32 bits: 64-bit types have values that fit.
"""

from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass
class Row:
    """A datatype, its values, and the message field that carries them."""

    name: str
    values: np.ndarray
    field: str | None

    @property
    def model(self):
        """The fixture model that gives back what it gets."""
        names = {"INT": "i", "UINT": "u", "FP": "f", "BF": "bf"}
        if self.name == "BOOL":
            return "passthrough_boolean"
        letters = self.name.rstrip("0123456789")
        return f"passthrough_{names[letters]}{self.name[len(letters):]}"


def row(name, dtype, values, field):
    """A row of one line of values."""
    return Row(name, np.array([values], dtype), field)


I32 = np.iinfo(np.int32)
ROWS = [
    row("BOOL", bool, [True, False, True], "bool_contents"),
    row("INT8", np.int8, [-128, 0, 127], "int_contents"),
    row("INT16", np.int16, [-32768, 0, 32767], "int_contents"),
    row("INT32", np.int32, [I32.min, 0, I32.max], "int_contents"),
    row("INT64", np.int64, [I32.min, 0, I32.max], "int64_contents"),
    row("UINT8", np.uint8, [0, 1, 255], "uint_contents"),
    row("UINT16", np.uint16, [0, 1, 65535], "uint_contents"),
    row("UINT32", np.uint32, [0, 1, 4294967295], "uint_contents"),
    row("UINT64", np.uint64, [0, 1, I32.max], "uint64_contents"),
    row("FP16", np.float16, [-0.5, 0.1, 65504], None),
    row("FP32", np.float32, [-0.5, 0.1, 3e38], "fp32_contents"),
    row("FP64", np.float64, [-0.5, 0.25, 65536], "fp64_contents"),
    row("BF16", ml_dtypes.bfloat16, [-0.5, 0.1, 2.0**127], None),
]


def ids(item):
    """The name of a row in the names of tests."""
    return item.name
