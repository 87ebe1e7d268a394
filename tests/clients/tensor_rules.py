"""Rules of `pyovms.Tensor`, as plain asserts: in a worker of a server, and in a plain interpreter."""

import array
import ctypes
import gc
import struct
import threading
import weakref

import pyovms
from pyovms import Tensor

try:
    import numpy as np
except ImportError:
    np = None


def raises(kind, call, *arguments, text="", **named):
    """Asserts that a call raises."""
    try:
        call(*arguments, **named)
    except kind as error:
        assert type(error) is kind, f"expected {kind.__name__}, got {type(error).__name__}: {error}"
        assert text in str(error), f"expected {text!r} in {str(error)!r}"
        return
    raise AssertionError(f"expected {kind.__name__}, nothing was raised")


def rule_bytes():
    t = Tensor("out", b"some text")
    assert t.name == "out"
    assert t.shape == (9,) and type(t.shape) is tuple
    assert t.datatype == "UINT8"
    assert t.size == 9
    assert bytes(t) == b"some text"
    assert (t.data.format, t.data.itemsize, t.data.shape, t.data.strides) == ("B", 1, (9,), (1,))
    assert type(t.data) is memoryview and t.data.readonly and t.data.ndim == 1


def rule_empty_bytes():
    t = Tensor("out", b"")
    assert (t.size, t.shape, t.datatype, bytes(t)) == (0, (0,), "UINT8", b"")
    assert t.data.tobytes() == b""


def rule_arguments_by_position_and_name():
    for t in (
        Tensor("n", b"ab", (1, 2), "BYTES"),
        Tensor("n", b"ab", [1, 2], "BYTES"),
        Tensor(name="n", data=b"ab", shape=(1, 2), datatype="BYTES"),
        Tensor("n", buffer=b"ab", shape=(1, 2), datatype="BYTES"),
        Tensor(name="n", buffer=b"ab", datatype="BYTES", shape=[1, 2]),
    ):
        assert (t.name, t.shape, t.datatype, bytes(t)) == ("n", (1, 2), "BYTES", b"ab")
        assert type(t.shape) is tuple


def rule_missing_and_wrong_arguments():
    raises(TypeError, Tensor)
    raises(TypeError, Tensor, "n", text="needs data")
    raises(TypeError, Tensor, "n", None, text="needs data")
    raises(TypeError, Tensor, "n", b"", buffer=b"", text="both data and buffer")
    raises(TypeError, Tensor, "n", b"", (1,), "UINT8", b"")
    raises(TypeError, Tensor, "n", b"", other=1)
    raises(TypeError, Tensor, b"n", b"", text="name must be str, not bytes")
    raises(TypeError, Tensor, None, b"", text="name must be str, not NoneType")
    raises(TypeError, Tensor, "n", "text", text="buffer protocol")
    raises(TypeError, Tensor, "n", 5, text="not int")
    raises(TypeError, Tensor, "n", [1, 2], text="not list")
    raises(TypeError, Tensor, "n", ["a", None], text="or a list of str, not list with NoneType")
    raises(TypeError, Tensor, "n", [1, 2], text="not list with int; of numbers, pass numpy.array(")
    raises(TypeError, Tensor, "n", object(), text="not object")
    raises(TypeError, Tensor, "n", b"", 3, text="shape must be a tuple or a list of int, not int")
    raises(TypeError, Tensor, "n", b"", "12", text="not str")
    raises(TypeError, Tensor, "n", b"", (1.5,), text="not float")
    raises(TypeError, Tensor, "n", b"", ("a",), text="not str")
    raises(TypeError, Tensor, "n", b"", (2**63,), text="64 bit")
    raises(TypeError, Tensor, "n", b"", (1,), 5, text="datatype must be str, not int")
    raises(TypeError, Tensor, "n", b"", (1,), b"FP32", text="not bytes")
    raises(ValueError, Tensor, "\udc80", b"", text="surrogates")
    raises(ValueError, Tensor, "n", b"", (1,), "\ud800", text="surrogates")


def rule_texts_have_lengths_before_them():
    for texts, data in (
        ([], b""),
        (["a"], b"\1\0\0\0a"),
        (["ł", "", "bc"], b"\2\0\0\0\xc5\x82\0\0\0\0\2\0\0\0bc"),
    ):
        t = Tensor("n", texts)
        assert (t.datatype, t.shape, bytes(t)) == ("BYTES", (len(texts),), data)
        assert t.texts() == texts
        assert t.elements() == [text.encode() for text in texts]
        assert Tensor("n", data, datatype="BYTES").texts() == texts
    t = Tensor("n", [b"\xff", b"x"], shape=[2, 1])
    assert (t.shape, bytes(t)) == ((2, 1), b"\1\0\0\0\xff\1\0\0\0x")
    assert t.elements() == [b"\xff", b"x"]
    raises(ValueError, t.texts, text="is not UTF-8")
    raises(ValueError, t.texts, text="; elements() has the bytes of each")
    for data in (b"abc", b"\5\0\0\0abc", b"\1\0\0\0ab"):
        raises(ValueError, Tensor("n", data).texts, text="are not strings")
        raises(ValueError, Tensor("n", data).elements, text="are not strings")
    zeros = Tensor("n", array.array("f", [0.0, 0.0]))
    raises(ValueError, zeros.texts, text="has datatype FP32, whose elements are not strings")
    raises(ValueError, zeros.elements, text='elements(): tensor "n" has datatype FP32')


def rule_empty_is_writable():
    t = pyovms.empty("n", [2, 3], "INT16")
    assert (t.name, t.shape, t.datatype, t.size) == ("n", (2, 3), "INT16", 12)
    view = memoryview(t)
    assert (view.readonly, view.format, view.shape) == (False, "h", (2, 3))
    view[1, 2] = 7
    assert bytes(t)[-2:] == b"\7\0"
    assert pyovms.empty("n", (), "FP64").size == 8
    assert pyovms.empty("n", [0, 5], "BOOL").size == 0
    raises(ValueError, pyovms.empty, "n", [1], "BYTES", text="datatype must be one of BOOL, UINT8")
    raises(ValueError, pyovms.empty, "n", [-1], "FP32", text="lengths of 0 or more")
    raises(ValueError, pyovms.empty, "n", [2**62, 8], "FP32", text="fit in memory")
    raises(TypeError, pyovms.empty, "n", "12", "FP32", text="not str")


def rule_names_are_any_text():
    for name in ("", "a b", "ąę 日本 🎉", "a\0b", "n" * 10_000):
        t = Tensor(name, b"", (), name)
        assert t.name == name and t.datatype == name


def rule_shape_and_datatype_are_only_declared():
    t = Tensor("n", b"abcdef", (2, -1, 2**40, 0), "whatever")
    assert (t.shape, t.datatype, t.size) == ((2, -1, 2**40, 0), "whatever", 6)
    assert (t.data.shape, t.data.format, t.data.itemsize, t.data.strides) == ((6,), "B", 1, (1,))
    assert Tensor("n", b"", ()).shape == ()
    assert Tensor("n", b"", []).shape == ()
    assert Tensor("n", b"ab", (True,)).shape == (1,)
    assert Tensor("n", b"ab", None, None).shape == (2,)
    assert Tensor("n", b"ab", datatype="").datatype == ""


def rule_attributes_are_read_only():
    t = Tensor("n", b"ab")
    for name in ("name", "shape", "datatype", "data", "size"):
        raises(AttributeError, setattr, t, name, 1)
        raises(AttributeError, delattr, t, name)
    raises(TypeError, t.data.__setitem__, 0, 1)


def rule_own_attributes_and_weak_references():
    t = Tensor("n", b"ab")
    t.note = "mine"
    assert t.note == "mine"
    reference = weakref.ref(t)
    assert reference() is t
    del t
    gc.collect()
    assert reference() is None


def rule_array_types():
    table = {"b": "INT8", "B": "UINT8", "h": "INT16", "H": "UINT16", "i": "INT32", "I": "UINT32",
             "l": "INT64", "L": "UINT64", "q": "INT64", "Q": "UINT64", "f": "FP32", "d": "FP64"}
    for code, datatype in table.items():
        source = array.array(code, [1, 2, 3])
        t = Tensor("n", source)
        if code in "lL" and source.itemsize == 4:
            datatype = datatype.replace("64", "32")
        assert t.datatype == datatype, code
        assert t.shape == (3,) and t.size == 3 * source.itemsize
        assert t.data.format == code and t.data.tolist() == [1, 2, 3]


def rule_other_formats_are_the_datatype():
    assert Tensor("n", memoryview(b"ab").cast("c")).datatype == "c"
    assert Tensor("n", memoryview(b"a").cast("?")).datatype == "BOOL"
    eight = memoryview(bytes(8))
    assert Tensor("n", eight.cast("n")).datatype == "INT64"
    assert Tensor("n", eight.cast("N")).datatype == "UINT64"
    assert Tensor("n", eight.cast("P")).datatype == "P"
    assert Tensor("n", (ctypes.c_int * 2)()).datatype == "INT32"
    assert Tensor("n", (ctypes.c_double * 2)()).datatype == "FP64"


def rule_memoryviews():
    view = memoryview(bytearray(range(12))).cast("B", (3, 4))
    t = Tensor("n", view)
    assert (t.shape, t.data.shape, t.data.strides) == ((3, 4), (3, 4), (4, 1))
    assert memoryview(t).tolist() == view.tolist()
    scalar = Tensor("n", memoryview(struct.pack("f", 1.5)).cast("f", ()))
    assert (scalar.shape, scalar.size, scalar.datatype) == ((), 4, "FP32")
    assert scalar.data.ndim == 0 and scalar.data.tolist() == 1.5
    assert struct.unpack("f", bytes(scalar)) == (1.5,)


def rule_views_that_are_not_contiguous():
    every = memoryview(bytes(range(10)))[::2]
    t = Tensor("n", every)
    assert (t.shape, t.size, t.data.strides) == ((5,), 5, (2,))
    assert bytes(t) == bytes([0, 2, 4, 6, 8])
    backwards = Tensor("n", memoryview(b"abc")[::-1])
    assert bytes(backwards) == b"cba"
    raises(BufferError, ctypes.c_char.from_buffer_copy, t)
    raises(BufferError, struct.unpack, "5B", t)


def rule_changes_of_the_source_are_seen():
    source = bytearray(b"abc")
    t = Tensor("n", source)
    source[0] = ord("x")
    assert bytes(t) == b"xbc"
    raises(BufferError, source.append, 1)
    del t
    gc.collect()
    source.append(1)


def rule_the_source_stays():
    class Source(bytearray):
        pass

    source = Source(b"abc")
    reference = weakref.ref(source)
    t = Tensor("n", source)
    del source
    gc.collect()
    assert reference() is not None and bytes(t) == b"abc"
    del t
    gc.collect()
    assert reference() is None


def rule_views_outlive_the_tensor():
    views = [Tensor("n", bytearray(b"abc")).data, memoryview(Tensor("n", b"abc"))]
    gc.collect()
    assert [bytes(view) for view in views] == [b"abc", b"abc"]


def rule_read_only():
    t = Tensor("n", bytearray(b"abc"))
    try:
        (ctypes.c_char * 3).from_buffer(t)
    except (BufferError, TypeError):
        pass
    else:
        raise AssertionError("a writable buffer was given")
    assert t.data.readonly
    raises(TypeError, memoryview(t).__setitem__, 0, 1)


def rule_several_views_at_once():
    t = Tensor("n", array.array("i", range(100)))
    first, second = memoryview(t), memoryview(t)
    third = first[10:20]
    first.release()
    assert second.tolist() == list(range(100)) and third.tolist() == list(range(10, 20))
    assert bytes(t) == bytes(second)
    second.release()
    third.release()
    assert memoryview(t).tolist() == list(range(100))


def rule_views_in_many_threads():
    t = Tensor("n", bytes(range(256)))
    errors = []

    def look():
        for _ in range(200):
            if bytes(t) != bytes(range(256)) or memoryview(t)[255] != 255:
                errors.append(1)

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def rule_simple_requests():
    t = Tensor("n", array.array("H", [1, 2]))
    assert b"".join([t]) == struct.pack("HH", 1, 2)
    assert bytearray(t) == struct.pack("HH", 1, 2)
    assert struct.unpack("HH", t) == (1, 2)
    assert int.from_bytes(t, "little") == 1 + (2 << 16)
    assert bytes(1) + Tensor("n", b"ab").data == b"\0ab"


def rule_a_tensor_of_a_tensor():
    inner = Tensor("a", array.array("f", [1, 2]), (2, 1), "custom")
    t = Tensor("b", inner)
    assert (t.name, t.shape, t.datatype) == ("b", (2,), "FP32")
    assert bytes(t) == bytes(inner)
    assert Tensor("c", Tensor("b", inner), inner.shape, inner.datatype).shape == (2, 1)


def rule_repr_and_identity():
    t = Tensor("it's", b"ab", (1, 2), "BYTES")
    assert repr(t) == "Tensor(name=\"it's\", shape=(1, 2), datatype='BYTES', size=2)"
    assert t == t and t != Tensor("it's", b"ab", (1, 2), "BYTES")
    assert isinstance(hash(t), int)
    assert type(t).__name__ == "Tensor" and type(t).__module__ == "pyovms"
    assert isinstance(t, Tensor)


def rule_derived_classes():
    class Named(Tensor):
        def twice(self):
            return self.size * 2

    t = Named("n", b"abc")
    assert isinstance(t, Tensor) and t.twice() == 6 and bytes(t) == b"abc"


def rule_large():
    source = bytes(1 << 20)
    t = Tensor("n", source)
    assert t.size == 1 << 20 and bytes(t) == source


def rule_numpy_both_ways():
    if np is None:
        return
    table = {"bool": "BOOL", "int8": "INT8", "uint8": "UINT8", "int16": "INT16", "uint16": "UINT16",
             "int32": "INT32", "uint32": "UINT32", "int64": "INT64", "uint64": "UINT64",
             "float16": "FP16", "float32": "FP32", "float64": "FP64"}
    for kind, datatype in table.items():
        source = np.array([[1, 0, 1], [0, 1, 1]], dtype=kind)
        t = Tensor("n", source)
        assert (t.datatype, t.shape, t.size) == (datatype, (2, 3), source.nbytes), kind
        back = np.array(t)
        assert back.dtype == source.dtype and (back == source).all()
        shared = np.asarray(t)
        assert not shared.flags.writeable
        assert np.shares_memory(shared, source), kind
        assert (np.frombuffer(t, dtype=kind) == source.ravel()).all()


def rule_numpy_layouts():
    if np is None:
        return
    base = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for source in (base.T, base[:, ::2], base[::-1], np.asfortranarray(base), base[:, 1:, 1:3],
                   np.broadcast_to(np.float32(3), (2, 2)), np.float32(2).reshape(()), base[:0]):
        t = Tensor("n", source)
        assert t.shape == source.shape and t.size == source.nbytes
        assert bytes(t) == source.tobytes(), source.strides
        assert (np.array(t) == source).all()
        assert t.data.strides == source.strides or source.size == 0


def rule_numpy_other_types():
    if np is None:
        return
    words = np.array(["my", "batch"])
    t = Tensor("n", words)
    assert t.datatype == t.data.format == "5w", t.datatype
    assert Tensor("n", words, datatype=words.dtype.str).datatype == "<U5"
    assert Tensor("n", np.zeros(2, np.complex64)).datatype == "Zf"
    assert Tensor("n", np.zeros(2, ">i4")).datatype == ">i"
    assert Tensor("n", np.zeros(2, "S3")).datatype == "3s"
    assert Tensor("n", np.zeros(2, [("Old", "i4")])).datatype.startswith("T{")
    raises(TypeError, Tensor, "n", np.array([object()]), text="objects")
    raises(ValueError, Tensor, "n", np.array(["2020-01-01"], "datetime64[D]"))
    assert Tensor("n", b"ab", (np.int64(1), np.int32(2))).shape == (1, 2)


RULES = {name: rule for name, rule in list(globals().items()) if name.startswith("rule_")}
