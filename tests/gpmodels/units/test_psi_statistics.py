"""Ψ statistics against GPflow's expectations, Monte Carlo, and points without uncertainty."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from gpflow.expectations import expectation
from gpflow.probability_distributions import DiagonalGaussian, Gaussian

from gpmodels.units.psi_statistics import (
    PsiStatistics,
    closed_form,
    full_rbf_psi,
    linear_psi,
    pack_inner,
    rbf_linear_psi,
    rbf_psi,
    unpack_pairs,
)

SETS, POINTS, INDUCING, DIMENSIONS = 2, 7, 4, 3


class Problem:
    """Random points, inducing inputs and hyper-parameters, two sets of them."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.mean = rng.normal(size=(POINTS, DIMENSIONS))
        self.variance = rng.uniform(0.0, 2.0, (POINTS, DIMENSIONS))
        self.inducing = rng.normal(size=(SETS, INDUCING, DIMENSIONS))
        self.lengthscales = rng.uniform(0.5, 2.0, (SETS, DIMENSIONS))
        self.isotropic = np.repeat(rng.uniform(0.5, 2.0, (SETS, 1)), DIMENSIONS, axis=1)
        self.kernel_variance = rng.uniform(0.5, 2.0, SETS)
        roots = np.tril(0.4 * rng.normal(size=(SETS, DIMENSIONS, DIMENSIONS)))
        self.root = roots + 0.8 * np.eye(DIMENSIONS)

    def arguments(self, kernel: str) -> tuple[np.ndarray, ...]:
        own = {
            "rbf": (self.isotropic, self.kernel_variance),
            "ard": (self.lengthscales, self.kernel_variance),
            "full": (np.linalg.inv(self.root), self.kernel_variance),
            "linear": (self.lengthscales**2,),
        }
        return (self.mean, self.variance, self.inducing, *own[kernel])

    def covariance(self, kernel: str, p: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """κ(a_i, b_j) under the hyper-parameters of set p."""
        if kernel == "linear":
            return (a * self.lengthscales[p] ** 2) @ b.T
        scales = {"rbf": np.diag(self.isotropic[p]), "ard": np.diag(self.lengthscales[p])}
        root = scales.get(kernel, self.root[p])
        difference = a[:, None] - b[None]
        inverse = np.linalg.inv(root @ root.T)
        squared = np.einsum("ijr,rs,ijs->ij", difference, inverse, difference)
        return self.kernel_variance[p] * np.exp(-0.5 * squared)


KERNELS = ("rbf", "ard", "full", "linear")
every_kernel = pytest.mark.parametrize("kernel", KERNELS)


def computed(kernel: str, problem: Problem, dtype: str = "float64") -> list[np.ndarray]:
    """Ψ0, Ψ1 and the whole matrices Ψ2."""
    arguments = [tf.constant(argument, dtype) for argument in problem.arguments(kernel)]
    psi: PsiStatistics = closed_form(kernel)(*arguments)
    assert {part.dtype.name for part in psi} == {dtype}
    return [psi.psi0.numpy(), psi.psi1.numpy(), unpack_pairs(psi.psi2, INDUCING).numpy()]


def gpflow_expectations(kernel: str, problem: Problem, p: int) -> list[np.ndarray]:
    mean, variance, inducing = problem.mean, problem.variance, problem.inducing[p]
    distribution = DiagonalGaussian(mean, variance)
    if kernel == "linear":
        theirs = gpflow.kernels.Linear(variance=problem.lengthscales[p] ** 2)
    elif kernel == "full":  # unit lengthscales where R⁻¹ has taken the points and their covariance
        inverse = np.linalg.inv(problem.root[p])
        distribution = Gaussian(mean @ inverse.T, (inverse * variance[:, None]) @ inverse.T)
        inducing = inducing @ inverse.T
        theirs = gpflow.kernels.SquaredExponential(variance=problem.kernel_variance[p])
    else:
        scales = problem.isotropic if kernel == "rbf" else problem.lengthscales
        theirs = gpflow.kernels.SquaredExponential(
            variance=problem.kernel_variance[p], lengthscales=scales[p]
        )
    points = gpflow.inducing_variables.InducingPoints(inducing)
    return [
        expectation(distribution, theirs).numpy(),
        expectation(distribution, (theirs, points)).numpy(),
        expectation(distribution, (theirs, points), (theirs, points)).numpy(),
    ]


@every_kernel
def test_equal_to_gpflow(kernel):
    problem = Problem()
    ours = computed(kernel, problem)
    for p in range(SETS):
        for part, theirs in zip(ours, gpflow_expectations(kernel, problem, p), strict=True):
            np.testing.assert_allclose(part[p], theirs, rtol=1e-9, atol=1e-12)


def test_a_sum_of_rbf_and_linear_is_equal_to_gpflow():
    problem = Problem()
    weights = problem.lengthscales[::-1] ** 2
    constants = [
        tf.constant(part)
        for part in (
            problem.mean,
            problem.variance,
            problem.inducing,
            problem.lengthscales,
            problem.kernel_variance,
            weights,
        )
    ]
    ours = rbf_linear_psi(*constants)
    matrices = [ours.psi0.numpy(), ours.psi1.numpy(), unpack_pairs(ours.psi2, INDUCING).numpy()]
    distribution = DiagonalGaussian(problem.mean, problem.variance)
    for p in range(SETS):
        kernel = gpflow.kernels.SquaredExponential(
            problem.kernel_variance[p], problem.lengthscales[p]
        ) + gpflow.kernels.Linear(weights[p])
        points = gpflow.inducing_variables.InducingPoints(problem.inducing[p])
        theirs = [
            expectation(distribution, kernel),
            expectation(distribution, (kernel, points)),
            expectation(distribution, (kernel, points), (kernel, points)),
        ]
        for part, expected in zip(matrices, theirs, strict=True):
            np.testing.assert_allclose(part[p], expected.numpy(), rtol=1e-9, atol=1e-12)


@every_kernel
def test_equal_to_monte_carlo(kernel):
    problem = Problem(1)
    rng = np.random.default_rng(2)
    draws = 100_000
    psi0, psi1, psi2 = computed(kernel, problem)
    for n in range(2):
        b = problem.mean[n] + np.sqrt(problem.variance[n]) * rng.normal(size=(draws, DIMENSIONS))
        k = problem.covariance(kernel, 0, b, problem.inducing[0])
        own = np.array([problem.covariance(kernel, 0, point[None], point[None])[0, 0] for point in b[:5000]])
        products = k[:, :, None] * k[:, None, :]
        for ours, samples in ((psi0[0, n], own), (psi1[0, n], k), (psi2[0, n], products)):
            error = samples.std(axis=0) / np.sqrt(len(samples))
            assert np.all(np.abs(samples.mean(axis=0) - ours) <= 5 * error + 1e-12)


@every_kernel
def test_single_precision(kernel):
    problem = Problem(3)
    for single, double in zip(computed(kernel, problem, "float32"), computed(kernel, problem), strict=True):
        np.testing.assert_allclose(single, double, rtol=2e-5, atol=1e-6)


@every_kernel
def test_without_uncertainty_they_are_the_kernel_itself(kernel):
    problem = Problem(4)
    problem.variance = np.zeros_like(problem.variance)
    psi0, psi1, psi2 = computed(kernel, problem)
    for p in range(SETS):
        k = problem.covariance(kernel, p, problem.mean, problem.inducing[p])
        np.testing.assert_allclose(
            psi0[p], np.diag(problem.covariance(kernel, p, problem.mean, problem.mean))
        )
        np.testing.assert_allclose(psi1[p], k, rtol=1e-10)
        np.testing.assert_allclose(psi2[p], k[:, :, None] * k[:, None, :], rtol=1e-10, atol=1e-14)


def test_full_matrix_that_is_diagonal_is_ard():
    problem = Problem(5)
    problem.root = np.stack([np.diag(scales) for scales in problem.lengthscales])
    for full, ard in zip(computed("full", problem), computed("ard", problem), strict=True):
        np.testing.assert_allclose(full, ard, rtol=1e-10)


@every_kernel
def test_gradients_are_numeric(kernel):
    arguments = [tf.constant(argument, tf.float64) for argument in Problem(6).arguments(kernel)]
    rng = np.random.default_rng(7)
    directions = [tf.constant(rng.normal(size=argument.shape)) for argument in arguments]
    weights = [rng.normal(size=part.shape) for part in closed_form(kernel)(*arguments)]

    def value(step):
        moved = [a + step * d for a, d in zip(arguments, directions, strict=True)]
        parts = closed_form(kernel)(*moved)
        return tf.add_n([tf.reduce_sum(part * w) for part, w in zip(parts, weights, strict=True)])

    step = tf.constant(0.0, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(step)
        result = value(step)
    numeric = (value(1e-6) - value(-1e-6)) / 2e-6
    np.testing.assert_allclose(tape.gradient(result, step), numeric, rtol=1e-6)


def test_packed_matrices_come_back_and_give_the_trace_of_the_product():
    rng = np.random.default_rng(8)
    matrices = rng.normal(size=(5, INDUCING, INDUCING))
    matrices += np.swapaxes(matrices, -1, -2)
    rows, columns = np.triu_indices(INDUCING)
    packed = tf.constant(matrices[:, rows, columns])
    np.testing.assert_array_equal(unpack_pairs(packed, INDUCING), matrices)
    other = matrices[0]
    traces = tf.linalg.matvec(packed, pack_inner(tf.constant(other)))
    np.testing.assert_allclose(traces, [np.trace(matrix @ other) for matrix in matrices])


@pytest.mark.parametrize("kernel", ["matern12", "matern32", "squared_exponential+linear", "periodic"])
def test_other_kernels_are_refused(kernel):
    with pytest.raises(ValueError, match=r"no closed form .* Choose one of rbf, ard, full or linear"):
        closed_form(kernel)


def test_closed_forms_by_name():
    assert [closed_form(kernel) for kernel in KERNELS] == [rbf_psi, rbf_psi, full_rbf_psi, linear_psi]
