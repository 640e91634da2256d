"""MMDT: its limits, its gradient and its gain over the source's machine."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.svm import LinearSVC

from benchmarks.peers.mmdt import MMDTClassifier

from .domains import shifted_domains


def objective(model: MMDTClassifier, x: np.ndarray, y: np.ndarray, is_target: np.ndarray, flat: np.ndarray):
    """The whole objective in A, written out row by row."""
    change = flat.reshape(4, 4)
    total = 0.5 * np.square(change).sum()
    for row, label in zip(x[is_target], y[is_target], strict=True):
        for k, plane in enumerate(model.hyperplanes_):
            margin = (1.0 if label == k else -1.0) * (plane[:-1] @ (row + change @ row) + plane[-1])
            total += model.target_cost * max(0.0, 1.0 - margin) ** 2
    return total


def test_without_weight_of_the_target_it_is_the_machine_of_the_source():
    x, y, domain = shifted_domains()
    model = MMDTClassifier(target_cost=0.0, temperature_folds=None).fit(x, y, domain)
    np.testing.assert_allclose(model.transform_, np.eye(4), atol=1e-10)
    source = domain >= 0
    alone = LinearSVC(C=0.05, dual=False, tol=1e-6).fit(x[source], y[source])
    np.testing.assert_allclose(model.hyperplanes_[:, :-1], alone.coef_, atol=1e-4)
    np.testing.assert_allclose(model.hyperplanes_[:, -1], alone.intercept_, atol=1e-4)


def test_the_map_is_the_best_one_of_its_hyperplanes():
    x, y, domain = shifted_domains()
    model = MMDTClassifier(temperature_folds=None).fit(x, y, domain)
    target = domain < 0
    sign = 2.0 * np.eye(3)[y[target]] - 1.0
    best = (model._best_transform(x[target], sign) - np.eye(4)).ravel()

    def of_map(flat: np.ndarray) -> float:
        return objective(model, x, y, target, flat)

    assert np.abs(approx_fprime(best, of_map, 1e-6)).max() < 1e-2
    assert all(of_map(best) < of_map(best + step) for step in 0.05 * np.eye(16))


def test_the_map_undoes_a_turn_of_the_target():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 2))
    y = x[:, 0] > 0
    domain = np.repeat([0, -1], [100, 20])
    turned = np.where(domain[:, None] < 0, x @ np.array([[0.0, 1.0], [-1.0, 0.0]]), x)
    model = MMDTClassifier(temperature_folds=None).fit(turned, y, domain)
    assert model.score(turned[domain < 0], y[domain < 0]) > 0.9
    source_only = MMDTClassifier(target_cost=0.0, temperature_folds=None).fit(turned, y, domain)
    assert source_only.score(turned[domain < 0], y[domain < 0]) < 0.8


def test_costs_must_count_something():
    x, y, domain = shifted_domains()
    with pytest.raises(ValueError, match="not both 0"):
        MMDTClassifier(source_cost=0.0, target_cost=0.0).fit(x, y, domain)
