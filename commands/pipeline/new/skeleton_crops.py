"""The Python node `crops` of the pipeline `@NAME@`.

As written by `ovms pipeline new detection` it cuts what the detector has found
out of the image, and gives each piece to the next model. What the output of a
detector means is in the functions of FORMS; the node's `params` in config.json
say which one counts, and what else there is to choose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyovms import Tensor

if TYPE_CHECKING:
    from pyovms import PipelineArguments

# How a crop gets the height and width of the next model: "fit" keeps its
# proportions, as text needs it, and fills what is left, to the right or below,
# with PAD; "stretch" fills all of it with the crop, as many classifiers take it.
RESIZE = "fit"
PAD = 127  # a pixel of grey; of images that are sent as 0 to 1 it is 0.5

DTYPES = {"FP32": np.float32, "FP16": np.float16, "UINT8": np.uint8}
OVERLAP = 0.5  # of two boxes of which the better one is kept: intersection over union

# Each takes the detector's output, height and width of the image, and the
# least score. It returns boxes, left, top, right, and bottom in pixels.


def from_detections(found: np.ndarray, size: tuple[int, int], least: float) -> np.ndarray:
    """Read DetectionOutput, as of SSD: image, class, score, and a box in fractions."""
    rows = found.reshape(-1, 7)
    rows = rows[(rows[:, 0] >= 0) & (rows[:, 2] >= least)]
    height, width = size
    return rows[:, 3:7] * np.array([width, height, width, height])


def from_rows(found: np.ndarray, size: tuple[int, int], least: float) -> np.ndarray:
    """Read rows of a box in pixels and its score; what follows is passed over."""
    rows = found.reshape(-1, found.shape[-1])
    return rows[rows[:, 4] >= least][:, :4]


def from_yolo(found: np.ndarray, size: tuple[int, int], least: float) -> np.ndarray:
    """Read YOLOv8 and later: middle, width, and height, and a score for each class."""
    columns = found[0].T
    scores = columns[:, 4:].max(axis=1)
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] >= least]
    middle, extent = columns[order, :2], columns[order, 2:4]
    left = np.concatenate([middle - extent / 2, middle + extent / 2], axis=1)
    kept = []
    while len(left):
        best, left = left[0], left[1:]
        kept.append(best)
        corners = np.minimum(left[:, 2:], best[2:]) - np.maximum(left[:, :2], best[:2])
        shared = np.maximum(corners, 0).prod(axis=1)
        both = (left[:, 2:] - left[:, :2]).prod(axis=1) + (best[2:] - best[:2]).prod()
        left = left[shared <= OVERLAP * (both - shared)]
    return np.array(kept).reshape(-1, 4)


def from_map(found: np.ndarray, size: tuple[int, int], least: float) -> np.ndarray:
    """Read a map of scores, as of text: each connected region is one."""
    scores = found.reshape(found.shape[-2:])
    free = scores >= least
    boxes = []
    for start in zip(*np.nonzero(free)):
        if not free[start]:
            continue
        free[start] = False
        region = [start]
        for y, x in region:  # which grows meanwhile
            for near in ((y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)):
                if 0 <= near[0] < free.shape[0] and 0 <= near[1] < free.shape[1] and free[near]:
                    free[near] = False
                    region.append(near)
        places = np.array(region)
        top, left = places.min(axis=0)
        bottom, right = places.max(axis=0) + 1
        boxes.append([left, top, right, bottom])
    scale = np.array(size) / scores.shape
    return np.array(boxes, float).reshape(-1, 4) * scale[[1, 0, 1, 0]]


FORMS = {"detections": from_detections, "rows": from_rows, "yolo": from_yolo, "map": from_map}


def resized(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Resize an image, height x width x channels: each pixel is the nearest one."""
    rows = (np.arange(height) + 0.5) * image.shape[0] / height
    columns = (np.arange(width) + 0.5) * image.shape[1] / width
    return image[rows.astype(int)[:, None], columns.astype(int)]


def size_within(image: np.ndarray, height: int, width: int) -> tuple[int, int]:
    """Height and width that an image gets in a crop of this size."""
    if RESIZE == "stretch":
        return height, width
    scale = min(height / image.shape[0], width / image.shape[1])
    return max(round(image.shape[0] * scale), 1), max(round(image.shape[1] * scale), 1)


class OvmsPythonModel:
    """One object of it serves all requests to the node, several at once."""

    def initialize(self, kwargs: PipelineArguments) -> None:
        """Read the params of the node, which are texts."""
        if RESIZE not in ("fit", "stretch"):
            raise ValueError(f"RESIZE: expected 'fit' or 'stretch', got {RESIZE!r}")
        params = kwargs["params"]
        self.read = FORMS[params["form"]]
        self.least = float(params["threshold"])
        self.margin = float(params["margin"])
        self.most = int(params["most"])
        self.image_layout = params["image_layout"]
        self.layout = params["layout"]
        self.height, self.width = int(params["height"]), int(params["width"])
        self.dtype = DTYPES[params["datatype"]]

    def execute(self, inputs: list[Tensor]) -> list[Tensor]:
        """Take `found` and `image`, sorted by name; return a part for each box."""
        found, image = (np.asarray(given) for given in inputs)
        if len(image) != 1:
            # The text reaches the client.
            raise ValueError(f"image: expected one at a time, got {len(image)}")
        image = image[0].transpose(1, 2, 0) if self.image_layout == "NCHW" else image[0]
        height, width = image.shape[:2]
        boxes = self.read(found, (height, width), self.least)[: self.most]
        # Some more around each, as a share of its shorter side.
        around = (boxes[:, 2:] - boxes[:, :2]).min(axis=1, initial=np.inf) * self.margin
        boxes = boxes + around[:, None] * np.array([-1, -1, 1, 1])
        boxes = np.clip(np.rint(boxes), 0, [width, height, width, height]).astype(np.int32)
        boxes = boxes[(boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])]
        size = (len(boxes), 1, self.height, self.width, image.shape[2])
        crops = np.full(size, PAD, self.dtype)
        for place, (left, top, right, bottom) in enumerate(boxes):
            piece = image[top:bottom, left:right]
            rows, columns = size_within(piece, self.height, self.width)
            crops[place, 0, :rows, :columns] = resized(piece, rows, columns)
        if self.layout == "NCHW":
            crops = crops.transpose(0, 1, 4, 2, 3)
        # A photo has another size than the image that the detector takes: fractions are those of both.
        boxes = boxes / np.array([width, height, width, height], np.float32)
        # The first dimension is the parts: each is a crop and its box, in a batch of one.
        return [
            Tensor("crops", np.ascontiguousarray(crops)),
            Tensor("boxes", np.ascontiguousarray(boxes[:, None], np.float32)),
        ]
