"""Near-duplicate images by perceptual hash."""

import functools
from collections.abc import Iterable, Sequence

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
    group = np.arange(len(signs))  # number of the group that the pairs found until now put each image in
    found: list[tuple[int, int]] = []
    for start in range(0, len(signs), _CHUNK):
        own, others = signs[start : start + _CHUNK, 0], signs[start:]
        products = _largest_products((own, others[:, form]) for form in range(signs.shape[1]))
        # Of two vectors of signs, 64 minus the product is twice the number of places where they differ.
        alike = np.triu(products >= signs.shape[2] - 2 * largest_distance, 1)
        if greys is not None:
            _leave_out_unlike(alike, greys[start:], least_correlation)
        for first, row in enumerate(alike, start=start):
            later = start + np.flatnonzero(row & (group[start:] != group[first]))
            if len(later):
                joined, at = np.unique(group[later], return_index=True)
                found += [(first, int(second)) for second in later[np.sort(at)]]
                group[np.isin(group, joined)] = group[first]
    return np.array(found, np.int64).reshape(-1, 2)


LEAST_CORRELATION = 0.95
"""Images with similar hashes are near-duplicates if their small grey versions correlate at least so much.

Hashes of 64 bits alone put 3,840 of 4,000 handwritten digits into one group, with this 375, all ones.
"""

CONTRADICTIONS = "contradictions.csv"
"""Table of the files that look the same and have different classes; absent where there are none."""

Contradiction = tuple[str, str, str, str]
"""Name and class of an image, and of another one that looks the same."""


def contradicting_pairs(
    images: Sequence[tuple[str, str]], alike: npt.NDArray[np.int64]
) -> tuple[Contradiction, ...]:
    """Return the pairs of near-duplicates that have two classes, by name.

    Args:
        images: Name and class of each image.
        alike: Numbers of near-duplicates, `[pairs, 2]`.
    """
    pairs = ((*images[one], *images[other]) for one, other in alike)
    return tuple(sorted({pair for pair in pairs if pair[1] != pair[3]}))


def contradicted(pairs: Sequence[Contradiction]) -> list[str]:
    """Say how many pairs of near-duplicates have two classes, if there are any."""
    if not pairs:
        return []
    one, class_name, other, other_class = pairs[0]
    note = (
        f"{len(pairs)} pairs of images look the same or nearly so and have different classes, such as {one} "
        f"({class_name}) and {other} ({other_class}): look at them; {CONTRADICTIONS} lists all."
    )
    return [note]


def split_by_near_duplicates(
    names: Sequence[str],
    alike: npt.NDArray[np.int64],
    train: Sequence[str] | None,
    test: Sequence[str] | None,
) -> list[str]:
    """Say how many pairs of near-duplicates a given split tears: the numbers would flatter the model.

    Args:
        names: Of all images.
        alike: Numbers of near-duplicates, `[pairs, 2]`.
        train: Names to train on, None where they are not given.
        test: Names to test on, None where they are not given.

    Returns:
        A note, or nothing.
    """
    if train is None and test is None:
        return []
    learned = None if train is None else set(train)
    judged = set(names) - (learned or set()) if test is None else set(test)
    across = [
        pair
        for pair in ((names[one], names[other]) for one, other in alike)
        if len(judged.intersection(pair)) == 1 and (learned is None or learned.intersection(pair))
    ]
    if not across:
        return []
    note = (
        f"{len(across)} pairs of images look the same or nearly so and are on both sides of the given split, "
        f"such as {' and '.join(across[0])}: the numbers will flatter the model. Remove them from one side."
    )
    return [note]


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


def _leave_out_unlike(
    alike: npt.NDArray[np.bool_], greys: npt.NDArray[np.float32], least_correlation: float
) -> None:
    """Take out of a table of pairs those whose levels are not alike.

    Args:
        alike: bool [rows, N], changed in place; the rows are the first ones of the images.
        greys: float32 [N, 16, 16].
        least_correlation: Least correlation of the levels of near-duplicates, mirrored or not.
    """
    # Of most images no hash is alike, and their levels need not be looked at.
    columns = np.flatnonzero(alike.any(axis=0))
    own, others = greys[: len(alike)], greys.reshape(len(greys), -1)[columns]
    mirrored = (own, own[:, :, ::-1], own[:, ::-1], own[:, ::-1, ::-1])
    products = _largest_products((form.reshape(len(own), -1), others) for form in mirrored)
    alike[:, columns] &= products >= least_correlation


def _largest_products(
    pairs: Iterable[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]],
) -> npt.NDArray[np.float32]:
    """Return the elementwise largest of the products [rows, values] times [N, values], one at a time."""
    return functools.reduce(np.maximum, (own @ others.T for own, others in pairs))
