"""Progress of a fit: the learning curve, the user's callback, TensorBoard, the bar."""

import math
from contextlib import nullcontext

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

from gpmodels import HGPRegressor, SVGPClassifier, SVGPRegressor
from gpmodels.estimators.fitting.monitoring import CALLBACK_INTERVAL, FitMonitor

SMALL = {"num_inducing": 8, "tolerance": 0.0, "random_state": 0}


def data(size=80):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(size, 2))
    return x, np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=size)


def read_events(folder):
    """`{tag: [(step, value), ..]}`, of a histogram the sum of its numbers."""
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0}).Reload()
    return {
        tag: [(e.step, float(np.sum(tensor_util.make_ndarray(e.tensor_proto)))) for e in events.Tensors(tag)]
        for tag in events.Tags()["tensors"]
    }


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["lbfgs", "adam"])
@pytest.mark.parametrize("cls", [SVGPClassifier, SVGPRegressor])
def test_callback_can_predict_every_ten_iterations(cls, optimizer):
    x, y = data()
    y = (y > 0).astype(int) if cls is SVGPClassifier else y
    seen = {}

    def callback(estimator, iteration):
        seen[iteration] = (estimator.predict(x).copy(), estimator.bound(x, y))

    settings = {**SMALL, "optimizer": optimizer, "max_iterations": 25}
    settings |= {"learning_rate": 0.05} if optimizer == "adam" else {}
    estimator = cls(early_stopping=False, **settings)
    with_callback = estimator.fit(x, y, callback=callback)
    assert list(seen) == [10, 20]
    assert with_callback.n_iter_ == 25
    bounds = [bound for _, bound in seen.values()]
    assert bounds[0] < bounds[1]
    if optimizer == "lbfgs":
        curve = {point.iteration: point.bound_per_point for point in with_callback.learning_curve_}
        # q is brought up to date first
        assert bounds[0] / len(x) == pytest.approx(curve[10], abs=1e-3)
    # Looking on changes nothing.
    without = cls(early_stopping=False, **settings).fit(x, y)
    np.testing.assert_allclose(
        without.predict_distribution(x)["latent_variance"],
        with_callback.predict_distribution(x)["latent_variance"],
        rtol=1e-6,
    )


def test_curve_has_a_point_for_each_iteration():
    x, y = data()
    curve = SVGPRegressor(max_iterations=7, **SMALL).fit(x, y).learning_curve_
    assert [point.iteration for point in curve] == [1, 2, 3, 4, 5, 6, 7]
    seconds = [point.seconds for point in curve]
    assert seconds == sorted(seconds)
    assert all(math.isnan(point.validation) for point in curve)


@pytest.mark.slow
def test_log_folder_has_the_bound_and_the_units(tmp_path):
    x, y = data()
    estimator = HGPRegressor(num_experts=2, max_iterations=20, log_dir=str(tmp_path), **SMALL).fit(x, y)
    events = read_events(tmp_path)
    curve = {point.iteration: point.bound_per_point for point in estimator.learning_curve_}
    expected = [(step, curve[step]) for step in (10, 20)]
    assert events["bound_per_point/training"] == [(s, pytest.approx(v, rel=1e-5)) for s, v in expected]
    assert events["bound/training"] == [(s, pytest.approx(len(x) * v, rel=1e-5)) for s, v in expected]
    for name in ("global", "expert_1", "expert_2"):
        assert [step for step, _ in events[f"lengthscales/{name}"]] == [10, 20]
        assert all(value > 0.0 for _, value in events[f"median_lengthscale/{name}"])
        # Unless q were brought up to date for the log, it would be at the prior.
        assert all(value > 0.0 for _, value in events[f"kl/{name}"])
    assert sum(events[f"occupancy/expert_{k}"][-1][1] for k in (1, 2)) == pytest.approx(1.0)


@pytest.mark.slow
def test_log_of_mini_batches_has_the_held_out_density(tmp_path):
    x, y = data()
    settings = {"optimizer": "adam", "max_iterations": 40, "log_dir": str(tmp_path)}
    estimator = SVGPRegressor(**settings, **SMALL).fit(x, y)
    density = {p.iteration: p.validation for p in estimator.learning_curve_ if not math.isnan(p.validation)}
    events = dict(read_events(tmp_path)["nll/selection"])
    assert events
    for step, value in events.items():
        assert value == pytest.approx(-density[step], rel=1e-5)


class Engine:
    """As much of an engine as a monitor needs."""

    def unchanged(self):
        return nullcontext()


def make_monitor(**settings):
    settings = {"num_data": 10.0, "total": 50, "verbose": 0, "log_dir": None, "callback": None} | settings
    return FitMonitor(Engine(), publish=settings.pop("publish", lambda: None), **settings)


def test_publishing_comes_between_preparing_and_the_callback():
    order = []
    monitor = make_monitor(publish=lambda: order.append("publish"), callback=order.append)
    for _ in range(CALLBACK_INTERVAL + 1):
        monitor.report(0.0, prepare=lambda: order.append("prepare"))
    assert order == ["prepare", "publish", CALLBACK_INTERVAL]


def test_nothing_is_prepared_where_nobody_looks():
    order = []
    monitor = make_monitor(publish=lambda: order.append("publish"))
    for _ in range(CALLBACK_INTERVAL):
        monitor.report(0.0, prepare=lambda: order.append("prepare"))
    assert order == []


def test_time_in_the_callback_does_not_count(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])

    def callback(_iteration):
        clock[0] += 1000.0

    monitor = make_monitor(callback=callback)
    for _ in range(2 * CALLBACK_INTERVAL + 1):
        clock[0] += 1.0
        monitor.report(0.0)
    assert monitor.curve[-1].seconds == 2 * CALLBACK_INTERVAL + 1


@pytest.mark.parametrize("verbose", [0, 1])
def test_the_bar_shows_on_request_alone(verbose, capsys):
    monitor = make_monitor(verbose=verbose)
    with monitor:
        monitor.report(-0.25)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("-0.2500" in captured.err) == bool(verbose)
