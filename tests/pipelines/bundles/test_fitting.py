"""A graph fits images to a size as `prepare` does."""

import numpy as np
import pytest
import tensorflow as tf

from data_prep.files.fitting import fit_image
from pipelines.bundles.fitting import fit_images


@pytest.fixture(scope="module", params=["crop", "pad"])
def fit(request):
    return request.param


@pytest.fixture(scope="module")
def graph(fit):
    spec = tf.TensorSpec([None, None, None, 3], tf.uint8)
    return tf.function(lambda images: fit_images(images, (24, 32), fit), input_signature=[spec])


@pytest.mark.parametrize(
    "extent", [(24, 32), (48, 64), (100, 70), (31, 200), (9, 11), (12, 90), (90, 12), (1, 1)]
)
def test_equal_to_the_arrays_of_prepare(graph, fit, extent):
    images = np.random.default_rng(0).integers(0, 256, (2, *extent, 3), np.uint8)
    fitted = graph(tf.constant(images)).numpy()
    expected = np.stack([fit_image(image, (24, 32), fit) for image in images]).astype(np.float32)
    assert fitted.shape == (2, 24, 32, 3)
    different = fitted != expected
    assert np.abs(fitted - expected).max() <= 1
    assert different.mean() <= 0.01
