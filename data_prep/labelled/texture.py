"""Texture of a small grey image in a few numbers: levels, box counts, binary patterns, gradients.

The features of Kandemir et al. ("Asymmetric transfer learning with deep Gaussian processes", section 6.2) for
patches of tissue and for candidates of cell events. Pure functions of one image; OpenCV does the work. Worker
processes use them: no TensorFlow here.
"""

from collections.abc import Sequence
from functools import cache

import cv2
import numpy as np
import numpy.typing as npt

Grey = npt.NDArray[np.uint8]
"""One channel of an image, [height, width]."""

Features = npt.NDArray[np.float32]
"""Numbers that describe an image, [D]."""

VERSION = "texture features 2"
"""Name and version of these features; changes with every change of a number that the functions return."""

NUM_LEVEL_BINS = 26
NUM_BOX_COUNTS = 7
NUM_PATTERNS = 58
NUM_GRADIENTS = 128

_BLOCK = 20  # pixels on a side, over which binary patterns are counted
_CELLS = 4  # on a side of a SIFT descriptor
_CELL_OF_SIZE = 1.5  # pixels of such a cell for each pixel of a key point's size, in OpenCV
_DESCRIPTOR_NORM = 512.0  # to which OpenCV scales descriptors before it rounds them to bytes
_NEIGHBOURS = ((0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1))  # down, right
_DIAGONAL = 70_711  # 1e5 / sqrt(2): how far down and right a diagonal neighbour is


def intensity_histogram(grey: Grey, bins: int = NUM_LEVEL_BINS) -> Features:
    """Return the share of the pixels in each of a number of equal ranges of levels.

    Args:
        grey: uint8 [height, width].
        bins: Number of ranges.

    Returns:
        float32 [bins], from dark to bright; adds up to 1.

    Example:
        >>> intensity_histogram(np.array([[0, 255], [255, 255]], np.uint8), bins=2).tolist()
        [0.25, 0.75]
    """
    _check(grey)
    counts = np.bincount(grey.ravel(), minlength=256)
    bin_of_level = np.arange(256) * bins // 256
    return (np.bincount(bin_of_level, weights=counts, minlength=bins) / grey.size).astype(np.float32)


def box_counting(grey: Grey, grids: Sequence[int] = range(2, 9)) -> Features:
    """Return the share of the boxes of square grids that hold a dark pixel, as for a fractal dimension.

    Otsu's threshold of this image separates dark from bright: in stained tissue, dark are mostly nuclei. The
    paper names grid sizes from 2 to 8 and nothing else; that they are sides of boxes in pixels, and that dark
    pixels are counted, is our reading: of 8 x 8 boxes on a patch of 200 pixels hardly one is empty. In an
    image of one level nothing is dark.

    Args:
        grey: uint8 [height, width].
        grids: Sides of the boxes in pixels. Boxes that reach beyond the image count as the others.

    Returns:
        float32 [len(grids)] in 0..1.

    Example:
        >>> grey = np.full((4, 4), 200, np.uint8)
        >>> grey[0, 0] = 10
        >>> box_counting(grey, grids=(2, 4)).tolist()
        [0.25, 1.0]
    """
    _check(grey)
    if grey.min() == grey.max():
        return np.zeros(len(grids), np.float32)
    _, dark = cv2.threshold(grey, 0, 1, cv2.THRESH_BINARY_INV | cv2.THRESH_OTSU)
    # The largest of the side x side pixels to the right and below, at the corner of each box.
    return np.array(
        [
            cv2.dilate(dark, np.ones((side, side), np.uint8), anchor=(0, 0))[::side, ::side].mean()
            for side in grids
        ],
        np.float32,
    )


def lbp_histogram(grey: Grey) -> Features:
    """Return the mean share of each uniform local binary pattern over blocks of 20 x 20 pixels.

    A pattern is which of 8 neighbours at a distance of 1 are at least as bright; 58 have at most two changes
    around the circle (Ojala et al. 2002, without rotation invariance). All others share a label, 59 labels in
    all; that one is left out, so that there are the 58 numbers of the paper and they add up to at most 1.
    Labels and numbers are those of scikit-image's `local_binary_pattern` with "nri_uniform", which takes four
    times as long.

    Args:
        grey: uint8 [height, width]. The blocks are in the middle of the image; what remains around whole
            ones is not counted, and of an image smaller than a block all is. Outside, the image is mirrored.

    Returns:
        float32 [58] in 0..1.
    """
    _check(grey)
    framed = np.asarray(cv2.copyMakeBorder(grey, 1, 1, 1, 1, cv2.BORDER_REFLECT), np.uint8)
    # Shares of blocks of one size have the mean that all their pixels together have.
    patterns = _patterns(framed)[_whole_blocks(grey.shape[0]), _whole_blocks(grey.shape[1])]
    counts = np.bincount(_LABELS[patterns.ravel()], minlength=NUM_PATTERNS + 1)
    return (counts[:NUM_PATTERNS] / patterns.size).astype(np.float32)


def _patterns(framed: Grey) -> Grey:
    """Return which neighbours of each pixel inside the frame are at least as bright, one bit for each.

    Bit 0 is the neighbour to the right, and the others follow against the clock. Diagonal ones lie between
    four pixels and are interpolated; whole numbers as weights keep the comparison exact where all are equal.
    """
    centre = framed[1:-1, 1:-1]
    patterns = np.zeros_like(centre)
    for bit, (down, right) in enumerate(_NEIGHBOURS):
        if down and right:
            difference = cv2.filter2D(framed, cv2.CV_64F, _diagonal(down, right))[1:-1, 1:-1]
            brighter = difference >= 0
        else:
            rows, columns = framed.shape
            brighter = framed[1 + down : rows - 1 + down, 1 + right : columns - 1 + right] >= centre
        patterns |= brighter.view(np.uint8) << np.uint8(bit)
    return patterns


@cache
def _diagonal(down: int, right: int) -> npt.NDArray[np.float64]:
    """Return the kernel of the level at a distance of 1 along a diagonal minus the centre's, times 1e10."""
    kernel = np.zeros((3, 3))
    near, far = 100_000 - _DIAGONAL, _DIAGONAL
    kernel[1, 1] = near * near - 100_000**2
    kernel[1 + down, 1] = kernel[1, 1 + right] = far * near
    kernel[1 + down, 1 + right] = far * far
    return kernel


def _uniform_labels() -> npt.NDArray[np.intp]:
    """Return the label of each of the 256 patterns: by how many bits are set, then by where they begin."""
    labels = np.full(256, NUM_PATTERNS)
    labels[0], labels[255] = 0, NUM_PATTERNS - 1
    for ones in range(1, 8):
        for start in range(8):
            pattern = sum(1 << (start + step) % 8 for step in range(ones))
            labels[pattern] = 1 + 8 * (ones - 1) + -start % 8
    return labels


def dense_sift(grey: Grey, step: int = 40) -> Features:
    """Return the mean of the SIFT descriptors at the nodes of a square grid.

    The descriptors are upright, and each covers the square of a step's side around its node. The grid is in
    the middle of the image, with one node at least.

    Args:
        grey: uint8 [height, width].
        step: Distance of the nodes in pixels.

    Returns:
        float32 [128]. Descriptors have about unit length, and their mean is shorter. Zero for an image of one
        level.
    """
    _check(grey)
    size = step / (_CELLS * _CELL_OF_SIZE)
    nodes = [
        cv2.KeyPoint(x, y, size, 0.0)
        for y in _nodes(grey.shape[0], step)
        for x in _nodes(grey.shape[1], step)
    ]
    _, descriptors = _sift().compute(np.ascontiguousarray(grey), nodes)
    mean = np.asarray(descriptors, np.float32).mean(axis=0)
    return (mean / np.float32(_DESCRIPTOR_NORM)).astype(np.float32)


@cache
def _sift() -> cv2.SIFT:
    return cv2.SIFT.create()


def _nodes(extent: int, step: int) -> npt.NDArray[np.float64]:
    """Return coordinates of pixel centres, where the first pixel has its centre at 0."""
    number = max(1, extent // step)
    return (extent - 1) / 2 + step * (np.arange(number) - (number - 1) / 2)


def _whole_blocks(extent: int) -> slice:
    """Return the middle pixels, so that a patch around something is counted around it."""
    counted = extent // _BLOCK * _BLOCK or extent
    start = (extent - counted) // 2
    return slice(start, start + counted)


def _check(grey: Grey) -> None:
    if grey.dtype != np.uint8 or grey.ndim != 2 or not grey.size:
        raise ValueError(
            f"Expected a uint8 image [height, width] with pixels, found {grey.dtype} {grey.shape}."
        )


_LABELS = _uniform_labels()
