"""An image varies by the random numbers given, and by nothing else."""

import numpy as np
import pytest
import tensorflow as tf

from data_prep.augmentation_settings import LabelledAugmentation
from data_prep.labelled_augmentation import augment_labelled

STILL = dict.fromkeys(LabelledAugmentation.model_fields, 0.0)
IMAGE = np.random.default_rng(0).uniform(0, 255, (10, 14, 3)).astype("float32")
MIDDLE = [0.9, 0.9, 0.5, 0.5, 0.5, 0.5]  # no flip, no change
ALMOST_ONE = 1 - 1e-7


def varied(uniforms: list[float], **settings: float) -> np.ndarray:
    chosen = LabelledAugmentation(**(STILL | settings))
    images, numbers = tf.constant([IMAGE, IMAGE[::-1]]), tf.constant([uniforms, MIDDLE], tf.float32)
    return augment_labelled(images, numbers, chosen).numpy()[0]


def test_nothing_changes_when_all_is_switched_off() -> None:
    np.testing.assert_allclose(varied([0.1] * 6), IMAGE, atol=1e-3)


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
    moved = varied([*MIDDLE[:3], ALMOST_ONE, ALMOST_ONE, 0.5], shift=0.5)
    np.testing.assert_allclose(moved[5:, 7:], IMAGE[:5, :7], atol=0.05)


def test_gain_multiplies_and_clips() -> None:
    brighter = varied([*MIDDLE[:5], ALMOST_ONE], gain=0.25)
    np.testing.assert_allclose(brighter, np.minimum(IMAGE * 1.25, 255), rtol=1e-5, atol=1e-3)
    darker = varied([*MIDDLE[:5], 0.0], gain=0.25)
    np.testing.assert_allclose(darker, IMAGE / 1.25, rtol=1e-5, atol=1e-3)


def test_all_frames_of_a_clip_vary_as_one_image() -> None:
    clips = tf.constant(np.stack([[IMAGE, IMAGE[::-1], IMAGE * 0.5], [IMAGE * 0.2, IMAGE, IMAGE]]))
    uniforms = tf.constant([[0.1, 0.9, 0.2, 0.8, 0.3, 0.9], [0.9, 0.1, 0.8, 0.1, 0.6, 0.2]], tf.float32)
    settings = LabelledAugmentation(vertical_flip_probability=0.5)
    varied_clips = augment_labelled(clips, uniforms, settings)
    assert varied_clips.shape == clips.shape
    for number in range(3):
        expected = augment_labelled(clips[:, number], uniforms, settings)
        np.testing.assert_array_equal(varied_clips[:, number], expected)
