"""Rows that repeat each other: their form, and fits that do not tell a weight from a copy."""

import numpy as np
import pytest

from gpmodels import HGPRegressor, SVGPClassifier
from gpmodels.estimators.fitting.rows import merged_rows


def problem(size=40):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(size, 3))
    return x, (x[:, 0] + 0.3 * rng.normal(size=size) > 0).astype(np.float64), rng.integers(0, 4, size)


def test_order_copies_and_rows_of_no_weight_make_no_difference():
    x, y, weight = problem()
    groups = np.arange(40) % 3
    rows = np.random.default_rng(1).permutation(np.repeat(np.arange(40), weight))
    copies = merged_rows(x[rows], y[rows], np.ones(len(rows)), groups[rows])
    for copied, weighed in zip(copies, merged_rows(x, y, weight.astype(float), groups), strict=True):
        np.testing.assert_array_equal(copied, weighed)
    assert len(copies[0]) == np.count_nonzero(weight)
    assert copies[2].sum() == weight.sum()


def test_rows_that_differ_in_target_or_group_are_no_copies():
    x = np.zeros((4, 2))
    x[3] = -0.0
    y = np.array([0.0, 1.0, 0.0, 0.0])
    assert len(merged_rows(x, y, np.ones(4), None)[0]) == 2
    groups = np.array([0, 0, 1, 0])
    *_, weight, kept = merged_rows(x, y, np.ones(4), groups)
    assert sorted(weight) == [1.0, 1.0, 2.0]
    assert sorted(kept) == [0, 0, 1]


@pytest.mark.slow
def test_large_weights_do_not_make_a_larger_model():
    x, y, _ = problem()
    model = SVGPClassifier(max_iterations=2).fit(x, y, sample_weight=np.full(40, 5000.0))
    assert model.head_settings_["num_inducing"] == 40


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        SVGPClassifier(num_inducing=6, max_iterations=15, random_state=0),
        SVGPClassifier(num_inducing=6, max_iterations=15, random_state=0, optimizer="adam", batch_size=8),
        HGPRegressor(num_inducing=6, num_experts=2, max_iterations=15, random_state=0),
    ],
    ids=["L-BFGS", "batches", "experts"],
)
def test_weights_copies_and_order_give_one_model(model):
    x, y, weight = problem()
    if isinstance(model, HGPRegressor):
        y = y + x[:, 1] / 3.0  # whose mean depends on the order in its last digits
    rows = np.random.default_rng(3).permutation(np.repeat(np.arange(40), weight))

    def predicted():
        return model.predict_distribution(x)[
            "variance" if "Regressor" in type(model).__name__ else "probability"
        ]

    model.fit(x, y, sample_weight=weight)
    weighed = predicted()
    model.fit(x[rows], y[rows])
    np.testing.assert_allclose(predicted(), weighed, rtol=1e-6)
    assert np.ptp(weighed) > 1e-3
