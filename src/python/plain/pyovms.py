"""The module `pyovms` of the OpenVINO Model Server, for tests of handlers without a server.

Inside the server the built-in module of this name is used, whatever is installed. This one behaves
like it: `Tensor` takes any object with the buffer protocol and has that protocol itself.

    from pyovms import Tensor
    from model import OvmsPythonModel

    def test_execute():
        model = OvmsPythonModel()
        model.initialize({"node_name": "node", "input_names": ["input"],
                          "output_names": ["output"], "base_path": "."})
        [output] = model.execute([Tensor("input", b"text")])
        assert bytes(output) == b"text"
"""

import operator
import sys

__all__ = ["Tensor"]

_DATATYPES = {
    "?": "BOOL",
    "B": "UINT8",
    "H": "UINT16",
    "I": "UINT32",
    "Q": "UINT64",
    "b": "INT8",
    "h": "INT16",
    "i": "INT32",
    "q": "INT64",
    "e": "FP16",
    "f": "FP32",
    "d": "FP64",
}


def _datatype(form, size):
    """Returns the datatype of elements: a name of KServe, or the format itself."""
    bare = form[1:] if form[:1] in ("=", "<", "@") else form
    if bare in ("l", "n") and size in (4, 8):
        return f"INT{size * 8}"
    if bare in ("L", "N") and size in (4, 8):
        return f"UINT{size * 8}"
    return _DATATYPES.get(bare, form)


def _text(argument, value):
    if not isinstance(value, str):
        raise TypeError(f"Tensor() {argument} must be str, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"Tensor() {argument} must be text that UTF-8 can tell; it has surrogates"
        ) from None
    return value


def _length(value):
    try:
        length = int(operator.index(value))
    except TypeError:
        length = None
    if length is None or not -(2**63) <= length < 2**63:
        raise TypeError(f"Tensor() shape must have int of 64 bit, not {type(value).__name__}")
    return length


def _view(data):
    """Returns a read-only view of the argument `data`."""
    try:
        view = memoryview(data)
    except TypeError:
        if _has_buffer(data):
            raise
        raise TypeError(
            "Tensor() data must be an object with the buffer protocol, such as bytes or"
            f" numpy.ndarray, not {type(data).__name__}"
        ) from None
    if any("O" in part for part in view.format.split(":")[::2]):
        raise TypeError(
            "Tensor() data must hold values; an array of Python objects has none to send"
        )
    return view.toreadonly()


def _has_buffer(data):
    return hasattr(type(data), "__buffer__")


class _Tensor:
    """What does not depend on how Python lets a class have a buffer."""

    def _fill(self, view, name, shape, datatype):
        form = view.format
        self._name = name
        self._shape = view.shape if shape is None else shape
        self._datatype = _datatype(form, view.itemsize) if datatype is None else datatype
        self._view = view

    @staticmethod
    def _judge(name, data, shape, datatype, buffer):
        name = _text("name", name)
        if data is None and buffer is None:
            raise TypeError(
                "Tensor() needs data: an object with the buffer protocol, such as bytes or"
                " numpy.ndarray"
            )
        if data is not None and buffer is not None:
            raise TypeError(
                "Tensor() got both data and buffer, which are two names of one argument"
            )
        if shape is not None:
            if not isinstance(shape, (tuple, list)):
                raise TypeError(
                    "Tensor() shape must be a tuple or a list of int, not"
                    f" {type(shape).__name__}"
                )
            shape = tuple(_length(length) for length in shape)
        if datatype is not None:
            datatype = _text("datatype", datatype)
        return name, _view(buffer if data is None else data), shape, datatype

    @property
    def name(self):
        """The name, which says to which output stream the tensor goes."""
        return self._name

    @property
    def shape(self):
        """The shape that was given, or that of the buffer."""
        return self._shape

    @property
    def datatype(self):
        """The datatype: a name of KServe such as FP32, or the format of the buffer, or what was given."""
        return self._datatype

    @property
    def data(self):
        """A read-only memoryview of the buffer."""
        return memoryview(self)

    @property
    def size(self):
        """The bytes of the buffer."""
        return self._view.nbytes

    def __repr__(self):
        return (
            f"Tensor(name={self.name!r}, shape={self.shape!r}, datatype={self.datatype!r},"
            f" size={self.size})"
        )


if sys.version_info >= (3, 12):

    class Tensor(_Tensor):
        """Named data with a shape and a datatype, for nodes, requests and responses."""

        def __new__(cls, name, data=None, shape=None, datatype=None, *, buffer=None):
            name, view, shape, datatype = cls._judge(name, data, shape, datatype, buffer)
            self = super().__new__(cls)
            self._fill(view, name, shape, datatype)
            return self

        def __buffer__(self, flags):
            # Its own view, so that what it is asked for is judged by the interpreter.
            return self._view

else:
    # Before 3.12 only classes of C may have a buffer. One of them hands its buffer on and can be
    # derived from, once its flag for that is set.
    import ctypes
    import pickle

    _FLAGS = 168
    _BASETYPE = 1 << 10
    _flags = ctypes.c_ulong.from_address(id(pickle.PickleBuffer) + _FLAGS)
    if sys.implementation.name != "cpython" or _flags.value != pickle.PickleBuffer.__flags__:
        raise ImportError(
            f"pyovms needs CPython 3.11 or Python 3.12 and newer; this is {sys.version}"
        )
    _had = _flags.value
    _flags.value = _had | _BASETYPE
    try:

        class Tensor(_Tensor, pickle.PickleBuffer):
            """Named data with a shape and a datatype, for nodes, requests and responses."""

            def __new__(cls, name, data=None, shape=None, datatype=None, *, buffer=None):
                name, view, shape, datatype = cls._judge(name, data, shape, datatype, buffer)
                self = pickle.PickleBuffer.__new__(cls, view)
                self._fill(view, name, shape, datatype)
                return self

            @property
            def raw(self):
                raise AttributeError("'Tensor' object has no attribute 'raw'")

            @property
            def release(self):
                raise AttributeError("'Tensor' object has no attribute 'release'")

    finally:
        _flags.value = _had
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(pickle.PickleBuffer))

Tensor.__module__ = "pyovms"
