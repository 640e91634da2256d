"""Predictions that average over samples: the mixture's formulas, equal calls, temperatures, a SavedModel."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HGPHead, HybridModel, LinearHead, SVGPHead
from gpmodels.heads.base import Readout
from gpmodels.hybrid.sampling import SamplingNetwork, samples
from gpmodels.networks.encoder_decoder import encoder_decoder
from gpmodels.networks.segnet import SegNetBasic

SAMPLES = 5


def images(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(0, 255, shape).astype("float32")


def network(dropout: float = 0.5, num_samples: int = SAMPLES, seed: int = 0):
    keras.utils.set_random_seed(3)
    return encoder_decoder("C2K3", dropout=dropout, num_samples=num_samples, seed=seed)


def trained(head) -> HybridModel:
    model = HybridModel(network(), head, num_data=2 * 64)
    x = images(2, 8, 8, 3)
    model.initialize((x, (x[..., 0] > 127).astype("float32")))
    model.compile(keras.optimizers.Adam(1e-2))
    for _ in range(2):  # without a graph, which takes longer to trace
        model.train_step((tf.constant(x), tf.constant(x[..., 0] > 127, tf.float32)))
    return model


@pytest.fixture(scope="module")
def linear() -> HybridModel:
    return trained(LinearHead())


@pytest.fixture(scope="module", params=["linear", "hgp", "svgp of four classes"])
def model(request) -> HybridModel:
    if request.param == "svgp of four classes":
        model = HybridModel(network(), SVGPHead(num_classes=4, num_inducing=6), num_data=2 * 64)
        model.initialize(images(2, 8, 8, 3))
        return model
    if request.param == "linear":
        return request.getfixturevalue("linear")
    return trained(HGPHead(num_experts=2, num_inducing=6))


def entropy(p: np.ndarray) -> np.ndarray:
    return -np.sum(np.where(p > 0, p * np.log(np.maximum(p, 1e-30)), 0.0), axis=-1)


def of_all_classes(probability: np.ndarray, num_classes: int | None) -> np.ndarray:
    return probability if num_classes == 4 else np.stack([1 - probability, probability], axis=-1)


@pytest.mark.sweep
@pytest.mark.slow
def test_the_mixture_is_that_of_a_slow_sum_over_samples(model):
    x = images(2, 9, 7, 3)
    outputs = {key: value.numpy() for key, value in model(x).items()}
    shared = model.network.shared(tf.constant(x))
    each = [model.head(model.network.sampled(shared, tf.constant(s))) for s in range(SAMPLES)]
    each = {key: np.stack([one[key].numpy() for one in each]).astype(np.float64) for key in each[0]}
    num_classes = 4 if each["probability"].ndim == 5 else None
    mean = each["probability"].mean(axis=0)
    total = entropy(of_all_classes(mean, num_classes))
    given = (each["predictive_entropy"] - each["mutual_information"]).mean(axis=0)
    latent = each["latent_mean"]
    np.testing.assert_allclose(outputs["probability"], mean, atol=1e-6)
    np.testing.assert_allclose(outputs["predictive_entropy"], total, atol=1e-5)
    np.testing.assert_allclose(outputs["mutual_information"], np.maximum(total - given, 0.0), atol=1e-5)
    np.testing.assert_allclose(outputs["latent_mean"], latent.mean(axis=0), rtol=1e-5, atol=1e-5)
    variance = each["latent_variance"].mean(axis=0) + latent.var(axis=0)
    np.testing.assert_allclose(outputs["latent_variance"], variance, rtol=1e-4, atol=1e-4)
    label = mean.argmax(axis=-1) if num_classes == 4 else mean > 0.5
    even = np.ptp(np.sort(of_all_classes(mean, num_classes), axis=-1)[..., -2:], axis=-1) < 1e-5
    assert np.all((outputs["label"] == label) | even)
    assert even.mean() < 0.5


@pytest.mark.slow
def test_samples_disagree_where_a_linear_head_alone_would_know_nothing_of_it(linear):
    x = images(1, 8, 8, 3)
    assert np.all(linear.head(linear.network(x))["mutual_information"] == 0)
    assert np.mean(linear(x)["mutual_information"]) > 1e-3


@pytest.mark.sweep
@pytest.mark.slow
def test_folded_it_predicts_the_same_and_equal_calls_are_equal(model):
    x = images(2, 9, 7, 3)
    infer = tf.function(model.inference_function())
    folded, again, called = infer(tf.constant(x)), infer(tf.constant(x)), model(x)
    for key, value in called.items():
        np.testing.assert_array_equal(folded[key], again[key])
        np.testing.assert_allclose(folded[key], value, rtol=2e-3, atol=2e-4)


@pytest.mark.slow
def test_a_saved_model_samples_as_the_model_does(linear, tmp_path):
    linear.export(str(tmp_path / "saved"))
    served = tf.saved_model.load(str(tmp_path / "saved"))
    x = images(1, 8, 8, 3)
    expected = linear(x)
    for key, value in served.serve(tf.constant(x)).items():
        np.testing.assert_allclose(value, expected[key], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_prediction_does_not_depend_on_the_images_beside_it(model):
    x = images(3, 8, 8, 3)
    np.testing.assert_allclose(model(x)["probability"][1:2], model(x[1:2])["probability"], atol=1e-5)


@pytest.mark.slow
def test_a_temperature_is_that_of_the_average_whatever_the_head(linear):
    x = images(1, 8, 8, 3)
    outputs = linear(x)
    before = outputs["probability"].numpy()
    np.testing.assert_allclose(linear.logits(outputs), np.log(before / (1 - before)), rtol=1e-3, atol=1e-4)
    linear.set_temperature(2.0)
    try:
        called, folded = linear(x), linear.inference_function()(tf.constant(x))
    finally:
        linear.set_temperature(1.0)
    expected = 1 / (1 + np.exp(-np.log(before / (1 - before)) / 2))
    np.testing.assert_allclose(called["probability"], expected, atol=1e-5)
    np.testing.assert_allclose(folded["probability"], expected, atol=1e-5)


def test_what_samples_have_in_common_is_computed_once():
    calls = []

    class Counting(type(network())):
        def shared(self, inputs):
            calls.append("shared")
            return super().shared(inputs)

        def sampled(self, shared, number):
            calls.append("sampled")
            return super().sampled(shared, number)

    counting = Counting(2, 3, dropout=0.5, num_samples=SAMPLES)
    model = HybridModel(counting, LinearHead(), num_data=1)
    model.build((None, None, None, 3))
    model.inference_function()(tf.constant(images(1, 8, 8, 3)))
    assert calls == ["shared"] + SAMPLES * ["sampled"]


def test_a_network_without_dropout_or_with_one_sample_is_called_once():
    assert samples(network())
    assert not samples(network(dropout=0.0))
    assert not samples(network(num_samples=1))
    assert not samples(keras.layers.Identity())


def test_real_targets_are_refused():
    with pytest.raises(ValueError, match="for classes alone"):
        HybridModel(network(), SVGPHead(num_inducing=4, likelihood="gaussian"), num_data=10)


def test_no_sample_is_refused():
    with pytest.raises(ValueError, match="num_samples"):
        network(num_samples=0)


@pytest.mark.parametrize("num_outputs", [1, 3])
def test_a_last_unit_without_relu_is_joined_with_a_linear_head(num_outputs):
    rng = np.random.default_rng(0)
    basic = SegNetBasic(dropout=0.5, num_samples=4)
    for _ in range(2):
        basic(images(2, 16, 16, 3), training=True)  # moving averages that are no longer at their start
    normalisation = basic.decoder[-1].steps[-1]
    for weight in (normalisation.gamma, normalisation.beta):
        weight.assign(rng.normal(1.0, 0.5, weight.shape))
    shared = basic.shared(tf.constant(images(2, 19, 16, 3)))
    readout = Readout(
        tf.constant(rng.normal(size=(64, num_outputs)), tf.float32),
        tf.constant(rng.normal(size=num_outputs), tf.float32),
    )
    joined = basic.read_out(shared, tf.constant(2), readout)
    apart = SamplingNetwork.read_out(basic, shared, tf.constant(2), readout)
    assert joined.shape == (2, 19, 16, num_outputs)
    np.testing.assert_allclose(joined, apart, rtol=1e-3, atol=1e-3)
