"""The posterior solved at all rows by chunks: the closed form, and better than what it starts from."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels import SVGPHead
from gpmodels.estimators.autogp import refit
from gpmodels.estimators.autogp.refit import refit_posterior_by_chunks
from gpmodels.estimators.fitting.engine import Engine
from gpmodels.estimators.fitting.mini_batch import Rows
from gpmodels.heads.conjugate import gaussian_posterior
from gpmodels.heads.gp import Points

COLUMNS = 2


def made_rows(num_classes=0, size=150):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(size, COLUMNS))
    y = np.digitize(x[:, 0], [-0.5, 0.5])[:size].astype(float) if num_classes else np.sin(2 * x[:, 0])
    weight = rng.uniform(0.5, 2.0, size)
    return Rows(
        x, np.minimum(y, max(num_classes - 1, 0)) if num_classes else y, weight, np.zeros(2), np.ones(2)
    )


def engine_of(rows, **settings):
    engine = Engine("autogp", {"num_inducing": 6, "dtype": "float64", **settings}, COLUMNS)
    engine.head.initialize(rows.x)
    return engine


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [7, 1000])
def test_regression_is_the_closed_form_whatever_the_chunks(chunk, monkeypatch):
    monkeypatch.setattr(refit, "head_rows", lambda _: chunk)
    rows = made_rows()
    engine = engine_of(rows, likelihood="gaussian")
    refit_posterior_by_chunks(engine, rows)
    twin = SVGPHead(num_inducing=6, likelihood="gaussian", mean="none", dtype="float64")
    twin.build((None, COLUMNS))
    for name in ("inducing_inputs", "lengthscales", "variance"):
        getattr(twin.global_unit, name).assign(getattr(engine.head.unit, name).numpy())
    parts = (tf.constant(part) for part in (rows.x, rows.y, rows.weight))
    gaussian_posterior(twin, Points(*parts, tf.zeros(len(rows), tf.int32)))
    np.testing.assert_allclose(engine.head.posterior.q_mean[0], twin.global_unit.q_mean[0], atol=1e-8)
    np.testing.assert_allclose(engine.head.posterior.q_sqrt[0], twin.global_unit.q_sqrt[0], atol=1e-8)


def bound(engine, rows):
    x, y, weight = rows.take(slice(None), engine.dtype)
    terms = engine.head.expected_log_likelihood(engine.head.latent(x), y)
    return float(tf.reduce_sum(weight * terms) - engine.head.penalty())


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("posterior", ["full", "diagonal"])
@pytest.mark.parametrize("variance", [1.0, 30.0, 150.0])
@pytest.mark.parametrize(
    ("likelihood", "num_classes"), [("bernoulli", 2), ("logistic", 2), ("softmax", 3), ("robust_max", 3)]
)
def test_classes_are_at_a_maximum_of_the_bound(likelihood, num_classes, variance, posterior):
    """Large variances too, where steps of length one overshoot."""
    rows = made_rows(num_classes, size=60)
    engine = engine_of(
        rows, num_classes=num_classes, likelihood=likelihood, posterior=posterior, kernel_variance=variance
    )
    before = bound(engine, rows)
    refit_posterior_by_chunks(engine, rows)
    best = bound(engine, rows)
    assert best > before + 10.0
    mean = engine.head.posterior.q_mean.numpy()
    rng = np.random.default_rng(1)
    for _ in range(5):  # no small move of the mean gains anything to speak of
        engine.head.posterior.q_mean.assign(mean + 0.02 * rng.normal(size=mean.shape))
        assert bound(engine, rows) < best + 0.02


def test_several_components_stay():
    rows = made_rows(2)
    engine = engine_of(rows, num_components=2)
    before = engine.head.posterior.q_mean.numpy()
    refit_posterior_by_chunks(engine, rows)
    np.testing.assert_array_equal(engine.head.posterior.q_mean.numpy(), before)


def test_another_head_is_refused():
    rows = made_rows(2)
    with pytest.raises(TypeError, match="of an AutoGPHead is solved by chunks, but got"):
        refit_posterior_by_chunks(Engine("svgp", {"num_inducing": 4}, COLUMNS), rows)
