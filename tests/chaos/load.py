"""The load of the chaos test: sequences over four APIs, each answer compared with what one server says."""

import asyncio
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

APIS = ["kserve-grpc", "kserve-rest", "tfs-grpc", "tfs-rest"]
KEY = "ovms-idempotency-key"
LOST = "Sequence with provided ID does not exist - its stored state is older than its last answer"
# Where sequences begin in the recording, and how long they are at most.
OFFSETS = range(0, 80, 5)
LONGEST = 60
# How long one attempt may take, and all attempts of a step.
ATTEMPT, PATIENCE = 30.0, 90.0
# What says that a request may be sent again: the connection has ended, or nobody is there.
AGAIN_GRPC = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED}
AGAIN_HTTP = {502, 503, 504}
BEGIN, MIDDLE, END = 1, 0, 2

FRAMES = np.load(ROOT / "fixtures/sequences/vad_frames.npy").astype(np.float32)
RAW = [frame.tobytes() for frame in FRAMES]
TEXT = [json.dumps(frame.tolist()) for frame in FRAMES]


@dataclass
class Answer:
    """What came for one attempt."""

    value: bytes = b""
    id: int = 0
    # The error's text; and whether the request may be sent again.
    error: str = ""
    again: bool = False
    # The slot of the server that HAProxy has asked.
    slot: str = ""


@dataclass
class Failure:
    """An attempt that failed, and may have been sent again."""

    sent: float
    failed: float
    slot: str
    what: str


class Client:
    """Connections to the four APIs of one address."""

    def __init__(self, port, rest_port, connections=4):
        self.rest = f"http://127.0.0.1:{rest_port}"
        self.http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
        options += [("grpc.max_reconnect_backoff_ms", 200), ("grpc.initial_reconnect_backoff_ms", 50)]
        self.channels = [grpc.aio.insecure_channel(f"127.0.0.1:{port}", options) for _ in range(connections)]

        def calls(path, response):
            return itertools.cycle(
                [
                    channel.unary_unary(path, lambda message: message.SerializeToString(), response.FromString)
                    for channel in self.channels
                ]
            )

        self.kserve = calls("/inference.GRPCInferenceService/ModelInfer", kserve.ModelInferResponse)
        self.tfs = calls("/tensorflow.serving.PredictionService/Predict", predict_pb2.PredictResponse)

    async def close(self):
        """End the connections."""
        await self.http.close()
        for channel in self.channels:
            await channel.close()

    async def step(self, api, frame, id, mark, key):
        """Send one step, once."""
        try:
            return await getattr(self, api.replace("-", "_"))(frame, id, mark, key)
        except grpc.aio.AioRpcError as error:
            slot = dict(error.initial_metadata() or ()).get("x-replica", "")
            text = error.details() or ""
            # A stream that was reset, as gRPC spells it.
            again = error.code() in AGAIN_GRPC or "RST_STREAM" in text or "Stream removed" in text
            return Answer(error=f"{error.code().name}: {text}", again=again, slot=slot)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            return Answer(error=repr(error), again=True)

    async def over_grpc(self, call, request, key):
        """The response to a request, and the slot that it came from."""
        call = call(request, timeout=ATTEMPT, metadata=((KEY, key),))
        response = await call
        return response, dict(await call.initial_metadata()).get("x-replica", "")

    async def kserve_grpc(self, frame, id, mark, key):
        """KServe over gRPC."""
        request = kserve.ModelInferRequest(model_name=MODEL, raw_input_contents=[RAW[frame]])
        request.inputs.add(name="audio", datatype="FP32", shape=[1, 512])
        request.parameters["sequence_id"].uint64_param = id
        request.parameters["sequence_start"].bool_param = mark == BEGIN
        request.parameters["sequence_end"].bool_param = mark == END
        response, slot = await self.over_grpc(next(self.kserve), request, key)
        raw = {output.name: raw for output, raw in zip(response.outputs, response.raw_output_contents)}
        return Answer(raw["prob"], *struct.unpack("<Q", raw["sequence_id"]), slot=slot)

    async def tfs_grpc(self, frame, id, mark, key):
        """TensorFlow Serving over gRPC."""
        request = predict_pb2.PredictRequest()
        request.model_spec.name = MODEL
        audio = request.inputs["audio"]
        audio.dtype, audio.tensor_content = types_pb2.DT_FLOAT, RAW[frame]
        audio.tensor_shape.dim.add(size=1)
        audio.tensor_shape.dim.add(size=512)
        for name, dtype, field, value in (
            ("sequence_id", types_pb2.DT_UINT64, "uint64_val", id),
            ("sequence_control_input", types_pb2.DT_UINT32, "uint32_val", mark),
        ):
            special = request.inputs[name]
            special.dtype = dtype
            special.tensor_shape.dim.add(size=1)
            getattr(special, field).append(value)
        response, slot = await self.over_grpc(next(self.tfs), request, key)
        prob, id = response.outputs["prob"], response.outputs["sequence_id"]
        value = prob.tensor_content or np.float32(prob.float_val[0]).tobytes()
        return Answer(value, id.uint64_val[0], slot=slot)

    async def over_rest(self, path, body, key):
        """The JSON of a response, or what went wrong, and the slot that it came from."""
        limit = aiohttp.ClientTimeout(total=ATTEMPT)
        async with self.http.post(self.rest + path, data=body, headers={KEY: key}, timeout=limit) as response:
            slot = response.headers.get("x-replica", "")
            text = await response.text()
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
            answer.value = np.float32(data["prob"][0][0]).tobytes()
            answer.id = data["sequence_id"][0]
        return answer


async def right_answers(client):
    """What one server says without a store: the answers of the sequences that begin at each offset."""
    table = {}
    for offset in OFFSETS:
        mark, id, table[offset] = BEGIN, 0, []
        for step in range(LONGEST):
            answer = await client.step("kserve-grpc", offset + step, id, mark, "")
            assert not answer.error, answer
            mark, id = MIDDLE, answer.id
            table[offset].append(answer.value)
    # One step too many or too few shows: no two neighbours are the same.
    for row in table.values():
        assert all(one != other for one, other in zip(row, row[1:]))
    return table


class Load:
    """Sequences that begin, go on, and end, all the time."""

    def __init__(self, client, table, live, rate, seed):
        self.client, self.table, self.live = client, table, live
        self.pause, self.random = live / rate, random.Random(seed)
        self.stopping, self.ids = False, itertools.count(1 << 40)
        self.failures, self.wrong, self.refused, self.lost = [], [], [], []
        self.times, self.hops, self.counts = [], Counter(), Counter()
        self.tasks = []

    def begin(self):
        """Start all sequences."""
        self.tasks = [asyncio.create_task(self.sequences(APIS[index % 4])) for index in range(self.live)]

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
        id = self.random.choice([0, next(self.ids), next(self.ids)])
        self.counts["sequences"] += 1
        slot = None
        for step in range(LONGEST):
            last = step > 0 and (step == length - 1 or self.stopping)
            mark = BEGIN if step == 0 else END if last else MIDDLE
            answer = await self.commit(api, offset + step, id, mark)
            where = f"{api} sequence {id} step {step} of offset {offset}"
            if answer.error:
                lost = "NOT_FOUND" in answer.error or answer.error.startswith("404")
                kind = self.lost if lost and LOST in answer.error else self.refused
                kind.append((time.monotonic(), f"{where}: {answer.error}"))
                return
            right = self.table[offset]
            if answer.value != right[step] or id not in (0, answer.id):
                like = [index for index, value in enumerate(right) if value == answer.value]
                self.wrong.append((time.monotonic(), f"{where}: answer of step {like}, id {answer.id}, slot {answer.slot}"))
                return
            id = answer.id
            self.hops[slot is not None and slot != answer.slot] += 1
            slot = answer.slot
            if last:
                return
            await asyncio.sleep(self.random.uniform(0, 2 * self.pause) * (not self.stopping))

    async def commit(self, api, frame, id, mark):
        """Send one step until there is an answer, under one key."""
        key, begun = os.urandom(8).hex(), time.monotonic()
        while True:
            sent = time.monotonic()
            answer = await self.client.step(api, frame, id, mark, key)
            now = time.monotonic()
            if not answer.again:
                self.counts["steps"] += 1
                self.times.append((now - begun, begun))
                return answer
            self.failures.append(Failure(sent, now, answer.slot, f"{api} {answer.error}"))
            if now - begun > PATIENCE:
                answer.error = f"no answer within {PATIENCE} s: {answer.error}"
                return answer
            await asyncio.sleep(0.05)
