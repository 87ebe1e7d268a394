"""Python nodes of the OpenVINO Model Server.

A handler file has a class `OvmsPythonModel` with a method `execute`; `Model` says what else the
class may have. `Tensor` is what it gets and returns.
"""

from collections.abc import Iterator
from typing import Any, Protocol, TypedDict

from typing_extensions import Buffer

__all__ = ["Tensor", "empty", "trace_context"]

class _Array(Protocol):
    """An array of NumPy, whose own types have the buffer protocol from Python 3.12 on only."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...

class Tensor:
    """Named data with a shape and a datatype.

    Any object with the buffer protocol can be its data: `bytes`, `bytearray`, `memoryview`,
    `array.array`, `numpy.ndarray`, another `Tensor`. It is kept, not copied. A tensor has that
    protocol itself, read-only: `bytes(t)`, `memoryview(t)`, `numpy.array(t)` (a copy),
    `numpy.asarray(t)` (no copy).

    Tensors stay valid as long as somebody has them, also after `execute` and in threads.
    """

    def __new__(
        cls,
        name: str,
        data: Buffer | _Array | list[str] | list[bytes] = ...,
        shape: tuple[int, ...] | list[int] | None = None,
        datatype: str | None = None,
        *,
        buffer: Buffer | _Array = ...,
    ) -> Tensor:
        """Makes a tensor.

        name: the output stream that it goes to.
        data: its contents; `buffer` is another name of this argument. A list of texts makes a tensor of BYTES. An
            array of NumPy whose elements are texts does not: it is sent as it lies in memory, with its format as the
            datatype; give `array.tolist()`.
        shape: what `Tensor.shape` reports instead of the shape of the data; nothing is reshaped, or compared.
        datatype: what `Tensor.datatype` reports instead of the type of the data; nothing is converted.
        """

    @property
    def name(self) -> str:
        """The stream: of an input, that which it came from; of an output, that which it goes to."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that was given, else that of the data. For inputs, that of the request."""

    @property
    def datatype(self) -> str:
        """The datatype that was given, else that of the data: BOOL, UINT8, UINT16, UINT32, UINT64,
        INT8, INT16, INT32, INT64, FP16, FP32, FP64, or the format of the buffer if it has none of
        these. For inputs, that of the request, such as BYTES or a name of your own."""

    @property
    def data(self) -> memoryview:
        """A read-only view of the data, with format, shape and strides of the buffer."""

    @property
    def size(self) -> int:
        """The bytes of the data."""

    def texts(self) -> list[str]:
        """The strings of a tensor of BYTES. Raises `ValueError` if it has none, or they are not UTF-8."""

    def elements(self) -> list[bytes]:
        """The bytes of each element of a tensor of BYTES, without their lengths: encoded images, for example. Raises
        `ValueError` if it has none."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

def empty(name: str, shape: tuple[int, ...] | list[int], datatype: str) -> Tensor:
    """Makes a tensor that can be written to, as `numpy.asarray(tensor)`, and whose contents are anything at first.

    Its memory is the server's as well, so that sending it needs no copy. Do not write to it after it was returned.
    """

def trace_context() -> dict[str, str]:
    """The trace that the request belongs to for which this thread runs: the headers `traceparent` and, if there is one,
    `tracestate`, for the requests that a handler makes itself. Empty if it is not traced.

    Known in `execute`, and in a generator that it returns. Threads that a handler starts have to be given it.
    """

# Only for type checkers; at run time the module has `Tensor`, `empty`, and `trace_context` alone:
#
#     from __future__ import annotations
#     from typing import TYPE_CHECKING
#     if TYPE_CHECKING:
#         from pyovms import Arguments, Model

class Arguments(TypedDict):
    """Argument of `initialize`."""

    node_name: str
    """The name of the node in the graph."""
    input_names: list[str]
    """The names of its input streams."""
    output_names: list[str]
    """The names of its output streams."""
    outputs_names: list[str]
    """The same."""
    base_path: str
    """The folder of the handler file."""

class PipelineArguments(Arguments):
    """Argument of `initialize` in a node of a pipeline."""

    params: dict[str, str]
    """The params of the node in the configuration file."""

class Model(Protocol):
    """Methods that the class `OvmsPythonModel` of a handler must have.

    It may have more:

    initialize(self, kwargs: Arguments) -> None
        Called once, when the graph is loaded. If it raises, the graph is not served.
    finalize(self) -> None
        Called once, when the graph is unloaded.
    create_state(self) -> Any
        Called for each request, or for each stream. What it returns is given to each `execute` of
        that request or stream as the keyword argument `state`.
    destroy_state(self, state) -> None
        Called when the request or the stream has ended.
    """

    def execute(self, inputs: list[Tensor], /) -> list[Tensor] | Iterator[list[Tensor]] | None:
        """Called for each set of inputs, perhaps in several threads at once.

        Returns a list of outputs, which may leave some out. As a generator it yields such lists;
        the node needs a LOOPBACK stream for that. `None` is allowed where the node runs with only
        some of its inputs.
        """
