"""An image in, height x width x 3 bytes; out what lies on its ground, cut out for the classifier, and where."""

import numpy as np
from pyovms import Tensor

SIDE = 224  # of a crop
CELL = 4  # pixels across of what is looked at together
FEWEST = 12  # cells of a thing; what is smaller is dirt
DISTANCE = 48  # of a colour from the ground's, out of 255
MARGIN = 0.23  # of ground around a thing in its crop, as a share of its size


def ground(image: np.ndarray) -> np.ndarray:
    """The colour of the ground at each pixel: a plane through the colours at the border."""
    height, width, _ = image.shape
    y, x = np.mgrid[0:height, 0:width]
    plane = np.stack([np.ones(height * width), x.ravel() / width, y.ravel() / height], axis=1)
    border = (np.minimum(x, width - 1 - x) < CELL) | (np.minimum(y, height - 1 - y) < CELL)
    at_border = border.ravel()
    fit = np.linalg.lstsq(plane[at_border], image.reshape(-1, 3)[at_border], rcond=None)[0]
    return (plane @ fit).reshape(image.shape)


def things(mask: np.ndarray):
    """The masks of the regions that hang together, from the top down."""
    left = mask.copy()
    for start in zip(*np.nonzero(mask)):
        if not left[start]:
            continue
        region, cells = np.zeros_like(mask), [start]
        left[start] = False
        for y, x in cells:  # which grows meanwhile
            region[y, x] = True
            for near in ((y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)):
                if 0 <= near[0] < mask.shape[0] and 0 <= near[1] < mask.shape[1] and left[near]:
                    left[near] = False
                    cells.append(near)
        if len(cells) >= FEWEST:
            yield region


def crop(image: np.ndarray, mask: np.ndarray, box: tuple) -> np.ndarray:
    """A thing alone on its ground, in a square of the size that the classifier takes."""
    left, top, right, bottom = box
    side = int(max(right - left, bottom - top) * (1 + 2 * MARGIN))
    around = image[mask == 0].mean(axis=0)
    square = np.full((side, side, 3), around)
    x, y = (side - (right - left)) // 2, (side - (bottom - top)) // 2
    part, is_thing = image[top:bottom, left:right], mask[top:bottom, left:right, None] > 0
    square[y : y + bottom - top, x : x + right - left] = np.where(is_thing, part, around)
    return resized(resized(square).transpose(1, 0, 2)).transpose(2, 1, 0)


def resized(image: np.ndarray) -> np.ndarray:
    """As many rows as the classifier takes, each between the two nearest ones."""
    places = np.clip((np.arange(SIDE) + 0.5) * len(image) / SIDE - 0.5, 0, len(image) - 1)
    first = places.astype(int)
    share = (places - first)[:, None, None]
    return image[first] * (1 - share) + image[np.minimum(first + 1, len(image) - 1)] * share


class OvmsPythonModel:
    def execute(self, inputs: list) -> list:
        image = np.asarray(inputs[0])
        if image.ndim != 3 or image.shape[2] != 3:
            raise ValueError(f"image: expected height x width x 3, got {image.shape}")
        image = image.astype(np.float64)
        height, width = (length - length % CELL for length in image.shape[:2])
        image = image[:height, :width]
        is_thing = np.abs(image - ground(image)).max(axis=2) > DISTANCE
        cells = is_thing.reshape(height // CELL, CELL, width // CELL, CELL).mean(axis=(1, 3)) > 0.3
        crops, boxes = [], []
        for region in things(cells):
            rows, columns = np.nonzero(region.any(axis=1))[0], np.nonzero(region.any(axis=0))[0]
            # A cell more on each side: the edges are in cells that are mostly ground.
            top, bottom = max(rows[0] - 1, 0) * CELL, min((rows[-1] + 2) * CELL, height)
            left, right = max(columns[0] - 1, 0) * CELL, min((columns[-1] + 2) * CELL, width)
            box = (left, top, right, bottom)
            crops.append(crop(image, is_thing, box)[np.newaxis])
            boxes.append([box])
        if not crops:
            raise ValueError("image: found nothing on the ground")
        return [
            Tensor("crops", np.ascontiguousarray(np.stack(crops), np.float32)),
            Tensor("boxes", np.array(boxes, np.int32)),
        ]
