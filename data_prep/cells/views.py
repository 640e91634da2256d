"""What is known of a candidate for a cell event: its patch at two time points, and eight views of it.

The DFGP paper (section 5.3) describes a candidate "from the 52 x 52-pixel patch surrounding its centroid in
the previous frame and the current frames" by four sets of features, and takes "each of the four feature sets
and the two time points as separate views". It is read so: each time point has its frame, and the difference
of that frame to the one before it; so the earlier time point's difference looks back two frames.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

import cv2
import numpy as np
import numpy.typing as npt

from data_prep.cells.candidates import Candidate, SurveyedSequence
from data_prep.cells.sequences import Levels, read_sequence
from data_prep.cells.settings import CandidateSettings
from data_prep.errors import Skipped
from data_prep.labelled import texture as texture_features
from data_prep.labelled.texture import dense_sift, intensity_histogram, lbp_histogram
from data_prep.labelled.views import Views

EXTRACTOR = f"cell views 1, {texture_features.VERSION}"
"""Name and version of what computes the views; changes with every change of a number."""

NO_CHANGE = 127
"""Level of a difference that shows where two frames are equal."""

Grey = npt.NDArray[np.uint8]

_OF_FRAME: dict[str, Callable[[Grey], npt.NDArray[np.float32]]] = {"lbp": lbp_histogram}
_OF_DIFFERENCE: dict[str, Callable[[Grey], npt.NDArray[np.float32]]] = {
    "difference_histogram": intensity_histogram,
    "difference_lbp": lbp_histogram,
    "difference_sift": dense_sift,
}

VIEWS: dict[str, int] = {
    f"{time}_{feature}": columns
    for time in ("previous", "current")
    for feature, columns in (
        ("lbp", texture_features.NUM_PATTERNS),
        ("difference_histogram", texture_features.NUM_LEVEL_BINS),
        ("difference_lbp", texture_features.NUM_PATTERNS),
        ("difference_sift", texture_features.NUM_GRADIENTS),
    )
}
"""Number of features of each view, in their order."""


@dataclass(frozen=True)
class DescribedCandidate:
    """A candidate with all that a model sees of it.

    Attributes:
        candidate: The candidate.
        image: Previous patch, current patch and their difference side by side, uint8 [P, 3 P, 3], grey.
        views: float32 [D] of each of `VIEWS`.
    """

    candidate: Candidate
    image: npt.NDArray[np.uint8]
    views: Views


def candidates_of(surveyed: SurveyedSequence, settings: CandidateSettings) -> Iterator[DescribedCandidate]:
    """Describe the candidates of a sequence while it is read once more, three frames in memory at a time.

    Args:
        surveyed: The sequence, with the candidates that are wanted.
        settings: Settings with the size of the patches.

    Yields:
        The candidates in their order.

    Raises:
        InputError: A video or TIFF file cannot be opened.

    Example:
        >>> surveyed = survey_sequence(sequence, settings)  # doctest: +SKIP
        >>> for one in candidates_of(surveyed, settings):  # doctest: +SKIP
        ...     print(one.candidate.frame, one.views["current_lbp"].shape)
    """
    in_order = groupby(surveyed.candidates, key=lambda one: one.frame)
    by_frame = {number: list(some) for number, some in in_order}
    if not by_frame:
        return
    first, last = max(min(by_frame) - 2, 0), max(by_frame)
    before: Grey | None = None
    previous: Grey | None = None
    for number, levels in read_sequence(surveyed.sequence, first):
        if isinstance(levels, Skipped) or not surveyed.fits(levels):
            before, previous = None, None
            continue
        current = grey_levels(levels, surveyed.level_range)
        if previous is not None:
            for candidate in by_frame.get(number, ()):
                yield describe_candidate(candidate, before, previous, current, settings.patch)
        if number >= last:
            return
        before, previous = previous, current


def describe_candidate(
    candidate: Candidate, before: Grey | None, previous: Grey, current: Grey, side: int
) -> DescribedCandidate:
    """Cut a candidate's patches and compute its views.

    Args:
        candidate: Candidate of the current frame.
        before: The frame before the previous one, uint8 [H, W]; None where there is none, which counts as no
            change.
        previous: The frame before the current one.
        current: The candidate's frame.
        side: Side of the patch, in pixels.
    """
    now = cut_patch(current, candidate, side)
    earlier = cut_patch(previous, candidate, side)
    earliest = earlier if before is None else cut_patch(before, candidate, side)
    change = difference_levels(earlier, now)
    views: dict[str, npt.NDArray[np.float32]] = {}
    time_points = {"previous": (earlier, difference_levels(earliest, earlier)), "current": (now, change)}
    for time, (frame, difference) in time_points.items():
        views |= {f"{time}_{name}": feature(frame) for name, feature in _OF_FRAME.items()}
        views |= {f"{time}_{name}": feature(difference) for name, feature in _OF_DIFFERENCE.items()}
    image = np.repeat(np.hstack([earlier, now, change])[:, :, np.newaxis], 3, axis=2)
    return DescribedCandidate(candidate, image, views)


def cut_patch(grey: Grey, candidate: Candidate, side: int) -> Grey:
    """Cut out the square around a centroid; beyond the border the frame is mirrored.

    Args:
        grey: Frame, uint8 [H, W].
        candidate: Candidate whose centroid is the middle of the patch.
        side: Side of the patch, in pixels.

    Returns:
        uint8 [side, side].
    """
    top, left = corner(candidate, side)
    height, width = grey.shape
    rows = (max(-top, 0), max(top + side - height, 0))
    columns = (max(-left, 0), max(left + side - width, 0))
    inside = grey[max(top, 0) : top + side, max(left, 0) : left + side]
    if not any((*rows, *columns)):
        return inside
    return np.asarray(cv2.copyMakeBorder(inside, *rows, *columns, cv2.BORDER_REFLECT), dtype=np.uint8)


def corner(candidate: Candidate, side: int) -> tuple[int, int]:
    """Return row and column of the upper left pixel of a candidate's patch; negative outside the frame."""
    return (
        round(candidate.row - (side - 1) / 2),
        round(candidate.column - (side - 1) / 2),
    )


def difference_levels(earlier: Grey, later: Grey) -> Grey:
    """Return the signed difference of two patches as levels: `NO_CHANGE` for none, more for brightening.

    Args:
        earlier: uint8 [H, W], the patch in the earlier frame.
        later: uint8 [H, W], the patch in the later frame.

    Returns:
        uint8 [H, W].

    Example:
        >>> difference_levels(np.array([[9, 0, 255]], np.uint8), np.array([[9, 255, 0]], np.uint8)).tolist()
        [[127, 255, 0]]
    """
    return ((later.astype(np.int16) - earlier + 255) // 2).astype(np.uint8)


def grey_levels(levels: Levels, level_range: tuple[float, float] | None) -> Grey:
    """Return a frame with 8 bits.

    Args:
        levels: uint8 or uint16 [H, W].
        level_range: Levels that become 0 and 255; None leaves 8 bits as they are.
    """
    if level_range is None:
        return levels.astype(np.uint8)
    low, high = level_range
    scaled = (levels.astype(np.float32) - low) * (255.0 / (high - low))
    return np.rint(np.clip(scaled, 0, 255)).astype(np.uint8)
