"""Smoothing of a video's probabilities: weights by hand, along motion, and what makes it forget."""

import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from skimage import data

from data_prep.lane.scenes import render_scene
from pipelines.lane.smoothing import TimeSmoother

SIZE = (48, 64)


def texture(shift: int = 0, seed: int = 0) -> np.ndarray:
    """Blurred noise that moves to the right by `shift` pixels."""
    noise = np.random.default_rng(seed).uniform(0, 255, (SIZE[0], SIZE[1] + 40, 3)).astype(np.float32)
    smooth = cv2.normalize(cv2.GaussianBlur(noise, (0, 0), 2), None, 0, 255, cv2.NORM_MINMAX)
    return smooth[:, 20 - shift : 20 - shift + SIZE[1]].astype(np.uint8)


def scene(number: int) -> np.ndarray:
    """A rendered scene; two of them have a like sky over a like ground."""
    return render_scene(np.random.default_rng(number), lane_texture="grass", size=SIZE).image


def step(column: int) -> np.ndarray:
    """Probability 1 to the right of a column, else 0."""
    return np.tile((np.arange(SIZE[1]) >= column).astype(np.float32), (SIZE[0], 1))


def test_without_flow_it_is_the_exponential_average_of_uneven_times():
    smooth = TimeSmoother(0.5, optical_flow=False)
    rng = np.random.default_rng(0)
    times, expected = [0.0, 0.1, 0.4, 2.0], None
    for number, seconds in enumerate(times):
        p = rng.uniform(size=SIZE).astype(np.float32)
        weight = np.exp(-(seconds - times[number - 1]) / 0.5) if number else 0.0
        expected = p if expected is None else weight * expected + (1 - weight) * p
        np.testing.assert_allclose(smooth(p, texture(), seconds=seconds), expected, atol=1e-6)


@pytest.mark.parametrize("optical_flow", [False, True])
def test_a_still_scene_keeps_its_probability(optical_flow):
    smooth = TimeSmoother(1.0, optical_flow=optical_flow)
    for number in range(4):
        found = smooth(step(30), texture(), seconds=number / 10)
    np.testing.assert_allclose(found, step(30), atol=1e-6)


def test_with_flow_the_past_moves_along_with_the_picture():
    """The border of the lane moves with the picture; without flow it trails behind."""
    errors = {}
    for optical_flow in (False, True):
        smooth = TimeSmoother(1.0, optical_flow=optical_flow)
        for number in range(5):
            found = smooth(step(20 + 3 * number), texture(3 * number), seconds=number / 10)
        errors[optical_flow] = np.abs(found - step(32)).mean()
    assert errors[True] < 0.3 * errors[False]


@pytest.mark.parametrize("after", ["texture", "photograph", "white", "scene"])
def test_with_flow_a_cut_begins_anew(after):
    pictures = {
        "texture": texture(seed=1),
        "photograph": cv2.resize(data.astronaut(), SIZE[::-1]),
        "white": np.full((*SIZE, 3), 255, np.uint8),
        "scene": scene(4),
    }
    before = scene(1) if after == "scene" else cv2.resize(data.chelsea(), SIZE[::-1])
    smooth = TimeSmoother(10.0, optical_flow=True)
    smooth(np.ones(SIZE, np.float32), before, seconds=0.0)
    found = smooth(np.zeros(SIZE, np.float32), pictures[after], seconds=0.04)
    assert found.max() == 0


def test_another_exposure_is_no_cut():
    smooth = TimeSmoother(10.0, optical_flow=True)
    frame = (0.6 * texture()).astype(np.uint8)
    smooth(np.ones(SIZE, np.float32), frame, seconds=0.0)
    found = smooth(np.zeros(SIZE, np.float32), frame + 30, seconds=0.04)
    assert found.mean() > 0.9


@pytest.mark.parametrize("optical_flow", [False, True])
def test_what_is_no_number_does_not_stay(optical_flow):
    smooth = TimeSmoother(10.0, optical_flow=optical_flow)
    smooth(np.full(SIZE, np.nan, np.float32), texture(), seconds=0.0)
    np.testing.assert_array_equal(smooth(step(20), texture(), seconds=0.1), step(20))


def test_frames_of_any_shape_can_be_smoothed():
    """OpenCV's flow ends the process on images of few rows, so this runs in a process of its own."""
    program = """
import numpy as np
from data_prep.lane.scenes import render_scene
from pipelines.lane.smoothing import TimeSmoother
for height, width in ((40, 640), (270, 6000), (1, 500), (500, 1), (13, 256)):
    smooth = TimeSmoother(1.0, optical_flow=True)
    frame = np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype(np.uint8)
    for number in range(3):
        found = smooth(np.full((height, width), 0.5, np.float32), frame, seconds=number / 10)
    assert abs(found - 0.5).max() < 1e-6
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[3])


def test_probabilities_stay_probabilities_and_equal_calls_are_equal():
    rng = np.random.default_rng(1)
    maps = [rng.uniform(size=SIZE).astype(np.float32) for _ in range(5)]
    runs = []
    for _ in range(2):
        smooth = TimeSmoother(0.3, optical_flow=True)
        runs.append([smooth(p, texture(4 * n, n % 2), seconds=n / 15) for n, p in enumerate(maps)])
    assert np.stack(runs[0]).min() >= 0
    assert np.stack(runs[0]).max() <= 1
    np.testing.assert_array_equal(*runs)


@pytest.mark.parametrize(("size", "seconds"), [((20, 30), 1.0), (SIZE, -1.0), (SIZE, 0.5)])
def test_another_size_and_a_time_that_is_no_later_begin_anew(size, seconds):
    smooth = TimeSmoother(5.0, optical_flow=True)
    smooth(np.ones(SIZE, np.float32), texture(), seconds=0.5)
    p = np.full(size, 0.25, np.float32)
    np.testing.assert_array_equal(smooth(p, np.zeros((*size, 3), np.uint8), seconds=seconds), p)


def test_a_time_constant_of_zero_leaves_each_frame_by_itself():
    smooth = TimeSmoother(0.0, optical_flow=True)
    for column in (10, 50):
        np.testing.assert_array_equal(smooth(step(column), texture(), seconds=0.0), step(column))


def test_a_frame_of_few_pixels_is_taken():
    smooth = TimeSmoother(1.0, optical_flow=True)
    for number in range(2):
        found = smooth(np.full((2, 3), 0.5, np.float32), np.zeros((2, 3, 3), np.uint8), seconds=number)
    np.testing.assert_allclose(found, 0.5)


def test_a_negative_time_constant_is_refused():
    with pytest.raises(ValueError, match="at least 0 seconds, but is -1"):
        TimeSmoother(-1.0, optical_flow=True)
