"""The reduced copy of an image on which the detectors work, and the way back to the image's own pixels."""

from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.traditional.result import SMALLEST_SIDE, Point, check_image

LONGEST_SIDE: Final = 160
"""Pixels of the longer side of the copy; smaller images are enlarged, so that lengths mean the same."""


@dataclass(frozen=True)
class WorkingImage:
    """A copy of an image whose longer side has `LONGEST_SIDE` pixels.

    Attributes:
        pixels: uint8 [h, w, 3], red, green, blue.
        full_size: Height and width of the image itself, pixels.
    """

    pixels: NDArray[np.uint8]
    full_size: tuple[int, int]

    @property
    def size(self) -> tuple[int, int]:
        """Return height and width of the copy, pixels."""
        return self.pixels.shape[0], self.pixels.shape[1]

    @property
    def grey(self) -> NDArray[np.float32]:
        """Return the copy's grey levels from 0 to 255, float32 [h, w]."""
        return np.asarray(cv2.cvtColor(self.pixels, cv2.COLOR_RGB2GRAY), np.float32)

    @property
    def lab(self) -> NDArray[np.float32]:
        """Return the copy in CIE L*a*b*, float32 [h, w, 3]; L* from 0 to 100."""
        lab = cv2.cvtColor(self.pixels.astype(np.float32) / 255, cv2.COLOR_RGB2Lab)
        return np.asarray(lab, np.float32)

    def to_full(self, point: Point) -> Point:
        """Return where a point of the copy (row, column) lies in the image, both in pixels.

        The middle of an outermost pixel of an enlarged copy lies a little outside the middle of the image's:
        it is moved there.
        """
        row, column = (
            min(max((coordinate + 0.5) * full / own - 0.5, 0.0), full - 1.0)
            for coordinate, full, own in zip(point, self.full_size, self.size, strict=True)
        )
        return row, column

    def enlarged(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return a map over the copy, [h, w], interpolated linearly to the image's size, float32 [H, W]."""
        return np.asarray(
            cv2.resize(values, self.full_size[::-1], interpolation=cv2.INTER_LINEAR), np.float32
        )


def working_image(image: NDArray[np.uint8]) -> WorkingImage:
    """Return the copy of an image that the detectors work on.

    Args:
        image: uint8 [H, W, 3], red, green, blue, at least 16 x 16 pixels.

    Raises:
        ValueError: It is not such an image.

    Example:
        >>> working_image(np.zeros((306, 408, 3), np.uint8)).size
        (120, 160)
    """
    check_image(image)
    height, width = image.shape[:2]
    scale = LONGEST_SIDE / max(height, width)
    size = tuple(max(SMALLEST_SIDE, round(side * scale)) for side in (width, height))
    interpolation = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    return WorkingImage(np.asarray(cv2.resize(image, size, interpolation=interpolation)), (height, width))
