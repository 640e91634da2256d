"""The robust inverse Cholesky factor and the table of precision settings."""

import re

import numpy as np
import pytest
import tensorflow as tf

from gpmodels.units.numerics import FactorisationFailure, inverse_cholesky, precision


def positive_definite(*shape: int, seed: int = 0) -> np.ndarray:
    roots = np.random.default_rng(seed).normal(size=(*shape, shape[-1] + 2))
    return roots @ np.swapaxes(roots, -1, -2)


def with_smallest_eigenvalue(smallest: float, size: int = 4) -> np.ndarray:
    basis = np.linalg.qr(np.random.default_rng(5).normal(size=(size, size)))[0]
    eigenvalues = np.linspace(1.0, 2.0, size)
    eigenvalues[0] = smallest
    return (basis * eigenvalues) @ basis.T


@pytest.mark.parametrize("shape", [(1,), (5,), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 2e-4)])
def test_inverse_factor_equals_numpy(shape, dtype, tolerance):
    covariance = positive_definite(*shape, seed=1).astype(dtype)
    expected = np.linalg.inv(np.linalg.cholesky(covariance.astype("float64") + 0.1 * np.eye(shape[-1])))
    result = inverse_cholesky(tf.constant(covariance), jitter=0.1, unit="a unit")
    assert result.dtype == dtype
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


def test_result_and_gradient_in_single_precision_after_factorising_in_double():
    """Rounding comes last: K itself, with an eigenvalue that float32 would lose, is factorised in float64."""
    covariance = tf.constant(with_smallest_eigenvalue(1e-7))
    with tf.GradientTape() as tape:
        tape.watch(covariance)
        single = inverse_cholesky(covariance, jitter=0.0, unit="a unit", dtype=tf.float32)
        total = tf.reduce_sum(single)
    with tf.GradientTape() as exact_tape:
        exact_tape.watch(covariance)
        double = inverse_cholesky(covariance, jitter=0.0, unit="a unit")
        exact_total = tf.reduce_sum(double)
    assert single.dtype == tf.float32
    np.testing.assert_allclose(single, double, rtol=1e-6)
    gradient, exact = tape.gradient(total, covariance), exact_tape.gradient(exact_total, covariance)
    assert gradient.dtype == tf.float64
    np.testing.assert_allclose(gradient, exact, rtol=1e-3, atol=1e-3 * np.abs(exact).max())


def test_gradient_equals_finite_differences():
    covariance = positive_definite(2, 4)
    rng = np.random.default_rng(2)
    coefficients, direction = rng.normal(size=(2, 4, 4)), rng.normal(size=(2, 4, 4))
    direction += np.swapaxes(direction, -1, -2)  # stay among symmetric matrices

    def value(k: np.ndarray) -> float:
        return float(np.sum(coefficients * inverse_cholesky(tf.constant(k), jitter=1e-6, unit="a unit")))

    variable = tf.constant(covariance)
    with tf.GradientTape() as tape:
        tape.watch(variable)
        total = tf.reduce_sum(coefficients * inverse_cholesky(variable, jitter=1e-6, unit="a unit"))
    gradient = tape.gradient(total, variable).numpy()
    np.testing.assert_allclose(gradient, np.swapaxes(gradient, -1, -2), atol=1e-15)
    step = 1e-5
    numeric = (value(covariance + step * direction) - value(covariance - step * direction)) / (2 * step)
    np.testing.assert_allclose(np.sum(gradient * direction), numeric, rtol=1e-7)


@pytest.mark.parametrize(
    ("smallest", "expected_jitter"), [(1.0, 1e-6), (-5e-6, 1e-5), (-5e-5, 1e-4), (-5e-3, 1e-2), (-0.5, 1.0)]
)
def test_jitter_grows_by_tens_until_the_factor_exists(smallest, expected_jitter):
    covariance = with_smallest_eigenvalue(smallest)
    expected = np.linalg.inv(np.linalg.cholesky(covariance + expected_jitter * np.eye(4)))
    result = inverse_cholesky(tf.constant(covariance), jitter=1e-6, unit="a unit")
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_jitter_grows_from_nothing():
    result = inverse_cholesky(tf.constant(with_smallest_eigenvalue(-5e-6)), jitter=0.0, unit="a unit")
    assert np.isfinite(result).all()


@pytest.mark.slow
def test_a_bad_matrix_leaves_the_others_alone():
    good = positive_definite(2, 4)
    batch = np.stack([good[0], with_smallest_eigenvalue(-0.01), good[1]])
    alone = inverse_cholesky(tf.constant(good), jitter=1e-6, unit="a unit").numpy()
    together = tf.function(inverse_cholesky)(tf.constant(batch), jitter=1e-6, unit="a unit").numpy()
    np.testing.assert_array_equal(together[[0, 2]], alone)
    assert np.isfinite(together).all()


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("bad", [-100.0 * np.eye(3), np.full((3, 3), np.nan)], ids=["indefinite", "nan"])
def test_hopeless_matrix_is_an_error_that_names_the_unit(bad, traced):
    batch = tf.constant(np.stack([np.eye(3), bad]))
    function = tf.function(inverse_cholesky) if traced else inverse_cholesky
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        function(batch, jitter=1e-6, unit="experts of my_head")
    message = caught.value.message
    assert "experts of my_head" in message
    # The second matrix, and 1e-6 grown six times.
    assert re.search(r"matrices\W+1\W+(?:b')?stay indefinite or hold NaN, even with jitter\W+1\b", message)
    assert "Lower the learning rate" in message


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    ("unit", "role", "owner"),
    [
        ("experts of hgp", "experts", "hgp"),
        ("global unit of my head, matrices", "global unit", "my head matrices"),
        ("a unit", "a unit", ""),
    ],
)
def test_a_failure_is_read_from_the_error(unit, role, owner, traced):
    batch = tf.constant(np.stack([-1e9 * np.eye(2), np.eye(2), np.full((2, 2), np.nan)]))
    function = tf.function(inverse_cholesky) if traced else inverse_cholesky
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        function(batch, jitter=1e-5, unit=unit)
    failure = FactorisationFailure.of(caught.value)
    assert failure == FactorisationFailure(role, owner, (0, 2), pytest.approx(10.0))
    assert failure.unit == unit.replace(",", "")


def test_a_failure_of_one_matrix_without_a_batch_is_read_too():
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        inverse_cholesky(tf.constant(-100.0 * np.eye(3)), jitter=0.0, unit="a unit")
    failure = FactorisationFailure.of(caught.value)
    assert failure is not None
    assert failure.matrices == (0,)


def test_other_errors_are_no_failures():
    assert FactorisationFailure.of(tf.errors.InvalidArgumentError(None, None, "experts of hgp")) is None


def test_hopeless_single_matrix_is_an_error_too():
    with pytest.raises(tf.errors.InvalidArgumentError, match="a unit"):
        inverse_cholesky(tf.constant(-100.0 * np.eye(3)), jitter=1e-6, unit="a unit")


def test_float32_is_the_more_cautious_precision():
    single, double = precision("float32"), precision("float64")
    assert single.jitter > double.jitter
    assert single.variance_floor > double.variance_floor
    assert single.gate_variance_floor > double.gate_variance_floor


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "double"])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(ValueError, match=rf"float32 or float64, but were asked for '{dtype}'.*Pass dtype="):
        precision(dtype)
