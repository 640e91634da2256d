"""Tests of networks in int8: their convolutions are rounded, and what follows is not."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from data_prep.errors import InputError
from pipelines.bundles.int8 import int8_network
from pipelines.bundles.portable import int8_portable, litert_runner, portable_network

IMAGES = list(np.random.default_rng(0).uniform(0, 255, (20, 1, 12, 12, 3)).astype(np.float32))
SPEC = tf.TensorSpec([1, 12, 12, 3], tf.float32)


KERNELS = [np.random.default_rng(1).normal(size=(3, 3, size, 16)) / 9.0 for size in (3, 16)]


def convolutions(images: tf.Tensor) -> tf.Tensor:
    for kernel in KERNELS:
        images = tf.nn.relu(tf.nn.conv2d(images, tf.constant(kernel, tf.float32), strides=1, padding="VALID"))
    return images


def model(images: tf.Tensor) -> dict[str, tf.Tensor]:
    features = tf.reduce_mean(convolutions(images), axis=[1, 2])
    tiny, label = 1e-9 * features[:, :1] ** 2, tf.argmax(features, axis=-1)
    return {"features": features, "tiny": tiny, "label": label, "constant": tf.constant([3.0])}


def test_convolutions_are_rounded_and_what_follows_is_exact() -> None:
    network = portable_network(model, SPEC, "test")
    rounded = int8_network(network, IMAGES)
    assert len(rounded) < 0.9 * len(network)
    exact, run = litert_runner(network), litert_runner(rounded)
    for image in IMAGES:
        expected, outputs = exact(inputs=image), run(inputs=image)
        assert outputs.keys() == expected.keys()
        scale = np.abs(expected["features"]).max()
        np.testing.assert_allclose(outputs["features"], expected["features"], atol=0.05 * scale)
        assert not np.array_equal(outputs["features"], expected["features"])
        assert outputs["constant"] == [3.0]
        # In int8 with the scale of the features, this would be 0.
        np.testing.assert_allclose(outputs["tiny"], 1e-9 * outputs["features"][:, :1] ** 2, rtol=1e-5)


def test_tensors_that_skip_the_last_convolution_are_passed_on() -> None:
    def skipping(images: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"sum": tf.reduce_sum(convolutions(images), axis=[1, 2, 3]) + tf.reduce_sum(images, [1, 2, 3])}

    network = portable_network(skipping, SPEC, "test")
    run, exact = litert_runner(int8_network(network, IMAGES)), litert_runner(network)
    for image in IMAGES[:3]:
        np.testing.assert_allclose(run(inputs=image)["sum"], exact(inputs=image)["sum"], rtol=0.05)


def test_a_network_with_a_loop_is_refused() -> None:
    def looping(images: tf.Tensor) -> dict[str, tf.Tensor]:
        total = tf.reduce_sum(convolutions(images), axis=[1, 2, 3])
        return {"sum": tf.while_loop(lambda x: tf.reduce_all(x < 1e6), lambda x: [2.0 * x + 1.0], [total])[0]}

    network = portable_network(looping, SPEC, "test")
    with pytest.raises(InputError, match="has loops or branches"):
        int8_network(network, IMAGES)


def test_parts_that_tensorflow_lacks_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pipelines.bundles.int8", None)
    with pytest.raises(InputError, match=r"parts of TensorFlow that TensorFlow .* does not have"):
        int8_portable(IMAGES).convert(b"")


def test_a_network_without_convolutions_is_refused() -> None:
    network = portable_network(lambda x: {"sum": tf.reduce_sum(x, axis=-1)}, SPEC, "test")
    with pytest.raises(InputError, match=r"no convolution .* Leave --quantise out"):
        int8_network(network, IMAGES)
