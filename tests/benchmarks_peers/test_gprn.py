"""GP regression networks against sampling, independent regression, finite differences and independent GPs."""

import numpy as np
import pytest
import tensorflow as tf
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from benchmarks.peers.gprn import (
    GPRNRegressor,
    Network,
    NetworkMarginals,
    expected_log_density,
    output_covariance,
    output_moments,
)
from gpmodels.likelihoods.gaussian import GaussianLikelihood
from tests.gpmodels.scikit_learn_checks import checks_of_a_family

from .dense import finite_differences

N, P, Q = 4, 3, 2


def random_marginals(seed: int) -> NetworkMarginals:
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(N, P, Q)), rng.normal(size=(N, Q))
    variances = np.exp(rng.normal(size=(N, P, Q))), np.exp(rng.normal(size=(N, Q)))
    return NetworkMarginals(*map(tf.constant, (means[0], variances[0], means[1], variances[1])))


def sampled_outputs(marginals: NetworkMarginals, count: int) -> np.ndarray:
    """Draws of Σ_q w_pq f_q, `[count, N, P]`."""
    rng = np.random.default_rng(1)
    w_mean, w_variance, f_mean, f_variance = (part.numpy() for part in marginals)
    w = w_mean + np.sqrt(w_variance) * rng.normal(size=(count, N, P, Q))
    f = f_mean + np.sqrt(f_variance) * rng.normal(size=(count, N, Q))
    return np.einsum("snpq,snq->snp", w, f)


def test_expectation_equals_sampling():
    marginals, rng = random_marginals(0), np.random.default_rng(2)
    y, noise = rng.normal(size=(N, P)), np.array([0.5, 1.0, 2.0])
    draws = -0.5 * np.log(2 * np.pi * noise) - 0.5 * (y - sampled_outputs(marginals, 200_000)) ** 2 / noise
    exact = expected_log_density(marginals, tf.constant(y), tf.constant(noise)).numpy()
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - exact) < 4.5 * error)
    assert np.all(error < 0.05 * np.abs(exact) + 0.05)


def test_covariance_equals_sampling():
    marginals = random_marginals(3)
    draws = sampled_outputs(marginals, 200_000)
    mean, variance = output_moments(marginals)
    covariance = output_covariance(marginals).numpy()
    np.testing.assert_allclose(covariance[:, range(P), range(P)], variance, rtol=1e-12)
    np.testing.assert_allclose(mean, draws.mean(axis=0), atol=0.05)
    for n in range(N):
        scale = np.sqrt(np.outer(variance[n], variance[n]))
        np.testing.assert_allclose(np.cov(draws[:, n].T) / scale, covariance[n] / scale, atol=0.03)
    assert np.abs(covariance[:, 0, 1]).max() > 0.1


def test_certain_weights_of_one_are_independent_regression():
    rng = np.random.default_rng(4)
    mean, variance, y = rng.normal(size=(N, P)), np.exp(rng.normal(size=(N, P))), rng.normal(size=(N, P))
    eye = np.tile(np.eye(P), (N, 1, 1))
    marginals = NetworkMarginals(*map(tf.constant, (eye, np.zeros_like(eye), mean, variance)))
    likelihood = GaussianLikelihood(P)
    likelihood.noise_variance.assign([0.5, 1.0, 2.0])
    ours = expected_log_density(marginals, tf.constant(y), tf.convert_to_tensor(likelihood.noise_variance))
    for p in range(P):
        column = (tf.constant(part[:, p : p + 1]) for part in (mean, variance))
        theirs = likelihood.expected_log_likelihood(
            *column, tf.constant(y[:, p]), tf.fill([N], tf.constant(p, tf.int32))
        )
        np.testing.assert_allclose(ours[:, p], theirs, rtol=1e-12)
    off_diagonal = output_covariance(marginals).numpy() * (1.0 - np.eye(P))
    np.testing.assert_array_equal(off_diagonal, 0.0)


def toy(seed: int, num_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One fast node that four outputs see through slow weights; inputs, targets, and what has no noise."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-3.0, 3.0, num_rows))
    angles = 0.5 * x[:, None] + np.arange(4)
    truth = np.cos(angles) * (np.sin(5.0 * x) + 0.5 * np.cos(8.0 * x))[:, None]
    return x[:, None], truth + 0.4 * rng.normal(size=truth.shape), truth


def test_gradient_of_the_bound_equals_finite_differences():
    x, y, _ = toy(0, 7)
    network = Network(x, y[:, :2], 2, 3, np.random.default_rng(0))
    variables = network.trainable_variables
    sizes = [int(tf.size(variable)) for variable in variables]
    start = np.concatenate([variable.numpy().ravel() for variable in variables])
    with tf.GradientTape() as tape:
        value = network.bound()
    gradients = np.concatenate([np.ravel(part) for part in tape.gradient(value, variables)])
    rng = np.random.default_rng(1)
    directions = rng.normal(size=(5, len(start)))

    def along(position: np.ndarray) -> float:
        at = start + position @ directions
        for variable, part in zip(variables, np.split(at, np.cumsum(sizes)[:-1]), strict=True):
            variable.assign(part.reshape(variable.shape))
        return float(network.bound())

    np.testing.assert_allclose(directions @ gradients, finite_differences(along, np.zeros(5)), rtol=1e-5)


def test_nodes_and_weights_start_apart():
    x, y, _ = toy(0, 30)
    network = Network(x, y[:, :2], 3, 8, np.random.default_rng(0))
    marginals = network.marginals(tf.constant(x))
    nodes = marginals.node_mean.numpy()
    assert np.abs(np.corrcoef(nodes.T) - np.eye(3)).max() < 0.9
    assert np.abs(marginals.weight_mean).max() > 0.3


@pytest.mark.slow
def test_a_network_beats_independent_processes_on_its_own_data():
    """Outputs that share a node are seen as many times as there are outputs."""
    x, y, truth = toy(5, 90)
    model = GPRNRegressor(1, num_inducing=30, max_iterations=150, random_state=0).fit(x, y)
    mean, covariance = model.predict(x, return_cov=True)
    alone = np.empty_like(y)
    for p in range(y.shape[1]):
        kernel = ConstantKernel() * RBF(0.3) + WhiteKernel(0.1)
        alone[:, p] = GaussianProcessRegressor(kernel, random_state=0).fit(x, y[:, p]).predict(x)
    errors = [np.sqrt(np.mean((prediction - truth) ** 2)) for prediction in (mean, alone)]
    assert errors[0] < 0.85 * errors[1]
    deviation = model.predict(x, return_std=True)[1]
    np.testing.assert_allclose(deviation**2, np.diagonal(covariance, axis1=1, axis2=2))
    noise = deviation.min(axis=0)
    np.testing.assert_allclose(noise, 0.4, rtol=0.3)


@pytest.mark.slow
def test_scales_of_targets_come_back():
    x, y, _ = toy(6, 30)
    shift, scale = np.array([5.0, -3.0]), np.array([100.0, 0.01])
    settings = {"num_nodes": 1, "num_inducing": 8, "max_iterations": 5, "random_state": 0}
    plain = GPRNRegressor(**settings).fit(x, y[:, :2]).predict(x, return_cov=True)
    moved = GPRNRegressor(**settings).fit(x, scale * y[:, :2] + shift).predict(x, return_cov=True)
    np.testing.assert_allclose(moved[0], scale * plain[0] + shift, rtol=1e-5)
    np.testing.assert_allclose(moved[1], plain[1] * np.outer(scale, scale), rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_nodes": 0}, "num_nodes is 0, but must be an integer of at least 1"),
        ({"num_inducing": 0}, "num_inducing is 0, but must be an integer of at least 1"),
        ({"max_iterations": 1.5}, "max_iterations is 1.5, but must be an integer of at least 1"),
    ],
)
def test_arguments_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        GPRNRegressor(**settings).fit(*toy(0, 10)[:2])


@pytest.mark.slow
def test_a_failed_refit_leaves_no_old_model():
    x, y, _ = toy(0, 12)
    model = GPRNRegressor(1, num_inducing=4, max_iterations=2, random_state=0).fit(x, y)
    with pytest.raises(ValueError, match="both return_std and return_cov"):
        model.predict(x, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(x, np.where(y > 0, np.nan, y))
    with pytest.raises(NotFittedError):
        model.predict(x)


@pytest.mark.slow
@checks_of_a_family(GPRNRegressor(num_inducing=10, max_iterations=10))
def test_scikit_learn_checks(estimator, check):
    check(estimator)
