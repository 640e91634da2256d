"""The likelihood of several yes/no labels of a point: p(y | f) = Π_l σ(f_l)^y_l (1 - σ(f_l))^(1 - y_l).

Every label has a latent function of its own, so that L labels cost what a softmax of L classes costs. Given
the latent functions labels are independent; a label that nobody knows leaves its factor out, which is exact:
summed over both of its values a factor is 1.
"""

# ruff: noqa: ARG002 - the base class has the argument `unit`
from collections.abc import Callable

import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.likelihoods.base import Likelihood
from gpmodels.likelihoods.logistic import LogisticLikelihood
from gpmodels.units.counts import check_counts

Terms = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]


@check_shapes("values: [B, L]", "label: [B, L]", "return: [B]")
def sum_of_known(values: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
    """Return the sum over the labels that are known, those that are not NaN, of each point.

    Example:
        >>> sum_of_known(tf.constant([[-1.0, -2.0]]), tf.constant([[1.0, float("nan")]])).numpy().tolist()
        [-1.0]
    """
    return tf.reduce_sum(tf.where(tf.math.is_nan(label), tf.zeros_like(values), values), axis=1)


@check_shapes("logit: [B, L]", "label: [B, L]", "return: [B]")
def log_probability_of_labels(logit: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
    """Return log p(y) of the known labels of each point by their log-odds, nats.

    Example:
        >>> half = log_probability_of_labels(tf.zeros([1, 3]), tf.constant([[1.0, 0.0, float("nan")]]))
        >>> round(float(half[0]), 4)
        -1.3863
    """
    label = tf.cast(label, logit.dtype)
    known = tf.where(tf.math.is_nan(label), tf.zeros_like(label), label)
    return sum_of_known(-tf.nn.sigmoid_cross_entropy_with_logits(known, logit), label)


class MultilabelLikelihood(Likelihood):
    """L labels and L latent functions: p(y_l = 1 | f) = σ(f_l), and no factor where y_l is NaN.

    Targets are `[B, L]` of 0, 1 and NaN. Outputs are those of `LogisticLikelihood` for each label, `[B, L]`.

    Args:
        num_labels: L.

    Raises:
        ValueError: L is no whole number from 1.

    Example:
        >>> likelihood, unit = MultilabelLikelihood(2), tf.constant([0])
        >>> marginal, one_unknown = (tf.zeros([1, 2]), tf.ones([1, 2])), tf.constant([[1.0, float("nan")]])
        >>> round(float(likelihood.log_predictive_density(*marginal, one_unknown, unit)[0]), 4)
        -0.6931
    """

    is_classifier = True

    def __init__(self, num_labels: int) -> None:
        super().__init__()
        check_counts(num_labels=num_labels)
        self.num_latents = num_labels
        self.label_shape = (num_labels,)
        self.label_requirement = f"0, 1, or NaN where it is unknown, {num_labels} for each example"
        self._each = LogisticLikelihood()

    @check_shapes("mean: [B, L]", "variance: [B, L]", "label: [B, L]", "unit: [B]", "return: [B]")
    def expected_log_likelihood(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return Σ_l E[log p(y_l | f_l)] over the known labels, nats, `[B]`."""
        return self._summed(self._each.expected_log_likelihood, mean, variance, label)

    @check_shapes("mean: [B, L]", "variance: [B, L]", "label: [B, L]", "unit: [B]", "return: [B]")
    def log_predictive_density(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return Σ_l log E[p(y_l | f_l)] over the known labels, nats, `[B]`."""
        return self._summed(self._each.log_predictive_density, mean, variance, label)

    @check_shapes("mean: [B, L]", "variance: [B, L]", "label: [B, L]", "unit: [B]", "return: [B]")
    def log_expected_inverse(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return Σ_l log E[1/p(y_l | f_l)] over the known labels, nats, `[B]`."""
        return self._summed(self._each.log_expected_inverse, mean, variance, label)

    def _summed(self, terms: Terms, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        """Return the sum over the known labels of what a logistic likelihood says of each."""
        label = tf.cast(label, mean.dtype)
        known = tf.where(tf.math.is_nan(label), tf.zeros_like(label), label)
        flat = tf.reshape(mean, [-1, 1]), tf.reshape(variance, [-1, 1]), tf.reshape(known, [-1])
        of_each = terms(*flat, tf.zeros_like(flat[2], tf.int32))
        return sum_of_known(tf.reshape(of_each, tf.shape(mean)), label)

    @check_shapes("mean: [B, L]", "variance: [B, L]", "unit: [B]")
    def predictions(self, mean: tf.Tensor, variance: tf.Tensor, unit: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return what `LogisticLikelihood.predictions` does of each label, `[B, L]`."""
        flat = tf.reshape(mean, [-1, 1]), tf.reshape(variance, [-1, 1])
        outputs = self._each.predictions(*flat, tf.zeros(tf.shape(flat[0])[:1], tf.int32))
        shape = [-1, self.num_latents]
        return {name: tf.reshape(value, shape) for name, value in outputs.items()}

    @check_shapes("logits: [B, L]", "label: [B, L]", "return: [B]")
    def log_probability(self, logits: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        """Return log p(y) of the known labels by their log-odds, nats, `[B]`."""
        return log_probability_of_labels(logits, label)

    @check_shapes("label: [B, L]", "return: [B]")
    def valid_labels(self, label: tf.Tensor) -> tf.Tensor:
        """Whether all labels of each point are 0, 1 or NaN."""
        value = tf.cast(label, tf.float64)
        return tf.reduce_all(tf.math.is_nan(value) | tf.equal(value, 0.0) | tf.equal(value, 1.0), axis=1)
