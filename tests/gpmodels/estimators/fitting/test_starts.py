"""What a fit beside a linear mean ends at: never below the layer, and at a kernel if there is one."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from gpmodels import HGPRegressor, SVGPClassifier, SVGPRegressor
from gpmodels.estimators.fitting.engine import engine_for
from gpmodels.estimators.fitting.kernel_start import KernelStart
from gpmodels.estimators.fitting.starts import place_by_kernel


@pytest.mark.slow
def test_without_a_kernel_the_model_is_the_linear_layer(monkeypatch) -> None:
    monkeypatch.setattr("gpmodels.heads.linear_layer.VARIANCE_SHARES", (0.0,))  # its weights are certain
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 3))
    y = (x @ [1.0, -1.0, 0.5] + rng.logistic(size=80) > 0.0).astype(int)
    model = SVGPClassifier(num_inducing=8, max_iterations=20, temperature=1.0, random_state=0).fit(x, y)
    head = model._trained_engine().head
    for units in head.posterior_units:
        units.variance.assign(np.full(units.variance.shape, 1e-10))
    model.weights_ = head.get_weights()
    mean = head.linear_mean
    scaled = (x - model.input_mean_) / model.input_scale_
    layer = scaled @ mean.kernel.numpy() + mean.bias.numpy()
    logits = float(mean.scale.numpy()) * layer + mean.offset.numpy()
    np.testing.assert_allclose(model.predict_proba(x)[:, 1], scipy.special.expit(logits[:, 0]), atol=1e-3)


@pytest.mark.slow
def test_a_wide_table_is_told_apart_as_by_logistic_regression() -> None:
    rng = np.random.default_rng(0)

    def table(count: int) -> tuple[np.ndarray, np.ndarray]:
        x, y = rng.normal(size=(2 * count, 600)), np.repeat([0, 1], count)
        x[y == 0, :60] += 1.0
        return x, y

    (x, y), (new, truth) = table(30), table(150)
    model = SVGPClassifier(num_inducing=20, max_iterations=60, random_state=0).fit(x, y)
    theirs = LogisticRegression(max_iter=3000).fit(x, y).predict_proba(new)
    assert model.score(new, truth) > 0.97
    assert log_loss(truth, model.predict_proba(new)) < log_loss(truth, theirs) + 0.02
    assert model.linear_share_ > 0.9


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("regressor", [SVGPRegressor, HGPRegressor])
def test_four_columns_of_twenty_are_found(regressor: type) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 20))
    y = np.sin(2.0 * x[:, 4]) * (1.0 + 0.3 * x[:, 15]) + 0.3 * x[:, 3] * x[:, 14] * x[:, 4]
    y += 0.1 * rng.normal(size=600)
    model = regressor(max_iterations=60, random_state=0).fit(x[:400], y[:400])
    assert model.score(x[400:], y[400:]) > 0.8


def test_a_kernel_start_places_units_by_its_lengthscales() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    engine = engine_for("svgp", {"num_inducing": 5, "likelihood": "gaussian", "dtype": "float64"}, 2)
    engine.reset()
    engine.head.initialize(x)
    place_by_kernel(engine, x, KernelStart(np.array([0.5, 100.0]), 2.0, 0.3), rng)
    units = engine.head.posterior_units[0]
    np.testing.assert_allclose(units.lengthscales.numpy()[0, 0], [0.5, 100.0])
    np.testing.assert_allclose(units.variance.numpy(), 2.0)
    np.testing.assert_allclose(engine.head.likelihood.noise_variance.numpy(), 0.3)
    # Centres spread along the column that matters, and not along the other.
    spread = units.inducing_inputs.numpy()[0].std(axis=0)
    assert spread[0] > 2.0 * spread[1]
