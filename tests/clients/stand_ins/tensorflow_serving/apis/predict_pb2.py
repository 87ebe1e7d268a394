"""As in ovmsclient."""

from ovmsclient.tfs_compat.protos.tensorflow_serving.apis.predict_pb2 import *  # noqa: F403
