"""What the three regressors share: scikit-learn's rules, awkward data, prediction in batches."""

import pickle

import gpflow
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from benchmarks.peers import base as comparison_base
from benchmarks.peers.fgp import FGPRegressor
from benchmarks.peers.fitc import FITCRegressor
from benchmarks.peers.pic import PICRegressor
from tests.gpmodels.scikit_learn_checks import checks_of_a_family

from .dense import wave

REGRESSORS = {
    "fitc": FITCRegressor(num_inducing=15, random_state=0),
    "pic": PICRegressor(num_inducing=15, num_blocks=4, random_state=0),
    "fgp": FGPRegressor(num_experts=2, num_inducing=15, random_state=0),
}
every_regressor = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "fgp" else ()) for name in REGRESSORS]
)


class Trial:
    """A regressor trained on a wave, and what it predicted for the first point while it was trained."""

    def __init__(self, name: str) -> None:
        x, y = wave(0, 300)
        self.train, self.test = (x[:200], y[:200]), (x[200:], y[200:])
        self.seen = {}
        self.model = clone(REGRESSORS[name]).fit(*self.train, callback=self._predict_first)

    def _predict_first(self, estimator, iteration):
        self.seen[iteration] = estimator.predict(self.train[0][:1])[0]


@pytest.fixture(scope="module")
def trials() -> dict[str, Trial]:
    """Trained when first asked for: compiling the evidence takes seconds."""

    class Trials(dict):
        def __missing__(self, name):
            return self.setdefault(name, Trial(name))

    return Trials()


@pytest.mark.slow
@every_regressor
def test_it_learns_a_wave(name, trials):
    trial = trials[name]
    x, y = trial.test
    mean, std = trial.model.predict(x, return_std=True)
    noise = 0.2**2 / y.var()
    assert np.mean((mean - y) ** 2) / y.var() < 1.4 * noise
    inside = np.abs(mean - y) < 1.96 * std
    assert 0.85 < inside.mean() <= 1.0
    np.testing.assert_array_equal(trial.model.predict(x), mean)


@pytest.mark.slow
@every_regressor
def test_callback_can_predict(name, trials):
    trial = trials[name]
    assert 10 in trial.seen
    assert all(iteration % 5 == 0 and iteration <= trial.model.n_iter_ for iteration in trial.seen)
    assert trial.seen[10] != trial.model.predict(trial.train[0][:1])[0]


@pytest.mark.slow
@every_regressor
def test_same_seed_same_model(name, trials):
    trial = trials[name]
    again = clone(trial.model).fit(*trial.train)
    np.testing.assert_array_equal(trial.model.predict(trial.test[0]), again.predict(trial.test[0]))


@every_regressor
def test_it_survives_pickling(name, trials):
    x = trials[name].test[0]
    restored = pickle.loads(pickle.dumps(trials[name].model))  # noqa: S301
    expected = trials[name].model.predict(x, return_std=True)
    np.testing.assert_array_equal(expected, restored.predict(x, return_std=True))


@every_regressor
def test_prediction_does_not_depend_on_the_batches(name, trials, monkeypatch):
    x = trials[name].test[0]
    expected = trials[name].model.predict(x, return_std=True)
    monkeypatch.setattr(comparison_base, "PREDICTION_BATCH", 7)
    np.testing.assert_allclose(trials[name].model.predict(x, return_std=True), expected, rtol=1e-9)


@every_regressor
def test_prediction_needs_a_fitted_model_and_its_number_of_features(name, trials):
    x = trials[name].test[0]
    with pytest.raises(NotFittedError):
        clone(REGRESSORS[name]).predict(x)
    with pytest.raises(ValueError, match="features"):
        trials[name].model.predict(np.hstack([x, x]))
    assert trials[name].model.n_features_in_ == 1


@pytest.mark.slow
def test_units_of_inputs_and_targets_do_not_matter():
    x, y = wave(1, 80)
    model = FITCRegressor(num_inducing=8, max_iterations=20, random_state=0)
    mean, std = clone(model).fit(x, y).predict(x, return_std=True)
    scaled = clone(model).fit(1000.0 * x - 5.0, 30.0 * y + 7.0).predict(1000.0 * x - 5.0, return_std=True)
    np.testing.assert_allclose(scaled[0], 30.0 * mean + 7.0, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(scaled[1], 30.0 * std, rtol=1e-4)


def test_global_settings_of_gpflow_do_not_matter():
    x, y = wave(10, 40)
    model = FITCRegressor(num_inducing=5, max_iterations=5, random_state=0)
    expected = clone(model).fit(x, y).predict(x)
    with gpflow.config.as_context(gpflow.config.Config(float=np.float32, jitter=1e-3)):
        np.testing.assert_array_equal(clone(model).fit(x, y).predict(x), expected)


@pytest.mark.parametrize("regressor", [FITCRegressor, PICRegressor, FGPRegressor])
def test_parameters_clone_and_text(regressor):
    model = regressor(num_inducing=7, random_state=3)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.get_params()["num_inducing"] == 7
    assert repr(model) == f"{regressor.__name__}(num_inducing=7, random_state=3)"


@pytest.mark.slow
def test_progress_is_shown_if_asked_for(capsys):
    x, y = wave(5, 40)
    FITCRegressor(5, max_iterations=12, random_state=0).fit(x, y)
    assert not capsys.readouterr().err
    FITCRegressor(5, max_iterations=12, random_state=0, verbose=1).fit(x, y)
    assert "/12 log evidence" in capsys.readouterr().err


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


AWKWARD = {name: data for name, *data in _awkward_data()}
QUICK = {"fewer points than inducing points", "duplicates", "constant column", "one distinct point"}


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(name, case, marks=() if name == "fitc" or case in QUICK else pytest.mark.slow)
        for name in REGRESSORS
        for case in AWKWARD
    ],
)
def test_awkward_data(name, case):
    x, y = AWKWARD[case]
    model = clone(REGRESSORS[name]).set_params(num_inducing=10, max_iterations=40).fit(x, y)
    mean, std = model.predict(np.vstack([x, x[:3] + 0.1]), return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0.0).all()
    assert np.abs(mean[: len(y)] - y).max() <= 3.0 * np.abs(y - np.mean(y)).max() + 1e-6


@every_regressor
@pytest.mark.parametrize("array", ["X", "y"])
def test_nan_is_refused(name, array):
    data = dict(zip(("X", "y"), wave(7, 20), strict=True))
    data[array] = np.where(np.arange(20).reshape(data[array].shape) == 3, np.nan, data[array])
    with pytest.raises(ValueError, match="NaN"):
        clone(REGRESSORS[name]).fit(**data)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (FITCRegressor(num_inducing=0), r"num_inducing must be .* but is 0"),
        (FITCRegressor(num_inducing="many"), r"num_inducing must be .* but is 'many'"),
        (FITCRegressor(max_iterations=0), r"max_iterations is 0"),
        (PICRegressor(num_blocks=2.5), r"num_blocks is 2.5"),
        (FGPRegressor(num_experts=0), r"num_experts is 0"),
    ],
)
def test_arguments_out_of_range_are_refused(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*wave(9, 20))


@pytest.mark.slow
@parametrize_with_checks([FITCRegressor()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@checks_of_a_family(PICRegressor(), FGPRegressor(num_experts=2))
def test_scikit_learn_checks_of_the_others(estimator, check):
    check(estimator)
