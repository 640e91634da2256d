"""The batched kernels against GPflow's kernel objects."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from gpmodels.units.kernels import (
    half_negative_squared_distance,
    kernel_profile,
    pairwise_half_negative_squared_distance,
)
from tests.gpmodels import reference

GPFLOW = {
    "squared_exponential": gpflow.kernels.SquaredExponential,
    "matern12": gpflow.kernels.Matern12,
    "matern32": gpflow.kernels.Matern32,
    "matern52": gpflow.kernels.Matern52,
}


def correlation(name: str, x: tf.Tensor, u: tf.Tensor) -> tf.Tensor:
    return kernel_profile(name)(half_negative_squared_distance(x, u))


@pytest.mark.parametrize("name", GPFLOW)
@pytest.mark.parametrize("num_features", [1, 3])
def test_equals_gpflow(name, num_features):
    rng = np.random.default_rng(0)
    lengthscales = rng.uniform(0.3, 3.0, num_features)
    x, u = rng.normal(size=(2, 7, num_features)), rng.normal(size=(2, 5, num_features))
    kernel = GPFLOW[name](variance=1.7, lengthscales=lengthscales)
    result = 1.7 * correlation(name, tf.constant(x / lengthscales), tf.constant(u / lengthscales)).numpy()
    for i in range(2):
        np.testing.assert_allclose(result[i], kernel(x[i], u[i]), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", GPFLOW)
def test_profile_equals_the_formula(name):
    for r in (0.1, 1.0, 2.5, 10.0):
        result = float(kernel_profile(name)(tf.constant(-(r**2) / 2, tf.float64)))
        assert result == pytest.approx(reference.PROFILES[name](r), rel=1e-12)


@pytest.mark.parametrize("name", GPFLOW)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_value_and_gradient_at_coincident_points(name, dtype):
    points = tf.constant(np.random.default_rng(1).normal(size=(4, 3)), dtype)
    with tf.GradientTape() as tape:
        tape.watch(points)
        matrix = correlation(name, points, points)
        total = tf.reduce_sum(matrix)
    # Matern 1/2 has a kink at r = 0, where rounding of r² weighs most: 1e-6 in float64, √ε in float32.
    tolerance = {"float32": 2e-3, "float64": 2e-6}[dtype] if name == "matern12" else 1e-5
    np.testing.assert_allclose(np.diag(matrix), 1.0, atol=tolerance)
    assert np.isfinite(tape.gradient(total, points)).all()


@pytest.mark.parametrize("name", GPFLOW)
def test_far_points_are_uncorrelated_with_finite_gradient(name):
    x = tf.constant([[1e6]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = correlation(name, x, tf.zeros([1, 1]))
    assert float(value[0, 0]) == 0.0
    assert float(tape.gradient(value, x)[0, 0]) == 0.0


def test_distance_of_a_batch_equals_a_double_loop():
    rng = np.random.default_rng(2)
    x, u = rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 5, 2))
    result = half_negative_squared_distance(tf.constant(x), tf.constant(u)).numpy()
    for b, n, m in np.ndindex(3, 4, 5):
        assert result[b, n, m] == pytest.approx(-np.sum((x[b, n] - u[b, m]) ** 2) / 2, abs=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pairwise_distances_are_in_double_precision_with_the_plain_gradient(dtype):
    rng = np.random.default_rng(3)
    u = tf.constant(rng.normal(size=(2, 6, 3)), dtype)
    coefficients = rng.normal(size=(2, 6, 6))  # not symmetric
    with tf.GradientTape() as tape, tf.GradientTape() as plain_tape:
        tape.watch(u)
        plain_tape.watch(u)
        ours = pairwise_half_negative_squared_distance(u)
        exact = tf.cast(u, tf.float64)
        plain = half_negative_squared_distance(exact, exact)
        total, plain_total = tf.reduce_sum(coefficients * ours), tf.reduce_sum(coefficients * plain)
    assert ours.dtype == tf.float64
    np.testing.assert_array_equal(ours, plain)
    gradient = tape.gradient(total, u)
    assert gradient.dtype == dtype
    np.testing.assert_allclose(gradient, plain_tape.gradient(plain_total, u), rtol=1e-5, atol=1e-5)


def test_unknown_kernel_is_an_error_that_names_the_known_ones():
    with pytest.raises(
        ValueError, match=r"Kernel 'rbf' is not known; choose one of matern12, .*squared_exponential"
    ):
        kernel_profile("rbf")
