"""DenseNet: the published number of parameters, any image size, serialisation."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels.networks.densenet import DenseNet


def photographs(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(0, 255, shape).astype("float32")


def test_number_of_parameters_is_the_published_one():
    network = DenseNet()
    network.build((None, None, None, 3))
    number = sum(int(np.prod(weight.shape)) for weight in network.trainable_weights)
    # Blocks start at 16, 160 and 304 channels: each of the 12 layers of a block reads c channels, for 2 c
    # values of its normalisation and 9·12 c of its convolution.
    read = sum(start + 12 * layer for start in (16, 160, 304) for layer in range(12))
    transitions = sum(channels * channels + 2 * channels for channels in (160, 304))
    assert number == 3 * 9 * 16 + (2 + 9 * 12) * read + transitions + 2 * 448 == 1_015_232
    # Huang et al. 2017, table 2: 1.0 million; 1,019,722 with the classifier of ten classes.
    assert number + 448 * 10 + 10 == 1_019_722


def test_each_layer_reads_all_layers_before_it():
    network = DenseNet(depth=10, growth=4)
    network.build((None, None, None, 3))
    widths = [[layer.convolution.kernel.shape[2:] for layer in block] for block in network.blocks]
    assert widths == [[(16, 4), (20, 4)], [(24, 4), (28, 4)], [(32, 4), (36, 4)]]
    assert [t.convolution.kernel.shape for t in network.transitions] == [(1, 1, 24, 24), (1, 1, 32, 32)]
    assert network.num_features == 40


@pytest.mark.parametrize("size", [(4, 4), (7, 13), (32, 32)])
def test_features_for_any_size(size):
    network = DenseNet(depth=7, growth=3)
    images = np.round(photographs(2, *size, 3))
    traced = tf.function(network, input_signature=[tf.TensorSpec([None, None, None, 3])])
    eager = network(images)
    assert eager.shape == (2, network.num_features) == (2, 25)
    assert np.all(np.isfinite(eager))
    np.testing.assert_allclose(traced(images), eager, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(network(images.astype("uint8")), eager)


@pytest.mark.slow
def test_every_weight_moves_in_training():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([DenseNet(depth=7, growth=3), keras.layers.Dense(2, activation="softmax")])
    model.compile(keras.optimizers.Adam(1e-2), "sparse_categorical_crossentropy")
    images = photographs(8, 12, 12, 3)
    model.build(images.shape)
    before = [weight.numpy() for weight in model.trainable_weights]
    losses = model.fit(images, np.arange(8) % 2, epochs=12, verbose=0).history["loss"]
    assert all(np.any(new.numpy() != old) for new, old in zip(model.trainable_weights, before, strict=True))
    assert losses[-1] < 0.7 * losses[0]


def test_keras_file_restores_network_and_moving_averages(tmp_path):
    network = DenseNet(depth=7, growth=3, batch_norm_momentum=0.75)
    images = photographs(2, 9, 14, 3)
    network(images, training=True)
    network.save(tmp_path / "network.keras")
    restored = keras.saving.load_model(tmp_path / "network.keras")
    assert (restored.depth, restored.growth, restored.batch_norm_momentum) == (7, 3, 0.75)
    np.testing.assert_array_equal(restored(images), network(images))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": 41}, "3 n \\+ 4.*found depth=41"),
        ({"depth": 4}, "found depth=4"),
        ({"growth": 0}, "growth=0"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        DenseNet(**arguments)


def test_grey_images_are_refused():
    with pytest.raises(ValueError, match=r"takes images \[batch, height, width, 3\]"):
        DenseNet().build((None, 32, 32, 1))
