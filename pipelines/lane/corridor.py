"""Where the free way ahead goes and how wide it is, each with an interval, from samples of the lane's mask.

A map of probabilities says of each pixel alone how likely it is lane. What a walker needs to know depends on
many pixels at once, so whole masks are drawn. With u a random field whose marginals are uniform on (0, 1),

    pixel x is lane in sample s   where   u_s(x) < p(x)

gives every pixel its own probability p(x), and lets neighbours fall together as far as u is correlated: a
copula. u is the rank of blurred white noise among the S samples at the pixel, so that the share of the S
masks in which a pixel is lane is p(x) to within 1/(2S), whatever the noise. Errors of a lane's border go
along it for a while; the correlation length is a share of the image's longer side, chosen so that intervals
hold on street scenes (`python -m benchmarks.lane_video`). Fields come in fours, each with its mirror image
and the negatives of both, so that no side is favoured.

The walker stands at the middle of the lower edge. The corridor of a mask is what is connected to the lane
nearest to that place, which must lie within a quarter of the width; it is looked at in one row ahead, where
the widest free stretch counts. Columns become angles by the horizontal field of view φ of the camera, which
is taken to be level: with f = (W/2) / tan(φ/2) column c lies in the direction atan((c - c_0)/f).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

NUM_SAMPLES: Final = 64
"""S, masks that are drawn of each frame; by the same fields for all frames of a size."""

INTERVAL: Final = (0.05, 0.95)
"""Quantiles between which an interval lies: nine samples in ten."""

CORRELATION_LENGTH: Final = 0.2
"""Standard deviation of the blur of the noise, as a share of the longer side."""

_WORKING_SIDE: Final = 160  # pixels of the longer side of the maps that masks are drawn of
_LEAST_SHARE: Final = 0.5  # of the samples that need a corridor, or no direction is given
_FARTHEST: Final = 0.25  # widths that the lane may lie from the middle of the lower edge
_COARSEST: Final = 4.0  # pixels that the blur of the noise is wide at least where it is drawn small

FloatMap = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Stretch:
    """A free stretch of one row.

    Attributes:
        left: Angle of its left end, degrees; negative to the left of the middle.
        right: Angle of its right end, degrees.
    """

    left: float
    right: float

    @property
    def direction(self) -> float:
        """Return the angle of its middle, degrees."""
        return (self.left + self.right) / 2

    @property
    def width(self) -> float:
        """Return the angle between its ends, degrees."""
        return self.right - self.left


@dataclass(frozen=True)
class Interval:
    """The median of the samples, and between what nine in ten of them lie, degrees."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Corridor:
    """The free way ahead.

    Attributes:
        probability: Share of the samples that have one.
        direction: Of its middle, degrees; negative to the left. None where fewer than half have one.
        width: Angle between its ends, degrees; None where `direction` is.
    """

    probability: float
    direction: Interval | None
    width: Interval | None


@dataclass(frozen=True)
class View:
    """How the walker's camera looks, and how far ahead the corridor is looked at.

    Attributes:
        field_of_view: φ, degrees from the left to the right edge.
        look_ahead: Row as a share of the height: 0 is the upper edge, 1 the lower.
    """

    field_of_view: float
    look_ahead: float

    def angle(self, column: float, width: int) -> float:
        """Return the direction of a column's left edge in an image of a width in pixels, degrees."""
        focal_length = width / 2 / np.tan(np.deg2rad(self.field_of_view / 2))
        return float(np.rad2deg(np.arctan((column - width / 2) / focal_length)))

    def column(self, angle: float, width: int) -> float:
        """Return the inverse of `angle`."""
        focal_length = width / 2 / np.tan(np.deg2rad(self.field_of_view / 2))
        return float(width / 2 + focal_length * np.tan(np.deg2rad(angle)))

    def row(self, height: int) -> int:
        """Return the row that is looked at in an image of a height in pixels."""
        return min(height - 1, round(self.look_ahead * height))


def corridor(probability: FloatMap, view: View, correlation_length: float = CORRELATION_LENGTH) -> Corridor:
    """Return the free way ahead by a map of probabilities.

    Args:
        probability: Of lane, `[H, W]`.
        view: How the camera looks.
        correlation_length: Of the errors, as a share of the longer side.

    Example:
        >>> lane = np.zeros((60, 80), np.float32)
        >>> lane[:, 40:60] = 1.0  # to the right of the middle
        >>> found = corridor(lane, View(field_of_view=60.0, look_ahead=0.6))
        >>> found.probability, round(found.direction.median, 1)
        (1.0, 8.1)
    """
    masks = sampled_masks(_reduced(probability), correlation_length)
    found = [stretch for mask in masks if (stretch := free_stretch(mask, view)) is not None]
    share = len(found) / len(masks)
    if share < _LEAST_SHARE:
        return Corridor(share, None, None)
    return Corridor(
        share,
        _interval([stretch.direction for stretch in found]),
        _interval([stretch.width for stretch in found]),
    )


def sampled_masks(probability: FloatMap, correlation_length: float) -> NDArray[np.bool_]:
    """Return masks `[S, h, w]` in which every pixel is lane with its own probability, see the module.

    Args:
        probability: Of lane, `[h, w]`.
        correlation_length: Of the random field, as a share of the longer side.
    """
    return _uniform_fields(probability.shape, correlation_length) < probability


def free_stretch(mask: Mask, view: View) -> Stretch | None:
    """Return the widest free stretch, in the row looked at, of the lane where the walker stands.

    Args:
        mask: Whether each pixel is lane, `[h, w]`.
        view: How the camera looks.

    Returns:
        None if the lower edge shows no lane near its middle, or none of that lane reaches the row.
    """
    height, width = mask.shape
    ahead = view.row(height)
    _, parts = cv2.connectedComponents(mask[ahead:].astype(np.uint8), connectivity=4)
    here = np.flatnonzero(parts[-1])
    from_middle = np.abs(here + 0.5 - width / 2)
    if here.size == 0 or from_middle.min() > _FARTHEST * width:
        return None
    row = parts[0] == parts[-1, here[from_middle.argmin()]]
    if not row.any():
        return None
    steps = np.flatnonzero(np.diff(np.concatenate([[False], row, [False]]).astype(np.int8)))
    starts, ends = steps[::2], steps[1::2]
    widest = int((ends - starts).argmax())
    return Stretch(view.angle(starts[widest], width), view.angle(ends[widest], width))


def _reduced(probability: FloatMap) -> FloatMap:
    """Return the map, averaged over areas so that its longer side has no more than `_WORKING_SIDE` pixels."""
    height, width = probability.shape
    scale = min(1.0, _WORKING_SIDE / max(height, width))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(probability, size, interpolation=cv2.INTER_AREA), np.float32)


def _interval(values: list[float]) -> Interval:
    low, median, high = np.quantile(values, [INTERVAL[0], 0.5, INTERVAL[1]])
    return Interval(float(median), float(low), float(high))


@lru_cache(maxsize=8)
def _uniform_fields(size: tuple[int, int], correlation_length: float) -> NDArray[np.float32]:
    """Return random fields `[S, *size]` with the values (0.5, 1.5, ...)/S at every pixel, always the same."""
    deviation = correlation_length * max(size)
    reduction = max(1.0, deviation / _COARSEST)  # so smooth a field needs no more pixels
    small = tuple(max(2, int(np.ceil(side / reduction)) + 1) for side in size)
    margin = max(1, int(np.ceil(3 * deviation / reduction)))
    rng = np.random.default_rng(0)
    fields = []
    for _ in range(NUM_SAMPLES // 4):
        noise = rng.standard_normal((small[0] + 2 * margin, small[1] + 2 * margin)).astype(np.float32)
        blurred = cv2.GaussianBlur(noise, (2 * margin + 1, 2 * margin + 1), deviation / reduction)
        inside = blurred[margin : margin + small[0], margin : margin + small[1]]
        field = cv2.resize(inside, size[::-1], interpolation=cv2.INTER_LINEAR)
        fields += [field, field[:, ::-1], -field, -field[:, ::-1]]
    ranks = np.argsort(np.argsort(np.stack(fields), axis=0), axis=0)
    uniform = ((ranks + 0.5) / NUM_SAMPLES).astype(np.float32)
    uniform.flags.writeable = False
    return uniform
