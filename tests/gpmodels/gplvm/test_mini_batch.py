"""Mini-batches: what a step sees in the mean, and where the steps lead."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels.gplvm.bounds import InducingPosterior, best_inducing_posterior
from gpmodels.gplvm.data import column_groups, seen_rows
from gpmodels.gplvm.mini_batch import Adam, GroupedPosterior, explicit_bound, fit_mini_batches, regrouped
from gpmodels.gplvm.training import held_model, latent_start_parameters, maximise

ONE_GROUP = np.zeros(3, np.intp)


@pytest.fixture(scope="module")
def trained():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 60)
    y = np.column_stack([np.cos(angle), np.sin(angle), np.cos(2 * angle)]) + 0.05 * rng.normal(size=(60, 3))
    y -= y.mean(axis=0)
    start = latent_start_parameters(
        y, num_dimensions=2, num_inducing=12, kernel="rbf", is_point=False, rng=np.random.default_rng(0)
    )
    found = maximise(start, seen_rows(y), max_iterations=60, tolerance=0.0, iteration_done=lambda *_: None)
    return y, start, found


@pytest.mark.slow
def test_batches_are_unbiased(trained):
    y, _, found = trained
    posterior = held_model(found, seen_rows(y)).posterior
    everything = tf.ones([1, 3], tf.float64)

    def value(rows, weight):
        part = found._replace(mean=found.mean[rows], log_variances=found.log_variances[rows])
        return float(
            explicit_bound(part, posterior, ONE_GROUP, tf.constant(y[rows]), everything, weight=weight)
        )

    halves = [value(slice(0, 30), 2.0), value(slice(30, 60), 2.0)]
    assert np.mean(halves) == pytest.approx(value(slice(0, 60), 1.0), abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0.0, 0.8])
def test_whole_batches_with_full_steps_keep_the_best_q(trained, monkeypatch, missing):
    """With all rows in the batch and nothing else moving, q(v) goes to the best one, also of rare columns."""
    from gpmodels.gplvm import mini_batch  # noqa: PLC0415

    y, _, found = trained
    y = y.copy()
    y[np.random.default_rng(4).random(60) < missing, 2] = np.nan
    group = column_groups(~np.isnan(y), 3)
    assert group.max() == (missing > 0.0)
    monkeypatch.setattr(mini_batch, "FIRST_STEP", 1.0)
    away = held_model(found, seen_rows(y)).posterior
    away = away._replace(mean=0.5 * away.mean, covariance=1.5 * away.covariance)
    _, model = fit_mini_batches(
        found,
        GroupedPosterior(away, group),
        lambda index: y[index],
        batch_size=60,
        max_iterations=25,
        learning_rate=1e-12,
        rng=np.random.default_rng(0),
        iteration_done=lambda *_: None,
    )
    noise = tf.exp(tf.constant(found.log_noise))
    variance = tf.exp(tf.constant(found.log_variances))
    best = best_inducing_posterior(
        found.kernel(), tf.constant(found.mean), variance, tf.constant(found.inducing), noise, seen_rows(y)
    )
    np.testing.assert_allclose(model.posterior.mean, best.mean, atol=0.02)
    np.testing.assert_allclose(model.posterior.covariance, best.covariance, atol=0.02)


def test_regrouping_takes_the_mean_covariance():
    covariance = tf.constant(np.array([1.0, 3.0])[:, None, None] * np.eye(2))
    posterior = InducingPosterior(tf.zeros([2, 3], tf.float64), covariance)
    found = regrouped(posterior, np.array([0, 1, 1]), np.array([0, 0, 1])).of_values.covariance.numpy()
    np.testing.assert_allclose(found, np.array([2.0, 3.0])[:, None, None] * np.eye(2))


@pytest.mark.slow
def test_steps_raise_the_bound(trained):
    y, start, _ = trained
    bounds = []
    fit_mini_batches(
        start,
        GroupedPosterior(held_model(start, seen_rows(y)).posterior, ONE_GROUP),
        lambda index: y[index],
        batch_size=20,
        max_iterations=150,
        learning_rate=0.03,
        rng=np.random.default_rng(0),
        iteration_done=lambda bound, _: bounds.append(bound),
    )
    assert np.mean(bounds[-20:]) > np.mean(bounds[:20]) + 0.3


def test_adam_counts_the_steps_of_each_row():
    adam = Adam((3, 2), 0.1)
    first = adam.step(np.ones((1, 2)), np.array([1]))
    for _ in range(3):
        adam.step(np.ones((1, 2)), np.array([0]))
    late = adam.step(np.ones((1, 2)), np.array([2]))
    np.testing.assert_allclose(first, 0.1, rtol=1e-6)  # a first step has the learning rate's length
    np.testing.assert_allclose(late, first)
