"""No random problem, however badly scaled or degenerate, gives a gradient that is not finite."""

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from gpmodels import HGPHead, VMGPHead
from gpmodels.units.numerics import precision
from tests.gpmodels.random_units import randomize_head, units_of

FEATURES = 3
POINTS = 12
LIKELIHOODS = {
    "bernoulli": {},
    "softmax": {"num_classes": 3, "likelihood": "softmax"},
    "robust_max": {"num_classes": 3, "likelihood": "robust_max"},
    "gaussian": {"likelihood": "gaussian"},
}
KERNELS = ("squared_exponential", "matern12", "matern32", "matern52")
LAYOUTS = ("random", "duplicated", "collinear", "one place")


@functools.cache
def built_head(num_experts: int, likelihood: str, dtype: str, soft: bool) -> Any:
    """One head for each structure; the kernels, the class kernels and the family go round with it."""
    turn = num_experts + list(LIKELIHOODS).index(likelihood) + soft
    family = {"expert_variance": "thesis" if turn % 2 else "full"}
    head_class: Any = HGPHead
    if num_experts and (num_experts + soft) % 3 == 0:
        family, head_class = {}, VMGPHead
    head = head_class(
        num_experts=num_experts,
        num_inducing=6,
        kernel=KERNELS[turn % 4],
        class_kernels="separate" if turn % 3 == 0 else "shared",
        e_step="soft" if soft else "hard",
        dtype=dtype,
        **LIKELIHOODS[likelihood],
        **family,
    )
    head.build((None, FEATURES))
    return head


def arrange(inducing: np.ndarray, layout: str) -> np.ndarray:
    """Inducing inputs `[K, M, D]` of every unit in a layout that may be degenerate."""
    size = inducing.shape[1]
    if layout == "duplicated":
        return np.repeat(inducing[:, : size // 3], 3, axis=1)
    if layout == "collinear":
        return inducing[:, :1] + np.linspace(0.0, 1.0, size)[:, None] * inducing[:, 1:2]
    if layout == "one place":
        return np.repeat(inducing[:, :1], size, axis=1)
    return inducing


def structures(numbers_of_experts: tuple[int, ...]) -> Any:
    """Heads to draw from; each costs more when it is first computed than ten problems of it after that."""
    return st.tuples(
        st.sampled_from(numbers_of_experts),
        st.sampled_from(list(LIKELIHOODS)),
        st.sampled_from(["float32", "float64"]),
        st.booleans(),
    )


powers_of_ten = st.fixed_dictionaries(
    {"lengthscale": st.floats(-3.0, 3.0), "variance": st.floats(-2.0, 2.0), "spread": st.floats(-3.0, 1.0)}
)


problem = {
    "powers": powers_of_ten,
    "layout": st.sampled_from(LAYOUTS),
    "offset": st.sampled_from([0.0, 100.0]),
    "seed": st.integers(0, 2**16),
}


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(structure=structures((0, 2)), **problem)
def test_gradients_of_every_weight_are_finite(structure, powers, layout, offset, seed):
    judge(structure, powers, layout, offset, seed)


@pytest.mark.slow
@pytest.mark.exhaustive
@settings(max_examples=max(200, settings().max_examples), deadline=None)
@given(structure=structures((0, 1, 2, 3, 4)), **problem)
def test_gradients_of_many_problems_are_finite(structure, powers, layout, offset, seed):
    """200 of them; with `--hypothesis-profile thorough` 2,000."""
    judge(structure, powers, layout, offset, seed)


def judge(structure: tuple, powers: dict[str, float], layout: str, offset: float, seed: int) -> None:
    """The points include the inducing inputs themselves and one far away."""
    num_experts, likelihood, dtype, soft = structure
    head = built_head(num_experts, likelihood, dtype, soft and num_experts > 0)
    rng = np.random.default_rng(seed)
    randomize_head(head, seed)
    placed = []
    for units in units_of(head):
        inducing = offset + arrange(units.inducing_inputs.numpy(), layout)
        units.inducing_inputs.assign(inducing)
        scale = 10.0 ** (powers["lengthscale"] + 0.3 * rng.normal(size=units.lengthscales.shape))
        units.lengthscales.assign(np.clip(scale, 1e-3, 1e3))
        units.variance.assign(np.full(units.variance.shape, 10.0 ** powers["variance"]))
        units.q_sqrt.assign(10.0 ** powers["spread"] * units.q_sqrt.numpy())  # from near certain to vague
        placed.append(inducing.reshape(-1, FEATURES))
    if head.likelihood_name == "gaussian":
        floor = precision(dtype).jitter
        head.likelihood.noise_variance.assign(
            floor * 10.0 ** rng.uniform(0.1, 5.0, head.likelihood.noise_variance.shape)
        )
    x = np.concatenate([offset + 2 * rng.normal(size=(POINTS, FEATURES)), placed[0], placed[-1]])
    x[0] = offset + 1e3
    classes = head.num_classes if head.is_classifier else 1
    y = rng.integers(0, classes, len(x)) if head.is_classifier else 3 * rng.normal(size=len(x))
    check(head, tf.constant(x, dtype), tf.constant(y, dtype))


def check(head: Any, x: tf.Tensor, y: tf.Tensor) -> None:
    """The objective, and its gradient with respect to the weights and the features, are finite."""
    weights = [weight.value for weight in head.trainable_weights]
    with tf.GradientTape() as tape:
        tape.watch(x)
        terms = head.training_terms(head.latent(x), x, y)
        value = tf.reduce_sum(terms) - tf.reduce_sum(head.prior_kl())
    assert np.isfinite(value)
    names = [*(weight.name for weight in head.trainable_weights), "features"]
    for name, gradient in zip(names, tape.gradient(value, [*weights, x]), strict=True):
        assert np.isfinite(tf.convert_to_tensor(gradient)).all(), name
