"""Boxes that mark objects in an image, in pixels from the upper left corner."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_TOLERANCE = 1.5  # pixels by which formats and tools round a border differently


@dataclass(frozen=True)
class Box:
    """A rectangle with the class of what it holds.

    Attributes:
        name: of the class.
        left: of the first column, in pixels; 0 is the image's left border.
        top: of the first row, in pixels.
        width: in pixels.
        height: in pixels.
    """

    name: str
    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Right border in pixels."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """Lower border in pixels."""
        return self.top + self.height

    def overlaps(self, other: "Box") -> bool:
        """Tell whether two boxes have an area in common."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def describe(self) -> str:
        """The class and the borders, for messages."""
        return (
            f"the box of {self.name!r} from column {self.left:g}, row {self.top:g} to {self.right:g}, "
            f"{self.bottom:g}"
        )


def inside_image(boxes: Iterable[Box], size: tuple[int, int]) -> tuple[list[Box], list[str]]:
    """Divide boxes into those that an image of a size can hold and complaints about the others.

    A border that lies outside by a pixel and a half or less is moved onto the image's: formats and tools
    differ by as much.

    Args:
        boxes: of one image.
        size: height and width of the image in pixels.

    Returns:
        the boxes inside, and for each other one what is wrong with it.

    Example:
        >>> inside_image([Box("mine", -1, 0, 5, 5), Box("mine", 60, 0, 8, 8)], (64, 64))[1]
        ["the box of 'mine' from column 60, row 0 to 68, 8 reaches outside the image of 64 x 64 pixels"]
    """
    height, width = size
    inside: list[Box] = []
    complaints: list[str] = []
    for box in boxes:
        if not (box.width > 0 and box.height > 0):  # also for NaN
            complaints.append(f"{box.describe()} has no area")
            continue
        clipped = _clipped(box, size)
        if (
            min(box.left, box.top) >= -_TOLERANCE
            and box.right <= width + _TOLERANCE
            and box.bottom <= height + _TOLERANCE
            and min(clipped.width, clipped.height) > 0
        ):
            inside.append(clipped)
        else:
            complaints.append(f"{box.describe()} reaches outside the image of {width} x {height} pixels")
    return inside, complaints


def spanned(box: Box) -> Box:
    """The same rectangle with its borders in order, where a tool has exchanged them."""
    left, top = min(box.left, box.right), min(box.top, box.bottom)
    return Box(box.name, left, top, abs(box.width), abs(box.height))


def free_of(candidate: Box, boxes: Sequence[Box]) -> bool:
    """Tell whether a box has no area in common with any of some boxes."""
    return not any(candidate.overlaps(box) for box in boxes)


def _clipped(box: Box, size: tuple[int, int]) -> Box:
    height, width = size
    left, top = max(box.left, 0.0), max(box.top, 0.0)
    return Box(box.name, left, top, min(box.right, width) - left, min(box.bottom, height) - top)
