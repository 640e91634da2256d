"""A child that was forked after TensorFlow had started is refused, where it would wait for ever."""

import os

import keras
import numpy as np
import pytest

from gpmodels import HybridModel, LinearHead, SVGPRegressor
from gpmodels.hybrid import forks

X, Y = np.arange(12.0, dtype="float32").reshape(6, 2), np.arange(6) % 2


def model() -> HybridModel:
    made = HybridModel(keras.layers.Dense(2), LinearHead(), num_data=6)
    made.compile("adam")
    return made


@pytest.fixture
def child(monkeypatch):
    """Returns what makes this process look like a child of the one that made all models so far."""
    monkeypatch.setattr(forks, "_started", set())
    return lambda: monkeypatch.setattr(os, "getpid", lambda: -1)


@pytest.mark.parametrize(
    "call", ["fit", "evaluate", "predict", "train_on_batch", "predict_on_batch", "__call__"]
)
def test_a_model_of_the_parent_is_refused(child, call):
    made = model()
    child()
    arguments = (X,) if call in {"predict", "predict_on_batch", "__call__"} else (X, Y)
    with pytest.raises(RuntimeError, match=r"forked after TensorFlow had started .*\.get_context\('spawn'\)"):
        getattr(made, call)(*arguments)


def test_a_model_and_an_estimator_of_the_child_are_refused_where_the_parent_had_one(child):
    made = model()
    child()
    with pytest.raises(RuntimeError, match="forked after TensorFlow had started"):
        model()
    with pytest.raises(RuntimeError, match="forked after TensorFlow had started"):
        SVGPRegressor(max_iterations=1, num_inducing=2).fit(X, np.arange(6.0))
    assert made.head is not None


def test_a_child_of_a_parent_without_models_is_free(child):
    child()
    forks.require_unforked()
    model()
    forks.require_unforked()
