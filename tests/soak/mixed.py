"""The mixed load of the soak: requests of all kinds, each answer compared with the right one, and failures."""

import asyncio
import json
import os
import random
import signal
import socket
import struct
import time
from collections import deque

import aiohttp
import grpc
import numpy as np
from ovmsclient.tfs_compat.protos.tensorflow.core.framework import types_pb2
from ovmsclient.tfs_compat.protos.tensorflow_serving.apis import predict_pb2
from tritonclient.grpc import service_pb2 as kserve

from nearby import INFER, Nearby, check, request
from served import MAX_MESSAGE

STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
PREDICT = "/tensorflow.serving.PredictionService/Predict"
# How long an answer may take.
LIMIT = 30.0
# How many times, and how many errors, are kept of a kind.
KEPT = 5000
# Numbers of a stream that nobody reads to its end.
ENDLESS = 10_000_000
# How long a worker lives at least: after a third death within a minute it would stay away for a while.
LIFE = 31.0


class Kind:
    """What was done of a kind of request or failure, and what was wrong."""

    def __init__(self):
        self.done, self.failed, self.longest = 0, 0, 0.0
        self.times, self.errors = deque(maxlen=KEPT), deque(maxlen=20)

    def report(self):
        """Its figures."""
        times = sorted(self.times)
        at = lambda share: round(times[int(len(times) * share)] * 1e3, 2) if times else None  # noqa: E731
        figures = {"p50_ms": at(0.5), "p99_ms": at(0.99), "longest_ms": round(self.longest * 1e3, 2)}
        return {"done": self.done, "failed": self.failed, **figures, "errors": list(self.errors)}


class Mixed(Nearby):
    """Everybody who asks."""

    def __init__(self, served, seed, pace):
        self.served, self.random, self.kinds, self.stopping = served, random.Random(seed), {}, asyncio.Event()
        self.http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=LIMIT))
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{served.port}", options)
        self.killed = -LIFE
        # Function, how many at once, and the mean pause between two in seconds.
        loads = [
            (self.kserve_grpc, 3, 0.03),
            (self.kserve_rest, 3, 0.03),
            (self.kserve_binary, 2, 0.05),
            (self.tfs_grpc, 2, 0.03),
            (self.tfs_rest, 2, 0.03),
            (self.large, 1, 0.2),
            (self.pipeline, 2, 0.05),
            (self.split_grpc, 2, 0.05),
            (self.split_rest, 2, 0.05),
            (self.python, 2, 0.05),
            (self.generator, 2, 0.1),
            (self.model_stream, 2, 0.1),
            (self.events, 2, 0.1),
            (self.mortal, 1, 0.05),
            *self.nearby(),
        ]
        loads = [(what, count, pause * pace) for what, count, pause in loads]
        failures = [
            (self.bad_request, 1, 0.1),
            (self.oversized, 1, 1.0),
            (self.vanishing, 1, 0.3),
            (self.kill_worker, 1, 5.0),
        ]
        changes = [(self.changes, 1, 4.0)]
        self.tasks = [
            asyncio.create_task(self.repeat(what, pause)) for what, count, pause in loads + failures + changes for _ in range(count)
        ]

    async def repeat(self, what, pause):
        """Do it again and again, with pauses."""
        kind = self.kinds.setdefault(what.__name__, Kind())
        while not self.stopping.is_set():
            begun = time.monotonic()
            try:
                async with asyncio.timeout(2 * LIMIT):
                    await what()
                kind.done += 1
            except grpc.aio.AioRpcError as error:
                kind.failed += 1
                kind.errors.append(f"{error.code().name}: {error.details()}")
            except Exception as error:
                kind.failed += 1
                kind.errors.append(f"{type(error).__name__}: {error}")
            took = time.monotonic() - begun
            kind.times.append(took)
            kind.longest = max(kind.longest, took)
            try:
                await asyncio.wait_for(self.stopping.wait(), self.random.uniform(0, 2 * pause))
            except TimeoutError:
                pass

    async def end(self):
        """Let everybody finish."""
        self.stopping.set()
        await asyncio.gather(*self.tasks)
        await self.http.close()
        await self.channel.close()
        await self.end_nearby()

    def numbers(self, *shape):
        """Whole numbers, which models compute exactly."""
        return np.array(self.random.choices(range(1000), k=int(np.prod(shape))), np.float32).reshape(shape)

    # Requests, each with its right answer.

    async def call(self, path, request, response):
        """One call."""
        call = self.channel.unary_unary(path, type(request).SerializeToString, response.FromString)
        return await call(request, timeout=LIMIT)

    async def post(self, path, body, status=200, **headers):
        """One request; gives the body of the answer."""
        async with self.http.post(self.served.rest + path, data=body, headers=headers) as response:
            came = await response.read()
            assert response.status == status, f"{path}: {response.status} {came[:300]}"
            return came

    async def infer(self, model, name, tensor, datatype="FP32"):
        """The bytes of the one output."""
        response = await self.call(INFER, request(model, name, tensor, datatype), kserve.ModelInferResponse)
        return response.raw_output_contents[0]

    async def kserve_grpc(self):
        """KServe over gRPC."""
        data, model = self.numbers(1, 10), self.random.choice(["dummy", "fragile"])
        check(await self.infer(model, "b", data), data + 1)

    async def kserve_rest(self):
        """KServe over REST, in JSON."""
        data, model = self.numbers(1, 10), self.random.choice(["dummy", "fragile"])
        body = {"inputs": [{"name": "b", "shape": [1, 10], "datatype": "FP32", "data": data.tolist()}]}
        came = json.loads(await self.post(f"/v2/models/{model}/infer", json.dumps(body)))
        check(came["outputs"][0]["data"], data + 1)

    async def kserve_binary(self):
        """KServe over REST, with binary data both ways."""
        data = self.numbers(1, 10)
        tensor = {"name": "b", "shape": [1, 10], "datatype": "FP32", "parameters": {"binary_data_size": 40}}
        head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        headers = {"Inference-Header-Content-Length": str(len(head))}
        came = await self.post("/v2/models/dummy/infer", head + data.tobytes(), **headers)
        check(came[-40:], data + 1)

    async def tfs_grpc(self):
        """TensorFlow Serving over gRPC."""
        data, asked = self.numbers(1, 10), predict_pb2.PredictRequest()
        asked.model_spec.name = "dummy"
        asked.inputs["b"].dtype, asked.inputs["b"].tensor_content = types_pb2.DT_FLOAT, data.tobytes()
        for size in (1, 10):
            asked.inputs["b"].tensor_shape.dim.add(size=size)
        came = await self.call(PREDICT, asked, predict_pb2.PredictResponse)
        check(came.outputs["a"].tensor_content, data + 1)

    async def tfs_rest(self):
        """TensorFlow Serving over REST."""
        data = self.numbers(1, 10)
        came = await self.post("/v1/models/dummy:predict", json.dumps({"instances": data.tolist()}))
        check(json.loads(came)["predictions"], data + 1)

    async def large(self):
        """A megabyte there and back."""
        data = np.full((1, 1 << 18), self.random.randrange(1000), np.float32)
        check(await self.infer("copy", "in", data), data)

    async def pipeline(self):
        """Two nodes."""
        data = self.numbers(1, 10)
        check(await self.infer("chain", "b", data), data + 2)

    async def split_grpc(self):
        """A demultiplexer, with any number of parts."""
        data = self.numbers(self.random.randint(1, 16), 1, 10)
        check(await self.infer("split", "b", data), data + 1)

    async def split_rest(self):
        """The same over TensorFlow Serving's REST."""
        data = self.numbers(self.random.randint(1, 16), 1, 10)
        came = await self.post("/v1/models/split:predict", json.dumps({"inputs": {"b": data.tolist()}}))
        check(json.loads(came)["outputs"], data + 1)

    async def python(self):
        """A Python graph."""
        text = f"text {self.random.random()}".encode()
        came = await self.infer("upper", "text", text, "UINT8")
        assert came == text.upper(), came

    async def generator(self):
        """A stream to a generator, to its end."""
        count = self.random.randint(1, 50)
        came = [number async for number in self.stream(counted(count))]
        assert came == list(range(count)), came

    async def stream(self, *requests):
        """The numbers that come over a stream."""
        call = self.channel.stream_stream(
            STREAM, kserve.ModelInferRequest.SerializeToString, kserve.ModelStreamInferResponse.FromString
        )
        call = call(iter(requests), timeout=LIMIT)
        try:
            async for answer in call:
                assert not answer.error_message, answer.error_message
                (raw,) = answer.infer_response.raw_output_contents
                yield int.from_bytes(raw, "little") if len(raw) == 8 else raw
        finally:
            call.cancel()

    async def model_stream(self):
        """A stream of requests to a model, answered in their order."""
        each = [self.numbers(1, 10) for _ in range(self.random.randint(1, 20))]
        asked = [request("dummy", "b", data) for data in each]
        came = [raw async for raw in self.stream(*asked)]
        assert len(came) == len(each), len(came)
        for raw, data in zip(came, each):
            check(raw, data + 1)

    async def events(self):
        """The same numbers as events over HTTP."""
        count = self.random.randint(1, 50)
        came = [number async for number in self.event_stream(count)]
        assert came == list(range(count)), came

    async def event_stream(self, count):
        """The numbers that come as events."""
        body = json.dumps({"prompt": str(count)})
        async with self.http.post(f"{self.served.rest}/v2/models/counter/generate_stream", data=body) as response:
            assert response.status == 200, f"{response.status} {await response.text()}"
            async for line in response.content:
                if line.startswith(b"data: "):
                    yield json.loads(line.removeprefix(b"data: "))["token"]

    async def mortal(self):
        """A graph whose worker is killed now and then: what was in flight there fails, and what comes soon after may."""
        begun = time.monotonic()
        try:
            came = await self.infer("mortal", "text", b"alive", "UINT8")
            assert came == b"ALIVE", came
        except grpc.aio.AioRpcError as error:
            is_named = "worker of graph mortal was killed by SIGKILL" in error.details()
            is_soon = begun - self.killed < 5.0
            if error.code() != grpc.StatusCode.UNAVAILABLE or not is_named or not is_soon:
                raise

    # Failures, each with what has to come of it.

    async def kill_worker(self):
        """A Python worker is killed, and another one takes its place."""
        if time.monotonic() - self.killed < LIFE:
            return
        worker = int(await self.infer("mortal", "text", b"pid", "UINT8"))
        self.killed = time.monotonic()
        os.kill(worker, signal.SIGKILL)
        while True:
            try:
                assert int(await self.infer("mortal", "text", b"pid", "UINT8")) != worker
                return
            except grpc.aio.AioRpcError:
                assert time.monotonic() - self.killed < 5.0, "the worker is not replaced"
                await asyncio.sleep(0.05)

    async def bad_request(self):
        """Requests that have to be refused, each with its code."""
        good = {"name": "b", "shape": [1, 10], "datatype": "FP32", "data": [0.0] * 10}
        rest = [
            ("/v2/models/nobody/infer", json.dumps({"inputs": [good]}), 404),
            ("/v2/models/dummy/infer", '{"inputs": [', 412),
            ("/v2/models/dummy/infer", json.dumps({"inputs": [good | {"shape": [1, 9]}]}), 400),
            ("/v2/models/dummy/infer", json.dumps({"inputs": [good | {"name": "c"}]}), 400),
            ("/v1/models/dummy:predict", json.dumps({"instances": [[1, 2]]}), 400),
            ("/v2/models/dummy/nothing", "", 404),
        ]
        calls = [
            (request("nobody", "b", np.zeros((1, 10), np.float32)), "NOT_FOUND"),
            (request("dummy", "b", np.zeros((1, 11), np.float32)), "INVALID_ARGUMENT"),
            (request("chain", "b", np.zeros((1, 10), np.int64), "INT64"), "INVALID_ARGUMENT"),
            (request("split", "b", np.zeros((2, 1, 3), np.float32)), "INVALID_ARGUMENT"),
            (request("upper", "text", b"bad", "UINT8"), "INVALID_ARGUMENT"),
        ]
        path, body, status = self.random.choice(rest)
        await self.post(path, body, status)
        asked, code = self.random.choice(calls)
        await self.refused(asked, code)

    async def refused(self, asked, *codes):
        """A call that fails with one of these codes."""
        try:
            await self.call(INFER, asked, kserve.ModelInferResponse)
        except grpc.aio.AioRpcError as error:
            if error.code().name in codes:
                return
            raise
        raise AssertionError(f"a request to {asked.model_name} was not refused")

    async def oversized(self):
        """Messages that are larger than any may be."""
        await self.refused(request("copy", "in", np.zeros((1, MAX_MESSAGE // 4), np.float32)), "RESOURCE_EXHAUSTED")
        await self.post("/v2/models/copy/infer", b" " * (MAX_MESSAGE + 1), 413)

    async def vanishing(self):
        """Clients that leave in the midst of something."""
        await self.random.choice([self.leave_a_stream, self.cancel, self.leave_a_body, self.say_nonsense])()

    async def leave_a_stream(self):
        """A stream is left after a few of very many numbers."""
        numbers = self.random.choice([self.stream(counted(ENDLESS)), self.event_stream(ENDLESS)])
        last = self.random.randint(1, 20)
        async for number in numbers:
            if number == last:
                break
        await numbers.aclose()

    async def cancel(self):
        """A call is cancelled, perhaps before it is sent."""
        asked = request("split", "b", self.numbers(16, 1, 10))
        call = self.channel.unary_unary(INFER, kserve.ModelInferRequest.SerializeToString, kserve.ModelInferResponse.FromString)
        call = call(asked, timeout=LIMIT)
        await asyncio.sleep(self.random.choice([0, 0.001, 0.01]))
        call.cancel()

    async def leave_a_body(self):
        """A connection is reset within a body, or before the answer."""
        body = json.dumps({"instances": self.numbers(1, 10).tolist()}).encode()
        head = f"POST /v1/models/dummy:predict HTTP/1.1\r\nHost: soak\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        self.reset(self.served.rest_port, (head + body)[: self.random.randint(1, len(head + body))])

    async def say_nonsense(self):
        """Bytes that are no protocol."""
        for port in (self.served.port, self.served.rest_port):
            self.reset(port, self.random.randbytes(200))

    def reset(self, port, data):
        """Send bytes over a connection, and reset it."""
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as connection:
            connection.sendall(data)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def changes(self):
        """Models and graphs that are loaded anew, and a file that is broken, while all of them are asked."""
        served = self.served
        await self.random.choice([served.change_model, served.change_model, served.change_graph, served.break_model])()


def counted(count):
    """A request for numbers one after the other."""
    text = str(count).encode()
    asked = kserve.ModelInferRequest(model_name="counter")
    asked.inputs.add(name="prompt", datatype="BYTES", shape=[1])
    asked.raw_input_contents.append(struct.pack("<I", len(text)) + text)
    return asked
