"""Image and mask vary together, and only by the random numbers given."""

import numpy as np
import pytest
import tensorflow as tf
from check_shapes.exceptions import ShapeMismatchError

from data_prep.labelled.augmentation import random_numbers
from data_prep.lane.dataset import augment
from data_prep.lane.settings import LaneAugmentation

STILL = {"flip_probability": 0.0, "brightness": 0.0, "contrast": 0.0, "scale": 0.0, "shift": 0.0}
MIDDLE = [0.5] * 6  # no change, but for the flip


def varied(
    image: np.ndarray, mask: np.ndarray, uniforms: list[float], **settings: float
) -> tuple[np.ndarray, np.ndarray]:
    result = augment(
        tf.constant(image, tf.float32),
        tf.constant(mask),
        tf.constant(uniforms, tf.float32),
        LaneAugmentation(**{**STILL, **settings}),
    )
    return result[0].numpy(), result[1].numpy()


@pytest.fixture
def example() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    image = generator.integers(0, 256, (10, 14, 3), dtype=np.uint8)
    mask = generator.choice(np.array([0, 1, 255], dtype=np.uint8), (10, 14))
    return image, mask


def test_nothing_changes_when_all_is_switched_off(example: tuple[np.ndarray, np.ndarray]) -> None:
    image, mask = varied(*example, [0.9] * 6)
    np.testing.assert_allclose(image, example[0], atol=1e-3)
    np.testing.assert_array_equal(mask, example[1])


@pytest.mark.parametrize(("uniform", "flipped"), [(0.29, True), (0.31, False)])
def test_flip(example: tuple[np.ndarray, np.ndarray], uniform: float, flipped: bool) -> None:
    image, mask = varied(*example, [uniform, *MIDDLE[1:]], flip_probability=0.3)
    step = -1 if flipped else 1
    np.testing.assert_allclose(image, example[0][:, ::step], atol=1e-3)
    np.testing.assert_array_equal(mask, example[1][:, ::step])


def test_shift_moves_down_and_right_and_ignores_what_comes_in(example: tuple[np.ndarray, np.ndarray]) -> None:
    almost_one = 1 - 1e-9
    image, mask = varied(*example, [0.5, 0.5, almost_one, almost_one, 0.5, 0.5], shift=0.5)
    np.testing.assert_allclose(image[5:, 7:], example[0][:5, :7], atol=1e-2)
    np.testing.assert_array_equal(mask[5:, 7:], example[1][:5, :7])
    assert np.all(mask[:5] == 255)
    assert np.all(mask[:, :7] == 255)


def test_scale_enlarges_and_shrinks_about_the_centre() -> None:
    mask = np.zeros((21, 21), dtype=np.uint8)
    mask[6:15, 6:15] = 1
    image = np.repeat(mask[:, :, np.newaxis] * 200, 3, axis=2)
    _, larger = varied(image, mask, [0.5, 1 - 1e-9, 0.5, 0.5, 0.5, 0.5], scale=0.4)
    _, smaller = varied(image, mask, [0.5, 0.0, 0.5, 0.5, 0.5, 0.5], scale=0.4)
    assert (larger == 1).sum() == 13 * 13  # 9 x 1.4, about the middle pixel
    assert (smaller == 1).sum() == 7 * 7  # 9 / 1.4
    for result in (larger, smaller):
        np.testing.assert_array_equal(result, result[::-1])
        np.testing.assert_array_equal(result, result.T)
    assert np.all(larger != 255)
    assert np.all(smaller[0] == 255)


@pytest.mark.parametrize("seed", range(5))
def test_image_and_mask_stay_aligned(seed: int) -> None:
    rows, columns = np.mgrid[:40, :50]
    mask = (np.hypot(rows - 22, columns - 20) < 12).astype(np.uint8)
    image = np.repeat(mask[:, :, np.newaxis] * 255, 3, axis=2)
    uniforms = random_numbers(1, seed, 0)[0, :6].tolist()
    image, mask = varied(image, mask, uniforms, flip_probability=0.5, scale=0.3, shift=0.3)
    seen = mask != 255
    # Bilinear and nearest pixels agree but within half a pixel of the edge.
    clear = seen & ((image[:, :, 0] < 60) | (image[:, :, 0] > 195))
    assert clear.sum() > 0.8 * seen.sum()
    np.testing.assert_array_equal(image[:, :, 0][clear] > 127, mask[clear] == 1)


def test_brightness_and_contrast(example: tuple[np.ndarray, np.ndarray]) -> None:
    image = np.full((4, 4, 3), 100, dtype=np.uint8)
    image[0] = 180  # mean 120
    mask = np.zeros((4, 4), dtype=np.uint8)
    brighter, _ = varied(image, mask, [0.5] * 4 + [0.75, 0.5], brightness=0.2)  # half of 51
    np.testing.assert_allclose(brighter, image + 25.5, atol=1e-3)
    stronger, _ = varied(image, mask, [0.5] * 5 + [0.75], contrast=0.5)
    np.testing.assert_allclose(stronger, 120 + (image.astype(float) - 120) * 1.25, atol=1e-3)
    clipped, _ = varied(*example, [0.5] * 4 + [1 - 1e-9, 1 - 1e-9], brightness=0.9, contrast=0.9)
    assert clipped.min() >= 0
    assert clipped.max() == 255


def test_random_numbers_are_a_function_of_seed_and_epoch() -> None:
    numbers = random_numbers(50, seed=3, epoch=2)
    assert numbers.shape == (50, 7)
    assert numbers.dtype == np.float32
    assert np.all((numbers >= 0) & (numbers < 1))
    np.testing.assert_array_equal(numbers, random_numbers(50, seed=3, epoch=2))
    assert not np.any(numbers == random_numbers(50, seed=3, epoch=1))
    assert not np.any(numbers == random_numbers(50, seed=2, epoch=2))
    assert len(np.unique(numbers)) == numbers.size


def test_shapes_are_checked(example: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(ShapeMismatchError, match=r"Expected: \[height, width\]\n *Actual: *\[5, 14\]"):
        varied(example[0], example[1][:5], MIDDLE)
