"""The Python node `@NAME@` of a pipeline.

As written by `ovms pipeline new --python-node` it multiplies every number of
its input by the parameter `scale` of the node. Change `execute` to what the
node is to do.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from pyovms import Tensor

if TYPE_CHECKING:
    from pyovms import PipelineArguments


class OvmsPythonModel:
    """One object of it serves all requests to a node, several at once."""

    def initialize(self, kwargs: PipelineArguments) -> None:
        """Run once, when the pipeline is loaded: the place to read files.

        kwargs has node_name, input_names, output_names, base_path, which is
        the folder of this file, and params: the texts of the node's `params`
        in the configuration file.
        """
        self.scale = float(kwargs["params"].get("scale", "1"))

    def execute(self, inputs: list[Tensor]) -> list[Tensor]:
        """Run for each request, or for each part behind a demultiplexer.

        Takes the node's inputs, sorted by name. Returns a list with a tensor
        for each of its outputs; a generator is refused, as a pipeline has one
        response.
        """
        (given,) = inputs
        if given.datatype != "FP32":
            # The text reaches the client.
            raise ValueError(
                f"{given.name}: expected FP32, got {given.datatype}"
            )
        # With NumPy: np.asarray(given) * np.float32(self.scale)
        numbers = array("f", bytes(given.data))
        scaled = array("f", (number * self.scale for number in numbers))
        return [Tensor("output", scaled, shape=given.shape)]

    def finalize(self) -> None:
        """Run once, when the pipeline is unloaded."""
