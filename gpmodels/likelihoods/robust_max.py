"""The robust-max likelihood of C classes: the largest latent function names the class, but for noise ε.

P_c, the probability that f_c is the largest, is a one-dimensional integral, thesis (4.17):

    P_c = ∫ N(f | μ_c, σ_c²) Π_{j≠c} Φ((f - μ_j)/σ_j) df

Gauss-Hermite nodes of N(μ_c, σ_c²), which the thesis takes, miss the steps Φ of classes with a smaller
variance: Σ_c P_c is then off by 0.1. The nodes here are common to all classes, so that all P_c together cost
one evaluation of C functions at Q nodes, and they resolve every step at its own scale, see
`largest_probabilities`.
"""

# ruff: noqa: ARG002 - the base class has the argument `unit`
import math

import numpy as np
import tensorflow as tf
from check_shapes import check_shapes, inherit_check_shapes

from gpmodels.likelihoods.categorical import CategoricalLikelihood, categorical_entropy, of_label
from gpmodels.likelihoods.probit import HALF_LOG_TWO_PI, SQRT_HALF

NUM_NODES = 32
"""Nodes of the integral (4.17)."""

REACH = 5.5
"""Standard deviations after which a Gaussian counts as 0; the first node is one nearer, Φ(-4.5) = 3e-6."""

LOWEST = -9.0
"""Below, Φ(z) counts as Φ(-9) = 1e-19, which float32 holds: the product of all is then 0 beside 1e-7."""


def _nodes(mean: tf.Tensor, deviation: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the nodes relative to a centre: centre `[B, 1]`, nodes `[B, Q]`, log weights `[B, Q]`."""
    lowest = mean - REACH * deviation
    binding = tf.argmax(lowest, axis=-1)
    centre = tf.gather(mean, binding, batch_dims=1)[:, None]
    scale = tf.gather(deviation, binding, batch_dims=1)[:, None]
    # Relative to the centre, else float32 loses a narrow Gaussian far from 0.
    end = tf.reduce_max((mean - centre) + REACH * deviation, axis=-1, keepdims=True)
    log_range = tf.math.log((end + REACH * scale) / scale)
    fraction = tf.constant(np.linspace(0.0, 1.0, NUM_NODES), mean.dtype)
    distance = scale * tf.exp(log_range * fraction)
    log_weights = tf.math.log(distance * log_range / (NUM_NODES - 1.0))
    return centre, distance - REACH * scale, log_weights


@check_shapes("mean: [B, C]", "variance: [B, C]", "return: [B, C]")
def largest_probabilities(mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    """Return P_c, the probability that f_c is the largest of C independent Gaussians, before normalisation.

    Below a = max_j(μ_j - 5.5σ_j) the product of all Φ is 0. Above, every step Φ((f - μ_j)/σ_j) has become 1
    at f = a + 11σ_j: at a distance d from a, only scales of d/11 and more are left. Hence the trapezoidal
    rule in log(f - a), which resolves all of them with one set of nodes for all classes.

    Args:
        mean: μ, `[B, C]`.
        variance: σ², positive, `[B, C]`.

    Returns:
        P, `[B, C]`. Their sum is 1 within 5e-5 where a point's variances differ by a factor of up to
            100, within 5e-4 up to 1e4, and within 1e-2 up to 1e6.

    Source:
        Thesis (4.17).

    Example:
        >>> largest_probabilities(tf.zeros([1, 4]), tf.ones([1, 4])).numpy().round(4)
        array([[0.25, 0.25, 0.25, 0.25]], dtype=float32)
    """
    deviation = tf.sqrt(variance)
    # The integral does not depend on its nodes: its gradient is that of the integrand.
    centre, nodes, log_weights = (tf.stop_gradient(part)[..., None] for part in _nodes(mean, deviation))
    z = ((centre - tf.expand_dims(mean, 1)) + nodes) / tf.expand_dims(deviation, 1)
    # Half the time of `log_normal_cdf`, whose tail is not needed here.
    log_cdf = tf.math.log(0.5 * tf.math.erfc(-tf.maximum(z, LOWEST) * SQRT_HALF))
    log_others = tf.reduce_sum(log_cdf, axis=-1, keepdims=True) - log_cdf
    log_density = -0.5 * tf.square(z) - HALF_LOG_TWO_PI - tf.expand_dims(tf.math.log(deviation), 1)
    return tf.reduce_sum(tf.exp(log_weights + log_density + log_others), axis=1)


class RobustMaxLikelihood(CategoricalLikelihood):
    """p(y | f) = 1 - ε if f_y is the largest latent function, ε/(C - 1) otherwise.

    Given f, the entropy of y is the same wherever f lies. `mutual_information` is therefore the predictive
    entropy minus a constant (0.0086 nats for C = 3, ε = 1e-3) and carries nothing new; use the entropy.

    Args:
        num_classes: C, at least 2.
        epsilon: ε, the probability that a label is not the class of the largest latent function.

    Raises:
        ValueError: A setting is out of range.

    Source:
        Thesis (4.15) to (4.17). It prints `E[log p]` for the predictive probability in (4.35), a slip.

    Example:
        >>> likelihood = RobustMaxLikelihood(3)
        >>> outputs = likelihood.predictions(tf.zeros([1, 3]), tf.ones([1, 3]), unit=tf.constant([0]))
        >>> outputs["probability"].numpy().round(4)
        array([[0.3333, 0.3333, 0.3333]], dtype=float32)
    """

    def __init__(self, num_classes: int, epsilon: float = 1e-3) -> None:
        super().__init__(num_classes)
        if not 0.0 < epsilon < 1.0 - 1.0 / num_classes:
            raise ValueError(
                f"epsilon must lie between 0 and {1.0 - 1.0 / num_classes:.4g} (labels at random), "
                f"but is {epsilon}."
            )
        self.epsilon = epsilon
        self.log_hit = math.log1p(-epsilon)
        self.log_miss = math.log(epsilon / (num_classes - 1))

    @inherit_check_shapes
    def expected_log_likelihood(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return P_y log(1 - ε) + (1 - P_y) log(ε/(C - 1)), nats, `[B]`; `unit` makes no difference."""
        hit = of_label(self._largest(mean, variance), label)
        return self.log_miss + hit * (self.log_hit - self.log_miss)

    @inherit_check_shapes
    def log_predictive_density(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return log p_y of `predictions`, nats, `[B]`; `unit` makes no difference."""
        return tf.math.log(self._noisy(of_label(self._largest(mean, variance), label)))

    @inherit_check_shapes
    def log_expected_inverse(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return log(P_y/(1 - ε) + (1 - P_y)(C - 1)/ε), nats, `[B]`; `unit` makes no difference."""
        hit = of_label(self._largest(mean, variance), label)
        return tf.math.log(hit * math.exp(-self.log_hit) + (1.0 - hit) * math.exp(-self.log_miss))

    @inherit_check_shapes
    def predictions(self, mean: tf.Tensor, variance: tf.Tensor, unit: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return `probability` P_c (1 - ε) + (1 - P_c) ε/(C - 1) and what follows from it."""
        probability = self._noisy(self._largest(mean, variance))
        entropy = categorical_entropy(probability)
        entropy_given_latent = -(1.0 - self.epsilon) * self.log_hit - self.epsilon * self.log_miss
        return {
            "probability": probability,
            "label": tf.argmax(probability, axis=-1, output_type=tf.int32),
            "latent_mean": mean,
            "latent_variance": variance,
            "predictive_entropy": entropy,
            "mutual_information": tf.nn.relu(entropy - entropy_given_latent),
        }

    def _largest(self, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        """Return P_c, normalised, `[B, C]`."""
        probability = largest_probabilities(mean, variance)
        return probability / tf.reduce_sum(probability, axis=-1, keepdims=True)

    def _noisy(self, largest: tf.Tensor) -> tf.Tensor:
        """Return p_c = P_c (1 - ε) + (1 - P_c) ε/(C - 1) from P_c."""
        miss = self.epsilon / (self.num_classes - 1)
        return miss + largest * (1.0 - self.epsilon - miss)
