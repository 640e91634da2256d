"""The temperature of classifiers: found where it is known, by posteriors that have not seen the rows."""

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from gpmodels import HGPClassifier, SVGPClassifier
from gpmodels.estimators.fitting.engine import Engine
from gpmodels.estimators.fitting.full_batch import refit_posterior
from gpmodels.estimators.sparse.temperature import (
    best_temperature,
    folds,
    held_out_temperature,
    tempered_log_probabilities,
)
from gpmodels.heads.base import Latent

SMALL = {"num_inducing": 8, "max_iterations": 15, "random_state": 0}


def data(size=80, num_classes=2):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(size, 2))
    y = np.digitize(x[:, 0] + 0.3 * rng.normal(size=size), [0.0] if num_classes == 2 else [-0.5, 0.5])
    return x, y


def drawn(size, temperature, seed=0):
    """Probabilities, and labels that follow them at another temperature."""
    rng = np.random.default_rng(seed)
    logs = scipy.special.log_softmax(2.0 * rng.normal(size=(size, 3)), axis=1)
    truth = np.exp(tempered_log_probabilities(logs, temperature))
    return logs, np.array([rng.choice(3, p=row) for row in truth])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_many_rows_find_it(temperature):
    logs, label = drawn(4000, temperature)
    assert best_temperature(logs, label, np.ones(4000)) == pytest.approx(temperature, rel=0.1)


def test_few_rows_stay_near_one():
    logs, label = drawn(8, 0.3)
    assert 0.6 < best_temperature(logs, label, np.ones(8)) < 1.4
    assert best_temperature(logs, label, np.zeros(8)) == 1.0


def test_weights_count_rows():
    logs, label = drawn(60, 0.5)
    weight = np.random.default_rng(1).integers(0, 4, 60)
    repeated = np.repeat(np.arange(60), weight)
    found = best_temperature(logs, label, weight.astype(float))
    assert found == pytest.approx(best_temperature(logs[repeated], label[repeated], np.ones(len(repeated))))


def test_tempered_is_the_power_normalised():
    p = np.random.default_rng(0).dirichlet(np.ones(4), 5)
    expected = p ** (1.0 / 0.7) / np.sum(p ** (1.0 / 0.7), axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(tempered_log_probabilities(np.log(p), 0.7)), expected, rtol=1e-12)


def test_folds_spread_classes_and_keep_groups_whole():
    rng = np.random.default_rng(0)
    label = np.repeat([0, 1, 2], [50, 10, 5])
    fold = folds(label, None, rng)
    assert [len(set(fold[label == c])) for c in range(3)] == [5, 5, 5]
    groups = np.arange(65) // 4
    fold = folds(label, groups, rng)
    assert all(len(set(fold[groups == group])) == 1 for group in range(17))
    assert set(fold) == set(range(5))


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("num_classes", [2, 3])
def test_a_posterior_without_rows_is_that_of_the_others(num_classes):
    x, y = data(60, num_classes)
    model = SVGPClassifier(**SMALL, mean="none").fit(x, y)  # whose predictions are q's alone
    engine = model._trained_engine()
    scaled = (x - model.input_mean_) / model.input_scale_
    points = engine.points(scaled, y.astype(float), np.ones(60))

    def predicted():
        return engine.predict(tf.constant(scaled))[0]["probability"].numpy()

    fitted = predicted()
    sites = engine.matching_sites(points)
    refit_posterior(engine, points, sites)
    np.testing.assert_allclose(predicted(), fitted, atol=5e-3)  # q was the best already
    kept = np.arange(60) % 3 > 0
    refit_posterior(engine, points._replace(weight=tf.constant(kept.astype(float))), sites)
    without = predicted()
    assert np.abs(without - fitted).max() > 0.01
    others = engine.points(scaled[kept], y[kept].astype(float), np.ones(kept.sum()))
    part = tf.nest.map_structure(lambda site: tf.boolean_mask(site, kept), sites)
    refit_posterior(engine, others, part)
    np.testing.assert_allclose(predicted(), without, atol=1e-6)


@pytest.mark.slow
def test_the_engine_is_left_as_it_was():
    x, y = data(50)
    model = SVGPClassifier(**SMALL).fit(x, y)
    engine = model._trained_engine()
    points = engine.points((x - model.input_mean_) / model.input_scale_, y.astype(float), np.ones(50))
    found = held_out_temperature(engine, points, None, seed=3)
    assert found == held_out_temperature(engine, points, None, seed=3)
    for now, before in zip(engine.head.get_weights(), model.weights_, strict=True):
        np.testing.assert_array_equal(now, before)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("num_classes", [2, 3])
def test_predictions_have_the_temperature(num_classes):
    x, y = data(60, num_classes)
    y[:9] = (y[:9] + 1) % num_classes  # so that no entropy is rounding alone
    plain = SVGPClassifier(**SMALL, temperature=1.0).fit(x, y)
    sharp = SVGPClassifier(**SMALL, temperature=0.5).fit(x, y)
    assert (plain.temperature_, sharp.temperature_) == (1.0, 0.5)
    before, after = plain.predict_distribution(x), sharp.predict_distribution(x)
    squares = before["probability"] ** 2
    np.testing.assert_allclose(after["probability"], squares / squares.sum(axis=1, keepdims=True), rtol=1e-8)
    p = after["probability"]
    np.testing.assert_allclose(after["predictive_entropy"], -np.sum(p * np.log(p), axis=1), rtol=1e-8)
    for name in ("label", "latent_mean", "latent_variance"):
        np.testing.assert_array_equal(after[name], before[name])
    left = np.minimum(after["predictive_entropy"] / before["predictive_entropy"], 1.0)
    np.testing.assert_allclose(after["mutual_information"], left * before["mutual_information"], rtol=1e-12)


@pytest.mark.slow
def test_auto_finds_one_and_keeps_it_in_files(tmp_path):
    x, y = data(80, 3)
    model = SVGPClassifier(**SMALL).fit(x, y)
    assert 0.2 < model.temperature_ < 2.0
    assert model.temperature_ != 1.0
    model.save(tmp_path / "model.npz")
    again = SVGPClassifier.load(tmp_path / "model.npz")
    assert again.temperature_ == model.temperature_
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))


@pytest.mark.slow
def test_with_experts_and_after_mini_batches_it_is_one():
    x, y = data(60)
    gated = HGPClassifier(**SMALL, num_experts=2).fit(x, y)
    batches = SVGPClassifier(**SMALL, optimizer="adam").fit(x, y)
    assert (gated.temperature_, batches.temperature_) == (1.0, 1.0)


@pytest.mark.parametrize("setting", ["warm", 0.0, -1.0, float("nan"), True, None])
def test_what_is_no_setting_is_refused(setting):
    x, y = data(20)
    with pytest.raises(ValueError, match='temperature must be "auto" or a positive number'):
        SVGPClassifier(**SMALL, temperature=setting).fit(x, y)


@pytest.mark.slow
@pytest.mark.parametrize("num_classes", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_the_model_s_own_share_stays_where_the_entropy_falls(num_classes):
    x, y = data(60, num_classes)
    model = SVGPClassifier(**SMALL, temperature=1.0).fit(x, y)
    before = model.predict_distribution(x)
    model.temperature_ = 0.1
    after = model.predict_distribution(x)
    assert np.any(before["mutual_information"] > after["predictive_entropy"])
    shares = [each["mutual_information"] / each["predictive_entropy"] for each in (before, after)]
    np.testing.assert_allclose(shares[1], shares[0], rtol=1e-6)
    assert np.all(shares[1] < 1.0)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_both_classes_keep_their_digits_under_a_logistic_likelihood(dtype):
    engine = Engine("svgp", {"num_inducing": 2, "likelihood": "logistic", "dtype": dtype}, 1)
    mean = tf.constant([[-40.0], [20.0], [40.0]], dtype)
    logs = engine.head.class_log_probabilities(Latent(mean, tf.fill([3, 1], tf.cast(1e-6, dtype))))
    np.testing.assert_allclose(logs[:, 0], [0.0, -20.0, -40.0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(logs[:, 1], [-40.0, 0.0, 0.0], rtol=1e-4, atol=1e-6)
