"""Natural-gradient steps against GPflow's, and training by them."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import DeepGPHead
from gpmodels.estimators.deep.natural_gradient import (
    NaturalGradientStep,
    NaturalGradientSteps,
    natural_gradient_step,
)
from gpmodels.estimators.fitting.engine import Engine
from gpmodels.likelihoods.probit import log_normal_cdf
from tests.gpmodels.random_units import as_reference, randomize, randomize_mean

STEP = 0.3


def engine_of(**settings: object) -> Engine:
    engine = Engine("deep_gp", {"num_inducing": 4, "dtype": "float64"} | settings, 2)
    for number, layer in enumerate(engine.head.stack):
        randomize(layer.units, np.random.default_rng(number))
    return engine


def batch(size: int = 15, *, classes: bool) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(size, 2))
    y = rng.integers(0, 2, size).astype(float) if classes else np.sin(3.0 * x[:, 0])
    return tf.constant(x), tf.constant(y), tf.ones(size, tf.float64)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("num_data", [15, 400])
@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_one_step_is_gpflows(likelihood, num_data):
    """Of one layer on a whole data set, and on a batch that stands for a larger one."""
    engine = engine_of(num_layers=1, likelihood=likelihood)
    x, y, weight = batch(classes=likelihood == "bernoulli")
    layer = engine.head.stack[0]
    layer.units.variance.assign([[0.3]])  # GPflow takes log(1 - Φ(f)) for label 0
    (unit,) = as_reference(layer.units)
    theirs = gpflow.models.SVGP(
        gpflow.kernels.SquaredExponential(variance=unit.variance, lengthscales=unit.lengthscales),
        gpflow.likelihoods.Gaussian(variance=float(engine.head.likelihood.noise_variance[0]))
        if likelihood == "gaussian"
        else gpflow.likelihoods.Bernoulli(invlink=lambda f: tf.exp(log_normal_cdf(f))),
        inducing_variable=unit.inducing,
        q_mu=unit.q_mean[:, None],
        q_sqrt=unit.q_sqrt[None],
        whiten=True,
        num_data=num_data,
    )
    loss = theirs.training_loss_closure((x, y[:, None]), compile=False)
    gpflow.optimizers.NaturalGradient(STEP).minimize(loss, [(theirs.q_mu, theirs.q_sqrt)])
    step = NaturalGradientStep(engine)
    scalars = [tf.constant(value, tf.float64) for value in (num_data, 0.0, STEP)]
    before = layer.q_mean.numpy().copy()
    step((x, y, weight), *scalars)
    assert np.max(np.abs(layer.q_mean.numpy() - before)) > 0.01
    # GPflow's probit has 20 nodes.
    tolerance = 1e-9 if likelihood == "gaussian" else 1e-5
    np.testing.assert_allclose(layer.q_mean.numpy()[0, 0], theirs.q_mu.numpy()[:, 0], atol=tolerance)
    np.testing.assert_allclose(layer.q_sqrt.numpy()[0, 0], theirs.q_sqrt.numpy()[0], atol=tolerance)


@pytest.mark.slow
def test_weights_count_as_repeated_points():
    x, y, _ = batch(classes=False)
    counts = np.arange(15) % 3
    results = []
    for repeated in (False, True):
        engine = engine_of(num_layers=1, likelihood="gaussian")
        rows = np.repeat(np.arange(15), counts) if repeated else np.arange(15)
        weight = np.ones(len(rows)) if repeated else counts.astype(float)
        step = NaturalGradientStep(engine)
        scalars = [tf.constant(value, tf.float64) for value in (100.0, 0.01, STEP)]
        step((tf.gather(x, rows), tf.gather(y, rows), tf.constant(weight)), *scalars)
        results.append(engine.head.get_weights())
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-10)


@pytest.mark.slow
def test_full_steps_of_one_layer_reach_the_best_posterior_at_once():
    engine = engine_of(num_layers=1, likelihood="gaussian")
    data = batch(classes=False)
    step = natural_gradient_step(engine)
    losses = [float(step(data, *[tf.constant(v, tf.float64) for v in (15.0, 0.0, 1.0)])) for _ in range(3)]
    assert losses[1] < losses[0] - 0.1
    assert losses[2] == pytest.approx(losses[1], abs=1e-9)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("num_samples", [1, 3])
@pytest.mark.parametrize("num_layers", [1, 2])
def test_a_step_with_a_linear_mean_is_one_on_what_the_mean_leaves(num_layers, num_samples):
    settings = {"num_layers": num_layers, "num_samples": num_samples, "likelihood": "gaussian"}
    engine, twin = engine_of(mean="linear", **settings), engine_of(mean="none", **settings)
    x, y, weight = batch(classes=False)
    randomize_mean(engine.head.linear_mean, np.random.default_rng(0))
    rest = y - engine.head.linear_mean(x)[:, 0]
    scalars = [tf.constant(value, tf.float64) for value in (40.0, 0.0, STEP)]
    losses = [
        float(NaturalGradientStep(one)((x, target, weight), *scalars))
        for one, target in ((engine, y), (twin, rest))
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)
    ours, theirs = engine.head.stack[-1], twin.head.stack[-1]
    np.testing.assert_allclose(ours.q_mean.numpy(), theirs.q_mean.numpy(), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(ours.q_sqrt.numpy(), theirs.q_sqrt.numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("num_classes", [2, 3])
def test_step_of_two_layers_raises_the_bound_and_counts(num_classes):
    engine = engine_of(num_classes=num_classes, num_samples=3)
    x, y, weight = batch(classes=True)
    step = natural_gradient_step(engine)
    scalars = [tf.constant(v, tf.float64) for v in (15.0, 0.01, 0.1)]
    losses = [float(step((x, y, weight), *scalars)) for _ in range(200)]
    assert np.mean(losses[-20:]) < np.mean(losses[:5]) - 0.5
    assert int(engine.head.steps) == 200


def test_length_falls_until_q_averages_over_an_epoch():
    step = natural_gradient_step(engine_of(num_layers=1, likelihood="gaussian"))
    falling = NaturalGradientSteps(step, length=0.1, steps_per_epoch=60.0, total=100)
    lengths = [falling.length_at(number) for number in range(101)]
    assert lengths[0] == pytest.approx(0.1)
    assert lengths[50] == pytest.approx((0.1 + 1.0 / 60.0) / 2.0)
    assert lengths[100] == pytest.approx(1.0 / 60.0)
    assert lengths == sorted(lengths, reverse=True)
    for steps_per_epoch in (10.0, 1.0, 0.2):  # an epoch has no more batches than q remembers
        constant = NaturalGradientSteps(step, length=0.1, steps_per_epoch=steps_per_epoch, total=100)
        assert [constant.length_at(number) for number in (0, 50, 100)] == pytest.approx([0.1] * 3)


@pytest.mark.slow
def test_q_is_nearer_to_the_best_one_with_a_length_that_falls():
    rows, size, total = 1000, 10, 300
    rng = np.random.default_rng(5)
    x = rng.normal(size=(rows, 2))
    y = np.sin(3.0 * x[:, 0]) + rng.normal(size=rows)
    engine = engine_of(num_layers=1, likelihood="gaussian")
    start = engine.head.get_weights()
    step = natural_gradient_step(engine)
    num_data, rate = tf.constant(float(rows), tf.float64), tf.constant(0.0, tf.float64)

    def take(steps: NaturalGradientSteps, number: int, index: np.ndarray) -> None:
        data = tf.constant(x[index]), tf.constant(y[index]), tf.ones(len(index), tf.float64)
        steps.take(number, data, num_data, rate)

    take(NaturalGradientSteps(step, length=1.0, steps_per_epoch=1.0, total=1), 0, np.arange(rows))
    best = engine.head.stack[0].q_mean.numpy()
    distances = []
    for steps_per_epoch in (rows / size, 1.0):  # the second never falls
        engine.set_weights(start)
        steps = NaturalGradientSteps(step, length=0.1, steps_per_epoch=steps_per_epoch, total=total)
        batches = np.random.default_rng(7)
        for number in range(total):
            take(steps, number, batches.choice(rows, size, replace=False))
        distances.append(np.linalg.norm(engine.head.stack[0].q_mean.numpy() - best))
    assert distances[0] < 0.6 * distances[1]


def test_head_without_layers_is_refused():
    with pytest.raises(TypeError, match="need a head of layers, but this is a SVGPHead"):
        NaturalGradientStep(Engine("svgp", {"num_inducing": 3}, 2))
    assert isinstance(engine_of().head, DeepGPHead)
