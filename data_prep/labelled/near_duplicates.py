"""Near-duplicate images by perceptual hash."""

import cv2
import numpy as np
import numpy.typing as npt

_SIDE = 8
_GREY_SIDE = 16
_CHUNK = 512  # rows of the table of distances that are in memory at a time


def difference_hashes(levels: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Return the difference hashes of an image as it is, and mirrored left-right, up-down and both.

    The image is averaged down to 8 x 9; a bit says whether a value is smaller than its right neighbour.

    Args:
        levels: float32 [height, width].

    Returns:
        bool [4, 64], the hash of the image itself first.
    """
    small = cv2.resize(levels, (_SIDE + 1, _SIDE), interpolation=cv2.INTER_AREA)
    mirrored = (small, small[:, ::-1], small[::-1], small[::-1, ::-1])
    return np.stack([(one[:, :-1] < one[:, 1:]).ravel() for one in mirrored])


def duplicate_pairs(hashes: npt.NDArray[np.bool_], largest_distance: int) -> npt.NDArray[np.int64]:
    """Find the images whose hashes differ in few bits, mirrored or not.

    Args:
        hashes: bool [N, 4, 64], `difference_hashes` of each image.
        largest_distance: Number of bits in which near-duplicates may differ.

    Returns:
        int64 [pairs, 2], numbers of images, the smaller one first.
    """
    signs = np.where(hashes, 1, -1).astype(np.float32)
    found = []
    for start in range(0, len(signs), _CHUNK):
        rows = signs[start : start + _CHUNK, 0]
        # Of two vectors of signs, 64 minus the product is twice the number of places where they differ.
        products = np.max([rows @ signs[:, mirror].T for mirror in range(signs.shape[1])], axis=0)
        first, second = np.nonzero(products >= signs.shape[2] - 2 * largest_distance)
        pairs = np.stack([first + start, second], axis=1)
        found.append(pairs[pairs[:, 0] < pairs[:, 1]])
    return np.concatenate(found) if found else np.empty((0, 2), np.int64)


def small_grey(levels: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return an image averaged down to 16 x 16, minus its mean and divided by its length.

    Args:
        levels: float32 [height, width].

    Returns:
        float32 [16, 16] of length 1, so that products of two of them are correlations; 0 for an image of one
        level, which then is like no other.
    """
    small = cv2.resize(levels, (_GREY_SIDE, _GREY_SIDE), interpolation=cv2.INTER_AREA)
    centred = small - small.mean()
    length = float(np.linalg.norm(centred))
    return np.asarray(centred / length if length > 1e-3 else np.zeros_like(centred), np.float32)


def confirmed_pairs(
    pairs: npt.NDArray[np.int64], greys: npt.NDArray[np.float32], least_correlation: float
) -> npt.NDArray[np.int64]:
    """Return the pairs of images that are also alike in their levels, mirrored or not.

    Hashes know only which neighbour is brighter: in images that are mostly of one level, such as digits on
    black, they agree where the images do not.

    Args:
        pairs: int64 [pairs, 2], numbers of images, from `duplicate_pairs`.
        greys: float32 [N, 16, 16], `small_grey` of each image.
        least_correlation: Least correlation of the two.

    Returns:
        int64 [confirmed pairs, 2], in the order given.
    """
    first, second = greys[pairs[:, 0]], greys[pairs[:, 1]]
    mirrored = (second, second[:, :, ::-1], second[:, ::-1], second[:, ::-1, ::-1])
    correlation = np.max([np.einsum("phw,phw->p", first, other) for other in mirrored], axis=0)
    return pairs[correlation >= least_correlation]
