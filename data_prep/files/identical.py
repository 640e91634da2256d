"""Images that are one and the same: all of a set, or some on both sides of a split."""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy.typing as npt

from data_prep.errors import InputError

_MOST_COPIES = 50  # of an image that are compared


def pixel_digest(pixels: npt.NDArray[Any]) -> bytes:
    """Return a digest of an image's pixels and shape, which is equal for equal images alone."""
    content = f"{pixels.dtype} {pixels.shape} ".encode() + pixels.tobytes()
    return hashlib.blake2b(content, digest_size=16).digest()


def require_different(contents: Collection[Hashable], folder: Path) -> None:
    """Refuse a set of several images that are all the same.

    Args:
        contents: What tells the pixels of one image from those of others, of each image.
        folder: The images, for the message.

    Raises:
        InputError: All are the same.

    Example:
        >>> require_different([b"1", b"2", b"2"], Path("images"))
    """
    if len(contents) > 1 and len(set(contents)) == 1:
        raise InputError(
            f"{folder}: all {len(contents)} images are the same, pixel by pixel. Expected images that "
            "differ. Look at some: an export may have written one image under all names, or only black ones."
        )


def copies(digests: Mapping[str, Hashable]) -> list[tuple[str, str]]:
    """Return the names of files that are the same, two at a time.

    Args:
        digests: What tells the pixels of one file from those of others, by its name.

    Example:
        >>> copies({"a": b"1", "b": b"2", "c": b"1"})
        [('a', 'c')]
    """
    alike = defaultdict(list)
    for name, digest in digests.items():
        alike[digest].append(name)
    return [pair for names in alike.values() for pair in combinations(names[:_MOST_COPIES], 2)]


def torn_copies(digests: Mapping[str, Hashable], sides: Mapping[str, Hashable]) -> list[str]:
    """Say how many pairs of copies are on two sides of a split, or in two folds.

    Args:
        digests: As for `copies`.
        sides: Part of each file, by its name; a file that has none is passed over.

    Returns:
        A sentence, or nothing.
    """
    across = [
        (one, other)
        for one, other in copies(digests)
        if one in sides and other in sides and sides[one] != sides[other]
    ]
    if not across:
        return []
    note = (
        f"{len(across)} pairs of files show the same, pixel by pixel, and are on both sides of the split, "
        f"such as {' and '.join(across[0])}: the numbers will flatter the model. Remove one of each pair, "
        "or give them one group."
    )
    return [note]
