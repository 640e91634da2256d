"""SegNet, SegNet-Basic and their dropout: the published sizes, VGG16's weights, and what drops when."""

from itertools import pairwise

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels.networks.dropout_network import RandomDrop
from gpmodels.networks.encoder_decoder import EncoderDecoder
from gpmodels.networks.segnet import VGG_MEAN, SegNet, SegNetBasic
from gpmodels.networks.trunk_decoder import TrunkDecoder

MAKERS = {
    "segnet": lambda **options: SegNet(width=1 / 16, **options),
    "segnet_basic": SegNetBasic,
    "C3K3": lambda **options: EncoderDecoder(3, 3, **options),
    "trunk": TrunkDecoder,
    "C1K3": lambda **options: EncoderDecoder(1, 3, **options),  # no unit before the central ones
}


def photographs(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(0, 255, shape).astype("float32")


def make(name: str, **options):
    keras.utils.set_random_seed(1)
    return MAKERS[name](**options)


def count(weights) -> int:
    return sum(int(np.prod(weight.shape)) for weight in weights)


@pytest.mark.slow
def test_trained_parameters_of_segnet_are_those_of_the_thesis():
    network = SegNet()
    network.build((None, None, None, 3))
    assert count(network.trainable_weights) == 29_480_064
    convolutions = [
        step for unit in (*network.encoder, *network.decoder) for step in unit.steps
        if isinstance(step, keras.layers.Conv2D)
    ]  # fmt: skip
    assert len(convolutions) == 26
    assert count(weight for layer in convolutions[:13] for weight in layer.weights) == 14_714_688  # VGG16
    assert count(weight for layer in convolutions[13:] for weight in layer.weights) == 14_749_376


def test_segnet_basic_has_eight_convolutions_without_bias_and_no_relu_in_the_decoder():
    network = SegNetBasic()
    network.build((None, None, None, 3))
    kernels = 7 * 7 * 64 * (3 + 7 * 64)
    assert count(network.trainable_weights) == kernels + 8 * 2 * 64
    features = network(photographs(1, 16, 16, 3)).numpy()
    assert features.min() < 0 < features.max()
    assert SegNet(width=1 / 16)(photographs(1, 16, 16, 3)).numpy().min() == 0


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("size", [(1, 1), (5, 8), (33, 21)])
def test_features_for_any_size(name, size):
    network = make(name)
    images = photographs(2, *size, 3)
    features = network(images)
    assert features.shape == network.compute_output_shape(images.shape)
    assert np.isfinite(features).all()
    np.testing.assert_allclose(tf.function(network)(images), features, rtol=1e-4, atol=1e-4)


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_keras_file_restores_the_network(name, tmp_path):
    network = make(name, dropout=0.4, num_samples=7, seed=5)
    images = photographs(1, 9, 12, 3)
    network(images, training=True)
    network.save(tmp_path / "network.keras")
    restored = keras.saving.load_model(tmp_path / "network.keras")
    assert restored.get_config() == network.get_config()
    assert int(restored.steps) == 1
    np.testing.assert_array_equal(restored(images), network(images))
    np.testing.assert_array_equal(
        restored.sampled(restored.shared(images), 3), network.sampled(network.shared(images), 3)
    )


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_samples_differ_and_their_mean_lies_about_the_plain_call(name):
    network = make(name, dropout=0.2, num_samples=2)
    images = photographs(1, 16, 16, 3)
    shared = network.shared(images)
    np.testing.assert_array_equal(network.averaged(shared), network(images))
    sampled = tf.function(network.sampled)
    found = np.stack([sampled(shared, tf.constant(number)) for number in range(200)])
    assert found.std(axis=0).mean() > 0
    np.testing.assert_array_equal(found[3], sampled(shared, tf.constant(3)))
    np.testing.assert_allclose(found[3], network.sampled(shared, tf.constant(3)), rtol=1e-4, atol=1e-4)
    plain = network(images).numpy()
    assert np.corrcoef(found.mean(axis=0).ravel(), plain.ravel())[0, 1] > 0.8


def test_dropout_leaves_out_the_share_asked_for_and_keeps_the_mean():
    maps = tf.ones([4, 20, 20, 64])
    key = tf.constant([0, 1], tf.int64)
    dropped = RandomDrop(0.3, key, alike=False)(maps, 0).numpy()
    assert np.mean(dropped == 0) == pytest.approx(0.3, abs=0.01)
    np.testing.assert_allclose(dropped[dropped > 0], 1 / 0.7, rtol=1e-6)
    assert (dropped[0] != dropped[1]).any()  # each image drops its own in training
    drop = RandomDrop(0.3, key, alike=True)
    of_samples = drop(maps, 0).numpy()
    assert (of_samples == of_samples[:1]).all()
    assert all((drop(maps, place).numpy() != of_samples).any() for place in (1, 2, 3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sides"),
    [
        ("C3K3", [8, 4, 8, 16]),  # after encoders 2 and 3, after decoders 3 and 2
        ("trunk", [1, 2, 2, 4]),  # maps at strides 32 and 16, decoders at 16 and 8
    ],
)
def test_the_two_deepest_units_of_each_side_drop(name, sides):
    network = make(name, dropout=0.5)
    seen = {}

    def drop(maps, place):
        seen[place] = maps.shape[1]
        return maps

    images = photographs(1, 32, 32, 3)
    network.build(images.shape)
    network.decode(network.encode(tf.constant(images), training=False), drop, training=False)
    assert [seen[place] for place in range(4)] == sides


@pytest.mark.slow
def test_each_training_step_drops_others_and_a_restored_one_the_same():
    images = photographs(1, 8, 8, 3)
    one = make("C3K3", dropout=0.5)
    first, second = one(images, training=True).numpy(), one(images, training=True).numpy()
    assert (first != second).any()
    other = make("C3K3", dropout=0.5)
    other.build(images.shape)
    other.set_weights(one.get_weights())
    np.testing.assert_array_equal(one(images, training=True), other(images, training=True))


def test_without_dropout_there_is_no_further_weight_and_training_is_a_plain_call():
    network = make("C3K3")
    network.build((None, None, None, 3))
    assert network.steps is None
    assert network.num_samples == 1


@pytest.mark.slow
def test_the_encoder_begins_with_vgg16():
    rng = np.random.default_rng(0)
    network = SegNet()
    network.build((None, None, None, 3))
    channels = [3, 64, 64, 128, 128, *3 * [256], *6 * [512]]
    kernels = [rng.normal(0, 0.05, (3, 3, i, o)) for i, o in pairwise(channels)]
    biases = [rng.normal(size=o) for o in channels[1:]]
    network.start_from_vgg16(kernels, biases)
    images = photographs(1, 12, 12, 3)
    of_vgg = images[..., ::-1] - np.array(VGG_MEAN, np.float32)
    expected = tf.nn.conv2d(of_vgg, kernels[0].astype(np.float32), 1, "SAME") + biases[0]
    found = network.encoder[0].steps[0](network.scaling(images))
    inside = np.s_[:, 1:-1, 1:-1]  # at the border the padding has another colour
    np.testing.assert_allclose(found[inside], expected[inside], rtol=1e-3, atol=1e-2)
    np.testing.assert_array_equal(network.encoder[4].steps[-3].kernel, kernels[-1].astype(np.float32))


def test_vgg16_fits_the_full_width_alone():
    network = SegNet(width=0.5)
    network.build((None, None, None, 3))
    with pytest.raises(ValueError, match="Only the width 1"):
        network.start_from_vgg16([np.zeros([3, 3, 3, 64])], [np.zeros(64)])


@pytest.mark.parametrize("options", [{"dropout": 1.0}, {"dropout": -0.1}])
def test_a_rate_out_of_range_is_refused(options):
    with pytest.raises(ValueError, match="dropout must be"):
        SegNetBasic(**options)


@pytest.mark.parametrize("width", [0.0, 1.5])
def test_a_width_out_of_range_is_refused(width):
    with pytest.raises(ValueError, match="width must be"):
        SegNet(width=width)
