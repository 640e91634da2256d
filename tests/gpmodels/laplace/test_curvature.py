"""The curvature of a linear softmax model against dense matrices and finite differences."""

import numpy as np
import pytest
import scipy.special

from gpmodels.laplace import curvature as module
from gpmodels.laplace.curvature import Curvature, evidence_precision, output_hessian

RNG = np.random.default_rng(0)


def points(
    num_logits: int, *, size: int = 30, num_inputs: int = 3
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, weights of a model and counts of the points."""
    rng = np.random.default_rng(num_logits)
    inputs = rng.standard_normal((size, num_inputs))
    return inputs, rng.standard_normal((num_inputs, num_logits)), rng.integers(0, 3, size).astype(float)


def collected(inputs: np.ndarray, model: np.ndarray, counts: np.ndarray) -> Curvature:
    curvature = Curvature(*model.shape)
    for part in np.array_split(np.arange(len(inputs)), 4):
        curvature.add(inputs[part], inputs[part] @ model, counts[part])
    return curvature


def negative_log_likelihood(
    flat: np.ndarray, inputs: np.ndarray, labels: np.ndarray, counts: np.ndarray
) -> float:
    logits = inputs @ flat.reshape(-1, inputs.shape[1]).T  # the logit comes first
    if logits.shape[1] == 1:
        logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
    return float(-np.sum(counts * scipy.special.log_softmax(logits, axis=1)[np.arange(len(labels)), labels]))


@pytest.mark.parametrize("num_logits", [1, 3])
def test_it_is_the_hessian_of_the_negative_log_likelihood(num_logits):
    inputs, model, counts = points(num_logits)
    labels = RNG.integers(0, max(num_logits, 2), len(inputs))
    at, step = model.T.ravel(), 1e-4
    size = len(at)
    hessian = np.zeros((size, size))
    unit = step * np.eye(size)
    for i in range(size):
        for j in range(size):
            signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
            values = [
                a * b * negative_log_likelihood(at + a * unit[i] + b * unit[j], inputs, labels, counts)
                for a, b in signs
            ]
            hessian[i, j] = sum(values) / (4.0 * step**2)
    np.testing.assert_allclose(collected(inputs, model, counts).matrix(), hessian, atol=2e-5)


@pytest.mark.parametrize("num_logits", [1, 4])
def test_the_logits_covariance_is_that_of_the_dense_inverse(num_logits):
    inputs, model, counts = points(num_logits)
    dense = np.zeros((model.size, model.size))
    for row, count in zip(inputs, counts, strict=True):
        one = output_hessian((row @ model)[None])[0]
        dense += count * np.kron(one, np.outer(row, row))
    roots, precision = collected(inputs, model, counts).posterior(model)
    covariance = np.linalg.inv(dense + precision * np.eye(model.size))
    new = np.random.default_rng(5).standard_normal((7, model.shape[0]))
    for row, found in zip(new, np.square(np.einsum("bd,kde->bke", new, roots)).sum(axis=-1), strict=True):
        jacobian = np.kron(np.eye(num_logits), row)  # [K, K E]
        of_logits = jacobian @ covariance @ jacobian.T
        centre = np.eye(num_logits) - 1.0 / num_logits
        expected = (
            of_logits if num_logits == 1 else centre @ of_logits @ centre * num_logits / (num_logits - 1)
        )
        np.testing.assert_allclose(found, np.diagonal(expected), rtol=1e-8)


def test_what_all_logits_share_is_left_out_of_their_variance():
    """Nothing but the prior holds the mean of the logits: with a weak prior it would swamp the rest."""
    inputs, model, counts = points(3, size=3000)
    shared = model + 1e-9  # a small norm, hence a prior of little precision where it could be
    roots, precision = collected(inputs, shared, 10.0 * counts + 1.0).posterior(0.05 * shared)
    assert precision > 0.0
    variance = np.square(np.einsum("bd,kde->bke", inputs[:50], roots)).sum(axis=-1)
    prior = np.sum(inputs[:50] ** 2, axis=1)[:, None] / precision
    assert np.all(variance < 0.5 * prior)


def test_kronecker_factors_are_exact_where_all_points_agree_on_the_probabilities(monkeypatch):
    inputs, _, counts = points(3)
    model = np.zeros((3, 3))  # all classes are equally probable everywhere
    full = collected(inputs, model, counts)
    monkeypatch.setattr(module, "MAX_FULL", 1)
    factors = collected(inputs, model, counts)
    assert full.is_full
    assert not factors.is_full
    np.testing.assert_allclose(factors.matrix(), full.matrix(), atol=1e-10)
    weights = np.random.default_rng(1).standard_normal((3, 3))
    ours, theirs = factors.posterior(weights), full.posterior(weights)
    assert ours[1] == pytest.approx(theirs[1], rel=1e-8)
    for a, b in zip(ours[0], theirs[0], strict=True):
        np.testing.assert_allclose(a @ a.T, b @ b.T, atol=1e-10)


def test_the_chosen_precision_has_the_largest_evidence():
    eigenvalues, squared_norm = np.array([0.0, 0.5, 20.0, 300.0]), 2.3

    def log_evidence(precision: float) -> float:
        return 0.5 * np.sum(np.log(precision / (eigenvalues + precision))) - 0.5 * precision * squared_norm

    grid = np.exp(np.linspace(-5.0, 5.0, 20_001))
    best = grid[np.argmax([log_evidence(precision) for precision in grid])]
    assert evidence_precision(eigenvalues, squared_norm) == pytest.approx(best, rel=1e-3)


def test_the_precision_stays_within_its_limits():
    assert evidence_precision(np.ones(2), 0.0) == module.PRIOR_PRECISION_LIMITS[1]
    assert evidence_precision(np.zeros(2), 1.0) == module.PRIOR_PRECISION_LIMITS[0]


@pytest.mark.parametrize("num_logits", [1, 4])
def test_the_factor_of_the_outputs_is_the_sum_over_points(num_logits):
    inputs, model, counts = points(num_logits)
    expected = np.tensordot(counts, output_hessian(inputs @ model), axes=1)
    np.testing.assert_allclose(module._summed_output_hessian(inputs @ model, counts), expected, atol=1e-12)
