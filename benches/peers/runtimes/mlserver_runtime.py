"""MLServer's runtime of the comparison."""

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse
from openvino_model import OpenvinoModel


class OpenvinoRuntime(MLModel):
    """Runs inferences in the event loop: a thread for each would cost more than most of them."""

    async def load(self) -> bool:
        self.model = OpenvinoModel()
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        scores = self.model.infer(NumpyCodec.decode_input(payload.inputs[0]))
        output = NumpyCodec.encode_output(self.model.output.any_name, scores)
        return InferenceResponse(model_name=self.name, outputs=[output])
