"""Candidates by the paper's rule, and what the first reading of a sequence finds out."""

from pathlib import Path

import numpy as np
import pytest

from data_prep.cells.candidates import find_candidates, survey_sequence
from data_prep.cells.sequences import find_sequences
from data_prep.cells.settings import CandidateSettings
from data_prep.errors import InputError
from tests.data_prep.cell_files import still_frames, with_spots, write_folder, write_stack

SETTINGS = CandidateSettings()


def test_quarter_of_the_largest_difference_and_twenty_pixels() -> None:
    before = np.full((60, 90), 100, np.uint8)
    after = before.copy()
    after[10:14, 10:15] = 200  # 20 pixels of the largest difference
    after[10:14, 30:35] = 126  # just above a quarter
    after[10:14, 50:55] = 125  # a quarter: not above it
    after[30:34, 10:14] = 200  # 16 pixels
    after[30:34, 30:35] = 60  # darkening counts
    after[50:54, 10:12], after[54:58, 12:15] = 200, 200  # 8 and 12 pixels that touch by a corner
    found = find_candidates(before, after, SETTINGS, frame=7)
    assert [(one.frame, one.row, one.column, one.area) for one in found] == [
        (7, 11.5, 12.0, 20),
        (7, 11.5, 32.0, 20),
        (7, 31.5, 32.0, 20),
        (7, pytest.approx(53.9), 12.0, 20),
    ]
    assert find_candidates(before, before, SETTINGS) == []


def test_levels_wrap_nowhere_and_depth_changes_nothing() -> None:
    before, after = (frame.astype(np.uint16) * 257 for frame in with_spots(still_frames(2), [(1, 40, 40)]))
    (deep,) = find_candidates(before, after, SETTINGS)
    (back,) = find_candidates(after, before, SETTINGS)
    assert (deep.area, back.area) == (64, 64)
    assert (deep.row, deep.column) == (39.5, 39.5)


def test_survey_tells_frames_candidates_and_levels(tmp_path: Path) -> None:
    frames = with_spots(still_frames(5), [(1, 20, 30), (3, 70, 40)])
    stack = write_stack(tmp_path / "deep.tif", [frame.astype(np.uint16) * 100 for frame in frames])
    (sequence,), _ = find_sequences(stack)
    surveyed = survey_sequence(sequence, SETTINGS)
    assert (surveyed.size, surveyed.num_frames, surveyed.complaints) == ((80, 100), 5, ())
    assert [(one.frame, one.column, one.row) for one in surveyed.candidates] == [
        (1, 19.5, 29.5),
        (3, 69.5, 39.5),
    ]
    low, high = surveyed.level_range or (0, 0)
    assert (low, high) == (pytest.approx(6000, abs=300), 25000)
    chosen = survey_sequence(sequence, SETTINGS.model_copy(update={"levels": (1000, 2000)}))
    assert chosen.level_range == (1000, 2000)


def test_pairs_with_a_bad_frame_are_passed_over(tmp_path: Path) -> None:
    frames = with_spots(still_frames(6), [(1, 20, 30), (3, 70, 40), (5, 40, 60)])
    frames[2] = frames[2][:50]
    folder = write_folder(tmp_path / "frames", frames)
    (sequence,), _ = find_sequences(folder)
    surveyed = survey_sequence(sequence, SETTINGS)
    assert [one.frame for one in surveyed.candidates] == [1, 5]
    assert surveyed.level_range is None
    (complaint,) = surveyed.complaints
    assert complaint.file == folder / "frame3.png"
    assert "100 x 80" in complaint.reason
    (folder / "frame5.png").rename(folder / "frame7.png")
    (folder / "frame6.png").rename(folder / "frame8.png")
    gap = survey_sequence(find_sequences(folder)[0][0], SETTINGS).complaints[0]
    assert "the numbers 5 to 6 are missing" in gap.reason
    (folder / "frame7.png").rename(folder / "frame5.png")
    (folder / "frame8.png").rename(folder / "frame6.png")
    frames[2] = still_frames(1)[0].astype(np.uint16) * 100
    write_folder(folder, frames)
    surveyed = survey_sequence(sequence, SETTINGS)
    assert [one.frame for one in surveyed.candidates] == [1, 5]
    assert "has 100 x 80 pixels of 16 bits, but the first one 100 x 80 pixels of 8 bits" in (
        surveyed.complaints[0].reason
    )
    assert not surveyed.fits(frames[2])
    (alone,), _ = find_sequences(write_folder(tmp_path / "two", [frames[0], frames[2]]))
    with pytest.raises(InputError, match="no two consecutive frames"):
        survey_sequence(alone, SETTINGS)
