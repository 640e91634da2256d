"""Whether images are of the kind that a model learned from: grey, or of more than 8 bits per sample."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError
from data_prep.files.image_settings import ImageKind, ImageKinds
from data_prep.files.images import is_deep, opened_image, require_few_pixels

_SIDE = 256  # pixels of a side that are looked at
_MOST_LOOKED_AT = 20
_TINT = 4  # grey levels by which lossy compression may tint a grey pixel


def is_grey(image: npt.NDArray[np.uint8]) -> bool:
    """Whether an image [height, width, 3] has no colours, in up to 256 of its rows and columns.

    Example:
        >>> is_grey(np.full((4, 4, 3), 7, np.uint8)), is_grey(np.eye(3, dtype=np.uint8)[None] * 99)
        (True, False)
    """
    step = -(-max(image.shape[:2]) // _SIDE)
    return bool(np.ptp(image[::step, ::step], axis=2).max() <= _TINT)


def unlike_kinds(files: Sequence[Path], kinds: ImageKinds) -> list[str]:
    """Say how many of some of the images are not of the kind of all images of the training.

    All of a few files are looked at, and an even share of many, since each has to be decoded once more.

    Args:
        files: Image files. What cannot be read is passed over.
        kinds: What all images of the training were.

    Returns:
        Sentences, none where all is well.
    """
    looked_at = files[:: -(-len(files) // _MOST_LOOKED_AT) or 1]
    others = {kind: [file.name for file in looked_at if _is_other(file, _UNLIKE[kind])] for kind in kinds}
    shown = f"{len(looked_at)} images{' that were looked at' * (len(looked_at) < len(files))}"
    return [
        f"{len(names)} of {shown} {_SENTENCES[kind].format(first=names[0])}"
        for kind, names in others.items()
        if names
    ]


def _is_other(file: Path, unlike: Callable[[Path], bool]) -> bool:
    try:
        return file.is_file() and unlike(file)
    except InputError:  # its line says so
        return False


def _is_coloured(file: Path) -> bool:
    with opened_image(file) as image:
        if image.mode not in {"RGB", "RGBA", "P", "CMYK", "LAB", "YCbCr"}:
            return False
        require_few_pixels(image, file)
        image.draft("RGB", (_SIDE, _SIDE))  # a JPEG is decoded at a smaller size
        pixels: npt.NDArray[Any] = np.asarray(image.convert("RGB"))
    return not is_grey(pixels)


_UNLIKE: dict[ImageKind, Callable[[Path], bool]] = {
    "grey": _is_coloured,
    "deep": lambda file: not is_deep(file),
}
_SENTENCES: dict[ImageKind, str] = {
    "grey": "have colours ({first}), and all of the training were grey: the model got the colours. Convert "
    "them to grey, or train with images like these.",
    "deep": "have 8 bits per sample ({first}), and all of the training had more: the model got their levels "
    "as they are. Predict images of the same depth as the training images, or train with images like these.",
}
