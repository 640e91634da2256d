"""What may be poor about an image: its light, information, sharpness and shape.

The kinds are those of CleanVision. Light, information and shape are judged by fixed limits. Sharpness and
size are judged against the other images of the set: what is blurred for a microscope is sharp for ultrasound.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
from skimage.measure import blur_effect

_LONGEST_SIDE, _BLUR_SIZE = 256, 5
"""Images are shrunk to the first before their sharpness is measured, by a filter of the second, in pixels."""

_DARK, _LIGHT = 0.32, 0.68
"""An image is dark if 99 % of its pixels are below the first, over-exposed if 95 % are above the second."""

_LITTLE_INFORMATION = 2.0
"""Bits of the grey levels' entropy: an image of four equally frequent levels has two."""

_NARROW = 0.35
"""Shorter side through longer side; in a set of narrow images, half of what is usual there."""

_BLURRED = 0.55
"""Sharpness through the median of the set."""

_ODD_SIZE = 3.0
"""An odd size is farther beyond the nearer quartile of log size than so many interquartile ranges, and than a
factor of two."""

POOR = ("dark", "over-exposed", "little information", "blurred", "odd shape", "odd size")
"""What an image can be, in the order in which a page shows it."""


class Quality(NamedTuple):
    """Measures of one image.

    Attributes:
        height: Pixels.
        width: Pixels.
        brightest: Grey level from 0 to 1 that 99 % of the pixels do not exceed.
        darkest: Grey level from 0 to 1 that 95 % of the pixels reach.
        information: Entropy of the grey levels, bits, 0 to 8.
        sharpness: 1 less the blur metric of Crété-Roffet et al. (2007), 0 to 1, of both axes by their share
            of the edges; NaN of an image without edges or of too few pixels.
    """

    height: int
    width: int
    brightest: float
    darkest: float
    information: float
    sharpness: float


def measure_quality(image: npt.NDArray[np.uint8]) -> Quality:
    """Return the measures of an image `[H, W, 3]`.

    Example:
        >>> measure_quality(np.zeros((4, 6, 3), np.uint8))
        Quality(height=4, width=6, brightest=0.0, darkest=0.0, information=0.0, sharpness=nan)
    """
    height, width = image.shape[:2]
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    shares = np.bincount(grey.reshape(-1), minlength=256) / grey.size
    present = shares[shares > 0.0]
    darkest, brightest = np.searchsorted(np.cumsum(shares), (0.05, 0.99 - 1e-12))
    return Quality(
        height,
        width,
        float(brightest / 255.0),
        float(darkest / 255.0),
        float(-(present * np.log2(present)).sum()) + 0.0,
        _sharpness(grey),
    )


def _sharpness(grey: npt.NDArray[Any]) -> float:
    shrink = _LONGEST_SIDE / max(grey.shape)
    if shrink < 1.0:
        size = [max(round(side * shrink), 1) for side in grey.shape]
        grey = np.asarray(cv2.resize(grey, size[::-1], interpolation=cv2.INTER_AREA), np.uint8)
    if min(grey.shape) <= _BLUR_SIZE:
        return np.nan
    edges = np.array([np.abs(np.diff(grey.astype(float), axis=axis)).mean() for axis in (0, 1)])
    if not edges.any():
        return np.nan
    # scikit-image has no types here.
    blur = np.array(blur_effect(grey, h_size=_BLUR_SIZE, reduce_func=None))  # type: ignore[no-untyped-call]
    # Stripes are sharp across, and have nothing along them that could be blurred: edges say what counts.
    return 1.0 - float(np.average(blur[edges > 0.0], weights=edges[edges > 0.0]))


def poor_images(qualities: Sequence[Quality]) -> Mapping[str, list[int]]:
    """Return the rows of the images that are poor in each way, the worst first, without empty ways.

    Args:
        qualities: Measures of all images of a set.

    Example:
        >>> good = Quality(100, 100, 0.9, 0.1, 7.0, 0.5)
        >>> poor_images([good, good, good._replace(brightest=0.2), good._replace(width=20)])
        {'dark': [2], 'odd shape': [3]}
    """
    values = {name: np.array([getattr(one, name) for one in qualities], float) for name in Quality._fields}
    shape = np.minimum(values["height"] / values["width"], values["width"] / values["height"])
    # What has hardly any levels is said to have little information, and its edges mean nothing.
    is_measured = np.isfinite(values["sharpness"]) & (values["information"] >= _LITTLE_INFORMATION)
    sharpness = np.where(is_measured, values["sharpness"], np.inf)
    typical = float(np.median(sharpness[is_measured])) if is_measured.any() else 0.0
    # The larger the value the worse, and above 0 it counts.
    badness = {
        "dark": _DARK - values["brightest"],
        "over-exposed": values["darkest"] - _LIGHT,
        "little information": _LITTLE_INFORMATION - values["information"],
        "blurred": _BLURRED * typical - sharpness,
        "odd shape": min(_NARROW, 0.5 * float(np.median(shape))) - shape,
        "odd size": _size_badness(np.sqrt(values["height"] * values["width"])),
    }
    rows = {
        way: [int(row) for row in np.argsort(-bad, kind="stable") if bad[row] > 0.0]
        for way, bad in badness.items()
    }
    return {way: found for way, found in rows.items() if found}


def _size_badness(side: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.floating[Any]]:
    """Return how far the logarithm of each side lies outside what is usual in the set."""
    log_side = np.log(side)
    low, high = np.quantile(log_side, (0.25, 0.75))
    beyond = np.maximum(low - log_side, log_side - high)
    return beyond - max(_ODD_SIZE * (high - low), np.log(2.0))
