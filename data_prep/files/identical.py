"""Sets in which all images are one and the same."""

import hashlib
from collections.abc import Collection, Hashable
from pathlib import Path
from typing import Any

import numpy.typing as npt

from data_prep.errors import InputError


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
