"""A pretrained encoder with a decoder: the contract of networks for maps, skips, what is trained."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels.networks.efficientnet_lite import EfficientNetLite0
from gpmodels.networks.trunk_decoder import TrunkDecoder


def photographs(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(0, 255, shape).astype("float32")


@pytest.fixture(scope="module")
def network() -> TrunkDecoder:
    """A network whose moving averages are no longer at their start."""
    keras.utils.set_random_seed(1)
    network = TrunkDecoder(batch_norm_momentum=0.5)
    network(photographs(2, 32, 32, 3), training=True)
    return network


@pytest.mark.slow
def test_features_for_any_size(network):
    traced = tf.function(network, input_signature=[tf.TensorSpec([None, None, None, 3])])
    for size in [(1, 1), (5, 8), (33, 47)]:
        images = photographs(2, *size, 3)
        eager = network(images)
        assert eager.shape == (2, *size, 64)
        assert np.isfinite(eager).all()
        assert (eager.numpy() >= 0).all()
        np.testing.assert_allclose(traced(images), eager, rtol=1e-4, atol=1e-4)
    images = np.round(photographs(1, 6, 6, 3))
    np.testing.assert_array_equal(network(images.astype("uint8")), network(images))
    assert network(keras.Input((None, 20, 3))).shape == (None, None, 20, 64)


def test_every_skip_is_used(network):
    """A change of the maps of one stride alone reaches the features."""
    images = photographs(1, 64, 64, 3)
    before, pyramid = network(images), network.encoder.pyramid
    for stride in range(5):

        def changed(images, stride=stride):
            maps = pyramid(images)
            return [one + 1.0 if place == stride else one for place, one in enumerate(maps)]

        network.encoder.pyramid = changed
        try:
            assert np.abs(network(images) - before).max() > 1e-6, stride
        finally:
            network.encoder.pyramid = pyramid


def test_images_of_a_batch_are_independent_in_inference(network):
    images = photographs(3, 20, 20, 3)
    np.testing.assert_allclose(network(images)[1:2], network(images[1:2]), rtol=1e-4, atol=1e-4)


def test_the_encoder_stays_and_the_decoder_learns(network):
    encoder = network.encoder.arrays()
    averages = [unit.steps[1].moving_mean.numpy() for unit in network.decoder]
    network(photographs(2, 32, 32, 3) / 2, training=True)
    for name, array in network.encoder.arrays().items():
        np.testing.assert_array_equal(array, encoder[name])
    assert all(
        (unit.steps[1].moving_mean.numpy() != a).any()
        for unit, a in zip(network.decoder, averages, strict=True)
    )
    assert all("decoder" in weight.path for weight in network.trainable_weights)


@pytest.mark.slow
def test_all_that_is_trained_has_a_gradient():
    network = TrunkDecoder(unfreeze_blocks=2)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(network(photographs(1, 32, 32, 3), training=True) ** 2)
    assert any("block_14" in weight.path for weight in network.trainable_weights)
    gradients = tape.gradient(loss, [weight.value for weight in network.trainable_weights])
    assert all(gradient is not None for gradient in gradients)


@pytest.mark.slow
def test_keras_file_restores_the_network_and_takes_the_weights_of_a_trunk(network, tmp_path):
    network.save(tmp_path / "network.keras")
    restored = keras.saving.load_model(tmp_path / "network.keras")
    images = photographs(1, 17, 10, 3)
    np.testing.assert_array_equal(restored(images), network(images))
    trunk = EfficientNetLite0()
    trunk.build((None, None, None, 3))
    restored.encoder.assign_arrays(trunk.arrays())
    np.testing.assert_array_equal(restored.encoder(images), trunk(images))


def test_input_that_is_no_batch_of_colour_images_is_refused():
    with pytest.raises(ValueError, match=r"takes images \[batch, height, width, 3\]; found shape"):
        TrunkDecoder()(tf.zeros([1, 8, 8, 1]))
