"""The noisy probit likelihood: its bound holds for any distribution of f, and C classes go one by one."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from gpmodels.likelihoods.gaussian import GaussianLikelihood
from gpmodels.likelihoods.noisy_probit import NoisyProbitLikelihood

UNIT = tf.zeros([1], tf.int32)


def noisy(noise: float, num_classes: int = 2) -> NoisyProbitLikelihood:
    likelihood = NoisyProbitLikelihood(num_classes)
    likelihood.noise_variance.assign(np.full(likelihood.num_latents, noise))
    return likelihood


def column(*values: float) -> tf.Tensor:
    return tf.constant([values], tf.float64)


@pytest.mark.parametrize("noise", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("label", [0, 1])
def test_bound_holds_for_latent_functions_that_are_not_gaussian(noise, label):
    rng = np.random.default_rng(0)
    sign = 2 * label - 1
    for f in (
        rng.choice([-3.0, 2.5], 1000),
        rng.exponential(2.0, 1000) - 1.0,
        rng.normal(1.0, 3.0, 1000),
        np.full(1000, -0.7),
    ):
        exact = np.mean(special.log_ndtr(sign * f / np.sqrt(1.0 + noise)))
        bound = noisy(noise).expected_log_likelihood(
            column(f.mean()), column(f.var()), tf.constant([label]), UNIT
        )
        assert float(bound[0]) <= exact + 1e-12
    assert float(bound[0]) == pytest.approx(exact)  # the last one is certain


def test_golden_numbers():
    """μ = 1, v = 0.5, σ² = 1: Φ(1/√2) less ¼, and Φ(1/√2.5)."""
    outputs = noisy(1.0).predictions(column(1.0), column(0.5), UNIT)
    assert float(outputs["probability"][0]) == pytest.approx(0.7364554, abs=1e-7)
    assert float(outputs["latent_mean"][0]) == pytest.approx(0.7071068, abs=1e-7)
    assert float(outputs["latent_variance"][0]) == pytest.approx(0.25)
    bound = noisy(1.0).expected_log_likelihood(column(1.0), column(0.5), tf.constant([1]), UNIT)
    assert float(bound[0]) == pytest.approx(np.log(0.7602499) - 0.25, abs=1e-7)


@pytest.mark.parametrize(
    "likelihood",
    [noisy(0.3), noisy(2.0, 3), GaussianLikelihood(1)],
    ids=["two classes", "three classes", "real targets"],
)
def test_terms_at_the_mean_and_their_derivatives(likelihood):
    size = likelihood.num_latents
    mean = tf.constant(np.random.default_rng(1).normal(size=(5, size)) * 3)
    label = tf.constant([0, 1, 1, 0, 1])
    terms = likelihood.terms_at_mean(mean, label)
    nothing = tf.zeros_like(mean)
    unit = tf.zeros([5], tf.int32)
    expected = likelihood.expected_log_likelihood(mean, nothing, label, unit)
    np.testing.assert_allclose(tf.reduce_sum(terms.value, axis=1), expected, rtol=1e-12)
    step = 1e-5
    up, down = (likelihood.terms_at_mean(mean + sign * step, label) for sign in (1.0, -1.0))
    np.testing.assert_allclose(terms.slope, (up.value - down.value) / (2 * step), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(terms.curvature, (up.slope - down.slope) / (2 * step), rtol=1e-6, atol=1e-9)
    assert np.all(terms.curvature <= 0.0)
    assert np.all(terms.curvature >= -terms.noise_precision)
    # What a variance costs is β/2 each.
    with_variance = likelihood.expected_log_likelihood(mean, nothing + 1.0, label, unit)
    cost = 0.5 * float(tf.reduce_sum(terms.noise_precision * tf.ones(size, tf.float64)))
    np.testing.assert_allclose(expected - with_variance, cost, rtol=1e-10)


def test_more_classes_are_one_against_the_rest():
    likelihood = noisy(0.5, 3)
    mean, variance = column(1.0, -0.5, 0.2), column(0.3, 0.1, 2.0)
    each = [
        special.ndtr(m / np.sqrt(1.5 + v)) for m, v in zip(mean.numpy()[0], variance.numpy()[0], strict=True)
    ]
    outputs = likelihood.predictions(mean, variance, UNIT)
    np.testing.assert_allclose(outputs["probability"][0], np.array(each) / sum(each), rtol=1e-12)
    density = likelihood.log_predictive_density(mean, variance, tf.constant([2]), UNIT)
    assert float(density[0]) == pytest.approx(np.log(each[2] / sum(each)))
    bound = likelihood.expected_log_likelihood(mean, variance, tf.constant([0]), UNIT)
    singles = [
        noisy(0.5).expected_log_likelihood(mean[:, c : c + 1], variance[:, c : c + 1], tf.constant([y]), UNIT)
        for c, y in enumerate([1, 0, 0])
    ]
    assert float(bound[0]) == pytest.approx(float(tf.add_n(singles)[0]))
    assert 0.0 < float(outputs["mutual_information"][0]) < float(outputs["predictive_entropy"][0])
    certain = likelihood.predictions(mean, 1e-12 * variance, UNIT)
    assert float(certain["mutual_information"][0]) == pytest.approx(0.0, abs=1e-6)
    assert int(outputs["label"][0]) == 0


def test_every_class_far_from_likely_still_has_a_density():
    likelihood = noisy(1.0, 3)
    mean, variance = column(-1e4, -1.1e4, -1e4), column(1.0, 1.0, 1.0)
    for label in range(3):
        value = likelihood.log_predictive_density(mean, variance, tf.constant([label]), UNIT)
        assert np.isfinite(value).all()
    assert np.isfinite(likelihood.predictions(mean, variance, UNIT)["probability"]).all()


def test_many_classes_have_nodes_enough():
    likelihood = NoisyProbitLikelihood(70)
    rng = np.random.default_rng(0)
    outputs = likelihood.predictions(
        tf.constant(rng.normal(size=(3, 70))), tf.ones([3, 70], tf.float64), unit=tf.zeros([3], tf.int32)
    )
    np.testing.assert_allclose(outputs["probability"].numpy().sum(axis=1), 1.0, rtol=1e-9)
    assert np.all(outputs["mutual_information"].numpy() > 0.0)
