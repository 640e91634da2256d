"""Moments, divergence and nodes of the mixing weights against SciPy and sampling."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

from gpmodels.transfer.mixing import beta_nodes, dirichlet_kl, dirichlet_moments, dirichlet_nodes

COUNTS = [(3.0, 1.0), (0.3, 0.7), (1.0, 1.0), (15.0, 15.0), (400.0, 900.0)]


@pytest.mark.parametrize("counts", [*COUNTS, (2.0, 1.5, 4.0), (0.2, 3.0, 1.0, 2.0)])
def test_mean_and_covariance_are_those_of_scipy(counts):
    moments = dirichlet_moments(tf.constant(counts, tf.float64))
    expected = scipy.stats.dirichlet(counts)
    np.testing.assert_allclose(moments.mean, expected.mean(), atol=1e-14)
    covariance = tf.matmul(moments.spread, moments.spread, transpose_a=True)
    np.testing.assert_allclose(covariance, expected.cov(), atol=1e-14)
    np.testing.assert_allclose(moments.squares(), expected.var() + expected.mean() ** 2, atol=1e-14)


@pytest.mark.parametrize(("g", "h"), COUNTS)
def test_two_weights_are_a_beta_variable(g, h):
    e, f = 2.0, 5.0
    digamma = scipy.special.digamma
    expected = scipy.special.betaln(e, f) - scipy.special.betaln(g, h)
    expected += (g - e) * digamma(g) + (h - f) * digamma(h) + (e - g + f - h) * digamma(g + h)
    value = dirichlet_kl(tf.constant([g, h], tf.float64), tf.constant([e, f], tf.float64))
    assert float(value) == pytest.approx(expected, rel=1e-10)
    moments = dirichlet_moments(tf.constant([g, h], tf.float64))
    assert float(moments.squares()[0]) == pytest.approx(scipy.stats.beta(g, h).moment(2), rel=1e-10)


def test_the_divergence_is_that_of_sampling_and_0_at_the_prior():
    a, b = np.array([2.0, 3.0, 1.5]), np.array([1.0, 4.0, 2.0])
    samples = np.random.default_rng(0).dirichlet(a, 100_000)
    ratio = scipy.stats.dirichlet(a).logpdf(samples.T) - scipy.stats.dirichlet(b).logpdf(samples.T)
    error = ratio.std() / np.sqrt(len(ratio))
    assert float(dirichlet_kl(tf.constant(a), tf.constant(b))) == pytest.approx(ratio.mean(), abs=4 * error)
    assert float(dirichlet_kl(tf.constant(a), tf.constant(a))) == 0.0


@pytest.mark.parametrize(("g", "h"), COUNTS)
def test_nodes_have_the_moments_of_beta(g, h):
    nodes, weights = beta_nodes(g, h)
    orders = np.arange(16)  # up to 2n - 1
    expected = np.exp(scipy.special.betaln(g + orders, h) - scipy.special.betaln(g, h))
    np.testing.assert_allclose(weights @ nodes[:, None] ** orders, expected, rtol=1e-10)
    assert np.all((nodes > 0) & (nodes < 1) & (weights > 0))


# SciPy's own nodes have 0/0 where g + h = 1, and overflow where they are large.
@pytest.mark.parametrize(("g", "h"), [(3.0, 1.0), (0.3, 0.6), (1.0, 1.0), (15.0, 15.0)])
def test_eight_nodes_do_what_64_of_scipy_do(g, h):
    def function(x):
        return np.exp(-2 * (x - 0.4) ** 2) / (1 + 0.3 * x)

    points, many = scipy.special.roots_jacobi(64, h - 1, g - 1)
    expected = many @ function(0.5 * (1 + points)) / many.sum()
    nodes, weights = beta_nodes(g, h)
    assert weights @ function(nodes) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("counts", [(2.0, 3.0), (2.0, 1.5, 4.0), (0.4, 3.0, 0.7)])
def test_nodes_of_sticks_have_the_moments_of_dirichlet(counts):
    nodes = dirichlet_nodes(np.array(counts))
    expected = scipy.stats.dirichlet(counts)
    np.testing.assert_allclose(nodes.values.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(nodes.weights @ nodes.values, expected.mean(), atol=1e-12)
    second = np.einsum("q,qi,qj->ij", nodes.weights, nodes.values, nodes.values)
    mean = expected.mean()
    np.testing.assert_allclose(second - np.outer(mean, mean), expected.cov(), atol=1e-12)


def test_nodes_of_many_sources_come_near_the_moments():
    counts = np.array([2.0, 1.5, 4.0, 3.0])
    nodes = dirichlet_nodes(counts)
    expected = scipy.stats.dirichlet(counts)
    assert nodes.values.shape == (64, 4)
    np.testing.assert_allclose(nodes.values.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(nodes.weights @ nodes.values, expected.mean(), atol=0.01)
    np.testing.assert_allclose(np.cov(nodes.values.T, ddof=0), expected.cov(), atol=0.004)


def test_without_sources_the_target_has_all_the_weight():
    nodes = dirichlet_nodes(np.array([4.0]))
    assert nodes.values.tolist() == [[1.0]]
    assert nodes.weights.tolist() == [1.0]
