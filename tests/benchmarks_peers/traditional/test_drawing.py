"""The picture of a lane shows mask, vanishing point and borders."""

import numpy as np
import pytest

from benchmarks.peers.traditional.drawing import with_lane
from benchmarks.peers.traditional.result import TraditionalLane

GREY = np.full((60, 80, 3), 100, np.uint8)


def _lane(borders):
    mask = np.zeros((60, 80), bool)
    mask[40:, 30:50] = True
    return TraditionalLane(mask, np.where(mask, 1, -1).astype(np.float32), (20.0, 40.0), borders)


def test_the_lane_is_green_and_the_rest_as_it_was():
    picture = with_lane(GREY, _lane((None, None)))
    assert picture.dtype == np.uint8
    assert picture[50, 35].tolist() == [60, 140, 60]
    assert picture[20, 40].tolist() == [255, 0, 0]
    np.testing.assert_array_equal(picture[:, :20], 100)
    np.testing.assert_array_equal(GREY, 100)


def test_borders_run_from_the_vanishing_point_to_their_ends():
    picture = with_lane(GREY, _lane(((59.0, 10.0), None)))
    assert picture[59, 10].tolist() != [100, 100, 100]
    np.testing.assert_array_equal(picture[:, 60:], 100)


def test_an_image_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"\(30, 80\).*\(60, 80\); expected equal"):
        with_lane(GREY[:30], _lane((None, None)))
