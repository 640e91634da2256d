"""Each tower sees its own view of the tissue, and nothing of the others."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from skimage import data
from skimage.color import rgb2hed

from gpmodels.networks.stain_towers import StainTowers, stain_views

IMAGES = np.stack([data.immunohistochemistry()[64 * i : 64 * (i + 1), :64] for i in range(4)])


def test_stains_are_those_of_scikit_image():
    found = stain_views(tf.constant(IMAGES, tf.float32)).numpy()[..., :2]
    expected = np.stack([rgb2hed(image) for image in IMAGES])[..., :2]
    # scikit-image takes the logarithm to the base 1e6, cuts at 0, and has another floor for black.
    scaled = np.maximum(found, 0.0) / np.log(1e6)
    bright = IMAGES.min(axis=-1) > 20
    np.testing.assert_allclose(scaled[bright], expected[bright], atol=2e-3)


def test_texture_knows_no_even_colour():
    even = tf.ones([1, 32, 32, 3]) * tf.constant([200.0, 120.0, 180.0])
    np.testing.assert_allclose(stain_views(even)[..., 2], 0.0, atol=1e-5)
    assert float(tf.math.reduce_std(stain_views(tf.constant(IMAGES, tf.float32))[..., 2])) > 0.1


def test_a_tower_depends_on_its_view_alone():
    towers = StainTowers(features=4)
    features = towers(IMAGES).numpy()
    assert features.shape == (4, 12)
    for weight in towers.towers[1].weights:  # of eosin
        weight.assign(weight + 0.1)
    changed = np.abs(towers(IMAGES).numpy() - features).max(axis=0) > 0
    assert changed[4:8].any()
    assert not changed[:4].any()
    assert not changed[8:].any()
    assert [tuple(range(12))[view] for view in towers.view_columns] == [
        (0, 1, 2, 3),
        (4, 5, 6, 7),
        (8, 9, 10, 11),
    ]


def test_an_equal_network_is_made_from_its_configuration(tmp_path):
    towers = StainTowers(features=3)
    towers(IMAGES)
    for weight in towers.weights:
        weight.assign(tf.random.uniform(weight.shape))  # else a new network might begin with equal weights
    # Of each tower: kernels and biases of four layers, and four numbers of each of three normalisations.
    assert len(towers.weights) == 3 * (4 * 2 + 3 * 4)
    expected = towers(IMAGES)
    towers.save(tmp_path / "towers.keras")
    loaded = keras.models.load_model(tmp_path / "towers.keras")
    np.testing.assert_array_equal(loaded(IMAGES), expected)
    assert towers.compute_output_shape((None, 64, 64, 3)) == (None, 9)


def test_other_inputs_are_refused():
    with pytest.raises(ValueError, match="found shape"):
        StainTowers().build((None, 32, 32, 1))
    with pytest.raises(ValueError, match="features=0"):
        StainTowers(features=0)
