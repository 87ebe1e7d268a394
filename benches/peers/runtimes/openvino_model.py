"""A model on OpenVINO with the settings of ovms, for the servers that run Python."""

import json
import os

import numpy as np
import openvino


class OpenvinoModel:
    """One compiled model with one infer request: each of these servers runs one inference at a time."""

    def __init__(self):
        core = openvino.Core()
        properties = json.loads(os.environ["PEERS_PROPERTIES"])
        self.compiled = core.compile_model(os.environ["PEERS_MODEL"], "CPU", properties)
        self.request = self.compiled.create_infer_request()
        self.input = self.compiled.inputs[0]
        self.output = self.compiled.outputs[0]
        self.name = os.environ["PEERS_NAME"]

    def infer(self, tensor):
        """Runs an inference; the result is the caller's."""
        tensor = np.ascontiguousarray(tensor, np.float32)
        self.request.infer({0: openvino.Tensor(tensor, shared_memory=True)})
        return np.array(self.request.get_output_tensor(0).data)
