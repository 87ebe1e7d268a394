"""A node of a pipeline that does what its params say, and writes what happens to it into a file."""

import os
import time
from array import array

from pyovms import Tensor


class OvmsPythonModel:
    def initialize(self, kwargs):
        self.name = kwargs["node_name"]
        self.outputs = kwargs["output_names"]
        self.params = kwargs["params"]
        self.log = os.path.join(kwargs["base_path"], "log")
        inputs = ",".join(kwargs["input_names"])
        outputs = ",".join(self.outputs)
        self.write(f"initialize {self.name} {inputs} {outputs} {sorted(self.params.items())}")
        if self.params["do"] == "fail":
            raise RuntimeError("it does not want to")

    def write(self, line):
        with open(self.log, "a") as file:
            file.write(line + "\n")

    def execute(self, inputs):
        return getattr(self, self.params["do"])(inputs)

    def finalize(self):
        self.write(f"finalize {self.name}")

    def scaled(self, tensor):
        factor = float(self.params.get("by", "1"))
        return array("f", [factor * it for it in array("f", bytes(tensor.data))])

    def scale(self, inputs):
        return [Tensor(self.outputs[0], self.scaled(inputs[0]), list(inputs[0].shape), "FP32")]

    def bytes_to_floats(self, inputs):
        floats = array("f", [float(it) for it in bytes(inputs[0].data)])
        return [Tensor(self.outputs[0], floats, list(inputs[0].shape), "FP32")]

    def tell(self, inputs):
        for tensor in inputs:
            self.write(f"{tensor.name} {tensor.datatype} {tensor.shape} {bytes(tensor.data)!r}")
        return self.scale(inputs)

    def same(self, inputs):
        return [Tensor(self.outputs[0], bytes(it.data), list(it.shape), it.datatype) for it in inputs]

    def wait(self, inputs):
        self.write("waiting")
        gate = os.path.join(os.path.dirname(self.log), "gate")
        while not os.path.exists(gate):
            time.sleep(0.01)
        return self.scale(inputs)

    def two(self, inputs):
        a, b = array("f", [1.0] * 10), array("f", [2.0] * 10)
        return [Tensor("b", b, [1, 10], "FP32"), Tensor("a", a, [1, 10], "FP32")]

    def broken(self, inputs):
        raise ValueError("no luck")

    def nothing(self, inputs):
        return None

    def lazy(self, inputs):
        yield self.scale(inputs)

    def numbers(self, inputs):
        return [1]

    def missing(self, inputs):
        return []

    def stranger(self, inputs):
        return [Tensor("stranger", b"1")]

    def twice(self, inputs):
        return self.scale(inputs) * 2

    def odd_type(self, inputs):
        return [Tensor(self.outputs[0], b"1234", [1], "COMPLEX")]

    def odd_size(self, inputs):
        return [Tensor(self.outputs[0], b"1234", [2], "FP32")]

    def odd_shape(self, inputs):
        return [Tensor(self.outputs[0], b"1234", [-1], "FP32")]

    def odd_strings(self, inputs):
        return [Tensor(self.outputs[0], b"\x09\0\0\0abc", [1], "BYTES")]

    def few_strings(self, inputs):
        return [Tensor(self.outputs[0], b"\x03\0\0\0abc", [2], "BYTES")]

    def wrong(self, inputs):
        return [Tensor(self.outputs[0], array("f", [1.0]), [1], "FP32")]
