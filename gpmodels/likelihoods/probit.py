"""The probit likelihood of two classes: p(y = 1 | f) = Φ(f).

Expectations under a Gaussian latent marginal N(μ, σ²): the bound's expected log-likelihood and the expected
entropy by Gauss-Hermite quadrature, the predictive probability in closed form.
"""

# ruff: noqa: ARG002 - the base class has the argument `unit`
import math
from collections.abc import Callable

import scipy.special
import tensorflow as tf
from check_shapes import check_shapes, inherit_check_shapes

from gpmodels.likelihoods.base import Likelihood
from gpmodels.likelihoods.error_function import portable_erfc
from gpmodels.units.gradients import custom_gradient

NUM_QUADRATURE_NODES = 20
"""Gauss-Hermite nodes, as many as GPflow's Bernoulli takes."""

# Python numbers take the dtype of the tensor they meet; `tf.cast` of one would round it to float32 first.
SQRT_HALF = math.sqrt(0.5)
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


@check_shapes("z: [any...]", "return: [any...]")
def log_normal_cdf(z: tf.Tensor) -> tf.Tensor:
    """Return log Φ(z), accurate in both tails in float32.

    Above -10 (float32) or -30 (float64), log(½ erfc(-z/√2)); below, where erfc underflows, the asymptotic
    series of Mills' ratio. TFP's `Normal.log_cdf` costs several times as much.

    Example:
        >>> round(float(log_normal_cdf(tf.constant(0.0))), 4)
        -0.6931
    """

    @custom_gradient
    def log_cdf(z: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        near = tf.maximum(z, -10.0 if z.dtype == tf.float32 else -30.0)
        cut = near > z
        direct = tf.math.log(0.5 * tf.math.erfc(-near * SQRT_HALF))
        far = tf.minimum(z, -5.0)
        inverse_square = 1.0 / tf.square(far)
        series = 1.0 + inverse_square * (-1.0 + inverse_square * (3.0 - 15.0 * inverse_square))
        tail = -0.5 * tf.square(far) - tf.math.log(-far) - HALF_LOG_TWO_PI + tf.math.log(series)
        value = tf.where(cut, tail, direct)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            # φ/Φ by logarithms, and by the series in the tail, so that its own derivative is finite too.
            by_logarithms = tf.exp(-0.5 * tf.square(near) - HALF_LOG_TWO_PI - log_normal_cdf(near))
            of_series = (2.0 + inverse_square * (-12.0 + 90.0 * inverse_square)) * inverse_square / far
            in_tail = -far - 1.0 / far + of_series / series
            return upstream * tf.where(cut, in_tail, by_logarithms)

        return value, gradient

    return log_cdf(z)


def _nodes(mean: tf.Tensor, variance: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the latent values at the quadrature nodes `[..., Q]` and weights `[Q]` that sum to 1."""
    x, w = scipy.special.roots_hermitenorm(NUM_QUADRATURE_NODES)
    nodes = tf.constant(x, mean.dtype)
    weights = tf.constant(w / w.sum(), mean.dtype)
    return tf.expand_dims(mean, -1) + tf.expand_dims(tf.sqrt(variance), -1) * nodes, weights


@check_shapes("mean: [batch...]", "variance: [batch...]", "label: [batch...]", "return: [batch...]")
def expected_log_probit(mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
    """Return E_{N(f | μ, σ²)}[log Φ(s f)], s = 2y - 1, the terms of thesis (4.36).

    Args:
        mean: μ.
        variance: σ², positive.
        label: y, 0 or 1, any dtype.

    Example:
        >>> round(float(expected_log_probit(tf.constant(0.0), tf.constant(1e-6), tf.constant(1))), 4)
        -0.6931
    """
    sign = 2.0 * tf.cast(label, mean.dtype) - 1.0
    f, weights = _nodes(mean, variance)
    return tf.tensordot(log_normal_cdf(tf.expand_dims(sign, -1) * f), weights, axes=1)


@check_shapes("mean: [batch...]", "variance: [batch...]", "return: [batch...]")
def predictive_probability(mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    """Return p(y = 1) = E[Φ(f)] = Φ(μ/√(1 + σ²)).

    The thesis prints E[log p(y | f)] in (4.35) and (4.40), which is no probability; a slip.
    """
    z = mean / tf.sqrt(1.0 + variance)
    return 0.5 * portable_erfc(-z * SQRT_HALF)


@check_shapes("probability: [batch...]", "return: [batch...]")
def bernoulli_entropy(probability: tf.Tensor) -> tf.Tensor:
    """Return -p log p - (1 - p) log(1 - p) in nats, 0 at p = 0 and p = 1."""
    complement = 1.0 - probability
    return -tf.math.xlogy(probability, probability) - tf.math.xlogy(complement, complement)


@check_shapes("mean: [batch...]", "variance: [batch...]", "return: [batch...]")
def expected_entropy(mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    """Return E[H(Φ(f))] in nats, the part of the predictive entropy that more data would not remove.

    H(Φ(f)) falls off like exp(-f²/2), and nodes spread over a wide N(μ, σ²) miss it, by 0.1 nats at σ² = 100.
    So the quadrature is over N(μ, σ²) exp(-f²/2) ∝ N(μ/(1 + σ²), σ²/(1 + σ²)), which is narrow.

    Example:
        >>> round(float(expected_entropy(tf.constant(0.0), tf.constant(1.0))), 4)
        0.5
    """
    spread = 1.0 + variance
    f, weights = _nodes(mean / spread, variance / spread)
    # H is even; the small tail keeps its digits.
    tail_probability = 0.5 * portable_erfc(tf.abs(f) * SQRT_HALF)
    # At most half the largest node's square, 29, but for rounding.
    exponent = tf.minimum(0.5 * (tf.square(f) - tf.expand_dims(tf.square(mean) / spread, -1)), 30.0)
    integrand = bernoulli_entropy(tail_probability) * tf.exp(exponent)
    return tf.tensordot(integrand, weights, axes=1) / tf.sqrt(spread)


class ProbitLikelihood(Likelihood):
    """Two classes and one latent function: p(y = 1 | f) = Φ(f).

    Source:
        Thesis (4.36) to (4.40).

    Example:
        >>> marginal = tf.constant([[0.0]]), tf.constant([[1.0]])
        >>> outputs = ProbitLikelihood().predictions(*marginal, unit=tf.constant([0]))
        >>> float(outputs["probability"][0])
        0.5
    """

    num_latents = 1
    is_classifier = True
    label_requirement = "0 or 1"

    @inherit_check_shapes
    def expected_log_likelihood(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return E[log Φ(s f)], s = 2y - 1, by quadrature, nats, `[B]`; `unit` makes no difference."""
        return expected_log_probit(tf.squeeze(mean, 1), tf.squeeze(variance, 1), label)

    @inherit_check_shapes
    def log_predictive_density(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return log Φ(s μ/√(1 + σ²)), nats, `[B]`; `unit` makes no difference."""
        sign = 2.0 * tf.cast(label, mean.dtype) - 1.0
        return log_normal_cdf(sign * tf.squeeze(mean, 1) / tf.sqrt(1.0 + tf.squeeze(variance, 1)))

    @inherit_check_shapes
    def predictions(self, mean: tf.Tensor, variance: tf.Tensor, unit: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the closed-form `probability` of class 1, entropies by quadrature, all `[B]`."""
        mean, variance = tf.squeeze(mean, 1), tf.squeeze(variance, 1)
        probability = predictive_probability(mean, variance)
        entropy = bernoulli_entropy(probability)
        return {
            "probability": probability,
            "label": tf.cast(probability > 0.5, tf.int32),
            "latent_mean": mean,
            "latent_variance": variance,
            "predictive_entropy": entropy,
            # Both entropies carry rounding; information is never negative.
            "mutual_information": tf.nn.relu(entropy - expected_entropy(mean, variance)),
        }

    @inherit_check_shapes
    def valid_labels(self, label: tf.Tensor) -> tf.Tensor:
        """Whether each label is 0 or 1."""
        value = tf.cast(label, tf.float64)
        return tf.logical_or(tf.equal(value, 0.0), tf.equal(value, 1.0))
