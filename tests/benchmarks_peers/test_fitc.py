"""FITC against the dense N x N covariance, and its limit, the exact GP."""

import numpy as np
import pytest

from benchmarks.peers.fitc import FITCRegressor, fitc_posterior, make_fitc
from benchmarks.peers.lbfgs import LBFGS

from .dense import DenseSparseGP, finite_differences, problem


def model_of(gp: DenseSparseGP, x: np.ndarray, y: np.ndarray):
    model = make_fitc((x, y[:, None]), gp.inducing, gp.lengthscales)
    model.kernel.variance.assign(gp.variance)
    model.likelihood.variance.assign(gp.noise)
    return model


@pytest.mark.parametrize("seed", range(4))
def test_evidence_and_predictions_equal_those_of_the_dense_covariance(seed):
    x, y, gp = problem(seed)
    new = np.random.default_rng(seed + 100).uniform(-3.0, 3.0, (10, 2))
    model, alone = model_of(gp, x, y), np.arange(len(x))
    assert model.maximum_log_likelihood_objective().numpy() == pytest.approx(gp.log_evidence(x, y, alone))
    expected = np.array([gp.predict(x, y, alone, point[None], -1) for point in new])
    mean, variance = fitc_posterior(model).predict(new)
    np.testing.assert_allclose(mean, expected[:, 0], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(variance, expected[:, 1], rtol=1e-7)


def test_predictions_are_those_of_gpflow():
    x, y, gp = problem(4)
    model = model_of(gp, x, y)
    new = np.linspace(-3.0, 3.0, 20).reshape(10, 2)
    mean, variance = model.predict_y(new)
    np.testing.assert_allclose(fitc_posterior(model).predict(new)[0], mean[:, 0], rtol=1e-8)
    np.testing.assert_allclose(fitc_posterior(model).predict(new)[1], variance[:, 0], rtol=1e-8)


def test_inducing_inputs_at_all_points_give_the_exact_gp():
    x, y, gp = problem(5)
    gp = DenseSparseGP(x, 0.5 * gp.lengthscales, gp.variance, gp.noise)
    new = np.linspace(-3.0, 3.0, 20).reshape(10, 2)
    log_evidence, expected = gp.exact(x, y, new)
    model = model_of(gp, x, y)
    assert model.maximum_log_likelihood_objective().numpy() == pytest.approx(log_evidence, abs=1e-3)
    mean, variance = fitc_posterior(model).predict(new)
    np.testing.assert_allclose(np.stack([mean, variance], axis=1), expected, atol=1e-4)


def test_gradient_equals_finite_differences():
    x, y, gp = problem(6, num_inducing=3)
    model = model_of(gp, x, y)
    optimiser = LBFGS(model.training_loss, model.trainable_variables)
    start = optimiser.position
    _, gradient = optimiser.value_and_gradient(start)
    expected = finite_differences(lambda position: optimiser.value_and_gradient(position)[0], start)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_training_raises_the_evidence_of_the_standardised_targets():
    rng = np.random.default_rng(7)
    x = rng.uniform(-2.0, 2.0, (80, 1))
    y = 50.0 + 10.0 * np.sin(3 * x[:, 0]) + rng.normal(size=80)
    short = FITCRegressor(10, max_iterations=3, random_state=0).fit(x, y)
    long = FITCRegressor(10, max_iterations=60, random_state=0).fit(x, y)
    assert long.log_evidence_ > short.log_evidence_ + 1.0
    # The noise that was put in, found again in the units of y
    assert np.median(long.predict(x, return_std=True)[1]) == pytest.approx(1.0, rel=0.3)
