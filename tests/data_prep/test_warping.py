"""Images are moved each by its own transform."""

import numpy as np
import tensorflow as tf

from data_prep.warping import output_to_input, warp

IMAGES = np.random.default_rng(0).uniform(0, 255, (3, 6, 9, 2)).astype("float32")


def transforms(mirror: list[list[float]], zoom: list[float], shift: list[list[float]]) -> tf.Tensor:
    return output_to_input(
        tf.constant([6, 9]), *(tf.constant(part, tf.float32) for part in (mirror, zoom, shift))
    )


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
