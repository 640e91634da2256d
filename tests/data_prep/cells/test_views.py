"""Patches at two time points and the eight views of a candidate."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from data_prep.cells.candidates import Candidate, survey_sequence
from data_prep.cells.sequences import find_sequences
from data_prep.cells.settings import CandidateSettings
from data_prep.cells.views import (
    NO_CHANGE,
    VIEWS,
    candidates_of,
    cut_patch,
    describe_candidate,
    difference_levels,
    grey_levels,
)
from data_prep.labelled.texture import intensity_histogram, lbp_histogram
from tests.data_prep.cell_files import still_frames, with_spots, write_folder

SETTINGS = CandidateSettings()


def test_eight_views_of_270_features_at_each_time_point() -> None:
    assert len(VIEWS) == 8
    for time in ("previous", "current"):
        of_time = {name.removeprefix(f"{time}_"): n for name, n in VIEWS.items() if name.startswith(time)}
        assert of_time == {
            "lbp": 58,
            "difference_histogram": 26,
            "difference_lbp": 58,
            "difference_sift": 128,
        }


def test_each_time_point_has_its_frame_and_its_difference() -> None:
    before, previous, current = with_spots(still_frames(3), [(1, 40, 40), (2, 60, 40)])
    candidate = Candidate(2, 39.5, 49.5, 64)
    described = describe_candidate(candidate, before, previous, current, 52)
    assert {name: len(values) for name, values in described.views.items()} == VIEWS
    patches = [frame[14:66, 24:76] for frame in (before, previous, current)]
    changes = [difference_levels(patches[0], patches[1]), difference_levels(patches[1], patches[2])]
    np.testing.assert_array_equal(described.image[..., 0], np.hstack([*patches[1:], changes[1]]))
    for time, patch, change in zip(("previous", "current"), patches[1:], changes, strict=True):
        np.testing.assert_array_equal(described.views[f"{time}_lbp"], lbp_histogram(patch))
        np.testing.assert_array_equal(
            described.views[f"{time}_difference_histogram"], intensity_histogram(change)
        )
    first = describe_candidate(candidate, None, previous, current, 52)  # nothing is known of a change
    histogram = first.views["previous_difference_histogram"]
    assert histogram[NO_CHANGE * 26 // 256] == 1
    np.testing.assert_array_equal(first.views["current_lbp"], described.views["current_lbp"])


def test_patches_are_mirrored_beyond_the_border() -> None:
    grey = np.random.default_rng(0).integers(0, 256, (60, 70), dtype=np.uint8)
    padded = np.pad(grey, 60, mode="symmetric")
    for row, column in ((0.0, 0.0), (59.0, 69.0), (30.0, 1.2)):
        patch = cut_patch(grey, Candidate(1, row, column, 20), 52)
        top, left = round(row - 25.5) + 60, round(column - 25.5) + 60
        np.testing.assert_array_equal(patch, padded[top : top + 52, left : left + 52])
    # A frame smaller than its patch.
    assert cut_patch(grey[:20, :20], Candidate(1, 10.0, 10.0, 20), 52).shape == (52, 52)


def test_levels_of_sixteen_bits_become_eight() -> None:
    deep = np.array([[900, 1000, 1500, 2000, 3000]], np.uint16)
    assert grey_levels(deep, (1000.0, 2000.0)).tolist() == [[0, 0, 128, 255, 255]]


def test_some_candidates_are_described_as_all_are(tmp_path: Path) -> None:
    frames = with_spots(still_frames(7), [(1, 20, 30), (3, 70, 40), (5, 40, 60)])
    (sequence,), _ = find_sequences(write_folder(tmp_path / "frames", frames))
    surveyed = survey_sequence(sequence, SETTINGS)
    described = list(candidates_of(surveyed, SETTINGS))
    assert [one.candidate.frame for one in described] == [1, 3, 5]
    (last,) = candidates_of(replace(surveyed, candidates=surveyed.candidates[2:]), SETTINGS)
    np.testing.assert_array_equal(last.image, described[2].image)
    for name, values in last.views.items():
        np.testing.assert_array_equal(values, described[2].views[name])
    assert list(candidates_of(replace(surveyed, candidates=()), SETTINGS)) == []


@pytest.mark.parametrize("size", [(30, 200), (20, 20)])
def test_frames_smaller_than_a_patch(tmp_path: Path, size: tuple[int, int]) -> None:
    frames = with_spots(still_frames(3, size), [(1, 10, 10)])
    (sequence,), _ = find_sequences(write_folder(tmp_path / "frames", frames))
    (one,) = candidates_of(survey_sequence(sequence, SETTINGS), SETTINGS)
    assert one.image.shape == (52, 156, 3)
