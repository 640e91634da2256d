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
    '"full": 0 and 65535; or two numbers. Images of 8 bits do not change. `predict` uses the same range.'
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
"""Whether people drew the masks on images as viewers show them, or on the stored pixels."""

DRAWN_ON_DESCRIPTION = (
    "Which pixels people drew the masks on. upright: on images as viewers show them, after the EXIF "
    "orientation turned them. stored: on the pixels of the file, which many labelling tools show; `prepare` "
    "then turns a mask without an orientation of its own as it turns the image."
)
"""Description of the setting `masks_drawn_on`."""
