"""Any RGB image of 16 x 16 pixels or more gives a finite result; anything else is refused in plain words."""

import numpy as np
import pytest

from benchmarks.peers.traditional.border import detect_by_borders
from benchmarks.peers.traditional.edge import detect_by_edges
from benchmarks.peers.traditional.working import working_image

DETECTORS = pytest.mark.parametrize("detect", [detect_by_edges, detect_by_borders])


def _check(lane, size):
    assert lane.mask.shape == lane.score.shape == size
    assert lane.mask.dtype == np.bool_
    assert lane.score.dtype == np.float32
    assert np.isfinite(lane.score).all()
    np.testing.assert_array_equal(lane.mask, lane.score > 0)
    assert 0 <= lane.vanishing_point[0] <= size[0] - 1
    assert 0 <= lane.vanishing_point[1] <= size[1] - 1
    for end in lane.borders:
        if end is not None:
            row, column = end
            assert 0 <= row <= size[0] - 1
            assert 0 <= column <= size[1] - 1
            assert row == size[0] - 1 or column in {0, size[1] - 1}


@DETECTORS
@pytest.mark.parametrize("size", [(16, 16), (17, 23), (101, 67), (33, 250), (250, 33), (16, 640)])
@pytest.mark.parametrize("seed", [0, 1])
def test_images_of_noise_of_any_size(detect, size, seed):
    image = np.random.default_rng(seed).integers(0, 256, (*size, 3)).astype(np.uint8)
    _check(detect(image), size)


@DETECTORS
@pytest.mark.parametrize("level", [0, 127, 255])
def test_an_image_of_one_colour_shows_no_lane(detect, level):
    lane = detect(np.full((48, 64, 3), level, np.uint8))
    _check(lane, (48, 64))
    assert not lane.mask.any()
    assert lane.borders == (None, None)


def test_points_of_an_enlarged_copy_lie_in_the_image():
    working = working_image(np.zeros((64, 32, 3), np.uint8))
    height, width = working.size
    assert working.to_full((0, 0)) == (0.0, 0.0)
    assert working.to_full((height - 1, width - 1)) == (63.0, 31.0)
    assert working.to_full(((height - 1) / 2, (width - 1) / 2)) == (31.5, 15.5)


@DETECTORS
def test_one_straight_edge_is_no_lane_or_a_finite_one(detect):
    image = np.zeros((64, 64, 3), np.uint8)
    image[:, 32:] = 200
    _check(detect(image), (64, 64))


@DETECTORS
def test_what_is_no_rgb_image_is_refused(detect):
    with pytest.raises(ValueError, match=r"holds float64 values; expected uint8.*convert"):
        detect(np.zeros((32, 32, 3)))
    with pytest.raises(ValueError, match=r"shape \(32, 32\); expected \[H, W, 3\].*repeat"):
        detect(np.zeros((32, 32), np.uint8))
    with pytest.raises(ValueError, match=r"shape \(32, 32, 4\); expected.*drop an alpha"):
        detect(np.zeros((32, 32, 4), np.uint8))
    with pytest.raises(ValueError, match=r"15 x 40 pixels; expected at least 16 x 16.*larger"):
        detect(np.zeros((15, 40, 3), np.uint8))
