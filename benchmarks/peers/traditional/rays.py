"""Rays from the vanishing point down the image: how well they follow lines, and the colours beside them."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.traditional.orientations import OrientationField
from benchmarks.peers.traditional.result import Point

FLATTEST: Final = 20
"""Degrees between the horizon and the flattest ray, on both sides."""

NARROWEST: Final = 20
"""Least degrees between the two borders of a lane."""

_CONSISTENT: Final = 5.0  # degrees between a ray and the direction of a pixel on it
_BESIDE: Final = 20  # degrees, width of the sector on each side of a ray whose colours are compared
_NOISE_VARIANCE: Final = 4.0  # squared units of a colour channel: no side is flatter than noise allows
_NEAREST: Final = 4.0  # pixels; closer to the vanishing point a pixel belongs to many rays
_SMOOTHING: Final = np.ones(3) / 3

Moments = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Mean and variance of every colour channel, [..., C] each; NaN where there is no pixel."""


@dataclass(frozen=True)
class Sectors:
    """Colours of the sectors of 1° below a point.

    Attributes:
        sums: float64 [3, 181, C]: number of pixels, sum and sum of squares in the sectors from 0° up to a
            degree.
    """

    sums: NDArray[np.float64]

    def moments(self, first: NDArray[np.intp], last: NDArray[np.intp]) -> Moments:
        """Return mean and variance of the colours from degree `first` up to `last`, not beyond 0 and 180."""
        count, total, squares = self.sums[:, np.minimum(last, 180)] - self.sums[:, np.maximum(first, 0)]
        count = np.where(count > 0, count, np.nan)
        mean = total / count
        return mean, np.maximum(squares / count - mean**2, 0)

    def right_of(self, degree: NDArray[np.intp]) -> Moments:
        """Return mean and variance of the 20° to the right of the sectors that start at `degree`."""
        return self.moments(degree - _BESIDE, degree)

    def left_of(self, degree: NDArray[np.intp]) -> Moments:
        """Return mean and variance of the 20° to the left of the sectors that start at `degree`."""
        return self.moments(degree + 1, degree + 1 + _BESIDE)


@dataclass(frozen=True)
class Rays:
    """What is known of the rays from a vanishing point, one a degree, each a sector of that width.

    Angles are degrees from the axis of columns towards the axis of rows: 0 points right, 90 down, 180 left.

    Attributes:
        degrees: int [R], where the sectors start.
        consistency: float64 [R], orientation consistency ratio, from 0 to 1.
        sectors: Colours of all sectors.
        middle: Degrees of the ray to the middle of the image's lower edge.
    """

    degrees: NDArray[np.intp]
    consistency: NDArray[np.float64]
    sectors: Sectors
    middle: float

    @property
    def angles(self) -> NDArray[np.float64]:
        """Return the degrees of the rays, the middle lines of their sectors, [R]."""
        return self.degrees + 0.5


def rays_from(apex: Point, field: OrientationField, colours: NDArray[np.float32]) -> Rays:
    """Return the rays from a vanishing point that run down the image.

    The orientation consistency ratio (OCR) of a ray is the share of its pixels whose direction deviates from
    the ray's by at most 5°. The paper takes 29 rays, 5° apart. Here they are 1° apart, a ray is a sector of
    that width whose pixels count by 1 / distance, so that all parts of its length matter alike, every pixel
    counts by its confidence, and the ratio is averaged over three rays.

    Args:
        apex: Row and column of the vanishing point, pixels.
        field: Direction and confidence of lines, [h, w] each.
        colours: float32 [h, w, C].

    Source:
        Kong, Audibert and Ponce (2009), Vanishing point detection for road detection, section 4.

    Example:
        >>> flat = np.zeros((32, 32), np.float32)
        >>> rays = rays_from((8.0, 16.0), OrientationField(flat, flat), np.zeros((32, 32, 3), np.float32))
        >>> rays.angles[[0, -1]].tolist(), float(rays.consistency.max())
        ([20.5, 159.5], 0.0)
    """
    height, width = field.angle.shape
    angle, distance = _polar(apex, (height, width))
    used = (distance >= _NEAREST) & (angle >= 0) & (angle < 180)
    degree = angle[used].astype(int)
    deviation = np.abs(field.angle[used] - angle[used])
    deviation = np.minimum(deviation, 180 - deviation)
    agreement = field.confidence[used] * (deviation <= _CONSISTENT)
    lengths = np.bincount(degree, 1 / distance[used], 180)
    ratio = np.bincount(degree, agreement / distance[used], 180) / np.maximum(lengths, 1e-9)
    shown = np.arange(FLATTEST, 180 - FLATTEST)
    return Rays(
        shown,
        np.convolve(ratio, _SMOOTHING, mode="same")[shown],
        _sectors(colours[used].astype(np.float64), degree),
        float(np.rad2deg(np.arctan2(height - 1 - apex[0], (width - 1) / 2 - apex[1]))),
    )


def contrast(one: Moments, other: Moments) -> NDArray[np.float64]:
    """Return how many standard deviations two colours differ by, 0 where one of them is unknown.

    With means m and variances v it is, over the channels, max |m_1 - m_2| / √(v_1 + v_2 + noise).

    Args:
        one: Mean and variance, [..., C] each.
        other: Mean and variance, [..., C] each.

    Returns:
        float64 [...].

    Source:
        Kong, Audibert and Ponce (2009), Vanishing point detection for road detection, section 4; the noise
        of two units a channel is an addition of ours.

    Example:
        >>> float(contrast((np.array([10.0]), np.array([6.0])), (np.array([4.0]), np.array([26.0]))))
        1.0
    """
    difference = np.abs(one[0] - other[0]) / np.sqrt(one[1] + other[1] + _NOISE_VARIANCE)
    return np.nan_to_num(difference).max(axis=-1)


def distance_inside(
    apex: Point, left_angle: float, right_angle: float, size: tuple[int, int]
) -> NDArray[np.float32]:
    """Return the distance to the nearer of two rays, positive between them, float32 [H, W], pixels.

    Args:
        apex: Row and column where the rays start, pixels.
        left_angle: Degrees as in `Rays`; larger than `right_angle` by less than 180.
        right_angle: Degrees.
        size: Height and width, pixels.

    Example:
        >>> float(distance_inside((0.0, 4.0), 150.0, 90.0, (5, 9))[2, 3])
        1.0
    """
    rows, columns = np.ogrid[: size[0], : size[1]]
    down, across = rows - apex[0], columns - apex[1]
    left, right = np.deg2rad(left_angle), np.deg2rad(right_angle)
    beside_left = across * np.sin(left) - down * np.cos(left)
    beside_right = down * np.cos(right) - across * np.sin(right)
    return np.minimum(beside_left, beside_right).astype(np.float32)


def _polar(apex: Point, size: tuple[int, int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return degrees in [-180, 180], negative above the point, and pixels of distance, [H, W] each."""
    rows, columns = np.ogrid[: size[0], : size[1]]
    down, across = rows - apex[0], columns - apex[1]
    return np.rad2deg(np.arctan2(down, across)), np.hypot(down, across)


def _sectors(colours: NDArray[np.float64], degree: NDArray[np.intp]) -> Sectors:
    """Return the sums over sectors of the colours [N, C] of pixels in the sectors `degree` [N]."""
    powers = np.stack([np.ones_like(colours), colours, colours**2])  # [3, N, C]
    sums = np.zeros((3, 181, colours.shape[1]))
    for power in range(3):
        for channel in range(colours.shape[1]):
            counted = np.bincount(degree, powers[power, :, channel], 180)
            sums[power, 1:, channel] = np.cumsum(counted)
    return Sectors(sums)
