"""Training a head alone on fixed features."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HGPHead, LinearHead, SVGPHead
from gpmodels.heads.alone import AloneSchedule, HeadPoints, train_alone

SCHEDULE = AloneSchedule(steps=120, learning_rate=0.03, round_steps=20)


def points(count: int = 150, seed: int = 0, flipped: float = 0.0) -> HeadPoints:
    """Points of two classes that a circle tells apart; a share of the labels is wrong."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((count, 2)).astype(np.float32)
    labels = (np.linalg.norm(features, axis=1) < 1.2) ^ (rng.random(count) < flipped)
    return HeadPoints(features, labels.astype(np.float32), np.ones(count, np.float32))


def built(head=None, *, placed: bool = True):
    keras.utils.set_random_seed(0)
    head = SVGPHead(num_inducing=10) if head is None else head
    head.build((None, 2))
    if placed:
        head.initialize(points().features)
    return head


def nll(head, held_out: HeadPoints) -> float:
    density = head.log_predictive_density(head.latent(tf.constant(held_out.features)), held_out.labels)
    return float(-np.average(density.numpy(), weights=held_out.weights))


@pytest.mark.slow
def test_the_weights_kept_are_those_of_the_least_nll_of_the_held_out_points():
    head, held_out = built(), points(seed=1)
    result = train_alone(head, points(), held_out, SCHEDULE, num_observations=150)
    assert result.best < result.start - 0.1
    assert nll(head, held_out) == pytest.approx(result.best, rel=1e-5)


@pytest.mark.slow
def test_a_start_that_nothing_improves_stays_to_the_bit():
    """Held-out labels that are noise are predicted best by a head that knows as little."""
    head = built(SVGPHead(num_inducing=10, mean="none", kernel_variance=1e-6))
    rng = np.random.default_rng(2)
    noise = HeadPoints(
        rng.standard_normal((2000, 2)).astype(np.float32),
        (np.arange(2000) % 2).astype(np.float32),
        np.ones(2000, np.float32),
    )
    before = head.get_weights()
    result = train_alone(head, points(), noise, SCHEDULE, num_observations=150)
    assert result.best == result.start
    assert result.steps < 2 * SCHEDULE.steps
    for kept, start in zip(head.get_weights(), before, strict=True):
        np.testing.assert_array_equal(kept, start)


def test_it_ends_when_rounds_gain_nothing():
    head = built(SVGPHead(num_inducing=10, mean="none", kernel_variance=1e-6))
    rng = np.random.default_rng(2)
    noise = points(2000, seed=3)
    noise = HeadPoints(noise.features, rng.permutation(noise.labels), noise.weights)
    schedule = AloneSchedule(steps=10_000, round_steps=2, patience=1, falls=1, least_gain=10.0)
    assert train_alone(head, points(), noise, schedule, num_observations=150).steps == 4


@pytest.mark.slow
def test_points_of_weight_zero_teach_nothing():
    good = points(100)
    poisoned = HeadPoints(
        np.concatenate([good.features, good.features]),
        np.concatenate([good.labels, 1.0 - good.labels]),
        np.concatenate([good.weights, np.zeros(100, np.float32)]),
    )
    head = built()
    train_alone(head, poisoned, points(seed=1), SCHEDULE, num_observations=100)
    assert nll(head, points(seed=2)) < 0.5


def test_held_out_points_count_by_their_weights():
    held_out = points(40, seed=1)
    halved = HeadPoints(held_out.features, held_out.labels, np.repeat([1.0, 0.0], 20).astype(np.float32))
    result = train_alone(built(), points(), halved, AloneSchedule(steps=0), num_observations=150)
    first = HeadPoints(held_out.features[:20], held_out.labels[:20], held_out.weights[:20])
    assert result.start == pytest.approx(nll(built(), first), rel=1e-5)


@pytest.mark.slow
def test_cross_fitted_logits_stand_for_the_layer_that_knows_the_labels():
    """A layer that has learned its rows by heart is trusted, unless what others say of the rows is known."""
    training = points(60, flipped=0.5)
    sign = (2.0 * training.labels - 1.0)[:, None]
    features = np.concatenate([training.features, 5.0 * sign], axis=1).astype(np.float32)  # the label itself
    scales = []
    for logits in (None, np.zeros_like(sign)):
        keras.utils.set_random_seed(0)
        head = SVGPHead(num_inducing=5)
        head.build((None, 3))
        head.initialize(features)
        head.linear_mean.start_from(np.array([0.0, 0.0, 1.0]), 0.0)
        crossed = HeadPoints(features, training.labels, training.weights, logits)
        schedule = AloneSchedule(steps=60, learning_rate=0.05, holds_linear_layer=True)
        train_alone(head, crossed, None, schedule, num_observations=60)
        np.testing.assert_array_equal(head.linear_mean.kernel.numpy().ravel(), [0.0, 0.0, 1.0])
        scales.append(abs(float(head.linear_mean.scale.numpy()) - 1.0))
    assert scales[0] > 0.01
    assert scales[1] == 0.0  # the layer says nothing of these rows, whatever its scale


@pytest.mark.slow
def test_without_held_out_points_all_steps_are_taken():
    head = built()
    result = train_alone(head, points(), None, SCHEDULE, num_observations=150)
    assert result.steps == SCHEDULE.steps
    assert math.isnan(result.best)
    assert nll(head, points(seed=1)) < 0.5


@pytest.mark.parametrize(
    "make",
    [pytest.param(lambda: HGPHead(num_experts=2, num_inducing=8), marks=pytest.mark.slow), LinearHead],
)
def test_every_head_can_be_trained_alone(make):
    head = built(make())
    result = train_alone(head, points(), points(seed=1), SCHEDULE, num_observations=150)
    assert result.best <= result.start
