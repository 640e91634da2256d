"""Refusal of the TIFF samples that Pillow reads with wrong levels."""

from pathlib import Path
from typing import Any

from PIL import Image

from data_prep.errors import InputError

_BITS_PER_SAMPLE, _PHOTOMETRIC, _SAMPLE_FORMAT = 258, 262, 339
_WHITE_IS_ZERO, _SIGNED, _BYTE, _TWO_BYTES = 0, 2, 8, 16


def require_known_samples(image: Image.Image, path: Path) -> None:
    """Refuse unsigned 16-bit levels in files where 0 means white, and signed 8-bit levels.

    Args:
        image: An opened image of any format.
        path: Its file.

    Raises:
        InputError: It has such samples: they would be shown as a negative, or wrapped round.
    """
    bits, colours, kind = (_tag(image, name) for name in (_BITS_PER_SAMPLE, _PHOTOMETRIC, _SAMPLE_FORMAT))
    if bits == _BYTE and kind == _SIGNED:
        raise InputError(
            f"{path}: signed levels of 8 bits; expected unsigned ones. Add 128 to them and save the image."
        )
    if bits == _TWO_BYTES and kind != _SIGNED and colours == _WHITE_IS_ZERO and image.mode.startswith("I"):
        raise InputError(
            f"{path}: 16-bit levels where 0 means white; expected 0 to mean black. Invert the image and "
            "save it with the photometric interpretation min-is-black."
        )


def _tag(image: Image.Image, name: int) -> Any:
    """Return the value of a tag, the first one where each sample has its own; None without the tag."""
    value = getattr(image, "tag_v2", {}).get(name)
    return value[0] if isinstance(value, tuple) and value else value
