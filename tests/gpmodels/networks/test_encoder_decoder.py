"""The encoder-decoder network: the thesis' parameter counts, any image size, serialisation, determinism."""

import hashlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels.networks.encoder_decoder import EncoderDecoder, encoder_decoder
from tests.gpmodels.isolated_checks import deterministic_process

# Thesis, table of network configurations (head excluded).
PARAMETERS = {
    "C2K3": 556_800,
    "C2K5": 1_542_912,
    "C2K7": 3_022_080,
    "C3K3": 2_328_960,
    "C3K5": 6_460_800,
    "C3K7": 12_658_560,
    "C4K3": 4_691_328,
    "C4K5": 13_017_472,
    "C4K7": 25_506_688,
    "C5K3": 7_053_696,
    "C5K5": 19_574_144,
    "C5K7": 38_354_816,
    "C6K3": 9_416_064,
    "C6K5": 26_130_816,
    "C6K7": 51_202_944,
}


def photographs(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(0, 255, shape).astype("float32")


@pytest.fixture(scope="module")
def network() -> EncoderDecoder:
    """A network whose moving averages are no longer at their start."""
    keras.utils.set_random_seed(1)
    network = encoder_decoder("C2K3", batch_norm_momentum=0.75)
    network(photographs(2, 16, 16, 3), training=True)
    return network


@pytest.mark.sweep
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if size > 10_000_000 else ())
        for name, size in PARAMETERS.items()
    ],
)
def test_number_of_trainable_parameters_is_the_thesis(name):
    network = encoder_decoder(name)
    network.build((None, None, None, 3))
    assert sum(int(np.prod(weight.shape)) for weight in network.trainable_weights) == PARAMETERS[name]


def test_widths_of_the_units():
    network = encoder_decoder("C5K3")
    assert [unit.channels for unit in network.encoder] == [(w, w) for w in (64, 128, 256, 256, 256)]
    assert [unit.channels for unit in network.decoder] == [
        (256, 256), (256, 256), (256, 128), (128, 64), (64, 64),
    ]  # fmt: skip


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (2, 3), (5, 8), (13, 13), (16, 24)])
def test_features_for_any_size(network, size):
    images = photographs(2, *size, 3)
    traced = tf.function(network, input_signature=[tf.TensorSpec([None, None, None, 3])])
    eager = network(images)
    assert eager.shape == (2, *size, 64)
    assert np.all(np.isfinite(eager))
    np.testing.assert_allclose(traced(images), eager, rtol=1e-5, atol=1e-5)


def test_unsigned_bytes_give_the_same_features(network):
    images = np.round(photographs(1, 6, 6, 3))
    np.testing.assert_array_equal(network(images.astype("uint8")), network(images))


def test_images_are_scaled_inside():
    network = encoder_decoder("C1K1")
    network(photographs(1, 4, 4, 3))
    np.testing.assert_allclose(
        network.scaling(tf.constant([0.0, 127.5, 255.0])), [-1.0, 0.0, 1.0], rtol=0, atol=1e-6
    )


def test_images_of_a_batch_are_independent_in_inference(network):
    images = photographs(3, 9, 9, 3)
    np.testing.assert_allclose(network(images)[1:2], network(images[1:2]), rtol=1e-5, atol=1e-5)


def test_moving_averages_follow_the_momentum():
    images = photographs(4, 8, 8, 3)
    network = encoder_decoder("C1K3", batch_norm_momentum=0.5)
    network.build(images.shape)
    convolution, normalisation = network.encoder[0].steps[:2]
    response = convolution(network.scaling(images)).numpy()
    network(images, training=True)
    np.testing.assert_allclose(
        normalisation.moving_mean, 0.5 * response.mean(axis=(0, 1, 2)), rtol=1e-4, atol=1e-5
    )
    before = normalisation.moving_mean.numpy()
    network(images, training=False)
    np.testing.assert_array_equal(normalisation.moving_mean, before)


@pytest.mark.slow
def test_a_few_steps_learn_which_pixels_are_bright():
    images = photographs(4, 8, 8, 3)
    labels = (images.mean(axis=-1, keepdims=True) > 127.5).astype("float32")
    model = keras.Sequential([encoder_decoder("C2K3"), keras.layers.Conv2D(1, 1, activation="sigmoid")])
    model.compile(keras.optimizers.Adam(1e-2), "binary_crossentropy")
    losses = model.fit(images, labels, epochs=15, verbose=0).history["loss"]
    assert losses[-1] < 0.6 * losses[0]


def test_keras_file_restores_network_and_moving_averages(network, tmp_path):
    network.save(tmp_path / "network.keras")
    restored = keras.saving.load_model(tmp_path / "network.keras")
    assert isinstance(restored, EncoderDecoder)
    assert (restored.units, restored.kernel_size, restored.batch_norm_momentum) == (2, 3, 0.75)
    images = photographs(1, 7, 10, 3)
    np.testing.assert_array_equal(restored(images), network(images))


@pytest.mark.slow
def test_saved_model_takes_any_size(network, tmp_path):
    network.export(
        str(tmp_path / "bundle"),
        verbose=False,
        input_signature=[keras.InputSpec(shape=(None, None, None, 3), dtype="float32")],
    )
    restored = tf.saved_model.load(str(tmp_path / "bundle"))
    for size in [(1, 1), (7, 10)]:
        images = photographs(2, *size, 3)
        np.testing.assert_allclose(restored.serve(images), network(images), rtol=1e-5, atol=1e-5)


def test_functional_model_around_it_knows_its_shape(network):
    features = network(keras.Input((None, 20, 3)))
    assert features.shape == (None, None, 20, 64)


def digest_of_training() -> str:
    keras.utils.set_random_seed(3)
    images = photographs(4, 15, 22, 3)
    model = keras.Sequential([encoder_decoder("C2K3"), keras.layers.Conv2D(1, 1, activation="sigmoid")])
    model.compile("adam", "binary_crossentropy")
    model.fit(images, (images[..., :1] > 99).astype("float32"), batch_size=2, epochs=2, verbose=0)
    return hashlib.sha256(b"".join(weight.numpy().tobytes() for weight in model.weights)).hexdigest()


@pytest.mark.slow
def test_two_processes_train_to_the_same_bits(isolated):
    with deterministic_process() as another:
        digests = [isolated(digest_of_training), another.submit(digest_of_training).result()]
    assert len(digests[0]) == 64
    assert digests[0] == digests[1]


@pytest.mark.parametrize("name", ["", "C3", "K3C3", "c3k3", "C3K3x", "resnet50"])
def test_a_name_of_another_form_is_refused(name):
    with pytest.raises(
        ValueError, match=r"expected C, the number of units, K, the kernel size, such as 'C3K3'"
    ):
        encoder_decoder(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [("C0K3", "at least one unit; found units=0"), ("C3K4", "must be odd.*found kernel_size=4")],
)
def test_numbers_out_of_range_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        encoder_decoder(name)


@pytest.mark.parametrize("shape", [(8, 8, 3), (1, 8, 8, 1), (1, 8, 8, 4)])
def test_input_that_is_no_batch_of_colour_images_is_refused(shape):
    with pytest.raises(ValueError, match=r"takes images \[batch, height, width, 3\]; found shape"):
        encoder_decoder("C1K3")(tf.zeros(shape))
