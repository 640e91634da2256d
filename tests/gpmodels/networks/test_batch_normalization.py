"""Fused batch normalisation, against NumPy and Keras' own layer."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels.networks.batch_normalization import FusedBatchNormalization


def random_maps(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(2.0, 3.0, shape).astype("float32")


def with_random_weights(layer: keras.layers.Layer, channels: int) -> keras.layers.Layer:
    layer.build((None, None, None, channels))
    rng = np.random.default_rng(1)
    layer.set_weights([rng.uniform(0.5, 2.0, weight.shape) for weight in layer.weights])
    return layer


def test_training_and_moving_averages_equal_numpy():
    maps = random_maps(2, 3, 5, 4)
    layer = with_random_weights(FusedBatchNormalization(momentum=0.8, epsilon=0.01), 4)
    gamma, beta, moving_mean, moving_variance = layer.get_weights()
    mean, biased = maps.mean(axis=(0, 1, 2)), maps.var(axis=(0, 1, 2))

    expected = gamma * (maps - mean) / np.sqrt(biased + 0.01) + beta
    np.testing.assert_allclose(layer(maps, training=True), expected, rtol=1e-5, atol=1e-5)
    unbiased = maps.var(axis=(0, 1, 2), ddof=1)
    np.testing.assert_allclose(layer.moving_mean, 0.8 * moving_mean + 0.2 * mean, rtol=1e-5)
    np.testing.assert_allclose(layer.moving_variance, 0.8 * moving_variance + 0.2 * unbiased, rtol=1e-5)


def test_inference_uses_the_moving_averages_and_leaves_them():
    maps = random_maps(1, 3, 2, 4)
    layer = with_random_weights(FusedBatchNormalization(), 4)
    before = gamma, beta, mean, variance = layer.get_weights()
    expected = gamma * (maps - mean) / np.sqrt(variance + 0.001) + beta
    np.testing.assert_allclose(layer(maps), expected, rtol=1e-5, atol=1e-5)
    layer.trainable = False
    np.testing.assert_allclose(layer(maps, training=True), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(layer.get_weights(), before)


@pytest.mark.parametrize("training", [True, False])
def test_output_and_gradients_equal_keras(training):
    maps = tf.constant(random_maps(2, 4, 3, 5))
    layers = FusedBatchNormalization(), keras.layers.BatchNormalization(momentum=0.9)
    results = []
    for layer in layers:
        with_random_weights(layer, 5)
        with tf.GradientTape() as tape:
            tape.watch(maps)
            output = layer(maps, training=training)
            objective = tf.reduce_sum(tf.sin(output))
        sources = [maps, *(weight.value for weight in layer.trainable_weights)]
        results.append([output, *tape.gradient(objective, sources)])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_one_value_for_each_channel_has_no_spread():
    layer = with_random_weights(FusedBatchNormalization(), 3)
    beta = layer.beta.numpy()
    np.testing.assert_allclose(layer(random_maps(1, 1, 1, 3), training=True)[0, 0, 0], beta, rtol=1e-5)
    assert np.all(np.isfinite(layer.moving_variance))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_maps_keep_statistics_in_single_precision(dtype):
    layer = FusedBatchNormalization(dtype=keras.DTypePolicy(f"mixed_{dtype}"))
    assert layer(random_maps(2, 4, 4, 3), training=True).dtype == dtype
    assert {weight.dtype for weight in layer.weights} == {"float32"}


def test_double_precision_is_refused():
    with pytest.raises(ValueError, match="does not exist in float64; use dtype='float32'"):
        FusedBatchNormalization(dtype="float64")


def test_configuration_makes_an_equal_layer():
    layer = FusedBatchNormalization(momentum=0.7, epsilon=0.1, name="normalisation")
    restored = keras.layers.deserialize(keras.layers.serialize(layer))
    assert isinstance(restored, FusedBatchNormalization)
    assert restored.get_config() == layer.get_config()
