"""Images that EXIF turns upright, and their masks, which may have been drawn before or after that."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError
from data_prep.files.image_settings import DrawnOn
from data_prep.files.images import exif_orientation, read_mask

UPRIGHT = 1
"""The orientation of a file that is not turned."""

_MIRRORED = {2, 4, 5, 7}
_QUARTERS = {3: 2, 4: 2, 5: 1, 6: -1, 7: -1, 8: 1}  # turned to the left, after mirroring


def turned(pixels: npt.NDArray[Any], orientation: int) -> npt.NDArray[Any]:
    """Return the pixels of a file upright.

    Args:
        pixels: [height, width, ...], in the order of the file.
        orientation: EXIF orientation, from 1 to 8; other numbers turn nothing.

    Example:
        >>> turned(np.array([[1, 2], [3, 4]]), 3).tolist()
        [[4, 3], [2, 1]]
    """
    if orientation in _MIRRORED:
        pixels = pixels[:, ::-1]
    upright: npt.NDArray[Any] = np.rot90(pixels, _QUARTERS.get(orientation, 0))
    return upright


def read_mask_of(image: Path, mask: Path, drawn_on: DrawnOn) -> npt.NDArray[np.integer[Any]]:
    """Decode a mask so that it fits its image.

    Args:
        image: File of the image, whose orientation counts where masks were drawn on the stored pixels.
        mask: File of the mask, as for `data_prep.files.images.read_mask`.
        drawn_on: What the mask was drawn on.

    Raises:
        InputError: The mask cannot be read.
    """
    levels = read_mask(mask)
    if drawn_on == "stored" and _orientation(mask) == UPRIGHT:
        return turned(levels, _orientation(image))
    return levels


def turned_apart(files: Sequence[tuple[Path, Path | None]], drawn_on: DrawnOn = "upright") -> list[str]:
    """Say how many images EXIF turns while it does not turn what was drawn on them.

    Args:
        files: Each image with its mask; None where boxes were drawn, which have no orientation.
        drawn_on: The setting; where it is stored, the question is answered and nothing is said.

    Returns:
        One sentence, or none.
    """
    if drawn_on == "stored":
        return []
    apart = [
        image
        for image, mask in files
        if (orientation := _orientation(image)) != UPRIGHT
        and (mask is None or _orientation(mask) != orientation)
    ]
    if not apart:
        return []
    boxes = any(mask is None for _, mask in files)
    remedy = (
        "If boxes were drawn on the pixels as stored, save these images upright and draw on those"
        if boxes
        else "If the masks were drawn on the pixels as stored, set masks_drawn_on=stored"
    )
    note = (
        f"{len(apart)} of {len(files)} images were turned upright by their EXIF orientation while their "
        f"{'boxes' if boxes else 'masks'} were not ({apart[0].name}). {remedy}; else labels lie in wrong "
        "places."
    )
    return [note]


def _orientation(path: Path) -> int:
    try:
        orientation = exif_orientation(path)
    except InputError:
        return UPRIGHT
    return orientation if orientation in range(1, 9) else UPRIGHT
