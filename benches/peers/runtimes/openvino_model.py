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
        self.tensor = self.request.get_input_tensor(0).data
        self.scores = self.request.get_output_tensor(0).data

    def infer(self, tensor):
        """Runs an inference, with one copy of the input, as in ovms; the result is the caller's."""
        self.tensor[:] = tensor
        self.request.infer()
        return np.array(self.scores)
