"""Homogeneous regions of an image and how likely their colours are those of a sample of the lane."""

from typing import Final

import cv2
import numpy as np
import scipy.ndimage
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

_SPATIAL_RADIUS: Final = 6  # pixels, of the mean shift
_COLOUR_RADIUS: Final = 10  # units of 8-bit channels, of the mean shift
_SAME_REGION: Final = 4.0  # distance in L*a*b* of neighbours that belong together
_BINS: Final = (16, 32, 32)  # of L*, a* and b*
_BIN_WIDTHS: Final = np.array([6.25, 4.0, 4.0])
_LOWEST: Final = np.array([0.0, -64.0, -64.0])
_HISTOGRAM_SMOOTHING: Final = (1.5, 1.0, 1.0)  # bins
_FLOOR: Final = 2e-4  # probability of a bin never seen, about one bin in 5,000


def homogeneous_regions(rgb: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Return the number of the region that each pixel belongs to, int [h, w], from 0 up.

    The image is smoothed by mean shift; neighbours of then similar colour are joined.

    Args:
        rgb: uint8 [h, w, 3].

    Source:
        Comaniciu and Meer (2002), Mean shift: a robust approach toward feature space analysis. The radii
        and the threshold are ours.

    Example:
        >>> halves = np.zeros((32, 32, 3), np.uint8)
        >>> halves[16:] = 200
        >>> regions = homogeneous_regions(halves)
        >>> bool(regions[0, 0] == regions[0, -1] != regions[-1, -1])
        True
    """
    smooth = cv2.pyrMeanShiftFiltering(rgb, _SPATIAL_RADIUS, _COLOUR_RADIUS, maxLevel=1)
    lab = np.asarray(cv2.cvtColor(smooth.astype(np.float32) / 255, cv2.COLOR_RGB2Lab))
    pixels = np.arange(lab.shape[0] * lab.shape[1]).reshape(lab.shape[:2])
    across = np.linalg.norm(np.diff(lab, axis=1), axis=-1) < _SAME_REGION
    down = np.linalg.norm(np.diff(lab, axis=0), axis=-1) < _SAME_REGION
    one = np.concatenate([pixels[:, :-1][across], pixels[:-1][down]])
    other = np.concatenate([pixels[:, 1:][across], pixels[1:][down]])
    joined = coo_array((np.ones(one.size, bool), (one, other)), shape=(pixels.size, pixels.size))
    _, numbers = connected_components(joined, directed=False)
    return np.asarray(numbers, np.intp).reshape(pixels.shape)


def mean_in_regions(values: NDArray[np.float32], regions: NDArray[np.intp]) -> NDArray[np.float32]:
    """Return a map whose pixels hold the mean of their region, float32 [h, w].

    Args:
        values: float32 [h, w].
        regions: int [h, w], numbers of the regions from 0 up.

    Example:
        >>> mean_in_regions(np.float32([[1, 3, 5]]), np.array([[0, 0, 1]])).tolist()
        [[2.0, 2.0, 5.0]]
    """
    sums = np.bincount(regions.ravel(), values.ravel())
    return (sums / np.maximum(np.bincount(regions.ravel()), 1))[regions].astype(np.float32)


def near_region_edges(regions: NDArray[np.intp], *, width: float = 2.0) -> NDArray[np.float32]:
    """Return how close each pixel is to an edge of a region, exp(-distance² / (2 width²)), float32 [h, w].

    Args:
        regions: int [h, w], numbers of the regions.
        width: Pixels.

    Example:
        >>> near_region_edges(np.zeros((4, 4), int)).max() < 1e-3
        True
    """
    inner = np.ones(regions.shape, np.uint8)
    inner[:, 1:][regions[:, 1:] != regions[:, :-1]] = 0
    inner[1:][regions[1:] != regions[:-1]] = 0
    if inner.all():
        return np.zeros(regions.shape, np.float32)
    distance = np.asarray(cv2.distanceTransform(inner, cv2.DIST_L2, 3))
    return np.exp(-(distance**2) / (2 * width**2)).astype(np.float32)


def colour_log_ratio(
    lab: NDArray[np.float32], lane: NDArray[np.bool_], background: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Return log p(colour | lane) / p(colour | background) at every pixel, float32 [h, w].

    Both densities are smoothed histograms over L*a*b*. The paper learns the lane's colours alone; that the
    background's colours are learned too is our own reading, which turns the likelihood into log-odds.

    Args:
        lab: float32 [h, w, 3], CIE L*a*b*.
        lane: bool [h, w], the sample of the lane.
        background: bool [h, w], the sample of what is not the lane.
    """
    bins = np.floor((lab - _LOWEST) / _BIN_WIDTHS).astype(int)
    flat = np.ravel_multi_index(tuple(np.moveaxis(bins, -1, 0)), _BINS, mode="clip")  # [h, w]
    ratio = np.log((_histogram(flat[lane]) + _FLOOR) / (_histogram(flat[background]) + _FLOOR))
    return ratio[flat].astype(np.float32)


def _histogram(bins: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the smoothed share of every bin, flat; zeros if there is no pixel."""
    counts = np.bincount(bins, minlength=int(np.prod(_BINS))).astype(np.float64).reshape(_BINS)
    smooth = scipy.ndimage.gaussian_filter(counts, _HISTOGRAM_SMOOTHING, mode="constant")
    return np.asarray(smooth).ravel() / max(1.0, float(smooth.sum()))
