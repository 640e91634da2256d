"""The logistic likelihood, and logits that are known exactly."""

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import tensorflow as tf

from gpmodels.likelihoods import mixture
from gpmodels.likelihoods.logistic import LogisticLikelihood
from gpmodels.likelihoods.logits import LogitLikelihood

MEANS, VARIANCES = np.meshgrid([-6.0, -1.0, 0.0, 0.4, 3.0], [1e-6, 0.3, 2.0, 15.0])
MARGINALS = (tf.constant(MEANS.reshape(-1, 1)), tf.constant(VARIANCES.reshape(-1, 1)))
UNIT = tf.zeros([MEANS.size], tf.int32)


def integral(function: object) -> np.ndarray:
    """E[function(f)] under each marginal."""
    z = np.linspace(-9.0, 9.0, 20_001)
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    f = MEANS.reshape(-1, 1) + np.sqrt(VARIANCES.reshape(-1, 1)) * z
    return scipy.integrate.trapezoid(function(f) * density, z, axis=1)


def test_expectations_are_those_of_the_integral():
    likelihood = LogisticLikelihood()
    outputs = likelihood.predictions(*MARGINALS, UNIT)
    probability = integral(scipy.special.expit)
    np.testing.assert_allclose(outputs["probability"], probability, atol=1e-7)
    for label in (0, 1):
        labels = tf.fill([MEANS.size], label)
        sign = 2 * label - 1
        expected = integral(lambda f, sign=sign: scipy.special.log_expit(sign * f))
        np.testing.assert_allclose(
            likelihood.expected_log_likelihood(*MARGINALS, labels, UNIT), expected, rtol=1e-6, atol=1e-7
        )
        density = np.log(probability if label else 1.0 - probability)
        np.testing.assert_allclose(
            likelihood.log_predictive_density(*MARGINALS, labels, UNIT), density, atol=1e-5
        )
    entropy = integral(
        lambda f: scipy.special.entr(scipy.special.expit(f)) + scipy.special.entr(scipy.special.expit(-f))
    )
    total = scipy.special.entr(probability) + scipy.special.entr(1.0 - probability)
    np.testing.assert_allclose(outputs["mutual_information"], total - entropy, atol=1e-6)


@pytest.mark.parametrize(
    ("mean", "deviation"), [(-20.0, 5.0), (-30.0, 10.0), (-50.0, 10.0), (-3.0, 12.0), (-200.0, 1.0)]
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_an_improbable_label_has_its_density(mean, deviation, dtype):
    """What counts lies far out in the marginal's tail, where nodes of equal weight do not reach."""
    z = np.linspace(-40.0, 40.0, 400_001)
    terms = scipy.special.log_expit(mean + deviation * z) - 0.5 * z**2 - 0.5 * np.log(2.0 * np.pi)
    expected = scipy.special.logsumexp(terms) + np.log(z[1] - z[0])
    marginal = tf.constant([[mean]], dtype), tf.constant([[deviation**2]], dtype)
    unit = tf.zeros([1], tf.int32)
    for label, sign in ((1, 1.0), (0, -1.0)):
        found = LogisticLikelihood().log_predictive_density(
            sign * marginal[0], marginal[1], tf.constant([label]), unit
        )
        assert float(found[0]) == pytest.approx(expected, rel=1e-4)


def test_mackays_approximation_is_near():
    probability = LogisticLikelihood().predictions(*MARGINALS, UNIT)["probability"]
    mean, variance = (values[:, 0] for values in MARGINALS)
    approximation = tf.sigmoid(mean / tf.sqrt(1.0 + np.pi * variance / 8.0))
    np.testing.assert_allclose(probability, approximation, atol=0.02)


def test_extreme_logits_stay_finite():
    mean, variance = tf.constant([[-1e4], [1e4]]), tf.constant([[0.0], [1e-3]])
    density = LogisticLikelihood().log_predictive_density(
        mean, variance, tf.constant([1, 0]), tf.constant([0, 0])
    )
    np.testing.assert_allclose(density, [-1e4, -1e4], rtol=1e-3)


def test_labels_are_0_or_1():
    valid = LogisticLikelihood().valid_labels(tf.constant([0.0, 1.0, 2.0, 0.5, -1.0, np.nan]))
    np.testing.assert_array_equal(valid, [True, True, False, False, False, False])


@pytest.mark.parametrize("num_classes", [2, 3])
def test_a_mixture_of_logits_is_the_mean_of_their_probabilities(num_classes):
    likelihood = LogitLikelihood(num_classes)
    logits = np.random.default_rng(0).normal(size=(4, 6, likelihood.num_latents))
    log_weight = np.full((4, 6), -np.log(4.0))
    unit, label = tf.zeros([6], tf.int32), tf.constant([0, 1, 1, 0, 1, 0])
    marginals = [tf.constant(values) for values in (logits, np.zeros_like(logits), log_weight)]
    outputs = mixture.predictions(likelihood, *marginals, unit)
    both = logits if num_classes > 2 else np.concatenate([np.zeros_like(logits), logits], axis=2)
    each = scipy.special.softmax(both, axis=2)
    probability = each.mean(axis=0)
    np.testing.assert_allclose(outputs["probability"], probability if num_classes > 2 else probability[:, 1])
    information = scipy.special.entr(probability).sum(axis=1) - scipy.special.entr(each).sum(axis=2).mean(
        axis=0
    )
    np.testing.assert_allclose(outputs["mutual_information"], information, atol=1e-12)
    density = mixture.log_predictive_density(likelihood, *marginals, label, unit)
    np.testing.assert_allclose(density, np.log(probability[np.arange(6), label]))


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="at least 2 classes"):
        LogitLikelihood(1)
