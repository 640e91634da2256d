"""The linear head: logistic regression with a temperature."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import special, stats

from gpmodels import HybridModel, LaplaceHead, LinearHead
from tests.gpmodels.layer_contract import (
    NUM_FEATURES,
    REGRESSION_OUTPUTS,
    LayerContract,
    labelled_points,
    random_features,
)


class TestLinearHeadContract(LayerContract):
    has_long_checks = True
    head_class = LinearHead
    settings = {}  # noqa: RUF012
    trainable_values = NUM_FEATURES + 1


def fixed_head() -> LinearHead:
    head = LinearHead()
    head.build((None, 2))
    head.kernel.assign([1.0, -2.0])
    head.bias.assign(0.5)
    return head


def test_golden_numbers():
    outputs = fixed_head()(tf.constant([[1.0, 1.0], [0.5, 0.5], [2.0, 0.0]]))
    np.testing.assert_allclose(outputs["latent_mean"], [-0.5, 0.0, 2.5])
    np.testing.assert_allclose(outputs["probability"], [0.3775407, 0.5, 0.9241418], rtol=1e-6)
    np.testing.assert_array_equal(outputs["label"], [0, 0, 1])
    np.testing.assert_allclose(outputs["predictive_entropy"], [0.6628473, 0.6931472, 0.2685349], rtol=1e-5)
    np.testing.assert_array_equal(outputs["latent_variance"], 0.0)
    np.testing.assert_array_equal(outputs["mutual_information"], 0.0)


def test_temperature_divides_the_logit_and_is_not_trained():
    head = fixed_head()
    x = random_features(9)[:, :2]
    logit = head(x)["latent_mean"]
    head.set_temperature(4.0)
    np.testing.assert_allclose(head(x)["latent_mean"], logit / 4.0, rtol=1e-6)
    np.testing.assert_allclose(head.for_inference()(x).mean[:, 0], logit / 4.0, rtol=1e-6)
    assert [weight.name for weight in head.trainable_weights] == ["kernel", "bias"]


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_temperature_must_be_positive(temperature):
    with pytest.raises(ValueError, match="temperature must be positive"):
        fixed_head().set_temperature(temperature)


def test_loss_is_the_cross_entropy():
    x, y = labelled_points()
    model = HybridModel(keras.layers.Identity(), LinearHead(), num_data=len(x))
    model.compile()
    model.build((None, NUM_FEATURES))
    probability = special.expit(model(x)["latent_mean"].numpy())
    cross_entropy = -np.mean(np.where(y == 1.0, np.log(probability), np.log1p(-probability)))
    assert float(model.test_step((x, y))["loss"]) == pytest.approx(cross_entropy, rel=1e-5)


def test_extreme_logits_have_a_finite_loss():
    head = fixed_head()
    terms = head.expected_log_likelihood(
        head.latent(tf.constant([[1e4, 0.0], [-1e4, 0.0]])), tf.constant([0, 1])
    )
    np.testing.assert_allclose(terms, [-1e4 - 0.5, -1e4 + 0.5])


def test_first_weights_differ_from_each_other():
    head = LinearHead()
    head.build((None, 30))
    kernel = head.kernel.numpy()
    assert len(np.unique(kernel)) == 30
    assert 0.3 < np.abs(kernel).max() <= (6 / 31) ** 0.5


def test_more_classes_have_a_softmax():
    head = LinearHead(num_classes=3)
    head.build((None, 2))
    head.kernel.assign([[1.0, -2.0, 0.0], [0.5, 0.0, 1.0]])
    head.bias.assign([0.0, 0.5, 0.0])
    head.set_temperature(2.0)
    x = np.array([[1.0, 2.0], [-3.0, 0.0]], np.float32)
    logits = np.array([[2.0, -1.5, 2.0], [-3.0, 6.5, 0.0]]) / 2.0
    probability = special.softmax(logits, axis=1)
    outputs = head(x)
    np.testing.assert_allclose(outputs["probability"], probability, rtol=1e-5)
    np.testing.assert_allclose(outputs["latent_mean"], logits, rtol=1e-6)
    np.testing.assert_array_equal(outputs["label"], [0, 1])
    entropy = -(probability * np.log(probability)).sum(axis=1)
    np.testing.assert_allclose(outputs["predictive_entropy"], entropy, rtol=1e-4)
    np.testing.assert_array_equal(outputs["latent_variance"], np.zeros((2, 3)))
    np.testing.assert_allclose(head.for_inference()(x).mean, logits, rtol=1e-6)
    terms = head.log_predictive_density(head.latent(tf.constant(x)), tf.constant([2.0, 1.0]))
    np.testing.assert_allclose(terms, np.log(probability[[0, 1], [2, 1]]), rtol=1e-5)
    np.testing.assert_array_equal(head.valid_labels(tf.constant([0.0, 2.0, 3.0, 0.5])), [1, 1, 0, 0])
    assert LinearHead.from_config(head.get_config()).num_classes == 3
    with pytest.raises(ValueError, match="num_classes must be at least 2"):
        LinearHead(num_classes=1)


# Real targets


class TestLinearRegressionContract(LayerContract):
    head_class = LinearHead
    settings = {"likelihood": "gaussian"}  # noqa: RUF012
    trainable_values = NUM_FEATURES + 2
    outputs = REGRESSION_OUTPUTS


def fixed_regression() -> LinearHead:
    head = LinearHead(likelihood="gaussian", dtype="float64")
    head.build((None, 2))
    head.kernel.assign([1.0, -2.0])
    head.bias.assign(0.5)
    head.likelihood.noise_variance.assign([0.25])
    return head


def test_linear_regression_is_a_gaussian_about_the_plane():
    head = fixed_regression()
    x, y = np.array([[1.0, 1.0], [2.0, 0.0]]), np.array([0.0, 2.0])
    outputs = head(x)
    np.testing.assert_allclose(outputs["mean"], [-0.5, 2.5])
    np.testing.assert_allclose(outputs["variance"], 0.25)
    np.testing.assert_array_equal(outputs["latent_variance"], 0.0)
    density = stats.norm.logpdf(y, [-0.5, 2.5], 0.5)
    latent = head.latent(tf.constant(x))
    np.testing.assert_allclose(head.log_predictive_density(latent, tf.constant(y)), density)
    np.testing.assert_allclose(head.expected_log_likelihood(latent, tf.constant(y)), density)
    np.testing.assert_allclose(head.for_inference()(tf.constant(x)).mean[:, 0], [-0.5, 2.5])
    assert list(head.valid_labels(tf.constant([2.5, np.nan]))) == [True, False]
    copy = LinearHead.from_config(head.get_config())
    copy.build((None, 2))
    copy.copy_weights(head)
    np.testing.assert_allclose(copy(x)["variance"], 0.25, rtol=1e-6)


def test_a_temperature_widens_what_is_said_of_real_targets():
    head = fixed_regression()
    before = head(tf.constant([[1.0, 2.0]]))
    head.set_temperature(2.0)
    after = head(tf.constant([[1.0, 2.0]]))
    np.testing.assert_allclose(after["variance"], 4.0 * before["variance"].numpy())
    np.testing.assert_allclose(after["mean"], before["mean"])


def test_subclasses_may_know_no_real_targets():
    with pytest.raises(ValueError, match="LaplaceHead is for classes alone; take LinearHead"):
        LaplaceHead(likelihood="gaussian")
    with pytest.raises(ValueError, match=r"must be None for classes, or one of \('gaussian', 'poisson'"):
        LinearHead(likelihood="bernoulli")
