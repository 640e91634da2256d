"""The logistic likelihood of two classes: p(y = 1 | f) = σ(f) = 1/(1 + exp(-f)).

Expectations under a Gaussian latent marginal are sums over fixed nodes: the same nodes serve the probability
and the expected entropy, so that the mutual information is never negative.
"""

# ruff: noqa: ARG002 - the base class has the argument `unit`
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes, inherit_check_shapes

from gpmodels.likelihoods.base import Likelihood
from gpmodels.likelihoods.categorical import is_class
from gpmodels.likelihoods.probit import bernoulli_entropy

SPACING = 0.125
"""Distance of two nodes in standard deviations of f."""

LARGEST_NODE = 10.0
"""The mean of σ may lie far out, where f is large although it is improbable: at 10 it is below 10⁻²²."""


def _standard_nodes() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return equidistant nodes `[Q]`, and their shares of N(0, 1), `[Q]`: the trapezoidal rule.

    At a latent variance s² its error is about exp(-2π²/(0.125 s)), which can be neglected up to s = 15, and
    is below 0.003 at s = 40.
    """
    nodes = np.arange(-LARGEST_NODE, LARGEST_NODE + 0.5 * SPACING, SPACING)
    weights = np.exp(-0.5 * nodes**2)
    return nodes, weights / weights.sum()


class LogisticLikelihood(Likelihood):
    """Two classes and one latent function: p(y = 1 | f) = σ(f).

    MacKay (1992), The evidence framework applied to classification networks, approximates the same
    probability by σ(μ/√(1 + πσ²/8)), eq. (11); it is within 0.02 of the nodes' (the tests compare them).

    Example:
        >>> marginal = tf.constant([[0.0]]), tf.constant([[1.0]])
        >>> outputs = LogisticLikelihood().predictions(*marginal, unit=tf.constant([0]))
        >>> round(float(outputs["probability"][0]), 4)
        0.5
    """

    num_latents = 1
    is_classifier = True
    label_requirement = "0 or 1"

    @check_shapes("mean: [B, 1]", "variance: [B, 1]", "return: [B, Q]")
    def _latent_values(self, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        """Return the latent values f at the nodes, `[B, Q]`."""
        nodes, _ = _standard_nodes()
        return mean + tf.sqrt(variance) * tf.constant(nodes, mean.dtype)

    @check_shapes("at_nodes: [B, Q]", "return: [B]")
    def _expectation(self, at_nodes: tf.Tensor) -> tf.Tensor:
        """Return the mean of a function of f over the nodes."""
        _, weights = _standard_nodes()
        return tf.linalg.matvec(at_nodes, tf.constant(weights, at_nodes.dtype))

    @inherit_check_shapes
    def expected_log_likelihood(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return E[log σ(±f)], nats, `[B]`; `unit` makes no difference."""
        return self._expectation(self._log_probability(mean, variance, label))

    @inherit_check_shapes
    def log_predictive_density(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return log E[σ(±f)] without underflow, nats, `[B]`; `unit` makes no difference."""
        _, weights = _standard_nodes()
        terms = self._log_probability(mean, variance, label)
        return tf.reduce_logsumexp(terms + tf.constant(np.log(weights), terms.dtype), axis=-1)

    @inherit_check_shapes
    def log_expected_inverse(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return log(1 + exp(-sμ + v/2)), s = ±1, exactly, nats, `[B]`; `unit` makes no difference."""
        sign = 2.0 * tf.cast(label, mean.dtype) - 1.0
        return tf.math.softplus(-sign * tf.squeeze(mean, 1) + 0.5 * tf.squeeze(variance, 1))

    def _log_probability(self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        """Return log p(y | f) at the nodes, `[B, Q]`."""
        sign = 2.0 * tf.cast(label, mean.dtype)[:, None] - 1.0
        return tf.math.log_sigmoid(sign * self._latent_values(mean, variance))

    @inherit_check_shapes
    def predictions(self, mean: tf.Tensor, variance: tf.Tensor, unit: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the mean of σ over the nodes, its entropy, and that minus the mean entropy of a node."""
        at_nodes = tf.sigmoid(self._latent_values(mean, variance))
        probability = self._expectation(at_nodes)
        entropy = bernoulli_entropy(probability)
        return {
            "probability": probability,
            "label": tf.cast(tf.squeeze(mean, 1) > 0.0, tf.int32),  # the nodes are symmetric
            "latent_mean": tf.squeeze(mean, 1),
            "latent_variance": tf.squeeze(variance, 1),
            "predictive_entropy": entropy,
            # Jensen's inequality holds for the nodes too, but for rounding.
            "mutual_information": tf.nn.relu(entropy - self._expectation(bernoulli_entropy(at_nodes))),
        }

    @inherit_check_shapes
    def valid_labels(self, label: tf.Tensor) -> tf.Tensor:
        """Whether each label is 0 or 1."""
        return is_class(label, 2)
