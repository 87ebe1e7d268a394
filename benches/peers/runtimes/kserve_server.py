"""KServe's server of the comparison."""

import logging

import grpc
import kserve.model_server
from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer
from kserve.utils.utils import generate_uuid
from openvino_model import OpenvinoModel


class Served(Model):
    """Runs inferences in the event loop: a thread for each would cost more than most of them."""

    def load(self):
        self.model = OpenvinoModel()
        self.ready = True
        return True

    async def predict(self, payload: InferRequest, headers=None, response_headers=None) -> InferResponse:
        scores = self.model.infer(payload.inputs[0].as_numpy())
        output = InferOutput(self.model.output.any_name, list(scores.shape), "FP32")
        # Raw where the request is, as KServe's own runtimes do it.
        binary = payload.use_binary_outputs
        output.set_data_from_numpy(scores, binary_data=binary)
        return InferResponse(payload.id or generate_uuid(), self.name, [output], use_binary_outputs=binary)


class LoopbackRest(kserve.model_server.RESTServer):
    """The REST server on loopback, where by itself it listens on all addresses, and without a log line for each request."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.config.host = "127.0.0.1"
        logging.getLogger("uvicorn.access").setLevel(logging.WARNING)


def listen_on_loopback():
    """Has both servers listen on loopback only."""
    kserve.model_server.RESTServer = LoopbackRest
    add = grpc.aio.Server.add_insecure_port
    grpc.aio.Server.add_insecure_port = lambda server, address: add(server, address.replace("[::]", "127.0.0.1"))


if __name__ == "__main__":
    listen_on_loopback()
    # Ports, and that requests are not logged, come from the command line.
    model = Served(kserve.model_server.args.model_name)
    model.load()
    ModelServer().start([model])
