"""The heads by loops over points, experts and classes, on the NumPy twins of their units."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from gpmodels.heads.gp import GPHead

from . import reference
from .random_units import latent_twins

Marginals = list[tuple[float, float]]
"""Mean and variance of each latent function at a point."""


def points(size: int, seed: int = 1) -> np.ndarray:
    """`[size, 2]`, spread about as far as the experts of a random head."""
    return 2 * np.random.default_rng(seed).normal(size=(size, 2))


def labels(size: int, seed: int = 2, num_classes: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, num_classes, size)


def targets(size: int, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=size)


def labels_for(head: GPHead, size: int) -> np.ndarray:
    """Labels or targets that the head's likelihood knows."""
    return labels(size, num_classes=head.num_classes) if head.is_classifier else targets(size)


def objective(head: Any, x: np.ndarray, y: np.ndarray, *, scale: float = 1.0) -> tf.Tensor:
    """L1 of thesis (4.20) as trained, the sum over the points times `scale`."""
    features, label = tf.convert_to_tensor(x), tf.constant(y)
    terms = head.training_terms(head.latent(features), features, label)
    return scale * tf.reduce_sum(terms) - tf.reduce_sum(head.prior_kl())


def routes(head: Any, x: np.ndarray) -> list[int]:
    """Responsible experts by a loop over the densities of the active ones."""
    inducing = head.experts.inducing_inputs.numpy()
    kept = head.active_experts
    return [int(kept[reference.responsible_expert(inducing[kept], point)]) for point in x]


def shared_marginals(head: Any, x: np.ndarray) -> Marginals:
    """Thesis (4.18) of each latent function at one point."""
    return [
        reference.global_marginal(unit, x) for unit in latent_twins(head.global_unit, head.kernel_name)[0]
    ]


def expert_marginals(head: Any, x: np.ndarray, k: int) -> Marginals:
    """Of expert k at one point: thesis (4.19), or (4.18) of the expert where there is no global unit."""
    experts = latent_twins(head.experts, head.kernel_name)[k]
    if not hasattr(head, "global_unit"):
        return [reference.global_marginal(expert, x) for expert in experts]
    shared = latent_twins(head.global_unit, head.kernel_name)[0]
    return [
        reference.expert_marginal(above, expert, x, expert_variance=head.expert_variance)
        for above, expert in zip(shared, experts, strict=True)
    ]


def likelihood_term(head: GPHead, marginals: Marginals, label: float, unit: int) -> float:
    """E[log p(y | f)] at one point; `unit` counts the noise variances."""
    means, variances = zip(*marginals, strict=True)
    match head.likelihood_name:
        case "gaussian":
            noise = float(head.likelihood.noise_variance[unit])
            return reference.gaussian_term(means[0], variances[0], label, noise)
        case "bernoulli":
            return reference.expected_log_likelihood(means[0], variances[0], int(label))
        case "robust_max":
            return reference.robust_max_term(means, variances, int(label))
        case _:
            return reference.softmax_term(means, variances, int(label))


def expert_term(head: Any, x: np.ndarray, label: float, k: int) -> float:
    """E[log p(y | f_k)] at one point."""
    unit = k + 1 if hasattr(head, "global_unit") else k
    return likelihood_term(head, expert_marginals(head, x, k), label, unit)


def global_term(head: Any, x: np.ndarray, label: float) -> float:
    """w E[log p(y | f_0)] at one point, 0 where there is no global likelihood."""
    weight = getattr(head, "global_weight", 0.0)
    return weight * likelihood_term(head, shared_marginals(head, x), label, 0) if weight else 0.0


def divergence(head: Any) -> float:
    """Sum of KL(q ‖ prior) over all latent functions of all units."""
    groups = [getattr(head, "global_unit", None), getattr(head, "experts", None)]
    return sum(
        twin.kl()
        for units in groups
        if units
        for unit in latent_twins(units, head.kernel_name)
        for twin in unit
    )


def objective_by_loops(head: Any, x: np.ndarray, y: np.ndarray) -> float:
    """Thesis (4.20), or (3.33) for regression, with the hard assignment (4.30)."""
    total = -divergence(head)
    for point, label, k in zip(x, y, routes(head, x), strict=True):
        total += expert_term(head, point, label, k) + global_term(head, point, label)
    return total


def gradients(head: Any, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Of the objective with respect to every trainable weight."""
    weights = [weight.value for weight in head.trainable_weights]
    with tf.GradientTape() as tape:
        value = objective(head, x, y)
    return [tf.convert_to_tensor(part).numpy() for part in tape.gradient(value, weights)]


def assert_gradient_is_numeric(head: Any, x: np.ndarray, y: np.ndarray, *, tolerance: float = 1e-5) -> None:
    """The gradient of every weight, along a random direction, against central differences."""
    chosen = head.assign(tf.constant(x)).numpy()
    rng = np.random.default_rng(5)
    step = 1e-6
    weights = [weight.value for weight in head.trainable_weights]
    for weight, gradient in zip(weights, gradients(head, x, y), strict=True):
        direction = rng.normal(size=weight.shape)
        start = weight.numpy()
        values = []
        for sign in (1.0, -1.0):
            weight.assign(start + sign * step * direction)
            values.append(float(objective(head, x, y)))
            np.testing.assert_array_equal(head.assign(tf.constant(x)), chosen)  # away from the jumps
        weight.assign(start)
        numeric = (values[0] - values[1]) / (2 * step)
        analytic = float(np.sum(gradient * direction))
        assert abs(analytic - numeric) <= 1e-6 + tolerance * abs(numeric), weight.name
