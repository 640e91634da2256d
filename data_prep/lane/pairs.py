"""One image and its mask, from files to what a shard stores. Runs in worker processes: no TensorFlow here."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError, Skipped
from data_prep.files.depth import read_at_levels
from data_prep.files.image_settings import DrawnOn, KeptLevels
from data_prep.files.images import encode_picture
from data_prep.files.orientation import read_mask_of
from data_prep.files.pairing import Pair
from data_prep.files.resizing import resize_image, resize_mask
from data_prep.lane.masks import IGNORED, LANE, LaneCoding, count_levels


@dataclass(frozen=True)
class PreparedPair:
    """A pair at the prepared size.

    Attributes:
        name: Name of the example.
        image: uint8 [height, width, 3] at the prepared size.
        mask: uint8 [height, width] at the prepared size: 0 background, 1 lane, 255 ignored.
        original_mask: PNG of the mask in the same coding at its original size.
        original_size: Height and width of the original, in pixels.
    """

    name: str
    image: npt.NDArray[np.uint8]
    mask: npt.NDArray[np.uint8]
    original_mask: bytes
    original_size: tuple[int, int]


@dataclass(frozen=True)
class StoredExample:
    """What is remembered of a stored example.

    Attributes:
        name: Name of the example.
        height: Height of the original image in pixels.
        width: Width of the original image in pixels.
        lane_pixels: Number of lane pixels at the prepared size.
        labelled_pixels: Number of pixels at the prepared size that are not ignored.
    """

    name: str
    height: int
    width: int
    lane_pixels: int
    labelled_pixels: int


def store_pair(pair: PreparedPair) -> tuple[StoredExample, dict[str, bytes]]:
    """Return what is remembered of a pair, and the features that a shard stores of it.

    These are `name` (UTF-8), `image` (raw uint8, height x width x 3), `mask` (raw uint8, height x width) and
    `original_mask` (PNG).
    """
    facts = StoredExample(
        name=pair.name,
        height=pair.original_size[0],
        width=pair.original_size[1],
        lane_pixels=int(np.count_nonzero(pair.mask == LANE)),
        labelled_pixels=int(np.count_nonzero(pair.mask != IGNORED)),
    )
    features = {
        "name": pair.name.encode(),
        "image": pair.image.tobytes(),
        "mask": pair.mask.tobytes(),
        "original_mask": pair.original_mask,
    }
    return facts, features


def survey_mask(pair: Pair) -> dict[int, int] | Skipped:
    """Count the levels of a pair's mask, or say why it cannot be read."""
    try:
        return count_levels(pair.mask)
    except InputError as error:
        return Skipped(pair.mask, str(error))


def prepare_pair(
    pair: Pair,
    coding: LaneCoding,
    size: tuple[int, int],
    drawn_on: DrawnOn = "upright",
    levels: KeptLevels | None = None,
) -> PreparedPair | Skipped:
    """Decode, check, code and resize a pair, or say why it cannot be used.

    Args:
        pair: Image and mask file.
        coding: Rule by which a mask level becomes a label.
        size: Height and width in pixels of the result.
        drawn_on: Whether masks fit the upright images or their stored pixels.
        levels: Levels that become 0 and 255 in images of more than 8 bits per sample.

    Returns:
        The pair at the prepared size, or the file that cannot be used and why.
    """
    try:
        image = read_at_levels(pair.image, levels)
    except InputError as error:
        return Skipped(pair.image, str(error))
    try:
        mask = coding.encode(read_mask_of(pair.image, pair.mask, drawn_on))
    except InputError as error:
        return Skipped(pair.mask, str(error))
    if image.shape[:2] != mask.shape:
        return Skipped(pair.mask, _sizes_differ(pair, image.shape[:2], mask.shape))
    if np.all(mask == IGNORED):
        return Skipped(
            pair.mask, f"{pair.mask}: every pixel has an ignored value. Remove the pair or label some pixels."
        )
    return PreparedPair(
        name=pair.name,
        image=resize_image(image, size),
        mask=resize_mask(mask, size),
        original_mask=encode_picture(mask),
        original_size=(mask.shape[0], mask.shape[1]),
    )


def _sizes_differ(pair: Pair, image_size: tuple[int, ...], mask_size: tuple[int, ...]) -> str:
    turned = " (the mask may have been drawn on the image as stored: then set masks_drawn_on=stored)"
    return (
        f"{pair.mask}: {mask_size[1]} x {mask_size[0]} pixels, but {pair.image} has {image_size[1]} x "
        f"{image_size[0]}{turned if image_size == mask_size[::-1] else ''}. Expected equal sizes. Export "
        "the mask again at the image's size."
    )
