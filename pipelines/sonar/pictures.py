"""Pictures of full sonar images, with a box for each object that was found."""

from collections.abc import Sequence

import cv2
import numpy as np

from data_prep.sonar.images import cut_window
from data_prep.sonar.levels import Levels, resize_levels
from pipelines.scores.pictures import CLASS_COLOURS, REFERRED_COLOUR, Picture, write_label
from pipelines.sonar.windows import Find

_LONGEST_SIDE = 4096  # pixels
_LEGIBLE_SIDE = 768  # pixels; the letters beside a box need room
_READ_AT_ONCE = 16_000_000  # pixels of the image that are reduced at once
_BRIGHTEST = 99.5  # percentile of the levels that becomes white


def annotated(
    picture: Picture, scale: float, finds: Sequence[Find], referred: Sequence[bool], names: Sequence[str]
) -> Picture:
    """Return the picture with a box, the class, an object's probability and the entropy for each find.

    Referred boxes are red; the others have a colour for each class.

    Args:
        picture: The image at another size, `[H, W, 3]`.
        scale: Pixels of the picture for a pixel of the image.
        finds: Boxes in pixels of the image.
        referred: Whether an analyst should look at each box.
        names: Names of all classes.
    """
    drawn = picture.copy()
    thickness = max(2, round(max(picture.shape[:2]) / 600))
    for find, refer in zip(finds, referred, strict=True):
        colour = REFERRED_COLOUR if refer else CLASS_COLOURS[names.index(find.box.name) % len(CLASS_COLOURS)]
        left, top, right, bottom = (
            round(scale * border) for border in (find.box.left, find.box.top, find.box.right, find.box.bottom)
        )
        # A dark rim, because speckle is as bright as any colour.
        cv2.rectangle(drawn, (left, top), (right, bottom), (0, 0, 0), 2 * thickness)
        cv2.rectangle(drawn, (left, top), (right, bottom), colour, thickness)
        text = f"{find.box.name} {find.score:.2f}, {find.predictive_entropy:.2f} nats"
        write_label(drawn, text, (left, top), colour, thickness=thickness)
    return drawn


def image_picture(levels: Levels) -> tuple[Picture, float]:
    """Return the image for people to look at, neither tiny nor above 4096 pixels a side, and its scale.

    The image is reduced in bands of rows, because a very large one does not fit into memory.
    """
    height, width = levels.shape[:2]
    longest = max(height, width)
    scale = min(1.0, _LONGEST_SIDE / longest) if longest >= _LEGIBLE_SIDE else -(-_LEGIBLE_SIDE // longest)
    rows, columns = max(1, round(height * scale)), max(1, round(width * scale))
    bands = []
    at_once = max(1, _READ_AT_ONCE * rows // (height * width))
    for first in range(0, rows, at_once):
        last = min(first + at_once, rows)
        top = first * height // rows
        bottom = max(last * height // rows, top + 1)
        bands.append(
            resize_levels(cut_window(levels, top, 0, (bottom - top, width)), (last - first, columns))
        )
    picture = np.concatenate(bands)
    grey = np.clip(255.0 * picture / max(float(np.percentile(picture, _BRIGHTEST)), 1e-6), 0, 255)
    return np.repeat(np.rint(grey).astype(np.uint8)[:, :, None], 3, axis=2), float(scale)
