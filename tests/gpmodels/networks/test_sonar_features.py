"""FE1 and FE2: layers, sizes, serialisation, and that they learn."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels.networks.sonar_features import SonarFeatures, sonar_features

# By hand: 3·3·in·out + out and a scale and a shift for each convolution; 4·4·64·64 + 64 for the dense layer.
PARAMETERS = {
    "FE1": (896 + 64) + (18_496 + 128) + (36_928 + 128) + 65_600,
    "FE2": (896 + 64) + (9_248 + 64) + (18_496 + 128) + 3 * (36_928 + 128) + 65_600,
}


def snapshots(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(0, 255, shape).astype("float32")


@pytest.mark.parametrize("name", PARAMETERS)
def test_number_of_trainable_parameters(name):
    network = sonar_features(name)
    network.build((None, 32, 32, 3))
    assert sum(int(np.prod(weight.shape)) for weight in network.trainable_weights) == PARAMETERS[name]


def test_features_are_those_of_the_layers_in_order():
    network = sonar_features("FE1")
    images = snapshots(3, 32, 32, 3)
    network(images, training=True)  # moves the averages away from 0 and 1
    maps = tf.constant(images / 127.5 - 1)
    for stage in network.stages:
        convolution, normalisation, _ = stage.steps
        maps = tf.nn.conv2d(maps, convolution.kernel, 1, "SAME") + convolution.bias
        maps = (maps - normalisation.moving_mean) / np.sqrt(normalisation.moving_variance + 1e-3)
        maps = tf.nn.max_pool2d(tf.nn.relu(maps), 2, 2, "VALID")  # scale 1 and shift 0 at the start
    expected = tf.nn.relu(tf.reshape(maps, [3, -1]) @ network.dense.kernel)
    assert expected.shape == (3, 64)
    np.testing.assert_allclose(network(images), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(network(np.round(images).astype("uint8")), network(np.round(images)))


@pytest.mark.slow
def test_a_few_steps_learn_to_tell_two_textures():
    keras.utils.set_random_seed(0)
    generator = np.random.default_rng(1)
    labels = generator.integers(0, 2, 40)
    stripes = np.tile([30.0, 220.0], 8)
    images = np.where(labels[:, None, None], stripes[:, None], stripes[None, :])[..., None]
    images = images + generator.normal(0, 30, (40, 16, 16, 3))
    model = keras.Sequential([sonar_features("FE2"), keras.layers.Dense(2, activation="softmax")])
    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(images, labels, batch_size=20, epochs=8, verbose=0).history
    assert history["accuracy"][-1] > 0.9


def test_keras_file_restores_network_and_moving_averages(tmp_path):
    network = SonarFeatures(convolutions=2, batch_norm_momentum=0.75)
    images = snapshots(2, 11, 18, 3)
    network(images, training=True)
    network.save(tmp_path / "network.keras")
    restored = keras.saving.load_model(tmp_path / "network.keras")
    assert (restored.convolutions, restored.batch_norm_momentum) == (2, 0.75)
    np.testing.assert_array_equal(restored(images), network(images))
    assert restored.compute_output_shape((None, 11, 18, 3)) == (None, 64)


@pytest.mark.parametrize("name", ["", "fe1", "FE3"])
def test_another_name_is_refused(name):
    with pytest.raises(ValueError, match="expected one of FE1, FE2"):
        sonar_features(name)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((None, None, 32, 3), "of known height and width"),
        ((None, 32, 32, 1), "convert grey images to three channels"),
        ((None, 7, 32, 3), "at least 8 x 8 pixels"),
    ],
)
def test_images_it_cannot_take_are_refused(shape, message):
    with pytest.raises(ValueError, match=message):
        sonar_features().build(shape)
