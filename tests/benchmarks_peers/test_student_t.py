"""The Student-t process against SciPy's multivariate t, and its limit, the Gaussian process."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from benchmarks.peers.student_t import (
    JITTER,
    StudentTPosterior,
    StudentTRegressor,
    _Model,
    student_t_log_density,
)
from tests.gpmodels.scikit_learn_checks import checks_of_a_family

from .dense import finite_differences, problem, wave


def density(y: np.ndarray, covariance: np.ndarray, nu: float) -> float:
    return float(stats.multivariate_t(np.zeros(len(y)), covariance * (nu - 2.0) / nu, nu).logpdf(y))


@pytest.mark.parametrize("nu", [2.5, 4.0, 30.0])
def test_density_is_scipys(nu):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(5, 5))
    covariance, y = root @ root.T + np.eye(5), 3 * rng.normal(size=5)
    ours = student_t_log_density(tf.constant(y), tf.constant(covariance), tf.constant(nu, tf.float64))
    assert float(ours) == pytest.approx(density(y, covariance, nu), rel=1e-6)


def trained(nu: float, num_data: int = 20) -> tuple[StudentTPosterior, np.ndarray, np.ndarray, np.ndarray]:
    """A posterior at fixed hyper-parameters, its data, and its covariance of any inputs, noise included."""
    x, y, _ = problem(0)
    x, y = x[:num_data], 2 * y[:num_data]
    model = _Model(x, y, np.array([0.8, 1.4]), nu)
    return model.posterior(), x, y, model


def noisy_covariance(posterior: StudentTPosterior, x: np.ndarray) -> np.ndarray:
    difference = (x[:, None] - x[None]) / posterior.lengthscales
    k = posterior.variance * np.exp(-0.5 * (difference**2).sum(axis=-1))
    return k + (posterior.noise_variance + JITTER) * np.eye(len(x))


def test_prediction_is_the_conditional_distribution():
    """p(y* | y) = p(y, y*)/p(y) is a Student-t of ν + N degrees with the mean and variance predicted."""
    nu = 3.0
    posterior, x, y, _ = trained(nu)
    new = np.array([[0.3, -0.4]])
    mean, variance = (float(part[0]) for part in posterior.predict(new))
    both = noisy_covariance(posterior, np.vstack([x, new]))
    for value in (-1.0, 0.5, 4.0):
        joint = density(np.append(y, value), both, nu)
        conditional = joint - density(y, both[:-1, :-1], nu)
        degrees = nu + len(y)
        scale = np.sqrt(variance * (degrees - 2.0) / degrees)
        assert conditional == pytest.approx(stats.t(degrees, mean, scale).logpdf(value), abs=1e-4)


def test_many_degrees_of_freedom_give_the_gaussian_process():
    posterior, x, y, model = trained(1e7)
    k = noisy_covariance(posterior, x)
    exact = stats.multivariate_normal(np.zeros(len(y)), k).logpdf(y)
    assert -float(model.loss()) == pytest.approx(exact, rel=1e-4)
    assert posterior.scale == pytest.approx(1.0, abs=1e-4)


def test_gradient_equals_finite_differences():
    _, _, _, model = trained(4.0, 8)
    model.degrees_of_freedom.unconstrained_variable._trainable = True
    variables = model.trainable_variables
    assert len(variables) == 4
    start = np.concatenate([np.ravel(v.numpy()) for v in variables])

    def value(position):
        taken = 0
        for variable in variables:
            size = int(np.prod(variable.shape))
            variable.assign(position[taken : taken + size].reshape(variable.shape))
            taken += size
        return float(model.loss())

    expected = finite_differences(value, start)
    value(start)
    with tf.GradientTape() as tape:
        loss = model.loss()
    gradient = np.concatenate([np.ravel(part) for part in tape.gradient(loss, variables)])
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_it_learns_a_wave():
    x, y = wave(0, 150)
    model = StudentTRegressor(max_iterations=30, random_state=0).fit(x[:100], y[:100])
    mean, deviation = model.predict(x[100:], return_std=True)
    assert np.mean((mean - y[100:]) ** 2) / y.var() < 1.5 * 0.2**2 / y.var()
    assert 0.85 < np.mean(np.abs(mean - y[100:]) < 1.96 * deviation) <= 1.0
    assert model.degrees_of_freedom_ > 2.0
    assert StudentTRegressor(5.0, max_iterations=5).fit(x, y).degrees_of_freedom_ == pytest.approx(5.0)


@pytest.mark.parametrize("value", [2.0, -1.0, np.inf, "many"])
def test_degrees_of_freedom_out_of_range_are_refused(value):
    with pytest.raises(ValueError, match="degrees_of_freedom must be a finite number above 2"):
        StudentTRegressor(value).fit(*wave(0, 10))


@pytest.mark.slow
@checks_of_a_family(StudentTRegressor(max_iterations=20))
def test_scikit_learn_checks(estimator, check):
    check(estimator)
