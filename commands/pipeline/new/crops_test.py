"""Tests of the handler of the node `crops`, without a server.

In this folder: python -m unittest

They need NumPy, and the module pyovms, which is part of the server. For tests,
`ovms graph stubs` puts one into the virtual environment.
"""

from __future__ import annotations

import importlib.util
import pathlib
import unittest
from typing import Any

import numpy as np
from pyovms import Tensor

FOLDER = pathlib.Path(__file__).resolve().parent

PARAMS = {
    "form": "rows",
    "threshold": "0.5",
    "margin": "0",
    "most": "100",
    "image_layout": "NCHW",
    "layout": "NCHW",
    "height": "4",
    "width": "6",
    "datatype": "FP32",
}


def module() -> Any:
    """Run the handler's file, as the server does."""
    path = FOLDER / "crops.py"
    spec = importlib.util.spec_from_file_location("handler", path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def execute(
    found: Any, image: Any, resize: str | None = None, **params: str
) -> list[Any]:
    """Make the object of the handler, and call it."""
    handler = module()
    handler.RESIZE = resize or handler.RESIZE
    node = handler.OvmsPythonModel()
    node.initialize(
        {
            "node_name": "crops",
            "input_names": ["image", "found"],
            "output_names": ["crops", "boxes"],
            "base_path": str(FOLDER),
            "params": PARAMS | params,
        }
    )
    outputs = node.execute([Tensor("found", np.float32(found)), Tensor("image", np.float32(image))])
    return [np.asarray(output) for output in outputs]


class CropsTest(unittest.TestCase):
    def test_cuts_out_what_was_found(self) -> None:
        image = np.arange(3 * 10 * 20).reshape(1, 3, 10, 20)
        rows = [[2, 1, 8, 5, 0.9], [0, 0, 20, 10, 0.4]]
        crops, boxes = execute(rows, image)
        np.testing.assert_allclose(boxes, [[[0.1, 0.1, 0.4, 0.5]]])
        np.testing.assert_array_equal(crops, image[None, :, :, 1:5, 2:8])
        # Nothing above the threshold is no part.
        crops, boxes = execute(rows, image, threshold="0.95")
        self.assertEqual((crops.shape, boxes.shape), ((0, 1, 3, 4, 6), (0, 1, 4)))
        last = image.transpose(0, 2, 3, 1)
        crops, boxes = execute(rows, last, image_layout="NHWC", layout="NHWC", margin="0.5")
        self.assertEqual(crops.shape, (1, 1, 4, 6, 3))
        np.testing.assert_allclose(boxes, [[[0, 0, 0.5, 0.7]]])

    def test_fits(self) -> None:
        # One is as wide as the crop and half as high, the other one is halved and as high.
        image = np.arange(3 * 10 * 20).reshape(1, 3, 10, 20)
        rows = [[2, 1, 8, 3, 0.9], [2, 1, 6, 9, 0.9]]
        crops, _ = execute(rows, image, resize="fit")
        wide, high = crops[:, 0]
        np.testing.assert_array_equal(wide[:, :2], image[0, :, 1:3, 2:8])
        np.testing.assert_array_equal(high[:, :, :2], image[0, :, 2:9:2, 3:6:2])
        pad = np.float32(module().PAD)
        self.assertEqual({*wide[:, 2:].flat, *high[:, :, 2:].flat}, {pad})

    def test_stretches(self) -> None:
        image = np.arange(3 * 10 * 20).reshape(1, 3, 10, 20)
        crops, _ = execute([[2, 1, 8, 3, 0.9]], image, resize="stretch")
        twice = np.repeat(image[0, :, 1:3, 2:8], 2, axis=1)
        np.testing.assert_array_equal(crops[0, 0], twice)

    def test_refuses_another_resize(self) -> None:
        with self.assertRaises(ValueError):
            execute(np.zeros((0, 5)), np.zeros((1, 3, 10, 20)), resize="squeeze")

    def test_refuses_several_images(self) -> None:
        with self.assertRaises(ValueError):
            execute(np.zeros((0, 5)), np.zeros((2, 3, 10, 20)))

    def test_reads_detections(self) -> None:
        found = np.zeros((1, 1, 3, 7))
        found[0, 0, 0] = [0, 1, 0.9, 0.1, 0.2, 0.5, 1]
        found[0, 0, 1] = [0, 1, 0.1, 0, 0, 1, 1]
        found[0, 0, 2, 0] = -1
        boxes = module().from_detections(found, (10, 20), 0.5)
        np.testing.assert_allclose(boxes, [[2, 2, 10, 10]])

    def test_reads_yolo(self) -> None:
        # Of two that overlap, the better one; one of another place; one with a low score.
        found = np.zeros((1, 6, 4))
        found[0, :, 0] = [5, 5, 4, 4, 0.6, 0.1]
        found[0, :, 1] = [5, 5, 4, 5, 0.1, 0.9]
        found[0, :, 2] = [15, 5, 2, 2, 0.7, 0]
        found[0, :, 3] = [9, 9, 2, 2, 0.3, 0]
        boxes = module().from_yolo(found, (10, 20), 0.5)
        np.testing.assert_allclose(boxes, np.array([[3, 2.5, 7, 7.5], [14, 4, 16, 6]]))

    def test_reads_maps(self) -> None:
        scores = np.zeros((1, 1, 5, 10))
        scores[0, 0, 1:3, 2:5] = scores[0, 0, 4, 9] = 1
        boxes = module().from_map(scores, (10, 20), 0.5)
        np.testing.assert_allclose(boxes, [[4, 2, 10, 6], [18, 8, 20, 10]])


if __name__ == "__main__":
    unittest.main()
