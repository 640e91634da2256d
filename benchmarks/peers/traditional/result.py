"""What a traditional lane detector returns, and the check of the image it is given."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Point = tuple[float, float]
"""Row and column in pixels; (0, 0) is the centre of the upper left pixel."""

SMALLEST_SIDE: Final = 16
"""Fewest rows and columns of an image that a detector accepts, pixels."""


@dataclass(frozen=True)
class TraditionalLane:
    """The lane that a traditional detector found in one image.

    Attributes:
        mask: bool [H, W], True where the lane is.
        score: float32 [H, W], a crude log-odds-like score, finite; it is positive exactly where `mask` is.
        vanishing_point: Row and column, pixels of the image.
        borders: Row and column of the points where the left and the right border leave the image; None each
            if the image shows no border.
    """

    mask: NDArray[np.bool_]
    score: NDArray[np.float32]
    vanishing_point: Point
    borders: tuple[Point | None, Point | None]


def lane_from_score(
    score: NDArray[np.float32], vanishing_point: Point, borders: tuple[Point | None, Point | None]
) -> TraditionalLane:
    """Return the lane whose mask is where `score` is positive.

    Args:
        score: float32 [H, W].
        vanishing_point: Row and column, pixels.
        borders: Ends of the left and the right border, rows and columns in pixels, or None each.

    Example:
        >>> lane = lane_from_score(np.float32([[-1, 2]]), (0.0, 1.0), (None, None))
        >>> lane.mask.tolist()
        [[False, True]]
    """
    return TraditionalLane(score > 0, score, vanishing_point, borders)


def no_lane(size: tuple[int, int], vanishing_point: Point) -> TraditionalLane:
    """Return the result for an image that shows no borders: an empty mask and the score -1.

    Args:
        size: Height and width, pixels.
        vanishing_point: Row and column, pixels.

    Example:
        >>> no_lane((20, 30), (8.0, 15.0)).mask.any()
        False
    """
    return lane_from_score(np.full(size, -1, np.float32), vanishing_point, (None, None))


def check_image(image: NDArray[np.uint8]) -> None:
    """Refuse what is not an RGB image of at least 16 x 16 pixels.

    Args:
        image: Expected to be uint8 [H, W, 3].

    Raises:
        ValueError: The type, the number of axes or channels, or the size is another.
    """
    if image.dtype != np.uint8:
        raise ValueError(
            f"the image holds {image.dtype} values; expected uint8 from 0 to 255: convert it, for example by "
            "np.clip(image, 0, 255).astype(np.uint8)"
        )
    if image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(
            f"the image has shape {image.shape}; expected [H, W, 3], red, green, blue: "
            "repeat a grey image along a last axis of 3 and drop an alpha channel"
        )
    if min(image.shape[:2]) < SMALLEST_SIDE:
        raise ValueError(
            f"the image has {image.shape[0]} x {image.shape[1]} pixels; expected at least "
            f"{SMALLEST_SIDE} x {SMALLEST_SIDE}: give a larger picture"
        )
