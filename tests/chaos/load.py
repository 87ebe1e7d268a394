"""The load of the chaos test: sequences over four APIs, each answer compared with what one server says."""

import asyncio
import contextlib
import itertools
import json
import os
import random
import struct
import time
from collections import Counter
from dataclasses import dataclass

import aiohttp
import grpc
import numpy as np
from ovmsclient.tfs_compat.protos.tensorflow.core.framework import types_pb2
from ovmsclient.tfs_compat.protos.tensorflow_serving.apis import predict_pb2
from tritonclient.grpc import service_pb2 as kserve

from engines import MODEL, ROOT

APIS = ["kserve_grpc", "kserve_rest", "tfs_grpc", "tfs_rest"]
KEY = "ovms-idempotency-key"
LOST = "Sequence with provided ID does not exist"
OUTDATED = f"{LOST} - its stored state may be older than its last answer"
# Where sequences begin in the recording, and how long they are at most.
OFFSETS, LONGEST = range(0, 80, 5), 60
# How long one attempt may take, and all attempts of a step.
ATTEMPT, PATIENCE = 30.0, 90.0
# What says that a request may be sent again: nobody is there, or the connection has ended (as gRPC spells it).
AGAIN_GRPC = ["UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED", "RST_STREAM", "Stream removed"]
AGAIN_HTTP = [502, 503, 504]
MIDDLE, BEGIN, END = range(3)

FRAMES = np.load(ROOT / "fixtures/sequences/vad_frames.npy").astype(np.float32)
RAW = [frame.tobytes() for frame in FRAMES]
TEXT = [json.dumps(frame.tolist()) for frame in FRAMES]


@dataclass
class Answer:
    """What came for one attempt, and from which slot of HAProxy."""

    value: bytes = b""
    id: int = 0
    slot: str = ""
    error: str = ""
    # Whether the request may be sent again.
    again: bool = False
    sent: float = 0.0
    came: float = 0.0
    # How long the step took, with all attempts.
    took: float = 0.0


class Client:
    """Connections to the four APIs of one address."""

    def __init__(self, port, rest_port):
        self.rest = f"http://127.0.0.1:{rest_port}"
        self.http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0), ("grpc.max_reconnect_backoff_ms", 200)]
        channels = [grpc.aio.insecure_channel(f"127.0.0.1:{port}", options) for _ in range(4)]
        self.channels = itertools.cycle(channels)

    async def close(self):
        """End the connections."""
        await self.http.close()
        for channel in itertools.islice(self.channels, 4):
            await channel.close()

    async def step(self, api, frame, id, mark, key):
        """Send one step, once."""
        sent = time.monotonic()
        try:
            answer = await getattr(self, api)(frame, id, mark, key)
        except grpc.aio.AioRpcError as error:
            text = f"{error.code().name}: {error.details()}"
            slot = dict(error.initial_metadata() or ()).get("x-replica", "")
            answer = Answer(error=text, again=any(word in text for word in AGAIN_GRPC), slot=slot)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            answer = Answer(error=repr(error), again=True)
        answer.sent, answer.came = sent, time.monotonic()
        return answer

    async def over_grpc(self, path, request, response, key):
        """The response to a request, and an answer with its slot."""
        call = next(self.channels).unary_unary(path, type(request).SerializeToString, response.FromString)
        call = call(request, timeout=ATTEMPT, metadata=((KEY, key),))
        response = await call
        return response, Answer(slot=dict(await call.initial_metadata()).get("x-replica", ""))

    async def kserve_grpc(self, frame, id, mark, key):
        """KServe over gRPC."""
        request = kserve.ModelInferRequest(model_name=MODEL, raw_input_contents=[RAW[frame]])
        request.inputs.add(name="audio", datatype="FP32", shape=[1, 512])
        request.parameters["sequence_id"].uint64_param = id
        request.parameters["sequence_start"].bool_param = mark == BEGIN
        request.parameters["sequence_end"].bool_param = mark == END
        path = "/inference.GRPCInferenceService/ModelInfer"
        response, answer = await self.over_grpc(path, request, kserve.ModelInferResponse, key)
        raw = {output.name: raw for output, raw in zip(response.outputs, response.raw_output_contents)}
        answer.value, (answer.id,) = raw["prob"], struct.unpack("<Q", raw["sequence_id"])
        return answer

    async def tfs_grpc(self, frame, id, mark, key):
        """TensorFlow Serving over gRPC."""
        request = predict_pb2.PredictRequest()
        request.model_spec.name = MODEL
        for name, dtype, shape, values in (
            ("audio", types_pb2.DT_FLOAT, [1, 512], {"tensor_content": RAW[frame]}),
            ("sequence_id", types_pb2.DT_UINT64, [1], {"uint64_val": [id]}),
            ("sequence_control_input", types_pb2.DT_UINT32, [1], {"uint32_val": [mark]}),
        ):
            tensor = type(request.inputs[name])(dtype=dtype, **values)
            for size in shape:
                tensor.tensor_shape.dim.add(size=size)
            request.inputs[name].CopyFrom(tensor)
        path = "/tensorflow.serving.PredictionService/Predict"
        response, answer = await self.over_grpc(path, request, predict_pb2.PredictResponse, key)
        answer.value, answer.id = response.outputs["prob"].tensor_content, response.outputs["sequence_id"].uint64_val[0]
        return answer

    async def over_rest(self, path, body, key):
        """The JSON of a response, if all is well, and an answer with its slot."""
        limit = aiohttp.ClientTimeout(total=ATTEMPT)
        async with self.http.post(self.rest + path, data=body, headers={KEY: key}, timeout=limit) as response:
            text, slot = await response.text(), response.headers.get("x-replica", "")
            if response.status == 200:
                return json.loads(text), Answer(slot=slot)
            return None, Answer(error=f"{response.status}: {text}", again=response.status in AGAIN_HTTP, slot=slot)

    async def kserve_rest(self, frame, id, mark, key):
        """KServe over REST."""
        marks = json.dumps({"sequence_id": id, "sequence_start": mark == BEGIN, "sequence_end": mark == END})
        audio = f'{{"name":"audio","datatype":"FP32","shape":[1,512],"data":{TEXT[frame]}}}'
        body = f'{{"parameters":{marks},"inputs":[{audio}]}}'
        response, answer = await self.over_rest(f"/v2/models/{MODEL}/infer", body, key)
        if response:
            data = {output["name"]: output["data"][0] for output in response["outputs"]}
            answer.value, answer.id = np.float32(data["prob"]).tobytes(), data["sequence_id"]
        return answer

    async def tfs_rest(self, frame, id, mark, key):
        """TensorFlow Serving over REST."""
        body = f'{{"inputs":{{"audio":{TEXT[frame]},"sequence_id":[{id}],"sequence_control_input":[{mark}]}}}}'
        response, answer = await self.over_rest(f"/v1/models/{MODEL}:predict", body, key)
        if response:
            data = response["outputs"]
            answer.value, answer.id = np.float32(data["prob"][0][0]).tobytes(), data["sequence_id"][0]
        return answer


async def right_answers(client):
    """What one server says without a store: the answers of the sequences that begin at each offset."""
    table = {}
    for offset in OFFSETS:
        id, table[offset] = 0, []
        for step in range(LONGEST):
            answer = await client.step("kserve_grpc", offset + step, id, MIDDLE if step else BEGIN, "none")
            assert not answer.error, answer
            id = answer.id
            table[offset].append(answer.value)
        # A step that was committed twice, or not at all, shows.
        assert all(one != other for one, other in itertools.pairwise(table[offset]))
    return table


class Load:
    """Sequences that begin, go on, and end, all the time: so many live ones, and steps a second."""

    def __init__(self, client, table, live, rate, seed):
        self.client, self.table, self.pause, self.random = client, table, live / rate, random.Random(seed)
        self.live, self.stopping, self.ids, self.counts = live, False, itertools.count(1 << 40), Counter()
        # Attempts without an answer yet, the number of answers by slot, and the sign for all to go on.
        self.flying, self.slots, self.rushing = set(), Counter(), asyncio.Event()
        # Times of steps: of all, and of those on the replica of the step before, or on another one.
        self.steps, self.stayed, self.moved = [], [], []
        self.failures, self.wrong, self.refused, self.lost = [], [], [], []
        self.tasks = [asyncio.create_task(self.sequences(APIS[index % 4])) for index in range(live)]

    async def end(self):
        """Let each sequence make its last step."""
        self.stopping = True
        await asyncio.gather(*self.tasks)

    async def sequences(self, api):
        """One sequence after the other."""
        await asyncio.sleep(self.random.uniform(0, self.pause))
        while not self.stopping:
            await self.sequence(api)

    async def sequence(self, api):
        """One sequence, from its start to its end, or to the first answer that is not right."""
        offset, length = self.random.choice(OFFSETS), self.random.randint(2, LONGEST)
        # One in three has its id from the server.
        id, slot = self.random.choice([0, next(self.ids), next(self.ids)]), ""
        self.counts["sequences"] += 1
        for step in range(length):
            last = step > 0 and (step == length - 1 or self.stopping)
            answer = await self.commit(api, offset + step, id, BEGIN if step == 0 else END if last else MIDDLE)
            answer.error = answer.error and f"{api} sequence {id}, step {step}: {answer.error}"
            if answer.error:
                (self.lost if LOST in answer.error else self.refused).append(answer)
                return
            right = self.table[offset]
            if answer.value != right[step] or id not in (0, answer.id):
                like = [index for index, value in enumerate(right) if value == answer.value]
                answer.error = f"{api} sequence {id}, step {step}: answer of step {like} and sequence {answer.id}"
                self.wrong.append(answer)
                return
            if slot:
                (self.stayed if slot == answer.slot else self.moved).append(answer.took)
            id, slot = answer.id, answer.slot
            if last:
                return
            await self.wait(0 if self.stopping else self.random.uniform(0, 2 * self.pause))

    async def wait(self, seconds):
        """Wait for the next step, which comes at once in a rush."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.rushing.wait()

    def rush(self):
        """Let each sequence that waits send its next step now."""
        self.rushing.set()
        self.rushing.clear()

    async def commit(self, api, frame, id, mark):
        """Send one step until there is an answer, under one key."""
        key, begun = os.urandom(8).hex(), time.monotonic()
        while True:
            attempt = object()
            self.flying.add(attempt)
            answer = await self.client.step(api, frame, id, mark, key)
            self.flying.remove(attempt)
            self.slots[answer.slot] += not answer.error
            if not answer.again or answer.came - begun > PATIENCE:
                answer.took = answer.came - begun
                self.steps.append(answer.took)
                return answer
            answer.error = f"{api} {answer.error}"
            self.failures.append(answer)
            await asyncio.sleep(0.05)
