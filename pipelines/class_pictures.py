"""Pictures of single classified images: the image enlarged, and a bar for the probability of each class."""

from __future__ import annotations

import cv2
import numpy as np

from pipelines.overlays import Picture
from pipelines.scores import AnyFloatArray

TRUE_COLOUR = (0, 158, 115)
OTHER_COLOUR = (140, 140, 140)

_SIDE = 160
_BAR_WIDTH = 120


def enlarged(image: Picture) -> Picture:
    """The image ``[H, W, 3]`` at a height that can be seen, its pixels still to be told apart."""
    height, width = image.shape[:2]
    size = (max(1, round(_SIDE * width / height)), _SIDE)
    interpolation = cv2.INTER_NEAREST if height < _SIDE else cv2.INTER_AREA
    return np.asarray(cv2.resize(image, size, interpolation=interpolation), np.uint8)


def probability_bars(probability: AnyFloatArray, label: int) -> Picture:
    """One bar for each class, from above in the order of the classes, the true one in its own colour.

    Args:
        probability: ``[C]``.
        label: the true class.
    """
    picture = np.full((_SIDE, _BAR_WIDTH, 3), 255, np.uint8)
    edges = np.linspace(0, _SIDE, len(probability) + 1).round().astype(int)
    for index, share in enumerate(probability):
        colour = TRUE_COLOUR if index == label else OTHER_COLOUR
        top, bottom = edges[index], max(edges[index + 1] - 1, edges[index] + 1)
        picture[top:bottom, : max(1, round(float(share) * _BAR_WIDTH))] = colour
    return picture
