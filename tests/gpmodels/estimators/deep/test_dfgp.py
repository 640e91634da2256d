"""The DFGP estimators: what they learn, views and their weights, files, TensorBoard, and what they refuse."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer

from gpmodels import DFGPClassifier, DFGPRegressor
from gpmodels.dfgp import head as dfgp_head
from gpmodels.estimators.fitting.summary import describe
from tests.gpmodels.scikit_learn_checks import checks_of_a_family

SMALL = {"num_inducing": 6, "num_hidden": 2, "max_iterations": 5, "random_state": 0}
VIEWS = [[0, 1], [2, 3], [4]]


@pytest.mark.slow
@checks_of_a_family(
    DFGPRegressor(**(SMALL | {"max_iterations": 3})),
    variants=[DFGPClassifier(**(SMALL | {"max_iterations": 3}))],
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def data(size: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Five columns in three views; the target is in the second view alone."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, 5)) * [1.0, 10.0, 1.0, 0.1, 1.0] + 3.0
    return x, np.sin(2 * (x[:, 2] - 3.0)) + 5 * (x[:, 3] - 3.0) + 0.1 * rng.normal(size=size)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("output_kernel", ["ard", "full", "linear"])
def test_regressor_learns_and_finds_the_view_that_matters(output_kernel):
    x, y = data()
    test, target = data(seed=1)
    model = DFGPRegressor(
        views=VIEWS, num_inducing=12, output_kernel=output_kernel, max_iterations=80, random_state=0
    ).fit(x, 100.0 * y)
    assert model.score(test, 100.0 * target) > 0.8
    assert model.view_weights_.sum() == pytest.approx(1.0)
    assert model.view_weights_[1] > 0.8
    mean, deviation = model.predict(test, return_std=True)
    assert 0.85 < np.mean(np.abs(mean - 100.0 * target) < 1.96 * deviation) < 0.99


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_classes", "posterior"), [(2, "gaussian"), (2, "point"), (3, "gaussian"), (3, "point")]
)
def test_classifier_learns(num_classes, posterior):
    x, y = data()
    test, target = data(seed=1)
    edges = np.quantile(y, np.arange(1, num_classes) / num_classes)
    names = np.array(["low", "middle", "top"])
    model = DFGPClassifier(
        views=VIEWS, num_inducing=12, hidden_posterior=posterior, max_iterations=80, random_state=0
    ).fit(x, names[np.digitize(y, edges)])
    assert model.score(test, names[np.digitize(target, edges)]) > 0.8
    outputs = model.predict_distribution(test)
    np.testing.assert_allclose(outputs["probability"].sum(axis=1), 1.0, rtol=1e-9)
    np.testing.assert_array_equal(outputs["label"], model.predict(test))
    assert model.view_weights_[1] > 0.8


@pytest.mark.slow
def test_lengthscales_of_hidden_units_are_learned_or_stay_at_the_median_distance():
    x, y = data(80)
    settings = {"views": VIEWS, "num_inducing": 6, "max_iterations": 5, "random_state": 0}
    for lengthscales in ("learned", "median"):
        model = DFGPClassifier(**settings, hidden_lengthscales=lengthscales).fit(x, y > y.mean())
        rows = (x - model.input_mean_) / model.input_scale_
        medians = [np.median(pdist(rows[:, view])) for view in VIEWS]
        learned = model._trained_engine().head.hidden.lengthscales()
        stays = [np.allclose(one, median, rtol=1e-6) for one, median in zip(learned, medians, strict=True)]
        assert stays == [lengthscales == "median"] * len(VIEWS)


@pytest.mark.slow
def test_probabilities_have_both_tails_and_are_the_heads_own():
    x, y = data(100)
    model = DFGPClassifier(**SMALL).fit(x, y > y.mean())
    outputs = model.predict_distribution(x)
    head = model._trained_engine().head
    own = head((x - model.input_mean_) / model.input_scale_)["probability"]
    np.testing.assert_allclose(outputs["probability"][:, 1], own, rtol=1e-9)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("weight", [1.0, 0.1])
@pytest.mark.parametrize("kind", [DFGPRegressor, DFGPClassifier])
def test_bound_of_the_fit_is_the_bound_at_the_training_rows(kind, weight):
    x, y = data(80)
    target = y if kind is DFGPRegressor else y > 0
    fitted = kind(**SMALL, hidden_kl_weight=weight).fit(x, target)
    assert fitted.bound(x, target) == pytest.approx(80 * fitted.learning_curve_[-1].bound_per_point, rel=1e-6)
    warm_up = len(dfgp_head.WARM_UP_WEIGHTS) * (SMALL["max_iterations"] // 4)
    values = [point.bound_per_point for point in fitted.learning_curve_[warm_up:]]
    assert values == sorted(values)


def few_rows() -> tuple[np.ndarray, np.ndarray]:
    """Forty rows of thirty columns, of which the divergences of the hidden units could make nothing."""
    x, y = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:40]
    return x[rows], y[rows]


@pytest.mark.slow
def test_the_warm_up_finds_what_a_fit_with_the_whole_divergence_misses(monkeypatch):
    x, y = few_rows()
    model = DFGPClassifier(num_inducing=10, max_iterations=40, random_state=0)
    warm = model.fit(x, y).bound(x, y)
    assert model.score(x, y) > 0.9
    assert model._trained_engine().warm_up.numpy() == 1.0
    monkeypatch.setattr(dfgp_head, "WARM_UP_WEIGHTS", ())
    cold = model.fit(x, y).bound(x, y)
    assert cold < -0.67 * 40  # as good as log 1/2 for each row
    assert warm > cold + 5.0


@pytest.mark.slow
def test_the_learning_curve_shows_the_whole_bound_in_the_warm_up_too(monkeypatch):
    """Iteration 10 lies in the warm-up, of 12 of the 48 iterations."""
    x, y = data(60)
    monkeypatch.setattr(dfgp_head, "WARM_UP_WEIGHTS", (0.1,))
    bounds: list[float] = []
    model = DFGPRegressor(**(SMALL | {"max_iterations": 48}))
    model.fit(x, y, callback=lambda fitted, _: bounds.append(fitted.bound(x, y)))
    told = [p.bound_per_point for p in model.learning_curve_ if p.iteration % 10 == 0]
    np.testing.assert_allclose(np.array(bounds[: len(told)]) / 60, told, rtol=1e-6)


@pytest.mark.slow
def test_a_fit_of_the_same_configuration_in_a_callback_changes_nothing():
    """Both share an engine; iteration 10 lies in the warm-up."""
    x, y = data(60)
    settings = SMALL | {"max_iterations": 60}

    def fit_another(_, iteration):
        if iteration == 10:
            DFGPRegressor(**settings).fit(x[:30], y[:30])

    alone = DFGPRegressor(**settings).fit(x, y)
    watched = DFGPRegressor(**settings).fit(x, y, callback=fit_another)
    np.testing.assert_allclose(watched.predict(x), alone.predict(x), rtol=1e-9)


@pytest.mark.slow
def test_mini_batches():
    x, y = data(400)
    model = DFGPRegressor(
        **(SMALL | {"num_inducing": 12}), views=VIEWS[:2], optimizer="adam", batch_size=64
    ).set_params(num_hidden=None, max_iterations=60)
    assert model.fit(x, y).score(x, y) > 0.7


@pytest.mark.slow
def test_weight_zero_is_absence():
    x, y = data(60)
    weight = np.ones(60)
    weight[40:] = 0.0
    whole = DFGPRegressor(**SMALL).fit(x, y, sample_weight=weight)
    part = DFGPRegressor(**SMALL).fit(x[:40], y[:40])
    np.testing.assert_allclose(whole.predict(x), part.predict(x), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(whole.view_weights_, part.view_weights_, rtol=1e-6)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("views", [[slice(0, 2), np.array([2, 4])], [[0, 1], (2, 4)], [range(2), [2, 4]]])
def test_views_in_any_form_survive_a_file(views, tmp_path):
    x, y = data(60)
    model = DFGPClassifier(**(SMALL | {"num_hidden": None}), views=views).fit(x, y > 0)
    model.save(tmp_path / "model.npz")
    loaded = DFGPClassifier.load(tmp_path / "model.npz")
    assert loaded.views == [[0, 1], [2, 4]]
    for name, value in model.predict_distribution(x).items():
        np.testing.assert_array_equal(loaded.predict_distribution(x)[name], value)
    np.testing.assert_array_equal(loaded.view_weights_, model.view_weights_)
    assert loaded.summary() == model.summary()
    assert clone(loaded).fit(x, y > 0).score(x, y > 0) == model.score(x, y > 0)


@pytest.mark.slow
def test_tensorboard_has_the_tags_of_every_unit(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: PLC0415 - slow

    x, y = data(60)
    log_dir = tmp_path / "log"
    settings = SMALL | {"num_hidden": None, "max_iterations": 20, "tolerance": 0.0}
    DFGPRegressor(**settings, views=VIEWS, log_dir=str(log_dir)).fit(x, y)
    events = EventAccumulator(str(log_dir))
    events.Reload()
    units = ("hidden_1", "hidden_2", "hidden_3", "output")
    expected = {f"{kind}/{unit}" for kind in ("kl", "median_lengthscale") for unit in units}
    assert expected | {"bound_per_point/training", "bound/training"} <= set(events.Tags()["tensors"])


@pytest.mark.slow
def test_summary_shows_views_by_weight():
    x, y = data(60)
    model = DFGPRegressor(**(SMALL | {"num_hidden": None}), views=[[0, 1, 2], [3], [4, 0]]).fit(x, y)
    lines = model.summary().splitlines()
    assert lines[0] == (
        "DFGPRegressor: squared_exponential hidden kernels, ard output kernel, gaussian likelihood"
    )
    table = {line.split()[0]: line for line in lines[5:]}
    assert set(table) == {"hidden_1", "hidden_2", "hidden_3", "output"}
    assert "0 to 2" in table["hidden_1"]
    assert f"{model.view_weights_[2]:.1%}" in table["hidden_3"]
    with pytest.raises(TypeError, match="Call its summary"):
        describe(model)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_hidden": 0}, "num_hidden must be a positive integer, but is 0"),
        ({"num_inducing": "auto"}, "num_inducing must be a positive integer, but is 'auto'"),
        ({"num_hidden_inducing": 2.5}, "num_hidden_inducing must be a positive integer"),
        ({"output_kernel": "matern52"}, "no closed form"),
        ({"views": [[7]], "num_hidden": None}, "has column 7, but there are 5 features"),
        ({"hidden_posterior": "none"}, "hidden_posterior must be one of"),
        ({"hidden_kl_weight": 2.0}, "hidden_kl_weight must be above 0 and at most 1"),
        ({"optimizer": "sgd"}, "optimizer must be one of"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        DFGPRegressor(**(SMALL | settings)).fit(*data(20))
