"""Tempered predictions: the identity at 1, a NumPy twin, the linear head's own temperature, and saving."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from gpmodels import HybridModel, LinearHead, SVGPHead
from gpmodels.heads.points import PointBatch
from gpmodels.likelihoods.categorical import categorical_entropy
from gpmodels.likelihoods.tempering import log_odds, logits_of, tempered
from gpmodels.registry import HeadTask, head_family
from pipelines.runs.settings import HeadTrainSettings

OWN_SHARE = 0.4  # of the entropy


def outputs_of(probability: np.ndarray, *, binary: bool) -> dict[str, tf.Tensor]:
    """What a head predicts, as far as a temperature sees it."""
    label = probability > 0.5 if binary else probability.argmax(-1)
    classes = np.stack([1 - probability, probability], axis=-1) if binary else probability
    entropy = -special.xlogy(classes, classes).sum(axis=-1)
    return {
        "probability": tf.constant(probability),
        "label": tf.constant(label.astype(np.int32)),
        "predictive_entropy": tf.constant(entropy),
        "mutual_information": tf.constant((OWN_SHARE * entropy).astype(probability.dtype)),
    }


TEMPERATURES = st.floats(0.05, 20.0).filter(lambda temperature: temperature != 1.0)


@given(st.lists(st.floats(1e-6, 1 - 1e-6), min_size=1, max_size=9), TEMPERATURES)
def test_two_classes_have_their_log_odds_divided(values, temperature):
    probability = np.array(values)
    result = tempered(outputs_of(probability, binary=True), temperature)
    expected = special.expit(special.logit(probability) / temperature)
    np.testing.assert_allclose(result["probability"], expected, rtol=1e-6, atol=1e-300)
    entropy = -special.xlogy(expected, expected) - special.xlogy(1 - expected, 1 - expected)
    np.testing.assert_allclose(result["predictive_entropy"], entropy, rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(result["label"], probability > 0.5)
    untempered = -special.xlogy(probability, probability) - special.xlogy(1 - probability, 1 - probability)
    information = OWN_SHARE * np.minimum(untempered, entropy)
    np.testing.assert_allclose(result["mutual_information"], information, rtol=1e-6, atol=1e-12)


@given(st.integers(2, 6), st.integers(0, 99), TEMPERATURES)
def test_several_classes_have_a_softmax_of_log_probabilities(num_classes, seed, temperature):
    probability = special.softmax(np.random.default_rng(seed).normal(0, 3, (7, num_classes)), axis=1)
    result = tempered(outputs_of(probability, binary=False), temperature)
    expected = special.softmax(np.log(probability) / temperature, axis=1)
    np.testing.assert_allclose(result["probability"], expected, rtol=1e-6, atol=1e-300)
    np.testing.assert_array_equal(np.argmax(result["probability"], axis=1), probability.argmax(axis=1))
    np.testing.assert_allclose(result["predictive_entropy"], categorical_entropy(result["probability"]))


def test_at_temperature_1_nothing_changes_to_the_bit():
    probability = np.random.default_rng(0).uniform(size=50).astype(np.float32)
    outputs = outputs_of(probability, binary=True)
    assert all(value is outputs[name] for name, value in tempered(outputs, 1.0).items())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_certain_predictions_stay_finite_and_become_less_certain_above_1(dtype):
    probability = np.array([0.0, 1.0, 0.5], dtype)
    assert np.isfinite(log_odds(tf.constant(probability))).all()
    few = tempered(outputs_of(probability, binary=True), 3.0)
    assert 0.0 < few["probability"][0] < 0.1
    assert 0.9 < few["probability"][1] < 1.0
    assert np.isfinite(few["predictive_entropy"]).all()
    many = tempered(outputs_of(np.array([[1.0, 0.0, 0.0]], dtype), binary=False), 3.0)
    assert np.isfinite(many["predictive_entropy"]).all()
    np.testing.assert_allclose(np.sum(many["probability"]), 1.0, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("temperature", [0.5, 4.0])
def test_two_classes_are_tempered_alike(dtype, temperature):
    eps = float(np.finfo(dtype).eps)
    certain = np.array([0.0, 1e-30, 0.1 * eps, eps, 8 * eps, 1 / 4, 1 / 2], dtype)
    one = log_odds(tf.constant(certain)).numpy()
    np.testing.assert_allclose(one, -log_odds(tf.constant(1 - certain)).numpy(), rtol=1e-6)
    one, other = (tempered(outputs_of(values, binary=True), temperature) for values in (certain, 1 - certain))
    np.testing.assert_allclose(one["probability"], 1 - other["probability"], rtol=1e-4, atol=2 * eps)
    np.testing.assert_allclose(
        one["predictive_entropy"], other["predictive_entropy"], rtol=1e-4, atol=100 * eps
    )


@pytest.mark.parametrize("binary", [True, False])
def test_the_model_s_own_share_stays_where_the_entropy_falls(binary):
    probability = np.array([0.9, 0.5, 1.0]) if binary else np.array([[0.9, 0.1, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    before = outputs_of(probability, binary=binary)
    colder, warmer = (tempered(before, temperature) for temperature in (0.3, 3.0))
    assert colder["predictive_entropy"][0] < 0.1 * before["predictive_entropy"][0]
    share = colder["mutual_information"] / np.maximum(colder["predictive_entropy"], 1e-300)
    np.testing.assert_allclose(share[:2], OWN_SHARE, rtol=1e-9)
    np.testing.assert_array_equal(warmer["mutual_information"], before["mutual_information"])
    if binary:  # a certain prediction
        assert colder["mutual_information"][2] == 0.0


def test_maps_and_maps_of_classes_are_tempered_point_by_point():
    rng = np.random.default_rng(1)
    maps = rng.uniform(0.01, 0.99, (2, 4, 5))
    whole = tempered(outputs_of(maps, binary=True), 2.0)["probability"].numpy()
    flat = tempered(outputs_of(maps.ravel(), binary=True), 2.0)["probability"].numpy()
    np.testing.assert_array_equal(whole.ravel(), flat)
    classes = special.softmax(rng.normal(size=(2, 4, 5, 3)), axis=-1)
    whole = tempered(outputs_of(classes, binary=False), 2.0)
    flat = tempered(outputs_of(classes.reshape(-1, 3), binary=False), 2.0)
    np.testing.assert_array_equal(whole["probability"].numpy().reshape(-1, 3), flat["probability"])
    assert whole["predictive_entropy"].shape == (2, 4, 5)


@pytest.mark.parametrize("num_classes", [2, 4])
def test_for_the_linear_head_it_is_the_temperature_of_its_logits(num_classes):
    keras.utils.set_random_seed(0)
    head, x = LinearHead(num_classes=num_classes), tf.random.stateless_normal([20, 3], [1, 2])
    plain = head(x)
    np.testing.assert_allclose(special.softmax(_stacked(logits_of(plain)), -1), _classes(plain), rtol=1e-5)
    np.testing.assert_array_equal(head.logits(plain), plain["latent_mean"])
    head.set_temperature(2.5)
    assert head.prediction_temperature == 1.0  # the weight that was there before does it
    result = tempered(plain, 2.5)
    np.testing.assert_allclose(result["probability"], head(x)["probability"], rtol=1e-5)
    np.testing.assert_allclose(result["predictive_entropy"], head(x)["predictive_entropy"], rtol=1e-4)
    np.testing.assert_array_equal(result["label"], head(x)["label"])


def _stacked(logits: tf.Tensor) -> np.ndarray:
    return np.stack([np.zeros(20), logits], -1) if len(logits.shape) == 1 else logits.numpy()


def _classes(outputs: dict[str, tf.Tensor]) -> np.ndarray:
    p = outputs["probability"].numpy()
    return np.stack([1 - p, p], -1) if p.ndim == 1 else p


@pytest.fixture(scope="module")
def informed() -> HybridModel:
    model = HybridModel(keras.layers.Identity(), SVGPHead(num_inducing=3), num_data=50)
    model.build((None, 2))
    model.head.global_unit.q_mean.assign([[[1.0, -1.0, 0.5]]])
    return model


def test_a_head_predicts_at_its_temperature_also_folded_and_keeps_it_when_it_is_saved(informed):
    x = tf.random.stateless_normal([2, 4, 3, 2], [3, 4])  # maps of two features
    plain, folded_before = informed(x), informed.inference_function()
    informed.head.set_temperature(3.0)
    expected = tempered(plain, 3.0)
    copy = SVGPHead.from_config(informed.head.get_config())
    assert copy.prediction_temperature == 3.0
    assert "prediction_temperature" not in SVGPHead(num_inducing=3).get_config()
    for outputs in (informed(x), informed.inference_function()(x)):
        for name in ("probability", "predictive_entropy", "label", "latent_variance"):
            np.testing.assert_allclose(outputs[name], expected[name], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(folded_before(x)["probability"], plain["probability"], rtol=1e-4)
    informed.head.set_temperature(1.0)
    np.testing.assert_array_equal(informed(x)["probability"], plain["probability"])


@pytest.mark.parametrize("name", ["dropout", "laplace", "ridge_linear", "sngp"])
def test_every_rival_head_is_tempered_by_what_it_predicts(name):
    """Whether by its logits or by its probabilities: softmax(log p / T) either way."""
    keras.utils.set_random_seed(0)
    family = head_family(name)
    head = family.make(family.settings_of(HeadTrainSettings.with_tables()()), HeadTask())
    x = tf.random.stateless_normal([30, 4], [5, 6])
    plain = head(x)
    if name == "laplace":
        batch = PointBatch(x.numpy().astype(float), np.arange(30) % 2, np.ones(30), np.arange(30))
        head.fit_to([batch])
        plain = head(x)
    expected = tempered(plain, 2.5)["probability"]
    logits = head.logits(plain)
    np.testing.assert_allclose(special.expit(logits), plain["probability"], rtol=1e-4)
    head.set_temperature(2.5)
    np.testing.assert_allclose(head(x)["probability"], expected, rtol=1e-4)


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_a_temperature_must_be_positive(temperature, informed):
    with pytest.raises(ValueError, match="temperature must be a positive number"):
        tempered(outputs_of(np.array([0.3]), binary=True), temperature)
    with pytest.raises(ValueError, match="temperature must be a positive number"):
        informed.head.set_temperature(temperature)


def test_of_real_targets_it_multiplies_the_deviation():
    outputs = {name: tf.constant([0.5]) for name in ("mean", "variance", "latent_variance")}
    widened = {name: float(value[0]) for name, value in tempered(outputs, 2.0).items()}
    assert widened == {"mean": 0.5, "variance": 2.0, "latent_variance": 2.0}
