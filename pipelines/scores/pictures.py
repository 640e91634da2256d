"""Pictures of predictions as TensorBoard, reports and `predict` show them: overlays, colour maps, bars.

All functions take and return arrays; pictures are `uint8 [H, W, 3]` RGB. The colours differ for any kind of
colour vision and in grey print: found lane is green, missed lane orange, false lane magenta. Probability and
uncertainty have perceptually uniform colour maps with fixed ends, so that pictures can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from data_prep.lane.masks import IGNORED
from pipelines.scores.definitions import AnyFloatArray

Picture = NDArray[np.uint8]

Outputs = dict[str, NDArray[Any]]
"""Named outputs of one image: `[H, W]` where every pixel is predicted, otherwise `[]` or `[C]`."""

LANE_COLOUR = (0, 158, 115)
MISSED_COLOUR = (240, 160, 0)
FALSE_COLOUR = (204, 60, 150)
IGNORED_COLOUR = (128, 128, 128)
CLASS_COLOURS = ((86, 180, 233), (240, 228, 66), (0, 200, 140), (230, 159, 0), (204, 121, 167))
REFERRED_COLOUR = (255, 40, 60)
"""Colour of what a person should look at, for any class."""

PROBABILITY_COLOURS = "cividis"
UNCERTAINTY_COLOURS = "magma"
ENTROPY_LIMIT = float(np.log(2.0))
"""The largest predictive entropy of two classes in nats."""

TRUE_COLOUR = (0, 158, 115)
OTHER_COLOUR = (140, 140, 140)
"""Colours of the bars of the true class and of the other classes."""

_TINT = 0.5
_STRIPE = 1_000_000  # pixels
_PANEL_GAP = 4
_SIDE = 160
_BAR_WIDTH = 240
_LETTERS = 13
_MOST_BARS = 8


def lane_overlay(
    image: Picture,
    lane: NDArray[np.bool_],
    unfamiliar: NDArray[np.bool_] | None = None,
    *,
    in_place: bool = False,
) -> Picture:
    """Return the image with the lane tinted and outlined, and unfamiliar regions as in `unfamiliar_outline`.

    Args:
        image: `[H, W, 3]`.
        lane: Whether each pixel is lane, `[H, W]`.
        unfamiliar: Whether each pixel is unfamiliar, `[H, W]`; None where that is not to be shown.
        in_place: Draw on the image itself, since a copy takes as much memory again. It must be writable,
            and its memory in C order.

    Raises:
        ValueError: Sizes differ; nothing is drawn then.
    """
    for region in (lane, *([] if unfamiliar is None else [unfamiliar])):
        _require_one_size(image, region)
    picture = image if in_place else image.copy()
    _tint(picture, lane, LANE_COLOUR)
    _outline(picture, lane, LANE_COLOUR)
    if unfamiliar is not None:
        _show_unfamiliar(picture, unfamiliar)
    return picture


def unfamiliar_outline(image: Picture, unfamiliar: NDArray[np.bool_]) -> Picture:
    """Return the image with unfamiliar regions hatched and outlined in the colour of what is referred.

    Args:
        image: `[H, W, 3]`.
        unfamiliar: Whether each pixel is unfamiliar, `[H, W]`.

    Raises:
        ValueError: Sizes differ.
    """
    picture = image.copy()
    _show_unfamiliar(picture, unfamiliar)
    return picture


def truth_overlay(image: Picture, mask: Picture) -> Picture:
    """Return the image with the true lane tinted and outlined and ignored pixels greyed.

    Args:
        image: `[H, W, 3]`.
        mask: True labels `[H, W]`: 0 background, 1 lane, 255 ignored.

    Raises:
        ValueError: Sizes differ.
    """
    picture = lane_overlay(image, mask == 1)
    _tint(picture, mask == IGNORED, IGNORED_COLOUR)
    return picture


def error_overlay(image: Picture, lane: NDArray[np.bool_], mask: Picture) -> Picture:
    """Return the image with found, missed and false lane in their colours and ignored pixels greyed.

    Args:
        image: `[H, W, 3]`.
        lane: Whether each pixel is predicted as lane, `[H, W]`.
        mask: True labels `[H, W]`: 0 background, 1 lane, 255 ignored.

    Raises:
        ValueError: Sizes differ.
    """
    picture = image.copy()
    _tint(picture, lane & (mask == 1), LANE_COLOUR)
    _tint(picture, ~lane & (mask == 1), MISSED_COLOUR)
    _tint(picture, lane & (mask == 0), FALSE_COLOUR)
    _tint(picture, mask == IGNORED, IGNORED_COLOUR)
    return picture


def probability_picture(probability: AnyFloatArray) -> Picture:
    """Return probabilities `[H, W]` as colours, 0 dark blue to 1 yellow."""
    return _coloured(probability, PROBABILITY_COLOURS)


def uncertainty_picture(uncertainty: AnyFloatArray, limit: float = ENTROPY_LIMIT) -> Picture:
    """Return uncertainties `[H, W]` as colours, 0 black to light yellow.

    Args:
        uncertainty: Uncertainties in nats.
        limit: The uncertainty of the lightest colour; mutual information is small and needs a smaller limit
            than entropy.
    """
    return _coloured(uncertainty / limit, UNCERTAINTY_COLOURS)


def write_label(
    picture: Picture, text: str, corner: tuple[int, int], colour: tuple[int, int, int], *, thickness: int
) -> None:
    """Write black letters on a strip of a colour above a corner, or below where there is no room.

    Args:
        picture: The picture `[H, W, 3]`, which is changed.
        text: What to write.
        corner: Column and row of the strip's lower left corner.
        colour: Colour of the strip.
        thickness: Thickness of the lines around it in pixels; the letters grow with it.
    """
    text = text.encode("ascii", "replace").decode("ascii")  # Hershey's letters are ASCII
    font, size, thickness = cv2.FONT_HERSHEY_SIMPLEX, 0.24 * thickness, max(1, thickness // 2)
    (width, height), below = cv2.getTextSize(text, font, size, thickness)
    left = min(max(corner[0], 0), max(picture.shape[1] - width, 0))
    bottom = max(corner[1] - below, height + below)
    cv2.rectangle(picture, (left, bottom - height), (left + width, bottom + below), colour, cv2.FILLED)
    cv2.putText(picture, text, (left, bottom), font, size, (0, 0, 0), thickness, cv2.LINE_AA)


def side_by_side(pictures: Sequence[Picture]) -> Picture:
    """Join pictures of one height in a row, with white gaps.

    Raises:
        ValueError: There are no pictures, or heights differ.
    """
    if len({picture.shape[0] for picture in pictures}) != 1:
        raise ValueError(f"pictures in a row need one height, found {[p.shape[0] for p in pictures]}")
    gap = np.full((pictures[0].shape[0], _PANEL_GAP, 3), 255, np.uint8)
    row = [part for picture in pictures for part in (gap, picture)][1:]
    return np.concatenate(row, axis=1)


def colour_scale(name: str, width: int = 256, height: int = 12) -> Picture:
    """Return a strip `[height, width, 3]` of a colour map from its low end to its high end."""
    return np.broadcast_to(_coloured(np.linspace(0.0, 1.0, width)[None, :], name), (height, width, 3)).copy()


def enlarged(image: Picture) -> Picture:
    """Return the image `[H, W, 3]` enlarged or shrunk to a visible height, pixels kept distinct."""
    height, width = image.shape[:2]
    size = (max(1, round(_SIDE * width / height)), _SIDE)
    interpolation = cv2.INTER_NEAREST if height < _SIDE else cv2.INTER_AREA
    return np.asarray(cv2.resize(image, size, interpolation=interpolation), np.uint8)


def probability_bars(probability: AnyFloatArray, label: int, class_names: Sequence[str]) -> Picture:
    """Draw a bar with name and value for the true class, in its own colour, and the most probable others.

    Args:
        probability: Probabilities `[C]`.
        label: The true class.
        class_names: Names of the classes in the order of the labels.
    """
    others = [index for index in np.argsort(-np.asarray(probability)).tolist() if index != label]
    shown = sorted([label, *others[: _MOST_BARS - 1]])
    picture = Image.new("RGB", (_BAR_WIDTH, _SIDE), "white")
    drawing = ImageDraw.Draw(picture)
    height = min(_SIDE / len(shown), 2.0 * _LETTERS)
    for row, index in enumerate(shown):
        share, top = float(probability[index]), row * height
        colour = TRUE_COLOUR if index == label else OTHER_COLOUR
        drawing.rectangle((0, top, max(1, round(share * _BAR_WIDTH)), top + height - 3), fill=colour)
        text = f"{share:.2f} {class_names[index]}"
        drawing.text((4, top + height / 2 - 1), text, fill="black", font=letters(_LETTERS), anchor="lm")
    return np.asarray(picture)


@cache
def letters(size: int) -> ImageFont.FreeTypeFont:
    """Return letters for pictures, which come with Matplotlib.

    Args:
        size: Height, pixels.
    """
    found = find_spec("matplotlib")  # importing it takes .2 s
    if found is None or found.origin is None:
        raise ModuleNotFoundError("matplotlib is not installed, whose letters pictures have")
    fonts = Path(found.origin).parent / "mpl-data" / "fonts" / "ttf"
    return ImageFont.truetype(fonts / "DejaVuSans.ttf", size)


def stripes(height: int, width: int) -> Iterator[slice]:
    """Yield ranges of rows of about a million pixels, so that what is computed of them needs little memory.

    Example:
        >>> list(stripes(5, 500_000))
        [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    rows = max(1, _STRIPE // max(width, 1))
    yield from (slice(first, min(first + rows, height)) for first in range(0, height, rows))


def _hatched(region: NDArray[np.bool_], width: int) -> NDArray[np.bool_]:
    """Return the pixels of a region that lie on diagonal lines of a width."""
    hatched, columns = np.empty_like(region), np.arange(region.shape[1])
    for rows in stripes(*region.shape):
        diagonals = np.arange(rows.start, rows.stop)[:, None] + columns
        hatched[rows] = region[rows] & (diagonals // width % 4 == 0)
    return hatched


def _require_one_size(image: Picture, region: NDArray[np.bool_]) -> None:
    if image.ndim != 3 or image.shape[:2] != region.shape:
        raise ValueError(
            f"image {image.shape} and mask {region.shape} must be [H, W, 3] and [H, W] of one size"
        )


def _tint(picture: Picture, region: NDArray[np.bool_], colour: tuple[int, int, int]) -> None:
    """Mix the pixels of a region with a colour, in place."""
    _require_one_size(picture, region)
    for rows in stripes(*region.shape):
        mixed = (1.0 - _TINT) * picture[rows][region[rows]] + _TINT * np.array(colour)
        picture[rows][region[rows]] = np.round(mixed).astype(np.uint8)


def _outline(picture: Picture, region: NDArray[np.bool_], colour: tuple[int, int, int]) -> None:
    """Draw the borders of a region, in place."""
    outlines, _ = cv2.findContours(region.view(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(picture, outlines, -1, colour, thickness=_line_width(picture))


def _show_unfamiliar(picture: Picture, unfamiliar: NDArray[np.bool_]) -> None:
    """Hatch and outline unfamiliar regions, in place."""
    _tint(picture, _hatched(unfamiliar, 2 * _line_width(picture)), REFERRED_COLOUR)
    _outline(picture, unfamiliar, REFERRED_COLOUR)


def _line_width(image: Picture) -> int:
    return max(1, round(max(image.shape[:2]) / 400))


@cache
def _colour_table(name: str) -> Picture:
    import matplotlib as mpl  # noqa: PLC0415 - takes .2 s, and many pictures have no colour map

    return np.asarray(mpl.colormaps[name](np.arange(256), bytes=True)[:, :3], np.uint8)


def _coloured(share: AnyFloatArray, name: str) -> Picture:
    """Return values in [0, 1], clipped, as colours."""
    index = np.round(np.clip(share, 0.0, 1.0) * 255.0).astype(np.uint8)
    return _colour_table(name)[index]
