"""As in ovmsclient."""

from ovmsclient.tfs_compat.protos.tensorflow_serving.apis.prediction_service_pb2_grpc import *  # noqa: F403
