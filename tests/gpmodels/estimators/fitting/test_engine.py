"""Heads and compiled functions that estimators share: traced once, and nobody sees another's weights."""

import gc
import threading
import weakref
from collections import OrderedDict
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from gpmodels import (
    AutoGPRegressor,
    DeepGPRegressor,
    DFGPRegressor,
    HGPClassifier,
    SVGPRegressor,
    VMGPRegressor,
)
from gpmodels.estimators.fitting.engine import MAX_ENGINES, Compiled, engine_for

SMALL = {"num_inducing": 8, "max_iterations": 5}
SETTINGS = {"num_inducing": 3, "likelihood": "gaussian", "dtype": "float64"}


def data(seed=0, size=60):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, 2))
    return x, np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=size)


def test_a_function_is_traced_once():
    traces = []

    def double(x):
        traces.append(True)
        return 2.0 * x

    compiled = Compiled(double, tf.TensorSpec([None], tf.float64))
    assert not traces
    for size in (1, 2, 3):
        np.testing.assert_array_equal(compiled(tf.ones(size, tf.float64)), 2.0)
    assert len(traces) == 1


def test_engines_are_kept_by_configuration():
    engine = engine_for("svgp", SETTINGS, 2)
    assert engine_for("svgp", dict(reversed(SETTINGS.items())), 2) is engine
    assert engine_for("svgp", SETTINGS, 3) is not engine
    assert engine_for("svgp", SETTINGS | {"num_inducing": 4}, 2) is not engine
    assert engine_for("vmgp", SETTINGS | {"num_experts": 2}, 2) is not engine


def test_the_least_recently_used_engine_goes_first(monkeypatch):
    # Tests keep more engines than users do.
    monkeypatch.setattr("gpmodels.estimators.fitting.engine.MAX_ENGINES", MAX_ENGINES)
    first = engine_for("svgp", SETTINGS, 2)
    others = [engine_for("svgp", SETTINGS, 3 + i) for i in range(MAX_ENGINES - 1)]
    assert engine_for("svgp", SETTINGS, 2) is first
    engine_for("svgp", SETTINGS, 30)
    assert engine_for("svgp", SETTINGS, 2) is first
    assert engine_for("svgp", SETTINGS, 3) is not others[0]


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize(
    "family",
    [
        SVGPRegressor,
        pytest.param(HGPClassifier, marks=pytest.mark.exhaustive),
        DFGPRegressor,
        AutoGPRegressor,
        DeepGPRegressor,
    ],
)
def test_an_engine_that_went_leaves_no_graph(family, monkeypatch):
    """A search over settings would hold all its graphs in memory, about 50 MB for each."""
    graphs = []

    traced = Compiled._traced

    def watched(compiled):
        concrete = traced(compiled)
        graphs.append(weakref.ref(concrete.graph))
        return concrete

    engines = OrderedDict()
    monkeypatch.setattr("gpmodels.estimators.fitting.engine._local", SimpleNamespace(engines=engines))
    monkeypatch.setattr(Compiled, "_traced", watched)
    x, y = data()
    family(**SMALL).fit(x, y > 0).predict(x)
    assert graphs
    engines.clear()
    gc.collect()
    assert not [graph().name for graph in graphs if graph() is not None]


@pytest.mark.slow
def test_a_second_fit_traces_nothing(monkeypatch):
    x, y = data()
    first = SVGPRegressor(random_state=0, **SMALL).fit(x, y)
    first.predict(x)

    def fail(*arguments, **settings):  # noqa: ARG001
        raise AssertionError("traced again")

    monkeypatch.setattr(tf, "function", fail)
    second = SVGPRegressor(random_state=1, **SMALL).fit(*data(1))
    second.predict(x[:7])
    assert second._trained_engine() is first._trained_engine()


@pytest.mark.slow
def test_estimators_that_share_an_engine_keep_their_own_predictions():
    x, y = data()
    first = SVGPRegressor(random_state=0, **SMALL).fit(x, y)
    before = first.predict_distribution(x)
    second = SVGPRegressor(random_state=1, **SMALL).fit(x, -3.0 * y)
    assert second._trained_engine() is first._trained_engine()
    between = second.predict_distribution(x)
    for estimator, expected in ((first, before), (second, between), (first, before)):
        for name, value in estimator.predict_distribution(x).items():
            np.testing.assert_array_equal(value, expected[name])
    assert np.corrcoef(before["mean"], between["mean"])[0, 1] < -0.9


@pytest.mark.slow
def test_fits_are_reproducible_whatever_came_before():
    x, y = data()
    classes = (y > 0).astype(int)
    make = {"num_experts": 2, **SMALL}
    first = HGPClassifier(random_state=0, **make).fit(x, classes)
    other = HGPClassifier(random_state=5, **make).fit(x, classes)
    again = HGPClassifier(random_state=0, **make).fit(x, classes)
    for one, same in zip(first.weights_, again.weights_, strict=True):
        np.testing.assert_array_equal(one, same)
    assert any(
        not np.array_equal(one, another) for one, another in zip(first.weights_, other.weights_, strict=True)
    )


@pytest.mark.slow
def test_adam_starts_without_the_moments_of_the_fit_before():
    x, y = data()
    settings = {"num_inducing": 6, "optimizer": "adam", "max_iterations": 12, "batch_size": 20}
    fits = [SVGPRegressor(random_state=0, **settings).fit(x, y).weights_ for _ in range(2)]
    for one, same in zip(*fits, strict=True):
        np.testing.assert_array_equal(one, same)


@pytest.mark.slow
def test_threads_have_engines_of_their_own():
    x, y = data()
    expected = SVGPRegressor(random_state=0, **SMALL).fit(x, y).predict(x)
    mine = engine_for("svgp", SETTINGS, 2)
    results, engines = {}, {}

    def work(name):
        engines[name] = engine_for("svgp", SETTINGS, 2)
        estimator = SVGPRegressor(random_state=0, **SMALL).fit(x, y if name == "same" else -y)
        results[name] = [estimator.predict(x) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(name,)) for name in ("same", "other")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(mine), id(engines["same"]), id(engines["other"])}) == 3
    for found in results["same"]:
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    for found in results["other"]:
        np.testing.assert_allclose(found, -expected, rtol=1e-3, atol=1e-3)


def test_flat_vectors_go_both_ways():
    engine = engine_for("svgp", SETTINGS, 2)
    engine.reset()
    flat = engine.flat(engine.all_variables)
    engine.assign_flat(flat + 1.0, engine.all_variables)
    np.testing.assert_allclose(engine.flat(engine.all_variables), flat + 1.0)
    engine.reset()
    np.testing.assert_array_equal(engine.flat(engine.all_variables), flat)


def test_hyper_parameters_are_all_but_the_posterior():
    engine = engine_for("svgp", SETTINGS, 2)
    names = {variable.name.rsplit("/", 1)[-1] for variable in engine.hyper_variables}
    assert len(engine.hyper_variables) == 4, names
    sizes = sorted(int(np.prod(variable.shape)) for variable in engine.hyper_variables)
    assert sizes == [1, 1, 2, 6]  # noise, variance, lengthscales, inducing inputs


@pytest.mark.parametrize("function", ["joint_bound", "collapsed_bound"])
def test_compiled_gradients_are_numeric(function):
    engine = engine_for("svgp", SETTINGS, 2)
    engine.reset()
    x, y = data(size=20)
    engine.head.initialize(x, seed=0)
    points = engine.points(x, y, np.ones(20))
    variables = engine.all_variables if function == "joint_bound" else engine.hyper_variables
    flat = engine.flat(variables)
    direction = np.random.default_rng(0).normal(size=len(flat))

    def value(step):
        return getattr(engine, function)(tf.constant(flat + step * direction), points)

    numeric = (float(value(1e-5)[0]) - float(value(-1e-5)[0])) / 2e-5
    assert float(value(0.0)[1].numpy() @ direction) == pytest.approx(numeric, rel=1e-5)


ESTIMATORS = {
    "svgp": lambda: SVGPRegressor(random_state=0, **SMALL),
    "hgp": lambda: HGPClassifier(num_experts=2, random_state=0, **SMALL),
    "vmgp": lambda: VMGPRegressor(num_experts=2, random_state=0, **SMALL),
    "dfgp": lambda: DFGPRegressor(num_hidden=2, random_state=0, **SMALL),
    "autogp": lambda: AutoGPRegressor(random_state=0, **SMALL),
}


def fitted(name):
    x, y = data()
    estimator = ESTIMATORS[name]()
    return estimator.fit(x, (y > 0).astype(int) if name == "hgp" else y), x, y


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_predictions_of_folded_units_are_those_of_the_weights(name):
    estimator, x, _ = fitted(name)
    rows = tf.constant((x - estimator.input_mean_) / estimator.input_scale_)
    engine = estimator._trained_engine()
    outputs, _ = engine.predict_by(estimator.weights_, rows)
    for key, value in engine.head.predictions(engine.head.latent(rows)).items():
        np.testing.assert_allclose(outputs[key], value, rtol=1e-9, atol=1e-12, err_msg=key)


def test_weights_are_set_and_folded_once_for_many_predictions(monkeypatch):
    estimator, x, _ = fitted("svgp")
    expected = estimator.predict(x)
    engine = engine_for("svgp", estimator.head_settings_, 2)

    def fail(*arguments):  # noqa: ARG001 - of what must not be called
        raise AssertionError("folded again")

    monkeypatch.setattr(engine, "_fold", fail)
    np.testing.assert_array_equal(estimator.predict(x), expected)


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize(
    "use",
    [
        lambda _estimator, x, y: fitted("svgp")[0].set_params(random_state=3).fit(x, -y),
        lambda estimator, x, y: estimator.leave_one_out(x, y),
        lambda estimator, x, y: estimator.bound(x, y),
        lambda estimator, _x, _y: [w.assign(0 * w) for w in estimator._trained_engine().head.weights],
    ],
    ids=["another fit", "leave one out", "bound", "weights that others change"],
)
def test_no_prediction_is_of_weights_that_others_left(use):
    estimator, x, y = fitted("svgp")
    expected = estimator.predict_distribution(x)  # the noise is of the head, the mean of the folded units
    use(estimator, x, y)
    for key, value in estimator.predict_distribution(x).items():
        np.testing.assert_array_equal(value, expected[key])


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("name", ["svgp", "autogp"])
def test_loading_another_estimator_changes_no_prediction(name, tmp_path):
    estimator, x, y = fitted(name)
    ESTIMATORS[name]().fit(x, -3.0 * y + np.cos(5 * x[:, 1])).save(tmp_path / "other.npz")
    expected = estimator.predict_distribution(x)
    type(estimator).load(tmp_path / "other.npz")
    for key, value in estimator.predict_distribution(x).items():
        np.testing.assert_array_equal(value, expected[key])


@pytest.mark.slow
def test_a_callback_that_predicts_leaves_the_fit_as_it_is_and_sees_its_present_weights():
    x, y = data()
    other = fitted("svgp")[0]
    expected, seen = other.predict(x), []

    def look(own, _):
        seen.append(own.predict(x))
        np.testing.assert_array_equal(other.predict(x), expected)

    # More iterations than starts are tried for: the callback sees those of the fit itself.
    settings = {"num_inducing": 8, "max_iterations": 80, "tolerance": 0.0, "random_state": 0}
    plain = SVGPRegressor(**settings).fit(x, -y)
    watched = SVGPRegressor(**settings).fit(x, -y, callback=look)
    np.testing.assert_array_equal(watched.predict(x), plain.predict(x))
    np.testing.assert_array_equal(other.predict(x), expected)
    assert len(seen) > 1
    assert not np.array_equal(seen[0], seen[-1])
