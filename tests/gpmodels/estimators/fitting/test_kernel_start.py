"""The exact GP on a sample that says where a kernel starts."""

from __future__ import annotations

import numpy as np
import scipy.optimize
import scipy.stats

from gpmodels.estimators.fitting.kernel_start import SPREAD, indicators, kernel_start, negative_evidence


def _problem(num_columns: int = 3, num_targets: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, num_columns)), rng.normal(size=(12, num_targets))
    logits = rng.normal(size=(12, 1))
    return x, y, 1.0 + logits @ logits.T


def test_evidence_is_the_density_of_a_normal_distribution() -> None:
    x, y, linear = _problem()
    theta = np.log([0.7, 0.2, 1.0, 2.0, 3.0])
    scaled = x / np.array([1.0, 2.0, 3.0])
    distances = ((scaled[:, None] - scaled[None]) ** 2).sum(axis=-1)
    covariance = 0.7 * np.exp(-0.5 * distances) + linear + 0.2 * np.eye(12)
    density = sum(scipy.stats.multivariate_normal(np.zeros(12), covariance).logpdf(y[:, p]) for p in range(2))
    prior = 0.5 * np.sum(((theta[2:] - theta[2:].mean()) / SPREAD) ** 2)
    value, _ = negative_evidence(theta, x, y, linear)
    np.testing.assert_allclose(value, prior - density - 12 * np.log(2 * np.pi), rtol=1e-10)


def test_gradient_is_that_of_finite_differences() -> None:
    x, y, linear = _problem()
    theta = np.log([0.7, 0.2, 1.0, 2.0, 3.0])
    error = scipy.optimize.check_grad(
        lambda t: negative_evidence(t, x, y, linear)[0],
        lambda t: negative_evidence(t, x, y, linear)[1],
        theta,
    )
    assert error < 1e-4


def test_it_finds_the_column_that_matters_among_many() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(250, 20))
    y = np.sin(2.5 * x[:, 7]) + 0.1 * rng.normal(size=250)
    start = kernel_start(x, y[:, None], None, rng)
    assert start is not None
    assert np.argmin(start.lengthscales) == 7
    assert start.lengthscales[7] < 0.2 * np.median(start.lengthscales)
    assert start.noise_variance < 0.1


def test_noise_and_wide_tables_have_no_start() -> None:
    rng = np.random.default_rng(0)
    assert kernel_start(rng.normal(size=(60, 5)), rng.normal(size=(60, 1)), None, rng) is None
    assert kernel_start(rng.normal(size=(60, 300)), rng.normal(size=(60, 1)), None, rng) is None
    assert kernel_start(np.zeros([60, 2]), rng.normal(size=(60, 1)), None, rng) is None


def test_classes_are_centred_columns() -> None:
    columns = indicators(np.array([0.0, 1.0, 2.0, 2.0]), 3)
    np.testing.assert_allclose(columns.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.mean(columns**2), 1.0)
    assert columns.shape == (4, 3)
