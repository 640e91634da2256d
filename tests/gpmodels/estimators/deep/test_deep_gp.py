"""The deep GP estimators: what they learn, repeat, refuse, save and say."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_is_fitted

from gpmodels import DeepGPClassifier, DeepGPRegressor, SVGPRegressor
from gpmodels.estimators.fitting.engine import Engine

APPROXIMATIONS = ("sparse", "random_features")
SMALL = {"num_inducing": 12, "num_features": 12, "random_state": 0, "max_iterations": 60}


def step_data(size: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """A step, which one stationary process has trouble with."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (size, 1))
    return x, np.sign(x[:, 0]) + 0.05 * rng.normal(size=size)


def moons(size: int = 200) -> tuple[np.ndarray, np.ndarray]:
    x, y = make_moons(size, noise=0.1, random_state=0)
    return x, np.array(["left", "right"])[y]


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_classes_are_learned_with_probabilities_of_the_mixture(approximation):
    x, y = moons()
    settings = SMALL | {"max_iterations": 250, "early_stopping": False}
    model = DeepGPClassifier(approximation=approximation, **settings).fit(x, y)
    assert model.score(x, y) > 0.95
    outputs = model.predict_distribution(x)
    engine_outputs = model._outputs(x)
    np.testing.assert_allclose(outputs["probability"][:, 1], engine_outputs["probability"])
    np.testing.assert_allclose(outputs["probability"].sum(axis=1), 1.0)
    assert set(outputs["label"]) == {"left", "right"}
    assert "layer_2" in model.summary()


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_targets_are_learned(approximation):
    x, y = step_data()
    settings = SMALL | {"max_iterations": 300, "early_stopping": False}
    model = DeepGPRegressor(approximation=approximation, **settings).fit(x, y)
    assert model.score(x, y) > 0.9
    mean, deviation = model.predict(x, return_std=True)
    assert np.mean(np.abs(y - mean) < 2.0 * deviation) > 0.85
    hidden, output = model.sample_layers(x[:20], 100)
    assert hidden.shape == output.shape == (100, 20, 1)
    drawn = output[..., 0] * model.target_scale_ + model.target_mean_
    assert (np.abs(drawn.mean(axis=0) - mean[:20]) < deviation[:20]).all()


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_few_noisy_rows_are_learned_and_not_overfitted(approximation):
    """With a small noise at the start rows held out preferred the start, which predicts a constant."""
    x, y = load_diabetes(return_X_y=True)
    x, test_x, y, test_y = train_test_split(x, y, random_state=0)
    settings = {"num_inducing": 40, "max_iterations": 200, "random_state": 0}
    model = DeepGPRegressor(approximation=approximation, **settings).fit(x, y)
    assert 0 < model.kept_iteration_ < 100  # what follows overfits
    assert model.score(test_x, test_y) > 0.25
    outputs = model.predict_distribution(test_x)
    squares = (test_y - outputs["mean"]) ** 2 / outputs["variance"]
    constant = np.log(np.std(y)) + 0.5 * np.mean((test_y - np.mean(y)) ** 2) / np.var(y)
    assert np.mean(0.5 * np.log(outputs["variance"]) + 0.5 * squares) < constant - 0.15


@pytest.mark.slow
def test_natural_gradients_reach_a_better_bound_from_one_start():
    x, y = step_data()
    settings = SMALL | {"early_stopping": False, "learning_rate": 0.01}
    natural, adam = (
        DeepGPRegressor(natural_gradient=step, **settings).fit(x, y).bound(x, y) for step in (0.1, 0.0)
    )
    assert natural > adam + 10.0


@pytest.mark.slow
def test_one_layer_reaches_the_bound_of_the_sparse_process():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (150, 1))
    y = np.sin(3.0 * x[:, 0]) + 0.1 * rng.normal(size=150)
    settings = {"num_inducing": 12, "random_state": 0}
    plain = SVGPRegressor(lengthscale_spread=None, **settings).fit(x, y)
    deep = DeepGPRegressor(
        num_layers=1, max_iterations=1000, learning_rate=0.05, early_stopping=False, **settings
    ).fit(x, y)
    assert plain.bound(x, y) - 5.0 < deep.bound(x, y) < plain.bound(x, y) + 0.1


@pytest.mark.slow
def test_equal_seeds_give_equal_models_and_calls():
    x, y = step_data(80)
    first, second = (DeepGPRegressor(**SMALL).fit(x, y) for _ in range(2))
    np.testing.assert_array_equal(first.predict(x), second.predict(x))
    np.testing.assert_array_equal(first.predict(x), first.predict(x))
    drawn, again = (model.sample_layers(x, 2, np.random.RandomState(3)) for model in (first, second))
    np.testing.assert_array_equal(drawn, again)
    assert np.all(first.sample_layers(x, 2, 4)[-1] != drawn[-1])
    with pytest.raises(ValueError, match="number of draws must be a positive whole number, but is 0"):
        first.sample_layers(x, 0)
    other = DeepGPRegressor(**(SMALL | {"random_state": 1})).fit(x, y)
    assert np.any(other.predict(x) != first.predict(x))


@pytest.mark.slow
def test_bound_does_not_depend_on_blocks(monkeypatch):
    x, y = step_data(80)
    model = DeepGPRegressor(**SMALL).fit(x, y)
    whole = model.bound(x, y)
    monkeypatch.setattr("gpmodels.estimators.deep.deep_gp.CHUNK", 160)
    assert model.bound(x, y) == pytest.approx(whole)
    assert model.bound(x, y, np.full(80, 2.0)) != pytest.approx(whole)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize("widths", [None, [2, 1]])
def test_file_round_trip(approximation, widths, tmp_path):
    x, y = moons(60)
    model = DeepGPClassifier(approximation=approximation, num_layers=3, widths=widths, **SMALL).fit(x, y)
    model.save(tmp_path / "model.npz")
    copy = DeepGPClassifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(copy.predict_proba(x), model.predict_proba(x))
    assert copy.get_params() == model.get_params() | {"log_dir": None}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_layers": 0}, "num_layers must be a positive integer, but is 0"),
        ({"widths": [1, 2]}, "each of the 1 inner layers"),
        ({"widths": [0]}, "widths must be at least 1"),
        ({"num_inducing": 0}, "num_inducing must be"),
        ({"num_features": 0, "approximation": "random_features"}, "num_features must be a positive integer"),
        ({"num_samples": 0}, "num_samples must be a positive integer"),
        ({"num_prediction_samples": 0}, "num_prediction_samples must be a positive integer"),
        ({"approximation": "exact"}, "approximation must be one of"),
        ({"natural_gradient": 1.5}, "natural_gradient must be the length"),
        ({"optimizer": "lbfgs"}, "Leave optimizer at 'auto'"),
        ({"mean_function": "cubic"}, "mean_function must be one of"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    x, y = step_data(20)
    with pytest.raises(ValueError, match=message):
        DeepGPRegressor(**(SMALL | settings)).fit(x, y)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"num_layers": 0}, {"mean_function": "cubic"}])
def test_failed_refit_leaves_no_old_model(settings):
    x, y = step_data(30)
    model = DeepGPRegressor(**(SMALL | {"max_iterations": 5})).fit(x, y)
    with pytest.raises(ValueError, match=next(iter(settings))):
        model.set_params(**settings).fit(x, y)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


@pytest.mark.slow
def test_divergence_during_a_refit_leaves_no_old_model(monkeypatch):
    x, y = step_data(30)
    model = DeepGPRegressor(natural_gradient=0.0, **(SMALL | {"max_iterations": 5})).fit(x, y)
    monkeypatch.setattr(Engine, "_adam_step", lambda *_: np.nan)
    with pytest.raises(FloatingPointError, match="Lower learning_rate"):
        model.set_params(dtype="float32").fit(x, y)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


@pytest.mark.slow
def test_a_fit_in_a_callback_changes_nothing():
    """Estimators of one configuration share what is compiled, with the moments of its optimiser."""
    x, y = step_data(60)
    settings = SMALL | {"max_iterations": 40}

    def fit_another(*_):
        DeepGPRegressor(**settings).fit(x[::-1] ** 2, y)

    alone = DeepGPRegressor(**settings).fit(x, y)
    watched = DeepGPRegressor(**settings).fit(x, y, callback=fit_another)
    for one, other in zip(alone.weights_, watched.weights_, strict=True):
        np.testing.assert_array_equal(one, other)
