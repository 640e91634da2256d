"""The linear layer of an estimator against NumPy, and what its cross-fitted logits have seen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from gpmodels import SVGPClassifier, SVGPHead
from gpmodels.heads import linear_layer
from gpmodels.heads.cross_folds import cross_folds
from gpmodels.heads.linear_layer import (
    PROBIT_SCALE,
    LinearLayer,
    LinearRows,
    best_factor,
    fit_linear_layer,
    linear_layer_of,
    log_loss,
    penalty_costs,
)


def _rows(num_rows: int, num_columns: int, seed: int = 0) -> LinearRows:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(num_rows, num_columns))
    y = x[:, 0] - 0.5 * x[:, 1] + 0.3 * rng.normal(size=num_rows)
    return LinearRows(x, y, rng.uniform(0.5, 2.0, num_rows))


def _ridge(rows: LinearRows, penalty: float) -> tuple[np.ndarray, float]:
    """Return weights and bias of ridge regression by the normal equations, the bias without a penalty."""
    x = np.column_stack([rows.x, np.ones(len(rows.y))])
    gram = x.T @ (rows.weight[:, None] * x) + penalty * np.diag([*np.ones(rows.x.shape[1]), 0.0])
    solved = np.linalg.solve(gram, x.T @ (rows.weight * rows.y))
    return solved[:-1], float(solved[-1])


@pytest.mark.parametrize("num_columns", [3, 60])
def test_ridge_and_its_cross_fitted_logits_are_those_of_the_normal_equations(num_columns: int) -> None:
    rows = _rows(40, num_columns)
    fold = np.arange(40) % 5
    layer = fit_linear_layer(rows, fold, "gaussian")
    kernel, bias = _ridge(rows, layer.penalty)
    np.testing.assert_allclose(layer.kernel[:, 0], kernel, atol=1e-8)
    np.testing.assert_allclose(layer.bias, bias, atol=1e-8)
    for number in range(5):
        held_out = fold == number
        kernel, _ = _ridge(rows.at(~held_out), layer.penalty)  # its weights, and the intercept of all rows
        np.testing.assert_allclose(layer.logits[held_out, 0], rows.x[held_out] @ kernel + bias, atol=1e-8)


@pytest.mark.parametrize("num_columns", [4, 50])
def test_logits_of_a_fold_are_those_of_a_logistic_regression_on_the_others(num_columns: int) -> None:
    rows = _rows(40, num_columns)
    rows = rows._replace(y=(rows.y > 0.2).astype(float))
    fold = cross_folds(rows.x, rows.y, None, np.random.default_rng(0), is_class=True)
    layer = fit_linear_layer(rows, fold, "logistic")
    expected = np.empty([40, 1])
    model = LogisticRegression(C=1.0 / layer.penalty, max_iter=5000, tol=1e-8)
    intercept = model.fit(*rows).intercept_.copy()  # of all rows
    for number in range(5):
        model.fit(*rows.at(fold != number))
        expected[fold == number, 0] = rows.x[fold == number] @ model.coef_[0] + intercept
    factor = best_factor(expected, rows.y, rows.weight)
    np.testing.assert_allclose(layer.logits, factor * expected, rtol=0.02, atol=0.02)
    probit = fit_linear_layer(rows, fold, "bernoulli")
    np.testing.assert_allclose(probit.logits, PROBIT_SCALE * layer.logits)


def test_groups_are_held_out_whole_and_equal_rows_together() -> None:
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=(20, 2)), 2, axis=0)
    y = np.repeat(np.arange(20) % 2, 2).astype(float)
    fold = cross_folds(x, y, None, np.random.default_rng(1), is_class=True)
    assert (fold[::2] == fold[1::2]).all()
    groups = np.repeat(np.arange(8), 5)
    fold = cross_folds(x, y, groups, np.random.default_rng(1), is_class=True)
    assert all(len(np.unique(fold[groups == group])) == 1 for group in range(8))
    assert len(np.unique(fold)) == 5


@given(st.integers(0, 2**16), st.integers(2, 30))
def test_folds_do_not_depend_on_the_order_of_rows(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(count, 2)), rng.integers(0, 2, count).astype(float)
    order = rng.permutation(count)
    fold, shuffled = (
        cross_folds(x[index], y[index], None, np.random.default_rng(0), is_class=True)
        for index in (np.arange(count), order)
    )
    np.testing.assert_array_equal(fold[order], shuffled)


def test_a_class_of_few_groups_is_spread_over_the_folds() -> None:
    """Of ten groups the last two are of class 1: by size alone they could fall into one fold."""
    groups = np.repeat(np.arange(10), 15)
    y = (groups >= 8).astype(np.float64)
    fold = cross_folds(np.zeros([150, 1]), y, groups, np.random.default_rng(0), is_class=True)
    for number in range(5):
        assert set(y[fold != number]) == {0.0, 1.0}


def test_the_prior_of_the_penalty_decides_where_rows_do_not(monkeypatch) -> None:
    """Separable rows gain without end by less penalty, and rows of no signal by more of it."""
    x = np.linspace(-3.0, 3.0, 40)[:, None]
    noise = np.random.default_rng(0).random(40) > 0.5
    rows = [LinearRows(x, y.astype(np.float64), np.ones(40)) for y in (x[:, 0] > 0.0, noise)]

    def penalties() -> list[float]:
        return [fit_linear_layer(part, np.arange(40) % 5, "logistic").penalty for part in rows]

    separable, of_noise = penalties()
    assert 0.2 < separable < 1.0 <= of_noise < 4.0
    monkeypatch.setattr(linear_layer, "PENALTY_DEVIATION", 1e9)
    ends = linear_layer.LOGISTIC_PENALTIES
    assert penalties() == [ends.min(), ends.max()]


def test_rows_of_a_group_count_as_the_observations_that_they_are_worth() -> None:
    """Copies of a row in one group tell of the penalty what the row alone does, and more without groups."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(24, 3))
    y = (x[:, 0] + 0.5 * rng.normal(size=24) > 0.0).astype(np.float64)
    times = 30
    groups = np.repeat(np.arange(24), times)
    logits = np.zeros([len(linear_layer.LOGISTIC_PENALTIES), 24 * times, 1])
    copies = LinearRows(np.repeat(x, times, axis=0), np.repeat(y, times), np.ones(24 * times))
    prior = penalty_costs(linear_layer.LOGISTIC_PENALTIES)
    counts = (
        (None, groups, 24),
        (None, None, 24 * times),
        (None, np.zeros_like(groups), 1),
        (0.1, groups, 72),
    )
    for share, who, count in counts:
        _, costs = linear_layer._logistic_costs(share, who, logits, copies)
        np.testing.assert_allclose(costs - prior, count * np.log(2.0), rtol=1e-9)


@pytest.mark.slow
def test_an_estimator_counts_rows_of_a_group_once_as_what_they_are_worth(monkeypatch) -> None:
    """Its likelihood counts N_eff rows, and so does the choice of the penalty."""
    counted = []
    costs = linear_layer._logistic_costs

    def watched(share, groups, logits, rows):
        counted.append(share * rows.weight.sum())
        return costs(share, groups, logits, rows)

    monkeypatch.setattr(linear_layer, "_logistic_costs", watched)
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 10)
    x = rng.normal(size=(12, 3))[groups] + 0.01 * rng.normal(size=(120, 3))
    y = (rng.random(12) > 0.5).astype(int)[groups]
    for effective in ("auto", "all", 30.0):
        model = SVGPClassifier(random_state=0, max_iterations=1, effective_observations=effective)
        model.fit(x, y, groups=groups)
        assert counted.pop() == pytest.approx(model.effective_observations_)
    assert model.effective_observations_ == 30.0


def test_a_class_that_a_fold_alone_has_gets_a_small_logit() -> None:
    rng = np.random.default_rng(0)
    y = np.array([0.0] * 10 + [1.0] * 10 + [2.0])
    x = y[:, None] + 0.1 * rng.normal(size=(21, 1))
    fold = np.arange(21) % 5
    layer = fit_linear_layer(LinearRows(x, y, np.ones(21)), fold, "softmax", 3)
    assert np.isfinite(layer.logits).all()
    assert layer.logits[20, 2] < layer.logits[20].max()
    assert layer.kernel.shape == (1, 3)


def test_rows_of_one_class_in_all_but_one_fold_are_no_error() -> None:
    y = np.array([0.0] * 9 + [1.0])
    x = np.random.default_rng(0).normal(size=(10, 2))
    layer = fit_linear_layer(LinearRows(x, y, np.ones(10)), np.arange(10) % 5, "logistic")
    assert np.isfinite(layer.logits).all()
    assert layer.logits[9] < 0.0


@pytest.mark.slow
def test_one_against_the_rest_is_a_layer_for_each_class() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60).astype(float)
    x = np.eye(3)[y.astype(int)] + 0.3 * rng.normal(size=(60, 3))
    fold = np.arange(60) % 5
    layer = fit_linear_layer(LinearRows(x, y, np.ones(60)), fold, "noisy_probit", 3)
    single = fit_linear_layer(LinearRows(x, (y == 1).astype(float), np.ones(60)), fold, "noisy_probit")
    np.testing.assert_allclose(layer.kernel[:, 1], single.kernel[:, 0])
    np.testing.assert_allclose(layer.logits[:, 1], single.logits[:, 0])


def test_few_rows_that_are_told_apart_do_not_make_logits_sure() -> None:
    logits = np.array([[-1.0], [-1.2], [1.0], [1.1]])
    y = np.array([0.0, 0.0, 1.0, 1.0])
    factor = best_factor(logits, y, np.ones(4))
    assert 1.0 < factor < 1.3
    assert log_loss(factor * logits, y, np.ones(4)) < log_loss(logits, y, np.ones(4))


@pytest.mark.slow
def test_groups_of_one_class_do_not_turn_the_logits_round() -> None:
    """Without a group of one class the others' intercept leans to the other class; the logits keep one."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(10), 8)
        y = (groups % 2).astype(np.float64)
        x = rng.normal(size=(80, 4))  # says nothing of the class
        fold = cross_folds(x, y, groups, rng, is_class=True)
        for held in np.unique(fold):
            assert set(y[fold != held]) == {0.0, 1.0}
            assert np.mean(y[fold == held]) == 0.5  # two groups in each part, one of each class
        layer = fit_linear_layer(LinearRows(x, y, np.ones(80)), fold, "logistic")
        assert log_loss(layer.logits, y, np.ones(80)) < 0.75
        turned = [log_loss(-factor * layer.logits, y, np.ones(80)) for factor in (1.0, 10.0, 100.0)]
        assert min(turned) > 0.6  # logits that lean against each row's own label would tell it this way


def test_of_very_many_rows_a_part_is_fitted_and_the_others_get_its_logits(monkeypatch) -> None:
    monkeypatch.setattr("gpmodels.heads.linear_layer.MOST_VALUES", 1)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 3))
    y = (x[:, 0] > 0.0).astype(np.float64)
    head = SVGPHead(num_inducing=3)
    head.build((None, 3))
    layer = linear_layer_of(head, x, y, np.ones(1500), None)
    own = x @ layer.kernel + layer.bias
    unseen = np.isclose(layer.logits, own).all(axis=1)
    assert 450 < unseen.sum() < 560  # of 1500 rows 1000 were fitted
    assert np.mean((layer.logits[:, 0] > 0.0) == (y > 0.5)) > 0.95


def test_the_one_logit_of_two_classes_serves_the_two_functions_of_a_softmax():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(60, 3))
    y = (x[:, 0] + rng.normal(size=60) > 0.0).astype(np.float64)
    layers = []
    for likelihood in ("logistic", "softmax"):
        head = SVGPHead(likelihood=likelihood, mean_posterior=True, dtype="float64")
        head.build((None, 3))
        layer = linear_layer_of(head, x, y, np.ones(60), None)
        assert layer is not None
        assert layer.covariance is not None
        layers.append((layer, layer.covariance.of(x)))
    (one, variance), (both, of_both) = layers
    np.testing.assert_allclose(both.logits[:, 1] - both.logits[:, 0], one.logits[:, 0], rtol=1e-12)
    np.testing.assert_allclose(both.kernel[:, 1] - both.kernel[:, 0], one.kernel[:, 0], rtol=1e-12)
    np.testing.assert_allclose(both.bias[1] - both.bias[0], one.bias[0], rtol=1e-12)
    np.testing.assert_allclose(of_both.sum(axis=1), variance[:, 0], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.1, 10.0])
def test_held_out_rows_choose_how_much_the_variance_of_the_weights_counts(size, monkeypatch):
    """Rows that the layer tells apart choose none, and the one that they choose costs least of all."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(60, 20))
    y = (size * x[:, 0] + rng.normal(size=60) > 0.0).astype(np.float64)
    rows, fold = LinearRows(x, y, np.ones(60)), np.arange(60) % 5

    def cost(layer: LinearLayer) -> float:
        assert layer.logit_variance is not None
        return log_loss(layer.logits / np.sqrt(1.0 + np.pi / 8.0 * layer.logit_variance), y, np.ones(60))

    monkeypatch.setattr(linear_layer, "best_factor", lambda *_: 1.0)
    chosen = fit_linear_layer(rows, fold, "logistic", uncertain=True)
    for share in linear_layer.VARIANCE_SHARES:
        monkeypatch.setattr(linear_layer, "VARIANCE_SHARES", (share,))
        assert cost(chosen) <= cost(fit_linear_layer(rows, fold, "logistic", uncertain=True)) + 1e-12
