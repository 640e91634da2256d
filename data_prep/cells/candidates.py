"""Candidates for cell events: where two consecutive frames of a sequence differ much."""

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from data_prep.cells.sequences import CellSequence, Levels, missing_numbers, read_sequence
from data_prep.cells.settings import CandidateSettings
from data_prep.errors import InputError, Skipped

_PERCENTILES = (0.1, 99.9)  # of a sequence's levels of 16 bits; a few hot pixels do not count


@dataclass(frozen=True)
class Candidate:
    """A place where an event may be.

    Attributes:
        frame: Number, from 0, of the later one of the two frames that differ.
        row: Row of the centroid of the changed pixels.
        column: Column of the centroid of the changed pixels.
        area: Number of changed pixels.
    """

    frame: int
    row: float
    column: float
    area: int


@dataclass(frozen=True)
class SurveyedSequence:
    """What is known of a sequence after it has been read once.

    Attributes:
        sequence: The sequence.
        size: Height and width of its frames in pixels.
        num_frames: Number of frames, good ones and bad ones.
        level_range: Levels that become 0 and 255; None for frames of 8 bits.
        candidates: Candidates in the order of their frames.
        complaints: Numbers missing among the names of frames, and frames that cannot be used.
    """

    sequence: CellSequence
    size: tuple[int, int]
    num_frames: int
    level_range: tuple[float, float] | None
    candidates: tuple[Candidate, ...]
    complaints: tuple[Skipped, ...]

    def fits(self, levels: Levels) -> bool:
        """Whether a frame has the size and the depth of the first one; the others are left out."""
        return levels.shape == self.size and (levels.dtype == np.uint16) == (self.level_range is not None)


def find_candidates(
    previous: Levels, current: Levels, settings: CandidateSettings, *, frame: int = 0
) -> list[Candidate]:
    """Find the connected regions in which a frame differs much from the one before it.

    Args:
        previous: uint8 or uint16 [H, W], a frame.
        current: uint8 or uint16 [H, W], the frame after it.
        settings: Settings with the threshold and the smallest area.
        frame: Number of the current frame.

    Returns:
        Candidates from the uppermost changed row on; none where the frames are equal.

    Source:
        DFGP paper, section 5.3. It is read so that the difference is absolute, its maximum that of the pair,
        and that pixels of a component touch by side or corner.

    Example:
        >>> before, after = np.zeros((60, 60), np.uint8), np.zeros((60, 60), np.uint8)
        >>> after[10:20, 30:40] = 200
        >>> [(one.row, one.column, one.area) for one in find_candidates(before, after, CandidateSettings())]
        [(14.5, 34.5, 100)]
    """
    difference = np.abs(current.astype(np.int32) - previous)
    largest = int(difference.max())
    if largest == 0:
        return []
    changed = (difference > settings.threshold * largest).astype(np.uint8)
    number, _, statistics, centroids = cv2.connectedComponentsWithStats(changed, connectivity=8)
    areas = statistics[:, cv2.CC_STAT_AREA]
    return [
        Candidate(frame, float(centroids[i, 1]), float(centroids[i, 0]), int(areas[i]))
        for i in range(1, number)  # 0 is what has not changed
        if areas[i] >= settings.smallest_area
    ]


def survey_sequence(sequence: CellSequence, settings: CandidateSettings) -> SurveyedSequence:
    """Read a sequence once, two frames in memory at a time, and find its candidates.

    A frame that cannot be read or is of another size or depth than the first one is left out, and with it the
    two pairs it belongs to.

    Args:
        sequence: Sequence from `find_sequences`.
        settings: Settings by which candidates are found.

    Returns:
        Size and number of the frames, the candidates, and what cannot be used.

    Raises:
        InputError: There are not two consecutive frames that can be used.
    """
    previous: Levels | None = None
    first: Levels | None = None
    counts = np.zeros(2**16, np.int64)
    candidates: list[Candidate] = []
    complaints = missing_numbers(sequence)
    num_frames, num_pairs = 0, 0
    for number, read in read_sequence(sequence):
        num_frames = number + 1
        levels = read if isinstance(read, Skipped) else _unlike(first, read, sequence, number) or read
        if isinstance(levels, Skipped):
            complaints.append(levels)
            previous = None
            continue
        first = levels if first is None else first
        if levels.dtype == np.uint16:
            counts += np.bincount(levels.ravel(), minlength=len(counts))
        if previous is not None:
            num_pairs += 1
            candidates += find_candidates(previous, levels, settings, frame=number)
        previous = levels
    if first is None or num_pairs == 0:
        reasons = "".join(f"\n  {entry.reason}" for entry in complaints[:5])
        raise InputError(
            f"{sequence.path}: no two consecutive frames that can be read, among {num_frames}. Expected a "
            f"folder of frames, a TIFF file of several pages or a video.{reasons}"
        )
    return SurveyedSequence(
        sequence=sequence,
        size=(first.shape[0], first.shape[1]),
        num_frames=num_frames,
        level_range=_level_range(counts, settings) if first.dtype == np.uint16 else None,
        candidates=tuple(candidates),
        complaints=tuple(complaints),
    )


def _unlike(first: Levels | None, levels: Levels, sequence: CellSequence, number: int) -> Skipped | None:
    """Return why a frame cannot be compared with the first one, or None if it can."""
    if first is None or (levels.shape, levels.dtype) == (first.shape, first.dtype):
        return None
    path = sequence.frames[number] if sequence.frames else sequence.path
    found, expected = (
        f"{one.shape[1]} x {one.shape[0]} pixels of {8 * one.itemsize} bits" for one in (levels, first)
    )
    return Skipped(
        path,
        f"{path}: frame {number} (from 0) has {found}, but the first one {expected}. Expected frames of one "
        "size and depth. Export it again, or remove it.",
    )


def _level_range(counts: npt.NDArray[np.int64], settings: CandidateSettings) -> tuple[float, float]:
    if settings.levels is not None:
        return float(settings.levels[0]), float(settings.levels[1])
    share = 100.0 * np.cumsum(counts) / max(int(counts.sum()), 1)
    low, high = (float(np.searchsorted(share, percentile)) for percentile in _PERCENTILES)
    return low, max(high, low + 1.0)
