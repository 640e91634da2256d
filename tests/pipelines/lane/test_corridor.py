"""The free way ahead: angles by hand, marginals of the samples, and intervals that hold what they should."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.lane.corridor import (
    NUM_SAMPLES,
    View,
    _normal_fields,
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


# Samples of masks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0.02, 0.2, 0.8])
def test_fields_have_standard_normal_marginals_everywhere(length):
    """Also along the border: over all samples and pixels, and on average over the corner."""
    fields = _normal_fields((30, 40), length)
    assert fields.shape == (NUM_SAMPLES, 30, 40)
    spread = 4 / np.sqrt(NUM_SAMPLES)  # four standard errors, as if pixels were one
    assert abs(fields.mean()) < spread
    assert abs(np.square(fields).mean() - 1) < np.sqrt(2) * spread
    assert abs(np.square(fields[:, :3, :3]).mean() - 1) < np.sqrt(2) * spread


def test_a_longer_correlation_makes_neighbours_fall_together():
    def correlation(length):
        fields = _normal_fields((30, 40), length)
        return np.corrcoef(fields[:, 15, 10], fields[:, 15, 30])[0, 1]

    assert abs(correlation(0.02)) < 0.5
    assert correlation(0.8) > 0.8


@settings(deadline=None, max_examples=20)
@given(st.floats(0.05, 0.95))
def test_every_pixel_is_lane_with_its_own_probability(p):
    masks = sampled_masks(np.full((40, 60), p, np.float32), 0.02)
    assert abs(masks.mean() - p) < 0.05


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


def test_a_large_map_gives_the_angles_of_a_small_one():
    small = corridor(lane((30, 60)).astype(np.float32), VIEW)
    large = corridor(np.kron(lane((30, 60)), np.ones((12, 12))).astype(np.float32), VIEW)
    assert large.direction.median == pytest.approx(small.direction.median, abs=0.2)
    assert large.width.median == pytest.approx(small.width.median, abs=0.4)


def test_equal_calls_are_equal():
    probability = np.random.default_rng(0).uniform(size=(40, 80)).astype(np.float32)
    assert corridor(probability, VIEW) == corridor(probability, VIEW)
