"""The few functions of TensorFlow that clients of its Serving use; the package itself is 600 MB."""

import numpy as np
from numpy import expand_dims
from ovmsclient.tfs_compat.grpc.tensors import make_ndarray
from ovmsclient.tfs_compat.protos.tensorflow.core.framework import tensor_pb2, types_pb2

__all__ = ["expand_dims", "make_ndarray", "make_tensor_proto"]

# The type of the protocol, and the field for its values.
TYPES = {
    "float32": (types_pb2.DT_FLOAT, "float_val"),
    "uint32": (types_pb2.DT_UINT32, "uint32_val"),
    "uint64": (types_pb2.DT_UINT64, "uint64_val"),
}


def make_tensor_proto(values, dtype):
    """A tensor of numbers: as TensorFlow does, one of them in its field, more as bytes."""
    values = np.array(values, dtype)
    number, field = TYPES[dtype]
    made = tensor_pb2.TensorProto(dtype=number)
    for size in values.shape:
        made.tensor_shape.dim.add(size=size)
    if values.size > 1:
        made.tensor_content = values.tobytes()
    else:
        getattr(made, field).extend(values.flatten().tolist())
    return made
