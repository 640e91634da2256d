"""Boxes around the connected components of a mask."""

from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from data_prep.sonar.boxes import Box

OBJECT_NAME = "object"
"""Class of all values but 0 where values have no names."""


def values_without_name(mask: npt.NDArray[np.integer[Any]], names: Mapping[int, str]) -> tuple[int, ...]:
    """Return the values of a mask, but for 0, that have no name.

    Args:
        mask: uint8 or uint16 [height, width].
        names: Class of each value that marks objects.

    Example:
        >>> values_without_name(np.array([[0, 7], [9, 9]], np.uint8), {9: "mine"})
        (7,)
    """
    largest = int(np.iinfo(mask.dtype).max)
    counts = cv2.calcHist([np.ascontiguousarray(mask)], [0], None, [largest + 1], [0, largest + 1])
    return tuple(value for value in np.flatnonzero(counts).tolist() if value and value not in names)


def component_boxes(
    mask: npt.NDArray[np.integer[Any]], names: Mapping[int, str], smallest_area: int
) -> list[Box]:
    """Return a box around each connected component (with diagonal neighbours) of a mask's objects.

    Args:
        mask: [height, width], an object's value or another one at each pixel.
        names: Class of each value that marks objects; empty for "object" wherever the value is not 0.
        smallest_area: Smaller components, in pixels, are left out.

    Returns:
        The boxes, value by value.

    Example:
        >>> mask = np.zeros((8, 8), np.uint8)
        >>> mask[2:5, 3:5] = 255
        >>> component_boxes(mask, {}, smallest_area=2)
        [Box(name='object', left=3, top=2, width=2, height=3)]
    """
    chosen = (
        [(name, mask == value) for value, name in sorted(names.items())]
        if names
        else [(OBJECT_NAME, mask != 0)]
    )
    boxes = []
    for name, objects in chosen:
        # The first component is what is not an object.
        _, _, statistics, _ = cv2.connectedComponentsWithStats(objects.astype(np.uint8), connectivity=8)
        boxes += [
            Box(name, *map(int, row[:4])) for row in statistics[1:] if row[cv2.CC_STAT_AREA] >= smallest_area
        ]
    return boxes
