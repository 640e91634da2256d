"""The free way ahead: angles by hand, marginals of the samples, and intervals that hold what they should."""

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.lane.corridor import (
    CORRELATION_LENGTH,
    NUM_SAMPLES,
    View,
    _uniform_fields,
    corridor,
    free_stretch,
    sampled_masks,
)

VIEW = View(field_of_view=90.0, look_ahead=0.5)


def lane(*stretches: tuple[int, int], size: tuple[int, int] = (40, 80)) -> np.ndarray:
    """A mask whose lane lies between columns, on all rows."""
    mask = np.zeros(size, bool)
    for start, end in stretches:
        mask[:, start:end] = True
    return mask


# One mask ---------------------------------------------------------------------------------------------------


def test_columns_become_angles_by_the_field_of_view():
    found = free_stretch(lane((40, 80)), VIEW)  # from the middle to the right edge of 90 degrees
    assert found.left == pytest.approx(0.0)
    assert found.right == pytest.approx(45.0)
    assert found.direction == pytest.approx(22.5)
    assert found.width == pytest.approx(45.0)


@given(st.floats(-40, 40), st.integers(2, 500))
def test_a_column_and_its_angle_belong_together(angle, width):
    assert VIEW.angle(VIEW.column(angle, width), width) == pytest.approx(angle, abs=1e-9)


def test_the_lane_nearest_to_the_walker_counts_though_another_is_wider():
    found = free_stretch(lane((0, 30), (45, 55)), VIEW)
    assert found.left == pytest.approx(VIEW.angle(45, 80))
    assert found.right == pytest.approx(VIEW.angle(55, 80))


def test_of_a_lane_that_parts_the_widest_branch_counts():
    mask = lane((10, 70))
    mask[10:30, 25:40] = False  # an obstacle, at the row that is looked at
    found = free_stretch(mask, VIEW)
    assert found.left == pytest.approx(VIEW.angle(40, 80))
    assert found.right == pytest.approx(VIEW.angle(70, 80))


def test_there_is_no_way_where_the_lane_ends_before_the_row_or_there_is_none():
    blocked = lane((20, 60))
    blocked[22:25] = False
    assert free_stretch(blocked, VIEW) is None
    assert free_stretch(lane(), VIEW) is None
    beyond = lane((20, 60))
    beyond[-1] = False  # not where the walker stands
    assert free_stretch(beyond, VIEW) is None
    assert free_stretch(lane((0, 15)), VIEW) is None  # far to the side


# Samples of masks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0.02, 0.2, CORRELATION_LENGTH, 0.8])
def test_fields_are_uniform_at_every_pixel_and_favour_no_side(length):
    fields = _uniform_fields((30, 40), length)
    expected = (np.arange(NUM_SAMPLES) + 0.5) / NUM_SAMPLES
    np.testing.assert_allclose(
        np.sort(fields, axis=0), np.broadcast_to(expected[:, None, None], fields.shape)
    )
    mirrored = np.sort(fields[:, :, ::-1].mean(axis=(1, 2)))
    np.testing.assert_allclose(np.sort(fields.mean(axis=(1, 2))), mirrored, atol=1e-6)


def test_a_longer_correlation_makes_neighbours_fall_together():
    def correlation(length):
        fields = _uniform_fields((30, 40), length)
        return np.corrcoef(fields[:, 15, 10], fields[:, 15, 25])[0, 1]

    assert abs(correlation(0.02)) < 0.5
    assert correlation(0.8) > 0.8


@given(st.floats(0.0, 1.0))
def test_every_pixel_is_lane_with_its_own_probability(p):
    masks = sampled_masks(np.full((20, 30), p, np.float32), CORRELATION_LENGTH)
    np.testing.assert_allclose(masks.mean(axis=0), p, atol=0.5 / NUM_SAMPLES + 1e-6)


def test_certain_pixels_are_certain_in_every_sample():
    probability = np.zeros((20, 30), np.float32)
    probability[:, 10:] = 1.0
    masks = sampled_masks(probability, 0.4)
    assert not masks[:, :, :10].any()
    assert masks[:, :, 10:].all()


# The way ahead ----------------------------------------------------------------------------------------------


def test_a_certain_lane_has_intervals_of_no_length():
    found = corridor(lane((30, 60)).astype(np.float32), VIEW)
    true = free_stretch(lane((30, 60)), VIEW)
    assert found.probability == 1.0
    assert (
        found.direction.low == found.direction.median == found.direction.high == pytest.approx(true.direction)
    )
    assert found.width.median == pytest.approx(true.width)


def test_an_uncertain_border_widens_the_intervals():
    probability = lane((20, 60)).astype(np.float32)
    probability[:, 60:70] = 0.5
    found = corridor(probability, VIEW)
    assert found.width.low < found.width.high
    assert found.direction.low < found.direction.high
    narrow, wide = free_stretch(lane((20, 60)), VIEW).width, free_stretch(lane((20, 70)), VIEW).width
    assert narrow - 1e-6 <= found.width.low < found.width.high <= wide + 1e-6


def test_where_fewer_than_half_of_the_samples_have_a_way_no_direction_is_told():
    found = corridor(np.full((40, 80), 0.05, np.float32), VIEW)
    assert found.probability < 0.5
    assert found.direction is None
    assert found.width is None


@pytest.mark.parametrize("size", [(40, 80), (480, 960), (306, 306), (450, 600), (3024, 4032), (640, 360)])
def test_a_certain_lane_is_certain_at_any_size(size):
    """Averages over areas of parts of pixels may be a little above 1."""
    probability = np.zeros(size, np.float32)
    probability[:, size[1] * 3 // 8 : size[1] * 6 // 8] = 1.0
    found = corridor(probability, VIEW)
    assert found.probability == 1.0
    true = free_stretch(probability > 0.5, VIEW)
    assert found.direction.median == pytest.approx(true.direction, abs=0.6)
    assert found.width.median == pytest.approx(true.width, abs=1.2)


def test_a_lane_and_its_mirror_image_go_opposite_ways():
    probability = cv2.GaussianBlur(lane((30, 60)).astype(np.float32), (0, 0), 6)
    found, mirrored = (corridor(p, VIEW) for p in (probability, probability[:, ::-1].copy()))
    assert mirrored.direction.median == pytest.approx(-found.direction.median, abs=1e-4)
    assert mirrored.direction.low == pytest.approx(-found.direction.high, abs=1e-4)
    assert mirrored.width == found.width


def test_equal_calls_are_equal():
    probability = np.random.default_rng(0).uniform(size=(40, 80)).astype(np.float32)
    assert corridor(probability, VIEW) == corridor(probability, VIEW)
