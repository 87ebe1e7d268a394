"""Requests of the soak that run in batches, whose tensors are in shared memory, or that come by a Unix socket."""

import asyncio
import itertools
import json
import os
from pathlib import Path

import aiohttp
import grpc
import numpy as np
from tritonclient.grpc import service_pb2 as kserve

from served import SHARED

INFER, REGISTER, UNREGISTER = (
    f"/inference.GRPCInferenceService/{name}" for name in ("ModelInfer", "SystemSharedMemoryRegister", "SystemSharedMemoryUnregister")
)
# Requests that are sent at once, so that some of them wait for each other.
AT_ONCE = 6
# Numbers of a row, and their bytes.
WIDTH, SIZE = 64, 256
# Rows of a table of eight, of which the last is none.
BAD = [[3, 8]]


class Region:
    """A shared memory object that is registered, with a row of numbers and room for another one."""

    numbers = itertools.count()

    def __init__(self, mixed):
        self.mixed, self.name = mixed, f"{SHARED}{os.getpid()}_{next(self.numbers)}"
        self.path = Path("/dev/shm") / self.name.removeprefix("/")

    async def __aenter__(self):
        self.path.write_bytes(bytes(2 * SIZE))
        asked = kserve.SystemSharedMemoryRegisterRequest(name=self.name, key=self.name, byte_size=2 * SIZE)
        await self.mixed.call(REGISTER, asked, kserve.SystemSharedMemoryRegisterResponse)
        return self

    async def __aexit__(self, *error):
        self.path.unlink()
        asked = kserve.SystemSharedMemoryUnregisterRequest(name=self.name)
        await self.mixed.call(UNREGISTER, asked, kserve.SystemSharedMemoryUnregisterResponse)

    def write(self, row):
        """Put a row where the request has it."""
        self.path.write_bytes(row.tobytes() + bytes(SIZE))

    def read(self):
        """The bytes of the answer."""
        return self.path.read_bytes()[SIZE:]

    def request(self):
        """A request for the row, whose answer goes behind it."""
        asked = kserve.ModelInferRequest(model_name="together")
        tensor = asked.inputs.add(name="in", datatype="FP32", shape=[1, WIDTH])
        wanted = asked.outputs.add(name="out")
        for place, offset in ((tensor, 0), (wanted, SIZE)):
            place.parameters["shared_memory_region"].string_param = self.name
            place.parameters["shared_memory_byte_size"].int64_param = SIZE
            place.parameters["shared_memory_offset"].int64_param = offset
        return asked


class Nearby:
    """Those who ask so."""

    def nearby(self):
        """Functions, how many at once, and the mean pause between two in seconds."""
        self.unix_channel = grpc.aio.insecure_channel(f"unix:{self.served.grpc_socket}", [("grpc.default_authority", "localhost")])
        connector = aiohttp.UnixConnector(str(self.served.rest_socket))
        self.unix_http = aiohttp.ClientSession(connector=connector, timeout=self.http.timeout)
        return [
            (self.together, 2, 0.05),
            (self.bad_among_good, 1, 0.1),
            (self.regions, 2, 0.05),
            (self.truncated, 1, 0.1),
            (self.unix_grpc, 2, 0.05),
            (self.unix_rest, 2, 0.05),
        ]

    async def end_nearby(self):
        """Close what is open."""
        await self.unix_channel.close()
        await self.unix_http.close()

    async def row(self):
        """One row, which comes back."""
        row = self.numbers(1, WIDTH)
        check(await self.infer("together", "in", row), row)

    async def together(self):
        """Rows of several clients, as a batch if they wait for each other."""
        await asyncio.gather(*(self.row() for _ in range(AT_ONCE)))

    async def bad_among_good(self):
        """A request that fails, among some that do not."""
        ids = np.array(self.random.choices(range(8), k=2), np.int64)
        right = np.arange(32, dtype=np.float32).reshape(8, 4)[ids].sum(axis=0)

        async def good():
            check(await self.infer("bag", "ids", ids[None], "INT64"), right)

        bad = self.refused(request("bag", "ids", np.array(BAD, np.int64), "INT64"), "INTERNAL")
        await asyncio.gather(good(), bad, good(), good())

    async def regions(self):
        """Rows in shared memory both ways, while others are in messages."""
        async with Region(self) as region:
            for _ in range(5):
                row = self.numbers(1, WIDTH)
                region.write(row)
                call = self.call(INFER, region.request(), kserve.ModelInferResponse)
                response, _ = await asyncio.gather(call, self.row())
                assert response.raw_output_contents == [b""], "the answer is in the message"
                check(region.read(), row)

    async def truncated(self):
        """A region that is cut at some moment: its request is refused or answered, and those beside it are answered."""
        async with Region(self) as region:

            async def cut():
                await asyncio.sleep(self.random.choice([0, 0.0005, 0.001, 0.002]))
                os.truncate(region.path, self.random.choice([0, 100, SIZE, SIZE + 100]))

            async def asked():
                try:
                    await self.call(INFER, region.request(), kserve.ModelInferResponse)
                except grpc.aio.AioRpcError as error:
                    if "was truncated" not in (error.details() or ""):
                        raise

            await asyncio.gather(cut(), asked(), self.row(), self.row(), self.row())

    async def unix_grpc(self):
        """KServe over gRPC, by a Unix socket."""
        data = self.numbers(1, 10)
        asked = request("dummy", "b", data)
        call = self.unix_channel.unary_unary(INFER, type(asked).SerializeToString, kserve.ModelInferResponse.FromString)
        check((await call(asked, timeout=self.http.timeout.total)).raw_output_contents[0], data + 1)

    async def unix_rest(self):
        """TensorFlow Serving's predict over REST, by a Unix socket."""
        data = self.numbers(1, 10)
        body = json.dumps({"instances": data.tolist()})
        async with self.unix_http.post("http://soak/v1/models/dummy:predict", data=body) as response:
            came = await response.read()
            assert response.status == 200, f"{response.status} {came[:300]}"
            check(json.loads(came)["predictions"], data + 1)


def request(model, name, tensor, datatype="FP32"):
    """A request of KServe with one input: an array, or bytes."""
    asked = kserve.ModelInferRequest(model_name=model)
    is_array = isinstance(tensor, np.ndarray)
    asked.inputs.add(name=name, datatype=datatype, shape=tensor.shape if is_array else [len(tensor)])
    asked.raw_input_contents.append(tensor.tobytes() if is_array else tensor)
    return asked


def check(came, right):
    """Sees to it that numbers, or their bytes, are these."""
    came = np.frombuffer(came, np.float32) if isinstance(came, bytes) else np.array(came, np.float32)
    assert np.array_equal(came.ravel(), right.ravel()), f"wrong answer: {came.ravel()[:10]}, right: {right.ravel()[:10]}"
