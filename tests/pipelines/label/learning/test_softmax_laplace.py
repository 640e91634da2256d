"""Laplace's approximation against Rasmussen and Williams' own algorithm, finite differences, and limits."""

import numpy as np
import pytest
import scipy.special

from pipelines.label.learning.softmax_laplace import (
    curvature,
    fit_posterior,
    fit_weights,
    left_out_logits,
    predicted_logits,
    variances,
)


def problem(seed, count=12, width=6, num_classes=3):
    rng = np.random.default_rng(seed)
    return 1.5 * rng.normal(size=(count, width)), rng.integers(num_classes, size=count)


def mode_by_the_book(kernel, labels, num_classes, steps=100):
    """Rasmussen and Williams, algorithm 3.3, with dense matrices of C n rows: f at the mode, [n, C]."""
    count = len(labels)
    target = np.eye(num_classes)[labels].T.ravel()  # class by class, as in the book
    whole = np.kron(np.eye(num_classes), kernel)
    f = np.zeros(num_classes * count)
    for _ in range(steps):
        share = scipy.special.softmax(f.reshape(num_classes, count), axis=0)
        stacked = np.vstack([np.diag(row) for row in share])
        w = np.diag(share.ravel()) - stacked @ stacked.T
        b = w @ f + target - share.ravel()
        f = whole @ (b - w @ np.linalg.solve(np.eye(len(w)) + whole @ w, whole @ b))
    return f.reshape(num_classes, count).T


@pytest.mark.parametrize("num_classes", [2, 3, 5])
def test_the_mode_is_that_of_algorithm_3_3(num_classes):
    basis, labels = problem(num_classes, num_classes=num_classes)
    weights = fit_weights(basis, labels, num_classes)
    expected = mode_by_the_book(basis @ basis.T, labels, num_classes)
    np.testing.assert_allclose(basis @ weights, expected, atol=2e-3)


def test_the_mode_is_where_differences_of_the_objective_vanish():
    basis, labels = problem(7)
    weights = fit_weights(basis, labels, 3)

    def objective(w):
        log_share = scipy.special.log_softmax(basis @ w, axis=1)
        return 0.5 * np.sum(w**2) - np.sum(log_share[np.arange(len(labels)), labels])

    for place in np.ndindex(weights.shape):
        step = np.zeros_like(weights)
        step[place] = 1e-4
        slope = (objective(weights + step) - objective(weights - step)) / 2e-4
        assert abs(slope) < 2e-3


def test_of_two_classes_the_covariance_is_laplaces_own():
    basis, labels = problem(3, num_classes=2)
    posterior = fit_posterior(basis, labels, 2)
    share = scipy.special.softmax(basis @ posterior.weights, axis=1)
    # The Hessian of both columns of weights; a difference of functions has the variance 2 v.
    bent = np.einsum("nc,cd->ncd", share, np.eye(2)) - share[:, :, None] * share[:, None]
    hessian = np.einsum("nm,ncd,nk->cmdk", basis, bent, basis).reshape(12, 12) + np.eye(12)
    point = np.random.default_rng(0).normal(size=6)
    difference = np.concatenate([point, -point])
    expected = difference @ np.linalg.solve(hessian, difference)
    assert 2.0 * variances(point[None], posterior.covariance)[0] == pytest.approx(expected, rel=1e-3)


def test_the_curvature_is_the_mean_eigenvalue_among_differences():
    share = np.random.default_rng(0).dirichlet(np.ones(4), size=5)
    for row, h in zip(share, curvature(share), strict=True):
        eigenvalues = np.linalg.eigvalsh(np.diag(row) - np.outer(row, row))
        assert h == pytest.approx(eigenvalues.sum() / 3)


def test_without_labels_the_prior_stays():
    posterior = fit_posterior(np.zeros((0, 4)), np.zeros(0, int), 3)
    np.testing.assert_allclose(posterior.covariance, np.eye(4))
    assert not posterior.weights.any()


def test_a_class_without_a_label_keeps_a_probability():
    basis, labels = problem(0, num_classes=2)
    share = scipy.special.softmax(basis @ fit_weights(basis, labels, 3), axis=1)
    assert np.all(share[:, 2] > 0)
    assert np.all(share[:, 2] < 0.34)


def test_one_class_alone_is_certain():
    basis, _ = problem(0)
    posterior = fit_posterior(basis, np.zeros(12, int), 1)
    np.testing.assert_allclose(scipy.special.softmax(basis @ posterior.weights, axis=1), 1.0)


def test_starting_from_the_last_weights_ends_at_the_same_mode():
    basis, labels = problem(5)
    start = fit_weights(basis[:-1], labels[:-1], 3)
    np.testing.assert_allclose(
        basis @ fit_weights(basis, labels, 3, start), basis @ fit_weights(basis, labels, 3), atol=2e-3
    )


def test_more_variance_draws_the_prediction_to_chance():
    mean = np.array([[2.0, 0.0]])
    near, far = (
        scipy.special.softmax(predicted_logits(mean, np.array([v])), axis=1)[0, 0] for v in (0.0, 9.0)
    )
    assert near == pytest.approx(scipy.special.expit(2.0))
    assert 0.5 < far < near


def test_the_mean_of_two_classes_is_near_that_of_samples():
    rng = np.random.default_rng(0)
    mean, variance = 1.5, 2.0
    difference = mean + np.sqrt(2 * variance) * rng.normal(size=200_000)
    logits = predicted_logits(np.array([[mean, 0.0]]), np.array([variance]))
    approximate = scipy.special.softmax(logits, axis=1)[0, 0]
    assert approximate == pytest.approx(scipy.special.expit(difference).mean(), abs=0.01)


@pytest.mark.parametrize("size", [1, 4])
def test_leaving_a_group_out_is_near_fitting_without_it(size):
    rng = np.random.default_rng(2)
    basis = 0.5 * rng.normal(size=(40, 5))
    labels = (basis[:, 0] + 0.3 * rng.normal(size=40) > 0).astype(int)
    group = rng.permutation(40) // size
    found = left_out_logits(basis, labels, group, fit_posterior(basis, labels, 2))
    for row in range(0, 40, 5):
        rest = group != group[row]
        posterior = fit_posterior(basis[rest], labels[rest], 2)
        one = basis[row : row + 1]
        expected = predicted_logits(one @ posterior.weights, variances(one, posterior.covariance))
        share = scipy.special.softmax(np.vstack([found[row], expected[0]]), axis=1)[:, 0]
        assert share[0] == pytest.approx(share[1], abs=0.03 if size == 1 else 0.06)


def test_copies_do_not_hold_a_wrong_label_up():
    rng = np.random.default_rng(3)
    basis = rng.normal(size=(60, 4))
    labels = (basis[:, 0] > 0).astype(int)
    basis[:5], labels[:5] = [1.5, 0.2, 0.1, 0.0], 0  # five copies with the wrong class
    posterior = fit_posterior(basis, labels, 2)
    of_group, of_one = (
        scipy.special.softmax(left_out_logits(basis, labels, group, posterior), axis=1)[0, 0]
        for group in (np.maximum(np.arange(60), 4), np.arange(60))
    )
    assert of_group < 0.5 * of_one
