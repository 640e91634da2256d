"""All thumbnails of a page in one picture, which is smaller and quicker to show than one file for each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from data_prep.files.fitting import fit_within
from pipelines.scores.pictures import Picture

_SIDES = ((1000, 64), (3000, 48), (math.inf, 32))
"""Side of a thumbnail in pixels, up to how many examples."""

_BACKGROUND = 255


@dataclass(frozen=True)
class Atlas:
    """Thumbnails in rows.

    Attributes:
        picture: The sheet `[rows * side, columns * side, 3]`.
        side: Side of each thumbnail's square in pixels.
        columns: Thumbnails in a row.
        sizes: Height and width of each picture, which is in the middle of its square.
    """

    picture: Picture
    side: int
    columns: int
    sizes: tuple[tuple[int, int], ...]


def make_atlas(pictures: Sequence[Picture]) -> Atlas:
    """Return thumbnails of pictures `[H, W, 3]` of any sizes, in their order.

    Example:
        >>> make_atlas([np.zeros((4, 8, 3), np.uint8)] * 5).picture.shape
        (128, 192, 3)
    """
    side = next(size for most, size in _SIDES if len(pictures) <= most)
    columns = math.ceil(math.sqrt(len(pictures)))
    rows = math.ceil(len(pictures) / columns)
    sheet = np.full((rows * side, columns * side, 3), _BACKGROUND, np.uint8)
    sizes = []
    for number, picture in enumerate(pictures):
        small = filling(picture, side)
        height, width = small.shape[:2]
        top = number // columns * side + (side - height) // 2
        left = number % columns * side + (side - width) // 2
        sheet[top : top + height, left : left + width] = small
        sizes.append((height, width))
    return Atlas(sheet, side, columns, tuple(sizes))


def filling(picture: Picture, side: int) -> Picture:
    """Return a picture whose longer side has as many pixels; enlarged ones keep their pixels distinct."""
    height, width = picture.shape[:2]
    if max(height, width) >= side:
        return fit_within(picture, side)
    scale = side / max(height, width)
    shape = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(picture, shape, interpolation=cv2.INTER_NEAREST), np.uint8)
