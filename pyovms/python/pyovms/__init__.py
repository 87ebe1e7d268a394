"""Python nodes of the OpenVINO Model Server: what handlers use, and what runs them.

Handlers can be tested without a server:

    from pyovms import Tensor
    from model import OvmsPythonModel

    def test_execute():
        model = OvmsPythonModel()
        model.initialize({"node_name": "node", "input_names": ["input"],
                          "output_names": ["output"], "base_path": "."})
        [output] = model.execute([Tensor("input", ["a text"])])
        assert output.texts() == ["A TEXT"]
"""

from ._pyovms import Tensor, empty, trace_context

__all__ = ["Tensor", "empty", "trace_context"]
