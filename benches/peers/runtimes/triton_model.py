"""Triton's model of the comparison, for its Python backend."""

import os
import sys

sys.path.insert(0, os.environ["PEERS_RUNTIMES"])
# The backend does not heed the variable for this.
sys.dont_write_bytecode = True

import triton_python_backend_utils as backend  # noqa: E402
from openvino_model import OpenvinoModel  # noqa: E402


class TritonPythonModel:
    """One instance, which the backend hands one request after the other."""

    def initialize(self, args):
        self.model = OpenvinoModel()

    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        tensor = backend.get_input_tensor_by_name(request, self.model.input.any_name)
        scores = self.model.infer(tensor.as_numpy())
        return backend.InferenceResponse([backend.Tensor(self.model.output.any_name, scores)])
