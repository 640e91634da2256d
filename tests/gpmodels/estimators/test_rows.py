"""Values that are not finite are named by row and column, and a forked child is refused."""

import os

import numpy as np
import pytest

from gpmodels import SVGPClassifier, SVGPRegressor
from gpmodels.estimators import engine

X = np.arange(12.0).reshape(6, 2)


@pytest.mark.parametrize(
    ("value", "message"), [(np.nan, "Input X contains NaN."), (np.inf, "Input X contains infinity")]
)
@pytest.mark.parametrize("estimator", [SVGPClassifier(), SVGPRegressor()])
def test_the_place_of_a_value_that_is_not_finite_is_said(estimator, value, message):
    x = X.copy()
    x[3, 1] = x[4, 0] = value
    with pytest.raises(ValueError, match=message) as caught:
        estimator.fit(x, [0, 1, 0, 1, 0, 1])
    assert "2 values of X are not finite, the first in row 3, column 1. Leave such rows out" in str(
        caught.value
    )


def test_the_place_of_a_target_that_is_not_finite_is_said():
    with pytest.raises(ValueError, match=r"Input y contains NaN. 1 values of y .* the first in row 2\."):
        SVGPRegressor().fit(X, [0, 1, np.nan, 3, 4, 5])


def test_other_errors_stay_as_they_are():
    with pytest.raises(ValueError, match=r"^could not convert string to float"):
        SVGPRegressor().fit([["a", 1.0], ["b", 2.0]], [0, 1])


def test_a_child_that_was_forked_after_the_first_engine_is_refused(monkeypatch):
    monkeypatch.setattr(engine, "_started", {os.getpid()})
    engine.require_unforked()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match=r"forked after TensorFlow had started .*\.get_context\('spawn'\)"):
        SVGPRegressor(max_iterations=1, num_inducing=2).fit(X, np.arange(6.0))
    monkeypatch.setattr(engine, "_started", set())
    engine.require_unforked()
