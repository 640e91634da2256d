"""An image varies by the random numbers given, and by nothing else."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from data_prep.labelled.augmentation import augment_labelled, output_to_input, random_numbers, warp
from data_prep.labelled.image_settings import LabelledAugmentation

STILL = dict.fromkeys(LabelledAugmentation.model_fields, 0.0)
IMAGE = np.random.default_rng(0).uniform(0, 255, (10, 14, 3)).astype("float32")
IMAGES = np.random.default_rng(0).uniform(0, 255, (3, 6, 9, 2)).astype("float32")
MIDDLE = [0.9, 0.9, 0.5, 0.5, 0.5, 0.5, 0.5]  # no flip, no change
ALMOST_ONE = 1 - 1e-7


def varied(uniforms: list[float], **settings: float) -> np.ndarray:
    chosen = LabelledAugmentation(**(STILL | settings))
    images, numbers = tf.constant([IMAGE, IMAGE[::-1]]), tf.constant([uniforms, MIDDLE], tf.float32)
    return augment_labelled(images, numbers, chosen).numpy()[0]


def test_nothing_changes_when_all_is_switched_off() -> None:
    np.testing.assert_allclose(varied([0.1] * 7), IMAGE, atol=1e-3)


@pytest.mark.parametrize(
    ("number", "setting", "flipped"),
    [(0, "flip_probability", IMAGE[:, ::-1]), (1, "vertical_flip_probability", IMAGE[::-1])],
)
def test_flips(number: int, setting: str, flipped: np.ndarray) -> None:
    for uniform, expected in ((0.29, flipped), (0.31, IMAGE)):
        uniforms = [*MIDDLE[:number], uniform, *MIDDLE[number + 1 :]]
        np.testing.assert_allclose(varied(uniforms, **{setting: 0.3}), expected, atol=1e-3)


def test_up_and_down_are_not_exchanged_unless_asked_for() -> None:
    assert LabelledAugmentation().vertical_flip_probability == 0


def test_shift_moves_down_and_right() -> None:
    moved = varied([*MIDDLE[:3], ALMOST_ONE, ALMOST_ONE, 0.5, 0.5], shift=0.5)
    np.testing.assert_allclose(moved[5:, 7:], IMAGE[:5, :7], atol=0.05)


def test_gain_multiplies_and_clips() -> None:
    brighter = varied([*MIDDLE[:5], ALMOST_ONE, 0.5], gain=0.25)
    np.testing.assert_allclose(brighter, np.minimum(IMAGE * 1.25, 255), rtol=1e-5, atol=1e-3)
    darker = varied([*MIDDLE[:5], 0.0, 0.5], gain=0.25)
    np.testing.assert_allclose(darker, IMAGE / 1.25, rtol=1e-5, atol=1e-3)


def test_all_frames_of_a_clip_vary_as_one_image() -> None:
    clips = tf.constant(np.stack([[IMAGE, IMAGE[::-1], IMAGE * 0.5], [IMAGE * 0.2, IMAGE, IMAGE]]))
    uniforms = tf.constant(
        [[0.1, 0.9, 0.2, 0.8, 0.3, 0.9, 0.2], [0.9, 0.1, 0.8, 0.1, 0.6, 0.2, 0.7]], tf.float32
    )
    settings = LabelledAugmentation(vertical_flip_probability=0.5, rotation=30)
    varied_clips = augment_labelled(clips, uniforms, settings)
    assert varied_clips.shape == clips.shape
    for number in range(3):
        expected = augment_labelled(clips[:, number], uniforms, settings)
        np.testing.assert_array_equal(varied_clips[:, number], expected)


def transforms(mirror: list[list[float]], zoom: list[float], shift: list[list[float]]) -> tf.Tensor:
    return output_to_input(
        tf.constant([6, 9]),
        *(tf.constant(part, tf.float32) for part in (mirror, zoom, shift, [0.0] * len(zoom))),
    )


def test_a_turn_is_clockwise_about_the_centre_and_after_the_flip() -> None:
    square = np.random.default_rng(1).uniform(0, 255, (2, 8, 8, 3)).astype("float32")
    settings = LabelledAugmentation(**(STILL | {"rotation": 90.0, "flip_probability": 0.5}))
    uniforms = np.array([[*MIDDLE[:6], ALMOST_ONE], [0.1, *MIDDLE[1:6], 0.0]], np.float32)
    turned = augment_labelled(tf.constant(square), tf.constant(uniforms), settings).numpy()
    np.testing.assert_allclose(turned[0], np.rot90(square[0], -1), atol=0.05)
    np.testing.assert_allclose(turned[1], np.rot90(square[1, :, ::-1]), atol=0.05)


@given(st.floats(-3.0, 3.0), st.floats(0.5, 2.0), st.sampled_from([-1.0, 1.0]), st.sampled_from([-1.0, 1.0]))
def test_each_pixel_comes_from_where_the_matrices_say(turn, zoom, down, across) -> None:
    """A NumPy twin: out = centre + shift + zoom · R · mirror · (in - centre), for columns and rows."""
    shift, centre = np.array([1.5, -0.7]), np.array([4.0, 2.5])  # right and down, of 6 x 9 pixels
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    there = np.array([6.0, 1.0])
    out = centre + shift + zoom * rotation @ (np.array([across, down]) * (there - centre))
    parts = ([[down, across]], [zoom], [shift[::-1]], [turn])
    coefficients = output_to_input(tf.constant([6, 9]), *(tf.constant(part, tf.float32) for part in parts))
    found = coefficients.numpy()[0, :6].reshape(2, 3) @ np.array([*out, 1.0])
    np.testing.assert_allclose(found, there, atol=1e-4)


def test_random_numbers_that_came_later_leave_the_others_as_they_were() -> None:
    six = np.random.default_rng([3, 5, 1]).random((4, 6), dtype=np.float32)
    np.testing.assert_array_equal(random_numbers(4, seed=3, epoch=5)[:, :6], six)


def test_each_image_has_its_own_transform() -> None:
    moved = warp(
        IMAGES, transforms([[1, 1], [-1, 1], [1, -1]], [1, 1, 1], [[2, 0], [0, 0], [0, 3]]), outside=7.0
    ).numpy()
    np.testing.assert_allclose(moved[0, 2:], IMAGES[0, :4], atol=1e-3)
    assert np.all(moved[0, :2] == 7)
    np.testing.assert_allclose(moved[1], IMAGES[1, ::-1], atol=1e-3)
    np.testing.assert_allclose(moved[2, :, 3:], IMAGES[2, :, ::-1][:, :6], atol=1e-3)


def test_zoom_is_about_the_centre_and_nearest_pixels_keep_their_levels() -> None:
    still = [[0.0, 0.0]]
    larger = warp(IMAGES[:1], transforms([[1, 1]], [3.0], still), nearest=True).numpy()[0]
    np.testing.assert_array_equal(larger[:, 3:6], np.repeat(IMAGES[0, 2:4, 4:5], 3, axis=0)[:, [0, 0, 0]])
    smooth = warp(IMAGES[:1], transforms([[1, 1]], [3.0], still)).numpy()[0]
    np.testing.assert_allclose(smooth[1, 4], IMAGES[0, 2, 4], atol=1e-3)


def test_what_comes_from_outside_is_a_reflection() -> None:
    moved = warp(IMAGES[:1], transforms([[1, 1]], [1.0], [[0.0, 2.0]])).numpy()[0]
    np.testing.assert_allclose(moved[:, :2], IMAGES[0, :, 1::-1], atol=1e-3)
