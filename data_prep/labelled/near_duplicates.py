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


def duplicate_pairs(
    hashes: npt.NDArray[np.bool_],
    largest_distance: int,
    greys: npt.NDArray[np.float32] | None = None,
    *,
    least_correlation: float = 0.0,
) -> npt.NDArray[np.int64]:
    """Join the images whose hashes differ in few bits, mirrored or not, by as few pairs as do.

    Hashes know only which neighbour is brighter: in images that are mostly of one level, such as digits on
    black, they agree where the images do not. With `greys`, levels must be alike as well.

    Thousands of images of one level all have one hash, which makes millions of pairs; a pair is left out
    where those before it join its images already.

    Args:
        hashes: bool [N, 4, 64], `difference_hashes` of each image.
        largest_distance: Number of bits in which near-duplicates may differ.
        greys: float32 [N, 16, 16], `small_grey` of each image; None where hashes alone decide.
        least_correlation: Least correlation of the levels of near-duplicates, mirrored or not.

    Returns:
        int64 [pairs, 2], numbers of near-duplicates, the smaller one first; fewer than N pairs.
    """
    signs = np.where(hashes, 1, -1).astype(np.float32)
    mirrored = _mirrored(greys) if greys is not None else None
    group = np.arange(len(signs))  # number of the group that the pairs found until now put each image in
    found: list[tuple[int, int]] = []
    for start in range(0, len(signs), _CHUNK):
        rows = slice(start, start + _CHUNK)
        # Of two vectors of signs, 64 minus the product is twice the number of places where they differ.
        alike = _largest_products(signs, rows) >= signs.shape[2] - 2 * largest_distance
        if mirrored is not None:
            alike &= _largest_products(mirrored, rows) >= least_correlation
        for first, row in enumerate(alike, start=start):
            apart = row & (group != group[first])
            later = first + 1 + np.flatnonzero(apart[first + 1 :])
            if len(later):
                joined, at = np.unique(group[later], return_index=True)
                found += [(first, int(second)) for second in later[np.sort(at)]]
                group[np.isin(group, joined)] = group[first]
    return np.array(found, np.int64).reshape(-1, 2)


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


def _largest_products(vectors: npt.NDArray[np.float32], rows: slice) -> npt.NDArray[np.float32]:
    """Return the largest product of some images with the mirrored forms of all, [rows, N].

    Args:
        vectors: float32 [N, forms, values], the image itself first.
        rows: Which images.
    """
    own = vectors[rows, 0]
    products = [own @ vectors[:, form].T for form in range(vectors.shape[1])]
    return np.asarray(np.max(products, axis=0), np.float32)


def _mirrored(greys: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return images as they are, and mirrored left-right, up-down and both, [N, 4, pixels]."""
    forms = (greys, greys[:, :, ::-1], greys[:, ::-1], greys[:, ::-1, ::-1])
    return np.stack([form.reshape(len(greys), -1) for form in forms], axis=1)
