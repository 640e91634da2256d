"""What the three regressors share: scikit-learn's rules, awkward data, prediction in batches."""

import logging
import pickle

import gpflow
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpmodels.comparison import FGPRegressor, FITCRegressor, PICRegressor
from gpmodels.comparison import base as comparison_base

from .dense import wave

REGRESSORS = [FITCRegressor, PICRegressor, FGPRegressor]
every_regressor = pytest.mark.parametrize("regressor", REGRESSORS)


@every_regressor
def test_it_learns_a_wave(regressor):
    x, y = wave(0, 300)
    model = regressor(num_inducing=15, random_state=0).fit(x[:200], y[:200])
    mean, std = model.predict(x[200:], return_std=True)
    noise = 0.2**2 / y.var()
    assert np.mean((mean - y[200:]) ** 2) / y.var() < 1.4 * noise
    inside = np.abs(mean - y[200:]) < 1.96 * std
    assert 0.85 < inside.mean() <= 1.0
    np.testing.assert_array_equal(model.predict(x[200:]), mean)


@every_regressor
def test_units_of_inputs_and_targets_do_not_matter(regressor):
    x, y = wave(1, 80)
    model = regressor(num_inducing=8, max_iterations=20, random_state=0)
    mean, std = clone(model).fit(x, y).predict(x, return_std=True)
    scaled = clone(model).fit(1000.0 * x - 5.0, 30.0 * y + 7.0).predict(1000.0 * x - 5.0, return_std=True)
    np.testing.assert_allclose(scaled[0], 30.0 * mean + 7.0, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(scaled[1], 30.0 * std, rtol=1e-4)


@every_regressor
def test_parameters_clone_and_text(regressor):
    model = regressor(num_inducing=7, random_state=3)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.get_params()["num_inducing"] == 7
    assert repr(model) == f"{regressor.__name__}(num_inducing=7, random_state=3)"


@every_regressor
def test_same_seed_same_model_and_survives_pickling(regressor):
    x, y = wave(2, 60)
    first, second = (regressor(num_inducing=6, max_iterations=15, random_state=5).fit(x, y) for _ in range(2))
    np.testing.assert_array_equal(first.predict(x), second.predict(x))
    restored = pickle.loads(pickle.dumps(first))  # noqa: S301
    np.testing.assert_array_equal(first.predict(x, return_std=True), restored.predict(x, return_std=True))


@every_regressor
def test_prediction_does_not_depend_on_the_batches(regressor, monkeypatch):
    x, y = wave(3, 90)
    model = regressor(num_inducing=6, max_iterations=15, random_state=0).fit(x, y)
    expected = model.predict(x, return_std=True)
    monkeypatch.setattr(comparison_base, "PREDICTION_BATCH", 7)
    np.testing.assert_allclose(model.predict(x, return_std=True), expected, rtol=1e-9)


@every_regressor
def test_callback_can_predict(regressor):
    x, y = wave(4, 60)
    seen = []
    model = regressor(num_inducing=6, max_iterations=24, random_state=0)
    model.fit(x, y, callback=lambda estimator, i: seen.append((i, estimator.predict(x[:1])[0])))
    assert seen
    assert [iteration for iteration, _ in seen] == list(range(10, model.n_iter_ + 1, 10))
    assert seen[0][1] != model.predict(x[:1])[0]


def test_progress_is_logged_if_asked_for(caplog):
    x, y = wave(5, 40)
    with caplog.at_level(logging.INFO, logger="gpmodels.comparison"):
        FITCRegressor(5, max_iterations=12, random_state=0).fit(x, y)
        assert not caplog.messages
        FITCRegressor(5, max_iterations=12, random_state=0, verbose=1).fit(x, y)
    assert caplog.messages[0].startswith("FITCRegressor: iteration 10, log evidence")


def _awkward_data():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(30, 2))
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=30)
    yield "fewer points than inducing points", x[:5], y[:5]
    yield "two points", x[:2], y[:2]
    yield "duplicates", np.repeat(x[:6], 8, axis=0), np.repeat(y[:6], 8) + 0.1 * rng.normal(size=48)
    yield "one distinct point", np.ones((9, 2)), rng.normal(size=9)
    yield "constant column", np.insert(x, 1, 4.2, axis=1), y
    yield "collinear columns", x[:, [0, 0]], y
    yield "constant target", x, np.full(30, 3.0)
    yield "integer target", x, np.arange(30)
    yield "large units", 1e8 * x, 1e8 * y


@every_regressor
@pytest.mark.parametrize(("x", "y"), [pytest.param(x, y, id=name) for name, x, y in _awkward_data()])
def test_awkward_data(regressor, x, y):
    model = regressor(num_inducing=10, max_iterations=40, random_state=0).fit(x, y)
    mean, std = model.predict(np.vstack([x, x[:3] + 0.1]), return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0.0).all()
    assert np.abs(mean[: len(y)] - y).max() <= 3.0 * np.abs(y - np.mean(y)).max() + 1e-6


@every_regressor
@pytest.mark.parametrize("array", ["X", "y"])
def test_nan_is_refused(regressor, array):
    data = dict(zip(("X", "y"), wave(7, 20), strict=True))
    data[array] = np.where(np.arange(20).reshape(data[array].shape) == 3, np.nan, data[array])
    with pytest.raises(ValueError, match="NaN"):
        regressor().fit(**data)


@every_regressor
def test_prediction_needs_a_fitted_model_and_its_number_of_features(regressor):
    x, y = wave(8, 20)
    model = regressor(num_inducing=4, max_iterations=2)
    with pytest.raises(NotFittedError):
        model.predict(x)
    with pytest.raises(ValueError, match="features"):
        model.fit(x, y).predict(np.hstack([x, x]))
    assert model.n_features_in_ == 1


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (FITCRegressor(num_inducing=0), r"num_inducing is 0.*at least 1"),
        (FITCRegressor(num_inducing="many"), r"num_inducing is 'many'"),
        (FITCRegressor(max_iterations=0), r"max_iterations is 0"),
        (PICRegressor(num_blocks=2.5), r"num_blocks is 2.5"),
        (FGPRegressor(num_experts=0), r"num_experts is 0"),
    ],
)
def test_arguments_out_of_range_are_refused(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*wave(9, 20))


@pytest.mark.parametrize(("num_points", "expected"), [(5, 5), (100, 20), (4000, 100), (100_000, 300)])
def test_automatic_number_of_inducing_points(num_points, expected):
    assert FITCRegressor()._choose_num_inducing(num_points) == expected


@every_regressor
def test_global_settings_of_gpflow_do_not_matter(regressor):
    x, y = wave(10, 40)
    model = regressor(num_inducing=5, max_iterations=5, random_state=0)
    expected = clone(model).fit(x, y).predict(x)
    with gpflow.config.as_context(gpflow.config.Config(float=np.float32, jitter=1e-3)):
        np.testing.assert_array_equal(clone(model).fit(x, y).predict(x), expected)


@pytest.mark.slow
@parametrize_with_checks([FITCRegressor(), PICRegressor(), FGPRegressor(num_experts=2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
