"""Which mask levels mean lane: counting a set's levels and coding masks as background, lane, ignored."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from data_prep.errors import InputError
from data_prep.files.images import read_mask

BACKGROUND = 0
LANE = 1
IGNORED = 255

_SMALLEST_GREY_SCALE = 64  # a set whose largest level is below this holds class numbers, not grey levels
_NEAR = 1 / 8  # levels this near an extreme, as a share of the largest level, are taken for ringing around it
_EDGE_SHARE = 0.10  # blurred edges make up at most this share of a set
_SPIKE_SHARE = 0.02  # and none of their levels alone makes up this share
_FEW_LEVELS = 3  # and, unless there is ringing too, they have more than this many levels
_LISTED_LEVELS = 20


class LaneCoding(BaseModel):
    """The rule by which a mask level becomes background, lane or ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lane_values: tuple[int, ...] | None = Field(
        default=None, description="Levels that mean lane; without them, levels above `lane_above` do."
    )
    lane_above: float = Field(
        default=0, ge=0, description="Levels above this one mean lane, where `lane_values` is not given."
    )
    ignore_values: tuple[int, ...] = Field(
        default=(), description="Levels of pixels that take no part in training and in metrics."
    )

    def encode(self, levels: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.uint8]:
        """Code mask levels [height, width] as uint8: 0 background, 1 lane, 255 ignored.

        Args:
            levels: Levels of a mask, [height, width] or any other shape.

        Returns:
            uint8 of the same shape.

        Example:
            >>> LaneCoding(lane_values=(3, 4), ignore_values=(11,)).encode(np.array([[0, 3, 4, 11]]))
            array([[  0,   1,   1, 255]], dtype=uint8)
        """
        lane = levels > self.lane_above if self.lane_values is None else np.isin(levels, self.lane_values)
        coded = np.where(lane, LANE, BACKGROUND).astype(np.uint8)
        coded[np.isin(levels, self.ignore_values)] = IGNORED
        return coded


def count_levels(mask: Path) -> dict[int, int]:
    """Count the pixels of each level of one mask file.

    Args:
        mask: Mask file.

    Returns:
        The number of pixels of each level that occurs.

    Raises:
        InputError: The mask cannot be read, as in `read_mask`.
    """
    counts = np.bincount(read_mask(mask).ravel())
    levels = np.flatnonzero(counts)
    return dict(zip(levels.tolist(), counts[levels].tolist(), strict=True))


def choose_coding(
    folder: Path,
    counts_by_mask: Mapping[str, Mapping[int, int]],
    lane_values: tuple[int, ...] | None,
    ignore_values: tuple[int, ...],
) -> LaneCoding:
    """Settle the coding for a set of masks.

    With `lane_values` these decide. Without, levels above the middle of the set's two are lane, provided that
    the set has two populated levels. Levels that only ringing or blurred edges produce do not count as
    populated; class numbers always do.

    Args:
        folder: Folder of the masks, for messages.
        counts_by_mask: Number of pixels of each level, for the name of each mask file.
        lane_values: Levels that mean lane, or None.
        ignore_values: Levels that are ignored.

    Returns:
        The rule, which holds for all masks of the set.

    Raises:
        InputError: More than two populated levels without `lane_values`, or no lane pixel in the whole set.
    """
    counts: Counter[int] = Counter()
    for mask_counts in counts_by_mask.values():
        counts.update({level: n for level, n in mask_counts.items() if level not in ignore_values})
    if lane_values is not None:
        coding = LaneCoding(lane_values=lane_values, ignore_values=ignore_values)
    else:
        _check_two_levels(folder, counts)
        populated = populated_levels(counts)
        background = populated[0] if len(populated) > 1 else 0  # masks of 128 and 255 have background, too
        above = (background + max(counts, default=0)) / 2
        coding = LaneCoding(lane_above=above, ignore_values=ignore_values)
    if not lane_pixels(coding, counts):
        _refuse_without_lane(folder, list(counts_by_mask), counts, lane_values)
    return coding


def lane_pixels(coding: LaneCoding, counts: Mapping[int, int]) -> int:
    """Return the number of lane pixels among counted levels.

    Args:
        coding: Rule by which a level becomes a label.
        counts: Number of pixels of each level.
    """
    levels = np.array(list(counts), dtype=np.int64)
    pixels = np.array(list(counts.values()), dtype=np.int64)
    return int(pixels[coding.encode(levels) == LANE].sum())


def populated_levels(counts: Mapping[int, int]) -> list[int]:
    """Return the levels of a set of masks that carry meaning, unlike ringing and blur between two of them.

    Class numbers all count: a largest level below 64, or one large level above many small ones. Otherwise
    levels within an eighth of the lowest or highest level are ringing around it, and what lies between is
    blur as long as it is spread over many levels of small share.

    Args:
        counts: Number of pixels of each level over the whole set.

    Returns:
        The levels in increasing order.
    """
    levels = sorted(level for level, n in counts.items() if n)
    if len(levels) <= 2 or levels[-1] < _SMALLEST_GREY_SCALE:
        return levels
    lowest, highest, inner = levels[0], levels[-1], levels[1:-1]
    if all(level <= (lowest + highest) / 2 for level in inner):
        return levels  # class numbers beside a mark such as 255: ringing and blur reach both extremes
    reach = _NEAR * (highest - lowest)
    between = [level for level in inner if lowest + reach < level < highest - reach]
    total = sum(counts.values())
    shares = {level: counts[level] / total for level in between}
    few = len(between) <= _FEW_LEVELS and len(between) == len(inner)
    if few or sum(shares.values()) > _EDGE_SHARE:
        return levels
    return [lowest, *(level for level in between if shares[level] > _SPIKE_SHARE), highest]


def _check_two_levels(folder: Path, counts: Mapping[int, int]) -> None:
    populated = populated_levels(counts)
    if len(populated) > 2:
        raise InputError(
            f"{folder}: the masks have {len(populated)} populated levels: "
            f"{describe_levels(counts, populated)}. Expected two (background and lane). Say which values "
            "mean lane with lane_values, and which to leave out with ignore_values."
        )
    if len(populated) == 1 and populated[0] > 0:
        raise InputError(
            f"{folder}: every pixel of every mask has level {populated[0]}. Expected two levels (background "
            "and lane). Check the masks, or say with lane_values which values mean lane."
        )


def _refuse_without_lane(
    folder: Path, names: list[str], counts: Mapping[int, int], lane_values: tuple[int, ...] | None
) -> None:
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    wanted = (
        "above the middle of the lowest and the highest level"
        if lane_values is None
        else f"of the lane values {list(lane_values)}"
    )
    raise InputError(
        f"{folder}: no mask has a pixel {wanted} ({listed}). Levels found: "
        f"{describe_levels(counts, sorted(counts))}. Expected lane pixels in at least one mask. Check the "
        "masks and give lane_values that occur in them."
    )


def describe_levels(counts: Mapping[int, int], levels: list[int]) -> str:
    """List levels with their shares of all pixels, the largest shares if there are many.

    Args:
        counts: Number of pixels of each level of the set.
        levels: Levels to list.

    Returns:
        Text such as `0 (75.00%), 255 (25.00%)`.
    """
    total = max(sum(counts.values()), 1)
    listed = sorted(sorted(levels, key=lambda level: counts[level], reverse=True)[:_LISTED_LEVELS])
    text = ", ".join(f"{level} ({counts[level] / total:.2%})" for level in listed)
    return (text or "none") + (f" and {len(levels) - len(listed)} more" if len(levels) > len(listed) else "")
