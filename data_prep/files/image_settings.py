"""Settings of how image files are read; loads without any library of images."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator

Fit = Literal["crop", "pad"]
"""How an image of other proportions becomes one of a size: its middle part, or all of it with borders."""

LevelRange = tuple[float, float]
"""The levels that become 0 and 255."""

LARGEST_LEVEL = 1e30
"""Bound of the levels of floating-point images, with which 32 bits still compute."""


def _require_order(value: Any) -> Any:
    if isinstance(value, tuple):
        low, high = value
        if not -LARGEST_LEVEL < low < high < LARGEST_LEVEL or high - low < 1 / LARGEST_LEVEL:
            raise ValueError("expected two levels, the lower one first")
    return value


KeptLevels = Annotated[LevelRange | Literal["each", "window"], AfterValidator(_require_order)]
"""What is kept of a set: its range, or that each image has its own by its percentiles or its DICOM window."""

FULL: LevelRange = (0, 65535)
"""All levels of 16 bits."""

LEVELS_DESCRIPTION = (
    "Which levels become 0 and 255 in images of more than 8 bits per sample, in all of them alike. "
    '"auto": "window" for DICOM files that all have one, "percentiles" where levels are negative or '
    "floating-point numbers, else 0 and the largest level of as many bits as the set uses, for example 4095 "
    'for a camera of 12 bits in files of 16; "window": the window of each DICOM file; '
    '"percentiles": the least 0.1 % and the largest 99.9 % percentile of any image; "full": 0 and 65535, or '
    'where levels lie outside these or are floating-point numbers the least and the largest one; "each": of '
    "each image its own two percentiles, for sets whose exposure differs; or two numbers. Images of 8 bits "
    "do not change, but for grey DICOM files. `predict` does the same."
)
"""Description of the setting `levels`."""

KEPT_DESCRIPTION = (
    "Levels that became 0 and 255 in images of more than 8 bits per sample; each: of each image its own; "
    "window: those of the window of each DICOM file; null where there were none."
)
"""Description of the range where it is kept."""

Levels = Annotated[
    Literal["auto", "percentiles", "full", "each", "window"] | LevelRange, AfterValidator(_require_order)
]
"""The setting `levels`: how the range is found, or the range."""


def in_words(levels: LevelRange, between: str = " to ") -> str:
    """Return a range as a text from which it can be read again.

    Example:
        >>> in_words((0.0, 4095.0))
        '0 to 4095'
    """
    return between.join(f"{level:.9g}" for level in levels)


def range_in_words(levels: KeptLevels) -> str:
    """Return what becomes 0 to 255, for a sentence."""
    own = {"each": "two percentiles of each image", "window": "the levels of each DICOM file's window"}
    return own[levels] if isinstance(levels, str) else f"levels {in_words(levels)}"


ImageKind = Literal["grey", "deep"]
ImageKinds = tuple[ImageKind, ...]
"""What all images of a set are: without colours, or of more than 8 bits per sample."""

KINDS_DESCRIPTION = (
    "What all images were: grey, or deep, of more than 8 bits per sample. `predict` names others."
)
"""Description of the kinds where they are kept."""

DrawnOn = Literal["upright", "stored"]
"""Whether people drew the masks on images as viewers show them, or on the stored pixels."""

DRAWN_ON_DESCRIPTION = (
    "Which pixels people drew the masks on. upright: on images as viewers show them, after the EXIF "
    "orientation turned them. stored: on the pixels of the file, which many labelling tools show; `prepare` "
    "then turns a mask without an orientation of its own as it turns the image."
)
"""Description of the setting `masks_drawn_on`."""
