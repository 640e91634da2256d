"""Settings of how image files are read; loads without any library of images."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator

LevelRange = tuple[int, int]
"""The levels that become 0 and 255."""

FULL: LevelRange = (0, 65535)
"""All levels of 16 bits."""

LEVELS_DESCRIPTION = (
    "Which levels become 0 and 255 in images of more than 8 bits per sample, in all of them alike. "
    '"auto": 0 and the largest level of as many bits as the set uses, for example 4095 for a camera of 12 '
    'bits in files of 16; "percentiles": the least 0.1 % and the largest 99.9 % percentile of any image; '
    '"full": 0 and 65535; or two numbers. Images of 8 bits stay as they are. The range is kept for `predict`.'
)
"""Description of the setting `levels`."""

KEPT_DESCRIPTION = (
    "Levels that became 0 and 255 in images of more than 8 bits per sample; null where there were none."
)
"""Description of the range where it is kept."""


def _require_order(value: Any) -> Any:
    if isinstance(value, tuple) and not 0 <= value[0] < value[1] <= FULL[1]:
        raise ValueError("expected two levels from 0 to 65535, the lower one first")
    return value


Levels = Annotated[Literal["auto", "percentiles", "full"] | LevelRange, AfterValidator(_require_order)]
"""The setting `levels`: how the range is found, or the range."""

DrawnOn = Literal["upright", "stored"]
"""Whether masks fit images as viewers show them, or as they are stored."""

DRAWN_ON_DESCRIPTION = (
    "Whether masks fit images as viewers show them, turned upright by their EXIF orientation, or their "
    "pixels as they are stored, as many labelling tools have them. Where it is stored, a mask without an "
    "orientation of its own is turned as its image is."
)
"""Description of the setting `masks_drawn_on`."""
