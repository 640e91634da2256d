"""The probit likelihood against SciPy's special functions, adaptive quadrature, GPflow and sampling."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from gpmodels.likelihoods.probit import (
    bernoulli_entropy,
    expected_entropy,
    expected_log_probit,
    log_normal_cdf,
    predictive_probability,
)
from tests.gpmodels import reference

MEANS = (-8.0, -3.0, -0.5, 0.0, 1.0, 4.0, 20.0)
VARIANCES = (1e-12, 1e-3, 0.3, 1.0, 3.0, 25.0, 1e4)
MARGINALS = tuple((mean, variance) for mean in MEANS for variance in VARIANCES)

marginals = st.tuples(st.floats(-50.0, 50.0), st.floats(1e-6, 1e4))


def probit_entropy(f: float) -> float:
    """H(Φ(f)) without losing the small tail."""
    p, q = special.ndtr(f), special.ndtr(-f)
    return -special.xlogy(p, p) - special.xlogy(q, q)


def arrays(pairs, dtype: str = "float64") -> tuple[tf.Tensor, tf.Tensor]:
    mean, variance = np.array(pairs).T
    return tf.constant(mean, dtype), tf.constant(variance, dtype)


@pytest.mark.parametrize(
    ("dtype", "relative", "absolute"), [("float32", 5e-7, 1e-7), ("float64", 1e-12, 1e-15)]
)
def test_log_normal_cdf_in_both_tails(dtype, relative, absolute):
    magnitudes = np.logspace(-3, 4, 500)
    z = np.concatenate([-magnitudes[::-1], [0.0], magnitudes]).astype(dtype)
    points = tf.constant(z)
    with tf.GradientTape() as tape:
        tape.watch(points)
        value = log_normal_cdf(points)
    exact = special.log_ndtr(z.astype("float64"))
    np.testing.assert_allclose(value, exact, rtol=relative, atol=absolute)
    # d log Φ(z)/dz = φ(z)/Φ(z), written so that neither tail underflows
    wide = z.astype("float64")
    slope = np.sqrt(2 / np.pi) / special.erfcx(-wide / np.sqrt(2))
    gradient = tape.gradient(value, points).numpy()
    np.testing.assert_allclose(gradient, slope, rtol=100 * relative, atol=absolute)


@pytest.mark.parametrize(("cut", "dtype"), [(-10.0, "float32"), (-30.0, "float64")])
def test_log_normal_cdf_is_continuous_where_the_series_begins(cut, dtype):
    z = np.nextafter(np.array([cut, cut], dtype), np.array([-np.inf, np.inf], dtype))
    below, above = log_normal_cdf(tf.constant(z)).numpy().astype("float64")
    assert below == pytest.approx(above, rel={"float32": 1e-6, "float64": 1e-12}[dtype])


@pytest.mark.parametrize("label", [0, 1])
def test_expected_log_likelihood_equals_adaptive_quadrature(label):
    for mean, variance in MARGINALS:
        if variance > 4.0:  # 20 nodes, as in GPflow, lose the bend at 0 in a wide Gaussian
            continue
        exact = reference.expected_log_likelihood(mean, variance, label)
        value = float(expected_log_probit(*map(tf.constant, (mean, variance, label))))
        assert value == pytest.approx(exact, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("label", [0, 1])
def test_expected_log_likelihood_of_a_wide_gaussian_is_close(label):
    for mean in MEANS:
        exact = reference.expected_log_likelihood(mean, 100.0, label)
        value = float(expected_log_probit(*map(tf.constant, (mean, 100.0, label))))
        assert value == pytest.approx(exact, rel=0.01, abs=0.02)


def test_expected_log_likelihood_equals_gpflow():
    def normal_cdf(f: tf.Tensor) -> tf.Tensor:
        return tf.exp(log_normal_cdf(f))  # GPflow's own probit is squashed into [0.001, 0.999]

    likelihood = gpflow.likelihoods.Bernoulli(invlink=normal_cdf)
    # Near 0, since GPflow takes log(1 - Φ(f)) for label 0.
    mean, variance = arrays([(m, v) for m in (-1.0, 0.2, 1.0) for v in (1e-6, 0.1, 0.3)])
    labels = np.arange(len(mean)) % 2
    theirs = likelihood.variational_expectations(
        None, mean[:, None], variance[:, None], tf.constant(labels[:, None], tf.float64)
    )
    np.testing.assert_allclose(expected_log_probit(mean, variance, tf.constant(labels)), theirs, rtol=1e-8)


def test_label_may_have_any_dtype():
    mean, variance = arrays([(0.3, 1.0), (0.3, 1.0)])
    values = [
        expected_log_probit(mean, variance, tf.constant([0, 1], dtype)) for dtype in ("int64", "float32")
    ]
    np.testing.assert_array_equal(*values)


def test_a_latent_function_at_zero_gives_one_half_in_both_precisions():
    for dtype in ("float32", "float64"):
        zero = tf.constant([0.0, -0.0], dtype)
        for half in predictive_probability(zero, tf.ones_like(zero)).numpy():
            assert half == 0.5  # to the bit: it is for neither class
        below, above = predictive_probability(tf.constant([-1e-6, 1e-6], dtype), tf.ones_like(zero)).numpy()
        assert below < 0.5 < above
        assert np.isnan(predictive_probability(tf.constant(np.nan, dtype), tf.constant(1.0, dtype)))


def test_predictive_probability_equals_adaptive_quadrature():
    for mean, variance in MARGINALS:
        exact = reference.gaussian_expectation(special.ndtr, mean, variance)
        value = float(
            predictive_probability(tf.constant(mean, tf.float64), tf.constant(variance, tf.float64))
        )
        assert value == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("probability", [0.0, 1e-12, 0.2, 0.5, 0.999, 1.0])
def test_bernoulli_entropy(probability):
    value = bernoulli_entropy(tf.constant(probability, tf.float64))
    assert float(value) == pytest.approx(reference.entropy(probability), abs=1e-14)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-11)])
def test_expected_entropy_equals_adaptive_quadrature_for_any_variance(dtype, tolerance):
    exact = [reference.gaussian_expectation(probit_entropy, *marginal) for marginal in MARGINALS]
    np.testing.assert_allclose(expected_entropy(*arrays(MARGINALS, dtype)), exact, rtol=0, atol=tolerance)


def test_mutual_information_equals_sampling():
    """I(y; f) = H[E p] - E[H[p]] from one million draws of f."""
    draws = np.random.default_rng(0).normal(size=1_000_000)
    for mean, variance in ((0.0, 1.0), (1.0, 9.0), (-2.0, 0.25)):
        p = special.ndtr(mean + np.sqrt(variance) * draws)
        sampled = reference.entropy(p.mean()) + np.mean(special.xlogy(p, p) + special.xlogy(1 - p, 1 - p))
        pair = tf.constant(mean, tf.float64), tf.constant(variance, tf.float64)
        value = bernoulli_entropy(predictive_probability(*pair)) - expected_entropy(*pair)
        assert float(value) == pytest.approx(sampled, abs=3e-3)


@given(st.lists(marginals, min_size=1, max_size=20))
def test_mutual_information_is_never_negative(pairs):
    mean, variance = arrays(pairs)
    total, expected = (
        bernoulli_entropy(predictive_probability(mean, variance)),
        expected_entropy(mean, variance),
    )
    assert np.all(np.asarray(expected) >= 0.0)
    assert np.all(np.asarray(total - expected) >= -1e-12)
    assert np.all(np.asarray(total) <= np.log(2.0) + 1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mean", [-1e8, -1e4, 0.0, 1e4, 1e8])
@pytest.mark.parametrize("variance", [1e-12, 1.0, 1e8])
def test_extreme_marginals_give_finite_values(mean, variance, dtype):
    pair = tf.constant([mean], dtype), tf.constant([variance], dtype)
    values = [
        expected_log_probit(*pair, tf.constant([1])),
        predictive_probability(*pair),
        bernoulli_entropy(predictive_probability(*pair)),
        expected_entropy(*pair),
    ]
    assert np.isfinite(values).all()
    assert 0.0 <= float(values[3][0]) <= np.log(2.0) + 1e-6


@pytest.mark.parametrize(("dtype", "lowest"), [("float32", -15.0), ("float64", -40.0)])
def test_second_derivative_of_log_cdf_is_finite_in_the_tail(dtype, lowest):
    """It tends to -1 below; the sites of leaving out are differentiated once more."""
    z = tf.constant([lowest, -9.9, -3.0, 0.0, 5.0], dtype)
    with tf.GradientTape() as outer:
        outer.watch(z)
        with tf.GradientTape() as tape:
            tape.watch(z)
            value = log_normal_cdf(z)
        slope = tape.gradient(value, z)
    second = outer.gradient(slope, z).numpy()
    exact = np.exp(stats.norm.logpdf(z) - stats.norm.logcdf(z))
    np.testing.assert_allclose(slope, exact, rtol=1e-4)
    np.testing.assert_allclose(second, -exact * (z.numpy() + exact), rtol=2e-2, atol=1e-5)
