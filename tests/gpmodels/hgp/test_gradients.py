"""Gradients of the objective: against finite differences, and float32 against float64."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HGPHead, VMGPHead
from gpmodels.units.numerics import precision
from tests.gpmodels.head_twin import (
    assert_gradient_is_numeric,
    gradients,
    labels,
    labels_for,
    objective,
    points,
)
from tests.gpmodels.random_units import parameters, random_head, units_of


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"kernel": "squared_exponential", "expert_variance": "full"},
        {"kernel": "matern52", "expert_variance": "thesis"},
        {"num_classes": 3},
        {"num_classes": 3, "class_kernels": "separate", "kernel": "matern32"},
        {"num_classes": 3, "likelihood": "robust_max", "class_kernels": "separate"},
        {"likelihood": "gaussian"},
        {"likelihood": "gaussian", "expert_variance": "thesis", "kernel": "matern52"},
    ],
    ids=lambda settings: " ".join(map(str, settings.values())),
)
def test_gradient_of_every_weight_equals_finite_differences(settings):
    head = random_head(3, global_weight=0.7, **settings)
    x = points(12)
    assert len(set(head.assign(tf.constant(x)).numpy())) > 1
    assert_gradient_is_numeric(head, x, labels_for(head, 12), tolerance=tolerance_of(settings))


def test_gradient_of_a_mixture_equals_finite_differences():
    head = random_head(3, head_class=VMGPHead, likelihood="gaussian")
    assert_gradient_is_numeric(head, points(12), labels_for(head, 12))


def tolerance_of(settings: dict) -> float:
    """The nodes of robust-max are held fixed in its gradient, and move between its values."""
    return 1e-3 if settings.get("likelihood") == "robust_max" else 1e-5


@pytest.mark.parametrize(("lengthscale", "tolerance"), [(1.0, 1e-4), (100.0, 0.03)])
def test_float32_gradients_point_where_float64_gradients_do(lengthscale, tolerance):
    """To 1e-4 of their length; to 3 % where all inducing inputs are within a fiftieth of a lengthscale."""
    x, y = points(50).astype("float32"), labels(50)
    found = []
    for dtype in ("float32", "float64"):
        head = random_head(2, num_inducing=20, num_expert_inducing=20)
        copy = HGPHead(num_experts=2, num_inducing=20, mean="none", dtype=dtype)
        copy.build((None, 2))
        for ours, theirs in zip(units_of(copy), units_of(head), strict=True):
            theirs.lengthscales.assign(np.full(theirs.lengthscales.shape, lengthscale))
            ours.jitter = precision("float32").jitter
            for parameter, value in zip(parameters(ours), parameters(theirs), strict=True):
                parameter.assign(value.numpy().astype("float32"))
        found.append(gradients(copy, tf.constant(x, dtype), y))
    for single, double in zip(*found, strict=True):
        assert np.linalg.norm(single - double) < tolerance * np.linalg.norm(double)


def test_gradient_with_respect_to_the_features_equals_finite_differences():
    head = random_head(3)
    x, y = points(12), labels(12)
    features = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(features)
        value = tf.reduce_sum(head.expected_log_likelihood(head.latent(features), tf.constant(y)))
    direction = np.random.default_rng(6).normal(size=x.shape)
    values = [float(objective(head, x + step * direction, y)) for step in (1e-6, -1e-6)]
    numeric = (values[0] - values[1]) / 2e-6
    assert np.sum(tape.gradient(value, features) * direction) == pytest.approx(numeric, rel=1e-5)
