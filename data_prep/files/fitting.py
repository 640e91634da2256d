"""Images of any proportions at one size, without distortion: cut to the proportions, or with borders.

The geometry is written once, for whole numbers and for tensors, so that a graph can do the same to an image.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from data_prep.files.image_settings import Fit
from data_prep.files.resizing import resize_by_area

BORDER_LEVEL = 127
"""Level of the borders, in the middle of 0..255: networks scale it to about 0."""


@dataclass(frozen=True)
class Placement:
    """Which part of an image is shown, and where.

    Attributes:
        part: Height and width of the part, in pixels of the image; it is in the middle.
        shown: Height and width at which the part is shown, in the middle of the result.
    """

    part: tuple[Any, Any]
    shown: tuple[Any, Any]


def placement(
    extent: tuple[Any, Any],
    size: tuple[int, int],
    fit: Fit,
    *,
    minimum: Callable[..., Any] = min,
    maximum: Callable[..., Any] = max,
) -> Placement:
    """Return what is shown of an image, and how large, so that its proportions stay.

    Args:
        extent: Height and width of the image: whole numbers, or int64 tensors `[]`.
        size: Height and width of the result.
        fit: `"crop"` for the largest part in the middle that has the proportions of the size, `"pad"` for the
            whole image with borders.
        minimum: Smaller one of two numbers; for tensors `tf.minimum`.
        maximum: Larger one of two numbers; for tensors `tf.maximum`.

    Example:
        >>> placement((300, 400), (100, 100), "crop")
        Placement(part=(300, 300), shown=(100, 100))
        >>> placement((300, 400), (100, 100), "pad")
        Placement(part=(300, 400), shown=(75, 100))
    """
    (height, width), (rows, columns) = extent, size

    def scaled(length: Any, numerator: Any, denominator: Any) -> Any:
        # Rounded half up. What may be a tensor comes first: of two, the first one gives the type.
        return maximum((2 * length * numerator + denominator) // (2 * denominator), 1)

    if fit == "crop":
        part = (minimum(height, scaled(width, rows, columns)), minimum(width, scaled(height, columns, rows)))
        return Placement(part, size)
    shown = (minimum(scaled(height, columns, width), rows), minimum(scaled(width, rows, height), columns))
    return Placement((height, width), shown)


def mostly_cut_off(extents: Mapping[str, tuple[int, int]], size: tuple[int, int], fit: Fit) -> list[str]:
    """Say how many images lose more than half of their area where they are cut to the proportions of a size.

    Args:
        extents: Height and width of each image by its name.
        size: Height and width that all get.
        fit: How they get it.

    Returns:
        One sentence, or none.

    Example:
        >>> mostly_cut_off({"a": (100, 900), "b": (100, 150)}, (32, 32), "crop")[0][:54]
        '1 of 2 images lose more than half of their area (a: 89'
    """
    parts = {name: placement(extent, size, fit).part for name, extent in extents.items()}
    lost = {name: 1 - math.prod(part) / math.prod(extents[name]) for name, part in parts.items()}
    most = max(lost, key=lost.__getitem__, default="")
    number = sum(share > 0.5 for share in lost.values())
    if not number:
        return []
    note = (
        f"{number} of {len(lost)} images lose more than half of their area ({most}: {lost[most]:.0%}), since "
        "only the middle in the proportions of the size is seen (fit crop). Prepare with --fit pad to see "
        "whole images, or with a --size of their proportions, or cut them into pieces."
    )
    return [note]


def fit_image(image: npt.NDArray[np.uint8], size: tuple[int, int], fit: Fit) -> npt.NDArray[np.uint8]:
    """Bring an image to a size without distorting it.

    Where it shrinks, levels are averaged over areas; where it grows, they are interpolated bilinearly. They
    are rounded once, half to even. `pipelines.bundles.fitting.fit_images` does the same in a graph.

    Args:
        image: uint8 [height, width, 3].
        size: Height and width of the result in pixels.
        fit: Whether to cut off what is too long, or to add grey borders.

    Returns:
        uint8 [*size, 3].

    Raises:
        ValueError: The image has another type or shape.

    Example:
        >>> fit_image(np.zeros((30, 40, 3), np.uint8), (8, 8), "pad")[:, 0, 0].tolist()
        [127, 0, 0, 0, 0, 0, 0, 127]
    """
    # check_shapes would import TensorFlow, for seconds, into every process that decodes images.
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
        raise ValueError(f"Expected a uint8 image [height, width, 3], found {image.dtype} {image.shape}.")
    extent = (image.shape[0], image.shape[1])
    placed = placement(extent, size, fit)
    top, left = ((whole - part) // 2 for whole, part in zip(extent, placed.part, strict=True))
    part = image[top : top + placed.part[0], left : left + placed.part[1]]
    # One channel at a time: a photograph of 24 megapixels takes 290 MB as floats. Of a grey image one does.
    red, *others = cv2.split(part)
    channels = [red] if all(np.array_equal(red, other) for other in others) else [red, *others]
    resized = [_resized(channel.astype(np.float32), placed.shown) for channel in channels]
    shown = cv2.merge(resized * (3 // len(resized)))
    fitted = np.full((*size, 3), BORDER_LEVEL, np.uint8)
    top, left = ((whole - part) // 2 for whole, part in zip(size, placed.shown, strict=True))
    fitted[top : top + placed.shown[0], left : left + placed.shown[1]] = shown
    return fitted


def _resized(channel: cv2.typing.MatLike, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Return a channel shrunk by averaging and enlarged by interpolation, in whole levels."""
    height, width = size
    shrunk = resize_by_area(channel, (min(height, channel.shape[0]), min(width, channel.shape[1])))
    enlarged = cv2.resize(shrunk, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.clip(np.rint(enlarged), 0, 255).astype(np.uint8)


def fit_within(image: npt.NDArray[np.uint8], longest_side: int) -> npt.NDArray[np.uint8]:
    """Return an image `[H, W, 3]`, shrunk if need be so that no side is longer than `longest_side` pixels.

    Example:
        >>> fit_within(np.zeros((100, 400, 3), np.uint8), 80).shape
        (20, 80, 3)
    """
    height, width = image.shape[:2]
    scale = longest_side / max(height, width)
    if scale >= 1:
        return image
    shape = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(image, shape, interpolation=cv2.INTER_AREA), np.uint8)
