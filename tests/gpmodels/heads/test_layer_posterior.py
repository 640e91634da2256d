"""The posterior of a layer's weights: its fixed point, its limits, and the Gaussian process that it is."""

import numpy as np
import pytest
import scipy.special

from gpmodels.heads import layer_posterior
from gpmodels.heads.layer_posterior import layer_covariance, left_out_variance, mean_curvature

ROWS, FEATURES = 30, 3


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Iterate to rounding."""
    monkeypatch.setattr(layer_posterior, "MOST_ROUNDS", 500)
    monkeypatch.setattr(layer_posterior, "TOLERANCE", 1e-12)


def rows(seed: int = 0, features: int = FEATURES) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, weights and the logit of two classes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, features))
    return x, rng.uniform(0.5, 2.0, ROWS), x @ rng.normal(size=(features, 1)) + 0.5


def on_a_grid(logit: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """E[p (1 - p)] of logits N(f, v), on a fine grid."""
    grid = np.linspace(-10.0, 10.0, 4001)
    density = np.exp(-0.5 * grid**2)
    p = scipy.special.expit(logit + np.sqrt(variance) * grid)
    return np.asarray((p * (1.0 - p)) @ density / density.sum())


@pytest.mark.usefixtures("exact")
def test_of_two_classes_it_is_the_inverse_of_penalty_and_mean_curvature():
    x, weight, logit = rows()
    found = layer_covariance(x, weight, logit, penalty=0.7)
    with_one = np.column_stack([x, np.ones(ROWS)])
    curvature = weight * on_a_grid(logit, found.of(x))
    precision = (with_one.T * curvature) @ with_one + np.diag([0.7] * FEATURES + [0.0])
    at = np.column_stack([10.0 * rows(1)[0], np.ones(ROWS)])
    expected = np.sum((at @ np.linalg.inv(precision)) * at, axis=1, keepdims=True)
    np.testing.assert_allclose(found.of(at[:, :-1]), expected, rtol=1e-4)


@pytest.mark.usefixtures("exact")
def test_it_is_the_gaussian_process_with_a_linear_kernel():
    """κ = φᵀφ'/λ + a wide constant, and each row's site of precision E[p (1 - p)]."""
    x, weight, logit = rows()
    found = layer_covariance(x, weight, logit, penalty=0.7)
    site = weight * on_a_grid(logit, found.of(x))
    at = rows(1)[0]

    def kernel(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return np.asarray(first @ second.T / 0.7 + 1e6)

    solved = np.linalg.solve(kernel(x, x) + np.diag(1.0 / site), kernel(x, at))
    posterior = np.diag(kernel(at, at)) - np.sum(kernel(x, at) * solved, axis=0)
    np.testing.assert_allclose(found.of(at)[:, 0], posterior, rtol=1e-4)


def bound(x: np.ndarray, weight: np.ndarray, logit: np.ndarray, root: np.ndarray, penalty: float) -> float:
    """What depends on S = root rootᵀ of the bound: E[log p] and the divergence from the prior, flat for b."""
    grid = np.linspace(-10.0, 10.0, 4001)
    density = np.exp(-0.5 * grid**2)
    deviation = np.linalg.norm(np.column_stack([x, np.ones(ROWS)]) @ root, axis=1, keepdims=True)
    logs = scipy.special.log_expit(logit + deviation * grid) + scipy.special.log_expit(
        -logit - deviation * grid
    )  # the curvature of both labels is the same
    expected = 0.5 * weight @ (logs @ density) / density.sum()
    return float(expected - 0.5 * penalty * np.sum(root[:-1] ** 2) + np.linalg.slogdet(root)[1])


@pytest.mark.usefixtures("exact")
def test_no_other_covariance_has_a_larger_bound():
    x, weight, logit = rows()
    found = layer_covariance(x, weight, logit, penalty=0.7)
    with_one = np.column_stack([x, np.ones(ROWS)])
    curvature = weight * on_a_grid(logit, found.of(x))
    precision = (with_one.T * curvature) @ with_one + np.diag([0.7] * FEATURES + [0.0])
    root = np.linalg.cholesky(np.linalg.inv(precision))
    best = bound(x, weight, logit, root, 0.7)
    rng = np.random.default_rng(3)
    for _ in range(20):
        other = root @ (np.eye(FEATURES + 1) + 0.05 * np.tril(rng.normal(size=root.shape)))
        assert bound(x, weight, logit, other, 0.7) < best


def test_laplace_takes_separable_rows_for_more_uncertain(monkeypatch):
    x, weight, logit = rows()
    ours = layer_covariance(x, weight, 8.0 * logit, penalty=0.01).of(x)
    monkeypatch.setattr(layer_posterior, "MOST_ROUNDS", 0)
    laplace = layer_covariance(x, weight, 8.0 * logit, penalty=0.01).of(x)
    assert np.median(laplace) > 2.0 * np.median(ours)


def test_two_classes_under_a_softmax_are_those_of_the_one_logit(monkeypatch):
    """At the curvature of the logits themselves, since its averages are exact for one logit alone."""
    monkeypatch.setattr(layer_posterior, "MOST_ROUNDS", 0)
    x, weight, logit = rows()
    one = layer_covariance(x, weight, logit, penalty=0.5)
    both = layer_covariance(x, weight, np.concatenate([-0.5 * logit, 0.5 * logit], axis=1), penalty=1.0)
    at = rows(1)[0]
    np.testing.assert_allclose(both.of(at), np.repeat(0.5 * one.of(at), 2, axis=1), rtol=1e-5)


@pytest.mark.usefixtures("exact")
def test_more_columns_than_rows_are_those_of_the_space_that_the_rows_span():
    x, weight, logit = rows(features=50)
    found = layer_covariance(x, weight, logit, penalty=2.0)
    with_one = np.column_stack([x, np.ones(ROWS)])
    curvature = weight * on_a_grid(logit, found.of(x))
    precision = (with_one.T * curvature) @ with_one + np.diag([2.0] * 50 + [0.0])
    at = np.column_stack([rows(1, features=50)[0], np.ones(ROWS)])
    expected = np.sum((at @ np.linalg.inv(precision)) * at, axis=1, keepdims=True)
    np.testing.assert_allclose(found.of(at[:, :-1]), expected, rtol=1e-4)


def test_classes_change_places_with_their_logits():
    x, weight, _ = rows()
    logits = x @ np.random.default_rng(4).normal(size=(FEATURES, 4))
    order = [2, 0, 3, 1]
    ours, theirs = (layer_covariance(x, weight, part, 1.0).of(x) for part in (logits, logits[:, order]))
    np.testing.assert_allclose(ours[:, order], theirs, rtol=1e-9)


@pytest.mark.parametrize("variance", [1e-9, 1.0, 100.0, 1e6])
def test_the_mean_curvature_of_one_logit_is_exact(variance):
    logit = np.linspace(-8.0, 8.0, 9)[:, None]
    grid = np.linspace(-60.0, 60.0, 400_001)
    slope = scipy.special.expit(grid) * scipy.special.expit(-grid)
    if variance < 1e-6:
        expected = (scipy.special.expit(logit) * scipy.special.expit(-logit))[:, 0]
    else:
        density = np.exp(-0.5 * (grid - logit) ** 2 / variance) / np.sqrt(2.0 * np.pi * variance)
        expected = (density * slope).sum(axis=1) * (grid[1] - grid[0])
    found = mean_curvature(logit, np.full_like(logit, variance))[:, 0, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-8)


def test_the_mean_curvature_of_classes_is_near_that_of_draws():
    rng = np.random.default_rng(0)
    logits, variance = rng.normal(size=(5, 3)), rng.uniform(0.5, 4.0, (5, 3))
    draws = logits + np.sqrt(variance) * rng.standard_normal((100_000, 5, 3))
    p = scipy.special.softmax(draws, axis=-1)
    expected = np.mean(p[..., :, None] * (np.eye(3) - p[..., None, :]), axis=0)
    np.testing.assert_allclose(mean_curvature(logits, variance), expected, atol=0.05)


@pytest.mark.parametrize(
    ("number", "columns", "classes"), [(30, 2000, 1), (100, 20, 1), (60, 300, 1), (40, 60, 4), (100, 5, 3)]
)
@pytest.mark.parametrize("size", [1.0, 30.0, 1e4])
def test_separable_rows_of_hardly_any_penalty_settle_at_finite_variances(number, columns, classes, size):
    """With the constants of the product: another round changes nothing."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(number, columns))
    logits = size * x @ rng.normal(size=(columns, classes)) / np.sqrt(columns)
    weight, penalty = np.ones(number), 1e-3
    found = layer_covariance(x, weight, logits, penalty)
    variance = found.of(x)
    prior = np.sum((x - found.centre) ** 2, axis=1)[:, None] / penalty + found.offset
    assert (variance <= 1.001 * prior).all()
    assert found.offset.max() < 1e8
    left_out = left_out_variance(found, x, weight, logits)
    assert (left_out >= variance).all()
    assert (left_out <= 1.001 * prior).all()
    assert np.isfinite(left_out).all()


def test_the_fixed_point_is_reached_with_the_constants_of_the_product(monkeypatch):
    x, weight, logit = rows()
    found = layer_covariance(x, weight, 8.0 * logit, penalty=0.01).of(x)
    monkeypatch.setattr(layer_posterior, "MOST_ROUNDS", 500)
    monkeypatch.setattr(layer_posterior, "TOLERANCE", 1e-12)
    exactly = layer_covariance(x, weight, 8.0 * logit, penalty=0.01).of(x)
    np.testing.assert_allclose(found, exactly, rtol=2.0 * 0.01)


@pytest.mark.usefixtures("exact")
def test_a_row_is_left_out_of_its_own_variance():
    x, weight, logit = rows()
    found = layer_covariance(x, weight, logit, penalty=0.7)
    with_one = np.column_stack([x, np.ones(ROWS)])
    curvature = weight * mean_curvature(logit, found.of(x))[:, 0, 0]
    expected = []
    for n, point in enumerate(with_one):
        others = np.where(np.arange(ROWS) == n, 0.0, curvature)
        precision = (with_one.T * others) @ with_one + np.diag([0.7] * FEATURES + [0.0])
        expected.append(point @ np.linalg.inv(precision) @ point)
    np.testing.assert_allclose(left_out_variance(found, x, weight, logit)[:, 0], expected, rtol=1e-6)


@pytest.mark.parametrize("classes", [1, 3])
def test_more_rows_leave_less_open(classes):
    x, weight, _ = rows()
    logits = x @ np.random.default_rng(4).normal(size=(FEATURES, classes))
    once, often, hardly = (
        layer_covariance(x, factor * weight, logits, 1.0).of(3.0 * x) for factor in (1.0, 10.0, 1e-9)
    )
    assert (often < once).all()
    assert (once < hardly).all()
