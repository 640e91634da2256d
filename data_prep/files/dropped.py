"""What image files have and is not read: further pages, transparency, the shape of the pixels."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import ImageFile

from data_prep.errors import InputError
from data_prep.files.dicom import DicomImage
from data_prep.files.entries import DICOM_SUFFIXES
from data_prep.files.images import opened_image, require_few_pixels

_SUFFIXES = DICOM_SUFFIXES | {".tif", ".tiff", ".webp", ".png"}  # JPEG has nothing that people miss
_MOST_DECODED = 100  # images with an alpha channel, whose pixels are looked at
_OPAQUE = 255

_PAGED, _OBLONG = "have several pages or frames", "have pixels that are not square"
_TRANSPARENT = "are transparent in places"
_REMEDIES = {
    _PAGED: "only the first one is read. Save the others as files of their own",
    _OBLONG: "they are read as if they were, so that shapes are stretched. Resample them",
    _TRANSPARENT: "transparency is not read, so that hidden colours are shown. Put them on a background",
}


def dropped_parts(files: Sequence[Path]) -> tuple[str, ...]:
    """Return a sentence for each kind of thing that is in some of the files and is not read.

    Args:
        files: Image files. What cannot be read is passed over.
    """
    found: dict[str, list[str]] = defaultdict(list)
    num_decoded = 0
    for file in files:
        if file.suffix.lower() not in _SUFFIXES:
            continue
        try:
            with opened_image(file) as image:
                if getattr(image, "is_animated", False):
                    found[_PAGED].append(file.name)
                if isinstance(image, DicomImage) and not image.has_square_pixels:
                    found[_OBLONG].append(file.name)
                if num_decoded < _MOST_DECODED and _has_alpha(image):
                    num_decoded += 1
                    require_few_pixels(image, file)
                    if np.asarray(image.convert("RGBA").getchannel("A")).min() < _OPAQUE:
                        found[_TRANSPARENT].append(file.name)
        except InputError:  # it is refused when it is read
            continue
    at_least = "at least " if num_decoded == _MOST_DECODED else ""
    return tuple(
        f"{at_least * (kind == _TRANSPARENT)}{len(names)} of {len(files)} images {kind} ({names[0]}): "
        f"{_REMEDIES[kind]} where that matters."
        for kind, names in found.items()
    )


def _has_alpha(image: ImageFile.ImageFile) -> bool:
    return "A" in image.getbands() or "transparency" in image.info
