"""Training by Adam on mini-batches: batches, early stopping, a bound that breaks, agreement with L-BFGS."""

import math

import numpy as np
import pytest

from gpmodels import SVGPClassifier, SVGPRegressor
from gpmodels.estimators.fitting import mini_batch
from gpmodels.estimators.fitting.mini_batch import (
    PATIENCE,
    Rows,
    _batches,
    fit_mini_batch,
    log_densities,
    warm_start,
)

ADAM = {"num_inducing": 10, "optimizer": "adam", "random_state": 0}


def data(size=300):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(size, 2))
    return x, np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] + 0.1 * rng.normal(size=size)


def rows(x, y, weight=None):
    weight = np.ones(len(x)) if weight is None else weight
    return Rows(x, y, weight, np.array([1.0, 2.0]), np.array([2.0, 4.0]))


class Monitor:
    def __init__(self):
        self.bounds, self.validation = [], []

    def report(self, bound, *, validation=math.nan, prepare=None):
        assert callable(prepare)
        self.bounds.append(bound)
        self.validation.append(validation)


def trained(engine, training, held_out=None, **settings):
    monitor = Monitor()
    settings = {"batch_size": 50, "max_iterations": 40, "learning_rate": 0.05} | settings
    fit_mini_batch(engine, training, held_out, monitor, rng=np.random.default_rng(0), **settings)
    return monitor


@pytest.fixture(scope="module")
def estimator():
    return SVGPRegressor(max_iterations=1, **ADAM).fit(*data(60))


@pytest.fixture
def engine(estimator):
    x, _ = data(60)
    engine = estimator._engine(2)
    engine.reset()
    engine.warm_up.assign(1.0)
    engine.head.initialize(x, seed=0)
    return engine


def test_each_row_comes_once_an_epoch():
    batches = _batches(10, 5, np.random.default_rng(0))
    first, second = (np.concatenate([next(batches) for _ in range(2)]) for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(10))
    assert first.tolist() != second.tolist()


def test_the_last_rows_of_an_epoch_wait_for_the_next_one():
    batches = _batches(7, 3, np.random.default_rng(0))
    seen = [next(batches) for _ in range(40)]
    assert {len(batch) for batch in seen} == {3}
    assert set(np.concatenate(seen)) == set(range(7))


def test_rows_are_standardised_as_they_are_taken():
    x, y = data(20)
    taken = rows(x, y).take(slice(3, 5), "float64")
    np.testing.assert_allclose(taken[0], (x[3:5] - [1.0, 2.0]) / [2.0, 4.0])
    np.testing.assert_array_equal(taken[1], y[3:5])
    assert len(rows(x, y).subset(np.array([1, 4]))) == 2


def test_chunks_cover_all_rows(monkeypatch):
    monkeypatch.setattr(mini_batch, "CHUNK", 8)
    x, y = data(20)
    parts = [y[chunk] for chunk in rows(x, y).chunks()]
    assert [len(part) for part in parts] == [8, 8, 4]
    np.testing.assert_array_equal(np.concatenate(parts), y)


@pytest.mark.slow
def test_densities_are_the_same_whatever_the_chunks(engine, monkeypatch):
    x, y = data(20)
    whole = log_densities(engine, rows(x, y))
    assert whole.shape == (20,)
    monkeypatch.setattr(mini_batch, "CHUNK", 7)
    np.testing.assert_allclose(log_densities(engine, rows(x, y)), whole, rtol=1e-12)
    np.testing.assert_allclose(log_densities(engine, rows(x[3:4], y[3:4])), whole[3:4], rtol=1e-12)


@pytest.mark.slow
def test_bound_grows(engine):
    x, y = data()
    monitor = trained(engine, rows(x, y), max_iterations=150)
    assert len(monitor.bounds) == 150
    assert np.mean(monitor.bounds[-20:]) > np.mean(monitor.bounds[:20]) + 0.5


@pytest.mark.slow
def test_early_stopping_keeps_the_best_weights(engine, monkeypatch):
    """Held-out rows that have nothing to do with the training rows: their density soon falls."""
    monkeypatch.setattr(mini_batch, "CHECKS", 100)
    monkeypatch.setattr(mini_batch, "CALLBACK_INTERVAL", 1)
    x, y = data()
    held_out = rows(x[:50], np.random.default_rng(1).normal(scale=3.0, size=50))
    start = log_densities(engine, held_out).mean()
    monitor = trained(engine, rows(x, y), held_out, max_iterations=100)
    assert not np.isnan(monitor.validation).any()
    looks = np.array(monitor.validation)
    assert len(looks) < 100
    assert int(np.argmax(looks)) == len(looks) - 1 - PATIENCE
    best = max(start, looks.max())  # the start is a candidate too
    assert log_densities(engine, held_out).mean() == pytest.approx(best, rel=1e-9)
    assert looks[-1] < best


def test_early_looks_are_doubled_until_the_regular_ones_and_end_no_fit(engine, monkeypatch):
    """Weights of an early look are kept; a fit ends by the regular ones alone, the first of which is best."""
    monkeypatch.setattr(mini_batch, "CALLBACK_INTERVAL", 11)
    held_out_rows = iter([np.zeros(50), np.full(50, 0.5), *([np.full(50, 0.1)] * 20)])
    monkeypatch.setattr(mini_batch, "log_densities", lambda *_: next(held_out_rows))
    x, y = data()
    monitor = Monitor()
    kept = fit_mini_batch(
        engine,
        rows(x, y),
        rows(x[:50], y[:50]),
        monitor,
        batch_size=50,
        max_iterations=300,
        learning_rate=0.05,
        rng=np.random.default_rng(0),
        first_look=3,
    )
    looks = [number for number, value in enumerate(monitor.validation, 1) if not math.isnan(value)]
    assert looks == [3, 6, *range(11, 11 * (PATIENCE + 1) + 1, 11)]
    assert kept == 3


@pytest.mark.parametrize(("test", "kept"), [(None, 20), (lambda now, start, _: now.min() > start.min(), 10)])
def test_weights_replace_the_start_only_where_they_may(engine, monkeypatch, test, kept):
    """After 10 steps all rows gain a little; after 20 more in the mean, but for one that loses a lot."""
    looks = iter([np.zeros(50), np.full(50, 0.1), np.r_[np.full(49, 0.5), -15.0]])
    monkeypatch.setattr(mini_batch, "CALLBACK_INTERVAL", 10)
    monkeypatch.setattr(mini_batch, "log_densities", lambda *_: next(looks))
    x, y = data()
    found = fit_mini_batch(
        engine,
        rows(x, y),
        rows(x[:50], y[:50]),
        Monitor(),
        batch_size=40,
        max_iterations=20,
        learning_rate=0.01,
        rng=np.random.default_rng(0),
        may_replace_start=test,
    )
    assert found == kept


@pytest.mark.parametrize("density", [-np.inf, np.nan])
def test_anything_may_replace_a_start_that_holds_a_row_impossible(engine, monkeypatch, density):
    looks = iter([np.r_[np.zeros(49), density], np.full(50, -9.0), np.full(50, -10.0)])
    monkeypatch.setattr(mini_batch, "CALLBACK_INTERVAL", 10)
    monkeypatch.setattr(mini_batch, "log_densities", lambda *_: next(looks))
    x, y = data()
    settings = {"batch_size": 40, "max_iterations": 20, "learning_rate": 0.01}
    found = fit_mini_batch(
        engine,
        rows(x, y),
        rows(x[:50], y[:50]),
        Monitor(),
        rng=np.random.default_rng(0),
        may_replace_start=lambda *_: False,
        **settings,
    )
    assert found == 10


def test_a_start_that_is_hard_to_beat_does_not_end_training(engine, monkeypatch):
    """Looks below the start's that get better and better are no stall."""
    densities = iter([0.0, *np.linspace(-3.0, -1.0, 20)])
    monkeypatch.setattr(mini_batch, "CALLBACK_INTERVAL", 1)
    monkeypatch.setattr(
        mini_batch, "log_densities", lambda _, held_out: np.full(len(held_out), next(densities))
    )
    x, y = data()
    before = engine.head.get_weights()
    monitor = trained(engine, rows(x, y), rows(x[:50], y[:50]), max_iterations=20)
    assert len(monitor.bounds) == 20
    for now, start in zip(engine.head.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, start)  # none was better, so that the start is kept


def test_the_judge_decides_and_the_steps_that_were_kept_are_returned(engine, monkeypatch):
    monkeypatch.setattr(mini_batch, "CALLBACK_INTERVAL", 1)
    said = iter([0.0, 1.0, 3.0, 2.0, 2.5])
    x, y = data()
    every = rows(x, y)
    settings = {"batch_size": 50, "max_iterations": 4, "learning_rate": 0.01}
    rng = np.random.default_rng(0)

    def judge(_, held_out):
        return np.full(len(held_out), next(said))

    assert fit_mini_batch(engine, every, every, Monitor(), judge=judge, rng=rng, **settings) == 2
    weights = engine.head.get_weights()
    assert fit_mini_batch(engine, every, None, Monitor(), stop_after=0, rng=rng, **settings) == 0
    for now, before in zip(engine.head.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(now, before)
    monitor = Monitor()
    assert fit_mini_batch(engine, every, None, monitor, stop_after=3, rng=rng, **settings) == 3
    assert len(monitor.bounds) == 3


def test_without_held_out_rows_the_last_weights_stay(engine):
    x, y = data()
    monitor = trained(engine, rows(x, y), max_iterations=30)
    assert np.isnan(monitor.validation).all()
    assert len(monitor.bounds) == 30


def test_bound_that_is_not_a_number_is_an_error_that_says_what_to_do(engine):
    x, y = data(60)
    y[7] = np.nan
    with pytest.raises(FloatingPointError, match="bound is not finite at the start of the fit"):
        warm_start(engine, rows(x, y), np.random.default_rng(0))
    with pytest.raises(
        FloatingPointError, match=r"objective is nan after \d+ mini-batches. Lower learning_rate"
    ):
        trained(engine, rows(x, y))


@pytest.mark.slow
def test_mini_batches_and_all_rows_agree_roughly():
    x, y = data()
    own = {"mean": "none"}  # beside one, all rows learn from cross-fitted means, unlike the bound
    adam = SVGPRegressor(max_iterations=600, early_stopping=False, batch_size=100, **own, **ADAM)
    adam.set_params(learning_rate=0.03).fit(x, y)
    full = SVGPRegressor(num_inducing=10, optimizer="lbfgs", max_iterations=100, random_state=0, **own)
    full.fit(x, y)
    gap = (full.bound(x, y) - adam.bound(x, y)) / len(x)
    assert -0.01 < gap < 0.15  # L-BFGS finds the better bound
    assert np.std(adam.predict(x) - full.predict(x)) < 0.1 * np.std(y)


def test_held_out_rows_are_the_share_asked_for(monkeypatch):
    seen = {}

    def fake(engine, training, held_out, monitor, **settings):  # noqa: ARG001
        seen.update(training=len(training), held_out=held_out and len(held_out), **settings)
        return 0

    monkeypatch.setattr("gpmodels.estimators.sparse.base.fit_mini_batch", fake)
    x, y = data(100)
    SVGPRegressor(validation_fraction=0.2, batch_size=30, **ADAM).fit(x, y)
    assert (seen["training"], seen["held_out"], seen["batch_size"]) == (80, 20, 30)
    SVGPRegressor(early_stopping=False, batch_size=1000, **ADAM).fit(x, y)
    assert (seen["training"], seen["held_out"], seen["batch_size"]) == (100, None, 100)


@pytest.mark.slow
def test_weights_of_zero_play_no_part():
    x, y = data(200)
    weight = np.where(np.arange(200) % 2, 1.0, 0.0)
    wrong = np.where(weight > 0, y > 0, y <= 0)
    estimator = SVGPClassifier(max_iterations=300, batch_size=50, learning_rate=0.03, **ADAM)
    estimator.fit(x, wrong, sample_weight=weight)
    assert np.mean(estimator.predict(x) == (y > 0)) > 0.85
