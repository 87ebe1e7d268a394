"""The classifier's scores for its images are those recorded."""

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from PIL import Image

from conftest import FIXTURES

CLIENTS = {"grpc": tritonclient.grpc, "rest": tritonclient.http}


def drawings():
    """The ten drawings of shapes.png as the classifier takes them: [10,1,3,224,224]."""
    with Image.open(FIXTURES / "images" / "shapes.png") as sheet:
        pixels = np.asarray(sheet.convert("RGB"), np.float32)
    rows = pixels.reshape(2, 224, 5, 224, 3)
    return rows.transpose(0, 2, 4, 1, 3).reshape(10, 1, 3, 224, 224)


@pytest.mark.parametrize("api", CLIENTS)
def test_scores(serve, api):
    """Each drawing has its scores."""
    module = CLIENTS[api]
    expected = np.load(FIXTURES / "expected" / "classifier_scores.npy")
    with module.InferenceServerClient(getattr(serve("classifier"), api)) as client:
        for drawing, scores in zip(drawings(), expected, strict=True):
            image = module.InferInput("image", list(drawing.shape), "FP32")
            image.set_data_from_numpy(np.ascontiguousarray(drawing))
            answer = client.infer("classifier", [image]).as_numpy("scores")
            np.testing.assert_allclose(answer[0], scores, atol=1e-3)
