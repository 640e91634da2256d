"""A fit that learned nothing says so, with the likely cause."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from gpmodels import SVGPClassifier
from gpmodels.estimators.fitting.engine import LOG_PROBABILITY
from gpmodels.estimators.fitting.learned import likely_cause, shares_loss, warn_if_nothing_learned


def test_no_better_than_the_class_shares_is_a_warning() -> None:
    x, y = np.random.default_rng(0).normal(size=(20, 2)), np.repeat([0.0, 1.0], 10)
    even, ones = {LOG_PROBABILITY: np.log(np.full([20, 2], 0.5))}, np.ones(20)
    with pytest.warns(UserWarning, match="has learned nothing: on its own 20 different rows"):
        warn_if_nothing_learned(even, x, y, ones, is_class=True, name="Model")
    right = {LOG_PROBABILITY: np.log(np.where(y[:, None] == [0.0, 1.0], 0.7, 0.3))}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_nothing_learned(right, x, y, ones, is_class=True, name="Model")


def test_the_mean_of_the_targets_is_a_warning_too() -> None:
    x, y = np.random.default_rng(0).normal(size=(20, 2)), np.linspace(-1.0, 1.0, 20)
    with pytest.warns(UserWarning, match="no better than the mean of the targets"):
        warn_if_nothing_learned({"mean": np.zeros(20)}, x, y, np.ones(20), is_class=False, name="Model")


def test_the_cause_is_named() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    assert "constant" in likely_cause(np.ones([30, 3]), y)
    assert "same inputs" in likely_cause(np.repeat(rng.normal(size=(2, 3)), 15, axis=0), y)
    assert "more columns (50) than rows (30)" in likely_cause(rng.normal(size=(30, 50)), y)
    assert "alike" in likely_cause(rng.normal(size=(30, 3)), np.zeros(30))
    assert "may tell nothing" in likely_cause(rng.normal(size=(30, 3)), y)


def test_shares_are_weighted() -> None:
    expected = -0.75 * np.log(0.75) - 0.25 * np.log(0.25)
    assert shares_loss(np.array([0, 1, 1]), np.array([3.0, 0.5, 0.5])) == pytest.approx(expected)


@pytest.mark.slow
def test_constant_columns_are_said_by_a_fit() -> None:
    with pytest.warns(UserWarning, match="All columns are constant"):
        SVGPClassifier(num_inducing=5, max_iterations=5).fit(np.ones([20, 2]), np.arange(20) % 2)
