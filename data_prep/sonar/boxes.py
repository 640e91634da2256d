"""Boxes that mark objects in an image, in pixels from the upper left corner."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

_LEAST_SIDE = 1.0  # pixels; smaller boxes show nothing
_TOLERANCE = 1.5  # pixels by which formats and tools round a border differently


@dataclass(frozen=True)
class Box:
    """A rectangle with the class of what it holds.

    Attributes:
        name: Name of the class.
        left: Left border, in pixels; 0 is the image's left border.
        top: Upper border, in pixels; 0 is the image's upper border.
        width: Width in pixels.
        height: Height in pixels.
    """

    name: str
    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Right border of the box, in pixels."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """Lower border of the box, in pixels."""
        return self.top + self.height

    def describe(self) -> str:
        """Return the class and the borders as text for messages."""
        return (
            f"the box of {self.name!r} from column {self.left:g}, row {self.top:g} to {self.right:g}, "
            f"{self.bottom:g}"
        )


class TakenPlaces:
    """Boxes that others have to stay away from; a box is compared with thousands of them at once.

    Args:
        boxes: First boxes to stay away from.

    Example:
        >>> TakenPlaces([Box("mine", 10, 10, 5, 5)]).leave_free(Box("", 15, 10, 5, 5))
        True
    """

    def __init__(self, boxes: Iterable[Box] = ()) -> None:
        self._borders = np.empty((4, 0))
        self._number = 0
        for box in boxes:
            self.add(box)

    def add(self, box: Box) -> None:
        """Add a box that others have to stay away from."""
        if self._number == self._borders.shape[1]:
            room = np.empty((4, max(16, self._number)))
            self._borders = np.concatenate([self._borders, room], axis=1)
        self._borders[:, self._number] = box.left, box.top, box.right, box.bottom
        self._number += 1

    def leave_free(self, box: Box) -> bool:
        """Whether a box has no area in common with any of these."""
        left, top, right, bottom = self._borders[:, : self._number]
        across = (left < box.right) & (box.left < right)
        return not np.any(across & (top < box.bottom) & (box.top < bottom))


@dataclass(frozen=True)
class Complaint:
    """A box that is left out, and why; the reason is the same for all boxes with the same fault."""

    box: Box
    reason: str


def inside_image(boxes: Iterable[Box], size: tuple[int, int]) -> tuple[list[Box], list[Complaint]]:
    """Divide boxes into those that an image of a size can hold and complaints about the others.

    Of boxes that are the same the first is kept. A border that lies outside by a pixel and a half or less is
    moved onto the image's: formats and tools differ by as much.

    Args:
        boxes: Boxes of one image.
        size: Height and width of the image in pixels.

    Returns:
        The boxes inside, and for each other one what is wrong with it.

    Example:
        >>> inside_image([Box("mine", -1, 0, 5, 5), Box("mine", 60, 0, 8, 8)], (64, 64))[1][0].reason
        'reaches outside the image'
    """
    height, width = size
    inside: dict[Box, None] = {}  # in their order, each once
    complaints: list[Complaint] = []
    for box in boxes:
        if not (box.width > 0 and box.height > 0):  # also for NaN
            complaints.append(Complaint(box, "has no area"))
            continue
        clipped = _clipped(box, size)
        if clipped in inside:
            complaints.append(Complaint(box, "is there more than once"))
        elif (
            min(box.left, box.top) >= -_TOLERANCE
            and box.right <= width + _TOLERANCE
            and box.bottom <= height + _TOLERANCE
            and min(clipped.width, clipped.height) > 0
        ):
            if min(box.width, box.height) < _LEAST_SIDE:
                complaints.append(Complaint(box, "is smaller than a pixel"))
            else:
                inside[clipped] = None
        else:
            complaints.append(Complaint(box, "reaches outside the image"))
    return list(inside), complaints


def fit_as_corners(boxes: Iterable[Box], size: tuple[int, int]) -> bool:
    """Whether boxes would lie inside an image of a size if what they call width and height were borders.

    Example:
        >>> fit_as_corners([Box("mine", 70, 40, 100, 65)], (128, 160))
        True
    """
    height, width = size
    return all(
        0 <= box.left < box.width <= width + _TOLERANCE and 0 <= box.top < box.height <= height + _TOLERANCE
        for box in boxes
    )


def spanned(box: Box) -> Box:
    """Return the same rectangle with its borders in order, where a tool has exchanged them."""
    left, top = min(box.left, box.right), min(box.top, box.bottom)
    return Box(box.name, left, top, abs(box.width), abs(box.height))


def _clipped(box: Box, size: tuple[int, int]) -> Box:
    height, width = size
    left, top = max(box.left, 0.0), max(box.top, 0.0)
    return Box(box.name, left, top, min(box.right, width) - left, min(box.bottom, height) - top)
