"""Whether images and videos are of the kind that a model learned from: grey, or of more than 8 bits."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError
from data_prep.files.entries import PLAIN_IMAGE_SUFFIXES, is_visible_file, listed
from data_prep.files.image_settings import ImageKind, ImageKinds
from data_prep.files.images import is_deep, opened_image, require_few_pixels
from data_prep.files.videos import VIDEO_SUFFIXES, read_frames

_SIDE = 256  # pixels of a side that are looked at
_MOST_LOOKED_AT = 20
_MOST_OF_A_SET = 100
_FRAMES = 3  # of a video, every 25th from the first one on
_TINT = 4  # grey levels by which lossy compression may tint a grey pixel


def is_grey(image: npt.NDArray[np.uint8]) -> bool:
    """Whether an image [height, width, 3] has no colours, in up to 256 of its rows and columns.

    Example:
        >>> is_grey(np.full((4, 4, 3), 7, np.uint8)), is_grey(np.eye(3, dtype=np.uint8)[None] * 99)
        (True, False)
    """
    step = -(-max(image.shape[:2]) // _SIDE)
    return bool(np.ptp(image[::step, ::step], axis=2).max() <= _TINT)


def kinds_of(files: Iterable[Path]) -> ImageKinds:
    """Return what all images of a set are, as its manifest keeps it.

    An even share of a hundred is looked at; headers say most, and a coloured one ends the search for grey.

    Args:
        files: Image files, videos, or folders of frames. What cannot be read is passed over.
    """
    looked_at = _even_share(list(dict.fromkeys(files)), _MOST_OF_A_SET)
    return tuple(kind for kind in get_args(ImageKind) if _are_all(looked_at, kind))


def unlike_kinds(files: Sequence[Path], kinds: ImageKinds) -> list[str]:
    """Say how many of some of the images are not of the kind of all images of the training.

    All of a few files are looked at, and an even share of many, since each has to be decoded once more.

    Args:
        files: Image files, videos, or folders of frames. What cannot be read is passed over.
        kinds: What all images of the training were.

    Returns:
        Sentences, none where all is well.
    """
    looked_at = _even_share(files, _MOST_LOOKED_AT)
    others = {kind: [file.name for file in looked_at if _is_other(file, kind)] for kind in kinds}
    what = "files" if any(file.is_dir() or _is_video(file) for file in looked_at) else "images"
    shown = f"{len(looked_at)} {what}{' that were looked at' * (len(looked_at) < len(files))}"
    return [
        f"{len(names)} of {shown} {_SENTENCES[kind].format(first=names[0])}"
        for kind, names in others.items()
        if names
    ]


def _even_share(files: Sequence[Path], most: int) -> Sequence[Path]:
    return files[:: -(-len(files) // most) or 1]


def _are_all(files: Sequence[Path], kind: ImageKind) -> bool:
    """Whether some files can be read and all of these are of a kind."""
    known = False
    for file in files:
        if (is_other := _is_other(file, kind)) is True:
            return False
        known = known or is_other is False
    return known


def _is_other(path: Path, kind: ImageKind) -> bool | None:
    """Whether a file is not of a kind; None where that cannot be known."""
    try:
        file = next((entry for entry in listed(path) if _is_frame(entry)), path) if path.is_dir() else path
        return _UNLIKE[kind](file) if file.is_file() else None
    except InputError:  # its line says so
        return None


def _is_frame(path: Path) -> bool:
    return is_visible_file(path, PLAIN_IMAGE_SUFFIXES)


def _is_video(path: Path) -> bool:
    return path.suffix.lower() in VIDEO_SUFFIXES


def _is_coloured(file: Path) -> bool:
    if _is_video(file):
        frames = islice(read_frames(file, every=25), _FRAMES)  # the first ones may be black
        return any(not is_grey(frame.image) for frame in frames)
    with opened_image(file) as image:
        if image.mode not in {"RGB", "RGBA", "P", "CMYK", "LAB", "YCbCr"}:
            return False
        require_few_pixels(image, file)
        image.draft("RGB", (_SIDE, _SIDE))  # a JPEG is decoded at a smaller size
        pixels: npt.NDArray[Any] = np.asarray(image.convert("RGB"))
    return not is_grey(pixels)


_UNLIKE: dict[ImageKind, Callable[[Path], bool]] = {
    "grey": _is_coloured,
    "deep": lambda file: _is_video(file) or not is_deep(file),
}
_SENTENCES: dict[ImageKind, str] = {
    "grey": "have colours ({first}), and all of the training were grey: the model never saw "
    "colours. Convert them to grey, or train with images like these.",
    "deep": "have 8 bits per sample ({first}), and all of the training had more: the model got their levels "
    "as they are. Predict images of the same depth as the training images, or train with images like these.",
}
