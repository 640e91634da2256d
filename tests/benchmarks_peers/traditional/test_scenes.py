"""Both traditional detectors find a drawn lane, whatever its place, and leave what they were given alone."""

import time

import cv2
import numpy as np
import pytest

from benchmarks.peers.traditional.border import detect_by_borders
from benchmarks.peers.traditional.edge import detect_by_edges

DETECTORS = pytest.mark.parametrize("detect", [detect_by_edges, detect_by_borders])


def _road(seed=0, size=(120, 160), apex=(40.0, 80.0), feet=(30.0, 125.0)):
    """Return an image of a lane on textured ground and the lane's mask."""
    rng = np.random.default_rng(seed)
    height, width = size
    rows, columns = np.mgrid[:height, :width].astype(float)
    t = (rows - apex[0]) / (height - 1 - apex[0])
    left = apex[1] + (feet[0] - apex[1]) * t
    right = apex[1] + (feet[1] - apex[1]) * t
    mask = (t > 0) & (columns > left) & (columns < right)
    image = np.where(rows[..., None] < apex[0], [170, 190, 220], [70, 110, 60]).astype(float)
    image[mask] = [150, 140, 130]
    texture = cv2.GaussianBlur(rng.normal(0, 30, size), (0, 0), 1.0)
    image += texture[..., None] + rng.normal(0, 4, image.shape)
    return np.clip(image, 0, 255).astype(np.uint8), mask


def _overlap(one, other):
    return (one & other).sum() / (one | other).sum()


@DETECTORS
@pytest.mark.parametrize(
    ("apex", "feet"),
    [((40.0, 80.0), (30.0, 125.0)), ((55.0, 60.0), (20.0, 130.0)), ((30.0, 95.0), (50.0, 115.0))],
)
def test_a_drawn_lane_is_found(detect, apex, feet):
    image, mask = _road(apex=apex, feet=feet)
    lane = detect(image)
    assert np.hypot(*np.subtract(lane.vanishing_point, apex)) < 16
    assert _overlap(lane.mask, mask) > 0.7


@DETECTORS
def test_borders_end_where_the_lane_leaves_the_image(detect):
    image, _ = _road()
    left, right = detect(image).borders
    assert left[0] == right[0] == 119
    assert left[1] == pytest.approx(30, abs=12)
    assert right[1] == pytest.approx(125, abs=12)


@DETECTORS
@pytest.mark.parametrize("seed", [0, 1])
def test_a_mirrored_image_gives_the_mirrored_lane(detect, seed):
    image, _ = _road(seed, apex=(45.0, 65.0), feet=(25.0, 115.0))
    lane, mirrored = detect(image), detect(image[:, ::-1].copy())
    assert _overlap(lane.mask, mirrored.mask[:, ::-1]) > 0.9
    assert mirrored.vanishing_point[0] == pytest.approx(lane.vanishing_point[0], abs=3)
    assert 159 - mirrored.vanishing_point[1] == pytest.approx(lane.vanishing_point[1], abs=3)


@DETECTORS
def test_the_size_of_the_image_matters_little(detect):
    image, _ = _road()
    small = detect(image)
    large = detect(cv2.resize(image, (480, 360), interpolation=cv2.INTER_LINEAR))
    reduced = cv2.resize(large.mask.astype(np.uint8), (160, 120), interpolation=cv2.INTER_AREA) > 0
    assert large.mask.shape == (360, 480)
    assert _overlap(small.mask, reduced) > 0.85


@DETECTORS
def test_the_score_falls_from_the_middle_of_the_lane_outwards(detect):
    image, mask = _road()
    score = detect(image).score
    assert score[110, 78] > score[110, 40] > score[110, 5]
    assert score[mask].mean() > 0 > score[~mask].mean()


@DETECTORS
def test_equal_calls_give_equal_lanes_and_leave_the_image_alone(detect):
    image, _ = _road()
    before = image.copy()
    one, other = detect(image), detect(image)
    np.testing.assert_array_equal(one.score, other.score)
    assert (one.vanishing_point, one.borders) == (other.vanishing_point, other.borders)
    np.testing.assert_array_equal(image, before)


@DETECTORS
def test_an_image_of_the_networks_size_takes_less_than_a_second(detect):
    image = cv2.resize(_road()[0], (306, 306))
    detect(image)  # fills the filters' cache
    start = time.process_time()
    detect(image)
    assert time.process_time() - start < 1
