"""Pictures of what a traditional lane detector found."""

from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.traditional.result import Point, TraditionalLane, check_image

_TINT: Final = (0, 200, 0)
_BORDER: Final = (255, 200, 0)
_VANISHING_POINT: Final = (255, 0, 0)
_OPACITY: Final = 0.4


def with_lane(image: NDArray[np.uint8], lane: TraditionalLane) -> NDArray[np.uint8]:
    """Return a picture with the lane tinted green, its borders yellow and its vanishing point a red disc.

    Args:
        image: uint8 [H, W, 3], red, green, blue; it is not changed.
        lane: Lane found in it.

    Returns:
        uint8 [H, W, 3].

    Raises:
        ValueError: The image is not of that type or has another size than the lane's mask.

    Example:
        >>> mask = np.zeros((32, 32), bool)
        >>> lane = TraditionalLane(mask, np.float32(mask) - 1, (8.0, 16.0), (None, None))
        >>> with_lane(np.zeros((32, 32, 3), np.uint8), lane)[8, 16].tolist()
        [255, 0, 0]
    """
    check_image(image)
    if image.shape[:2] != lane.mask.shape:
        raise ValueError(
            f"the image has shape {image.shape[:2]} and the lane's mask {lane.mask.shape}; expected equal "
            "heights and widths: draw on the image in which the lane was found"
        )
    tinted = (1 - _OPACITY) * image + _OPACITY * np.array(_TINT)
    picture = np.where(lane.mask[..., None], tinted, image).astype(np.uint8)
    thickness = max(1, round(min(image.shape[:2]) / 150))
    start = _pixel(lane.vanishing_point)
    for end in lane.borders:
        if end is not None:
            cv2.line(picture, start, _pixel(end), _BORDER, thickness, cv2.LINE_AA)
    cv2.circle(picture, start, 2 * thickness + 1, _VANISHING_POINT, -1, cv2.LINE_AA)
    return picture


def _pixel(point: Point) -> tuple[int, int]:
    """Return column and row of a point (row, column), rounded, as OpenCV takes them."""
    return round(point[1]), round(point[0])
