"""Leave-one-out of fitted estimators: against q solved without a row, and the list of suspicious labels."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import DataConversionWarning, NotFittedError

from gpmodels import (
    AutoGPClassifier,
    DFGPClassifier,
    HGPClassifier,
    HGPRegressor,
    SVGPClassifier,
    SVGPRegressor,
)
from gpmodels.heads.gp import Points
from gpmodels.heads.linear_layer import linear_layer_of

SMALL = {"num_inducing": 8, "max_iterations": 20, "random_state": 0}


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [SVGPClassifier(**SMALL), HGPClassifier(num_experts=2, **SMALL)], ids=["svgp", "hgp"]
)
def test_classes_are_a_little_worse_than_seen(model, iris):
    left_out = model.fit(*iris).leave_one_out(*iris)
    seen = np.log(model.predict_proba(iris[0])[np.arange(150), iris[1]])
    assert left_out.shape == (150,)
    assert seen.mean() - 0.2 < left_out.mean() < seen.mean()


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [SVGPRegressor(**SMALL), HGPRegressor(num_experts=2, **SMALL)], ids=["svgp", "hgp"]
)
def test_regression_is_in_the_units_of_the_targets(model):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    y = np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=80)
    small = model.fit(x, y).leave_one_out(x, y)
    large = model.fit(x, 8 * y).leave_one_out(x, 8 * y)  # 8: nothing is rounded otherwise
    np.testing.assert_allclose(small - np.log(8.0), large, atol=1e-9)


@pytest.mark.slow
def test_equals_the_posterior_solved_without_the_row():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 2))
    y = np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=40)
    model = SVGPRegressor(**SMALL).fit(x, y)
    left_out = model.leave_one_out(x, y)
    engine = model._trained_engine()
    scaled, targets = (x - model.input_mean_) / model.input_scale_, model._targets(y)
    logits = linear_layer_of(engine.head, scaled, targets, np.ones(40), None).logits
    for n in (0, 7, 39):
        weight = np.ones(40)
        weight[n] = 0.0
        points = engine.points(scaled, targets, weight, logits)
        engine.set_best_posterior(points)
        left_out_row = Points(*(None if part is None else part[n : n + 1] for part in points))
        latent = engine.head.latent_at(left_out_row)
        expected = float(engine.head.log_predictive_density(latent, points.y[n : n + 1])[0])
        assert left_out[n] == pytest.approx(expected - np.log(model.target_scale_), abs=1e-7)


@pytest.mark.slow
@pytest.mark.slow
def test_a_group_is_left_out_as_a_whole():
    """As q solved without its rows and a layer that has not seen them; the fitted weights stay."""
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(8), 5)
    x = rng.normal(size=(8, 2))[group] + 0.1 * rng.normal(size=(40, 2))
    y = np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=8)[group]
    model = SVGPRegressor(**SMALL, effective_observations="all").fit(x, y)
    before = model.predict(x)
    left_out = model.leave_one_out(x, y, groups=group)
    np.testing.assert_array_equal(model.predict(x), before)
    engine = model._trained_engine()
    scaled, targets = (x - model.input_mean_) / model.input_scale_, model._targets(y)
    logits = linear_layer_of(engine.head, scaled, targets, np.ones(40), group).logits
    points = engine.points(scaled, targets, (group != 3).astype(float), logits)
    engine.set_best_posterior(points)
    own = Points(*(None if part is None else part[group == 3] for part in points))
    density = engine.head.log_predictive_density(engine.head.latent_at(own), own.y).numpy()
    np.testing.assert_allclose(left_out[group == 3], density - np.log(model.target_scale_), atol=1e-7)
    assert left_out.mean() < model.leave_one_out(x, y).mean() - 0.1


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [SVGPClassifier, HGPClassifier, pytest.param(AutoGPClassifier, marks=pytest.mark.exhaustive)]
)
def test_a_group_with_a_wrong_label_is_listed_if_it_is_left_out(kind):
    model = kind(num_inducing=20, max_iterations=40, random_state=0)
    rng = np.random.default_rng(0)
    group, centre, wrong = np.repeat(np.arange(30), 6), rng.normal(size=(30, 4)), [3, 11, 20]
    x = centre[group] + 0.05 * rng.normal(size=(180, 4))
    label = (centre[:, 0] > 0.0).astype(int)
    label[wrong] = 1 - label[wrong]
    model.fit(x, label[group], groups=group)
    alone = model.suspicious_labels(x, label[group])
    listed = model.suspicious_labels(x, label[group], groups=group)
    assert np.isin(group[listed], wrong).sum() >= 12 > np.isin(group[alone], wrong).sum()


@pytest.mark.slow
def test_groups_that_cannot_be_left_out_are_refused(iris):
    model = HGPClassifier(num_experts=2, e_step="soft", **{**SMALL, "max_iterations": 2}).fit(*iris)
    with pytest.raises(NotImplementedError, match="cannot be solved without a group"):
        model.leave_one_out(*iris, groups=np.arange(150) // 5)
    with pytest.raises(ValueError, match="groups must hold the group of each of the 150 rows"):
        model.leave_one_out(*iris, groups=np.arange(3))


@pytest.mark.slow
def test_a_column_of_labels_and_some_of_the_rows(iris):
    model = SVGPClassifier(**SMALL).fit(*iris)
    column = iris[1][:, None]
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):  # as in fit
        left_out = model.leave_one_out(iris[0], column)
    np.testing.assert_array_equal(left_out, model.leave_one_out(*iris))
    with pytest.raises(ValueError, match=r"These are 10 rows, but the fit had 150\. Pass"):
        model.leave_one_out(iris[0][:10], iris[1][:10])


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("make", [pytest.param(SVGPClassifier, marks=pytest.mark.slow), SVGPRegressor])
def test_rows_of_another_fit_are_refused_in_whatever_order(make, iris, tmp_path):
    """As many other rows, or labels in another order, would give numbers that look right."""
    x, y = iris
    model = make(num_inducing=8, max_iterations=5, random_state=0).fit(x, y)
    expected, order = model.leave_one_out(x, y), np.random.default_rng(0).permutation(150)
    np.testing.assert_allclose(model.leave_one_out(x[order], y[order]), expected[order], atol=1e-8)
    model.save(tmp_path / "model.npz")
    loaded = make.load(tmp_path / "model.npz")
    np.testing.assert_allclose(loaded.leave_one_out(x, y), expected)
    for one in (model, loaded):
        for rows in ((x, y[order]), (x + 1e-9, y)):
            with pytest.raises(ValueError, match="These are not the rows of the fit: inputs or targets"):
                one.leave_one_out(*rows)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, pytest.param({"class_weight": "balanced"}, marks=pytest.mark.slow)])
def test_other_weights_than_those_of_the_fit_are_refused(settings, iris, tmp_path):
    x, y = iris
    weight = np.random.default_rng(0).uniform(size=150)
    model = SVGPClassifier(num_inducing=8, max_iterations=5, random_state=0, **settings)
    model.fit(x, y, sample_weight=weight).save(tmp_path / "model.npz")
    loaded = SVGPClassifier.load(tmp_path / "model.npz")
    expected = model.leave_one_out(x, y, weight)
    np.testing.assert_allclose(loaded.leave_one_out(x[::-1], y[::-1], 0.3 * weight[::-1])[::-1], expected)
    for one in (model, loaded):
        for other in (None, weight[::-1]):
            with pytest.raises(ValueError, match="rows of the fit, but not with their weights"):
                one.leave_one_out(x, y, other)
    del loaded.weights_digest_  # as files of before have none
    assert np.isfinite(loaded.leave_one_out(x, y)).all()


def test_targets_are_converted_as_in_the_fit(iris):
    x, y = iris
    model = SVGPRegressor(num_inducing=8, max_iterations=5, random_state=0).fit(x, y)
    np.testing.assert_array_equal(model.leave_one_out(x, y.astype(str)), model.leave_one_out(x, y))
    with pytest.raises(ValueError, match="could not convert string to float"):
        model.leave_one_out(x, np.array(["long", "short", "wide"])[y])


@pytest.mark.slow
def test_weights_count_as_in_the_fit(iris):
    weight = np.ones(150)
    weight[:20] = 0.0
    model = SVGPClassifier(temperature=1.0, **SMALL).fit(*iris, sample_weight=weight)
    left_out = model.leave_one_out(*iris, sample_weight=weight)
    seen = np.log(model.predict_proba(iris[0])[np.arange(150), iris[1]])
    np.testing.assert_allclose(left_out[:20], seen[:20], atol=1e-8)  # they had no part in it
    assert left_out[20:].mean() < seen[20:].mean()


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_exchanged_labels_head_the_list(iris, class_weight):
    x, y = iris
    wrong = y.copy()
    exchanged = [3, 40, 110]
    wrong[exchanged] = [2, 1, 0]
    model = SVGPClassifier(class_weight=class_weight, **SMALL).fit(x, wrong)
    listed = model.suspicious_labels(x, wrong)
    assert set(listed[:3]) == set(exchanged)
    assert list(model.suspicious_labels(x, wrong, limit=2)) == list(listed[:2])
    left_out = model.leave_one_out(x, wrong)
    assert (np.diff(left_out[listed]) >= 0).all()


@pytest.mark.slow
def test_labels_may_be_strings(iris):
    names = np.array(["setosa", "versicolor", "virginica"])[iris[1]]
    model = SVGPClassifier(**SMALL).fit(iris[0], names)
    numbers = SVGPClassifier(**SMALL).fit(*iris)
    np.testing.assert_allclose(model.leave_one_out(iris[0], names), numbers.leave_one_out(*iris))


@pytest.mark.slow
def test_says_what_is_wrong(iris):
    model = SVGPClassifier(**SMALL)
    with pytest.raises(NotFittedError):
        model.leave_one_out(*iris)
    model.fit(*iris)
    for limit in (0, 1.5, True):
        with pytest.raises(ValueError, match=f"limit must be at least 1 and whole, or .*, but is {limit}"):
            model.suspicious_labels(*iris, limit=limit)
    with pytest.raises(ValueError, match="were not seen in fit"):
        model.leave_one_out(iris[0], iris[1] + 1)
    assert not hasattr(DFGPClassifier(), "leave_one_out")
