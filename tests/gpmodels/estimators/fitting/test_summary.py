"""The summary gives the learned numbers in the data's own units."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from gpmodels import (
    AutoGPRegressor,
    DeepGPRegressor,
    DFGPRegressor,
    HGPRegressor,
    SVGPClassifier,
    SVGPRegressor,
)
from gpmodels.estimators.fitting.summary import MAX_FEATURES, describe

INPUT_UNITS = np.array([1.0, 1000.0])
TARGET_UNIT = 50.0


def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    return x * INPUT_UNITS + 3.0, TARGET_UNIT * (np.sin(2.0 * x[:, 0]) + 0.1 * rng.normal(size=80)) - 7.0


@pytest.fixture(scope="module")
def regressor():
    model = HGPRegressor(
        num_experts=3, num_inducing=6, num_expert_inducing=5, max_iterations=5, random_state=0
    ).fit(*data())
    head = model._trained_engine().head
    counts = head.expert_counts.numpy()
    assert counts.sum() == 80
    head.drop_experts(np.array([1]))
    head.expert_counts.assign([60, 0, 20])
    model.weights_ = head.get_weights()
    return model


@pytest.mark.slow
def test_numbers_are_those_of_the_head_in_the_units_of_the_data(regressor):
    summary = describe(regressor)
    head = regressor._trained_engine().head
    assert [unit.name for unit in summary.units] == ["global", "expert_1", "expert_3"]
    assert [unit.share for unit in summary.units] == [None, 0.75, 0.25]
    assert summary.dropped == ("expert_2",)
    shared, first, third = summary.units
    deviation = data()[0].std(axis=0)
    np.testing.assert_allclose(
        shared.lengthscales, head.global_unit.lengthscales.numpy()[0] * deviation, rtol=1e-12
    )
    np.testing.assert_allclose(
        third.lengthscales, head.experts.lengthscales.numpy()[2] * deviation, rtol=1e-12
    )
    target_deviation = data()[1].std()
    noise = np.sqrt(head.likelihood.noise_variance.numpy()) * target_deviation
    np.testing.assert_allclose(
        [shared.noise_deviation, first.noise_deviation, third.noise_deviation], noise[[0, 1, 3]]
    )
    np.testing.assert_allclose(
        third.kernel_deviation, np.sqrt(head.experts.variance.numpy()[2]) * target_deviation
    )
    np.testing.assert_allclose([unit.kl for unit in summary.units], head.prior_kl().numpy()[[0, 1, 3]])
    assert summary.iterations == regressor.n_iter_
    assert [unit.num_inducing for unit in summary.units] == [6, 5, 5]
    assert summary.bound_per_point == regressor.learning_curve_[-1].bound_per_point


def test_relevance_does_not_depend_on_the_units_and_weighs_experts_by_their_shares(regressor):
    summary = describe(regressor)
    shared, first, third = summary.units
    inverse = 1.0 / (first.lengthscales[0] / data()[0].std(axis=0))
    np.testing.assert_allclose(first.relevance, inverse / inverse.sum())
    expected = 0.5 * shared.relevance + 0.5 * (0.75 * first.relevance + 0.25 * third.relevance)
    np.testing.assert_allclose(summary.relevance(), expected)
    assert summary.relevance().sum() == pytest.approx(1.0)


def test_the_table_names_units_features_and_what_was_dropped(regressor):
    text = regressor.summary()
    for part in (
        "HGPRegressor",
        "2 experts in use, 1 dropped (expert_2)",
        "75.0%",
        "noise sd",
        "x0",
        "global",
    ):
        assert part in text
    assert "\nexpert_2" not in text
    # Columns are aligned.
    header, shared, first = text.split("\n\n")[1].splitlines()[:3]
    assert header.index("top features") == shared.index("x") == first.index("x", 8)


@pytest.mark.slow
def test_classes_have_a_kernel_each_no_noise_and_only_the_most_relevant_features_are_listed():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 12))
    y = np.digitize(x[:, 3], [-0.5, 0.5])
    model = SVGPClassifier(num_inducing=5, max_iterations=2, class_kernels="separate", random_state=0).fit(
        x, y
    )
    model.feature_names_in_ = np.array([f"column {d}" for d in range(12)], dtype=object)
    summary = describe(model)
    (unit,) = summary.units
    assert unit.lengthscales.shape == (3, 12)
    assert unit.kernel_deviation.shape == (3,)
    assert unit.noise_deviation is None
    text = str(summary)
    assert "noise" not in text
    assert "rows " not in text
    most = np.argsort(-summary.relevance())
    assert f"\ncolumn {most[0]} " in text
    assert f"\ncolumn {most[-1]} " not in text
    assert f"and {12 - MAX_FEATURES} less relevant features" in text


def test_an_estimator_that_is_not_fitted_has_no_summary():
    with pytest.raises(NotFittedError):
        SVGPClassifier().summary()


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("family", [SVGPRegressor, AutoGPRegressor])
def test_weights_that_held_out_rows_chose_are_told_by_their_iteration(family, monkeypatch, tmp_path):
    x, y = data()
    looks = iter([0.0, 1.0, 3.0, 2.0])  # the start, and after 10, 20 and 25 steps
    monkeypatch.setattr(family, "_judge", lambda _: lambda _, rows: np.full(len(rows), next(looks)))
    settings = {"optimizer": "adam", "early_stopping": True, "num_inducing": 5, "random_state": 0}
    model = family(max_iterations=25, **settings).fit(x, y)
    summary = describe(model)
    assert summary.bound_per_point == model.learning_curve_[19].bound_per_point
    text = str(summary)
    assert f"bound {summary.bound_per_point:.4f} nats per row after 20 of 25 iterations (chosen by" in text
    assert "experts" not in text
    model.save(tmp_path / "model.npz")
    assert str(describe(family.load(tmp_path / "model.npz"))) == text


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "settings"),
    [
        (AutoGPRegressor, {"optimizer": "lbfgs", "objective": "elbo"}),
        (SVGPRegressor, {"optimizer": "adam", "early_stopping": False}),
        (DFGPRegressor, {}),
        (DeepGPRegressor, {"early_stopping": False}),
    ],
)
def test_the_last_weights_are_told_by_the_last_bound(family, settings):
    model = family(num_inducing=5, max_iterations=8, random_state=0, **settings).fit(*data())
    bound = model.learning_curve_[-1].bound_per_point
    assert model.kept_iteration_ == model.n_iter_
    assert f" {bound:.4f} nats per row" in model.summary()
    assert f"after {model.n_iter_} iterations" in model.summary()
