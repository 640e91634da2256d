"""The likelihood of classes on which several people voted: Σ_c s_c log p(c | f), the mean over the votes.

The shares s of a point say how those who looked at it were divided. A model that learns from them is asked to
predict how the next one would vote; of points on which all agree it is the softmax of one class.
"""

from collections.abc import Callable

import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.likelihoods.base import Likelihood
from gpmodels.likelihoods.softmax import SoftmaxLikelihood

_ROUNDING = 1e-3

Terms = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]


class VotesLikelihood(Likelihood):
    """C classes, C latent functions, and for each point the shares of the votes that each class got.

    Targets are `[B, C]`, at least 0 with the sum 1. Outputs are those of `SoftmaxLikelihood`.

    Args:
        num_classes: C, at least 2.

    Raises:
        ValueError: There are fewer classes.

    Example:
        >>> likelihood, unit = VotesLikelihood(2), tf.constant([0])
        >>> marginal, votes = (tf.zeros([1, 2]), tf.zeros([1, 2])), tf.constant([[0.75, 0.25]])
        >>> round(float(likelihood.log_predictive_density(*marginal, votes, unit)[0]), 4)
        -0.6931
    """

    is_classifier = True

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self._softmax = SoftmaxLikelihood(num_classes)
        self.num_latents = num_classes
        self.label_shape = (num_classes,)
        self.label_requirement = f"shares of {num_classes} classes, at least 0, whose sum is 1"

    @check_shapes("mean: [B, C]", "variance: [B, C]", "label: [B, C]", "unit: [B]", "return: [B]")
    def expected_log_likelihood(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return Σ_c s_c E[log p(c | f)] = Σ_c s_c μ_c - E[log Σ_c exp(f_c)], nats, `[B]`."""
        of_first = self._softmax.expected_log_likelihood(mean, variance, tf.zeros_like(unit), unit)
        return of_first + tf.reduce_sum(tf.cast(label, mean.dtype) * (mean - mean[:, :1]), axis=1)

    @check_shapes("mean: [B, C]", "variance: [B, C]", "label: [B, C]", "unit: [B]", "return: [B]")
    def log_predictive_density(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return Σ_c s_c log E[p(c | f)], the mean log probability of a vote, nats, `[B]`."""
        return self._of_shares(self._softmax.log_predictive_density, mean, variance, label, unit)

    @check_shapes("mean: [B, C]", "variance: [B, C]", "label: [B, C]", "unit: [B]", "return: [B]")
    def log_expected_inverse(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return Σ_c s_c log E[1/p(c | f)], nats, `[B]`: at least log E[Π_c p(c | f)^-s_c], by Hölder."""
        return self._of_shares(self._softmax.log_expected_inverse, mean, variance, label, unit)

    def _of_shares(
        self, function: Terms, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return the mean over the votes of what a function of the softmax says of each class."""
        classes = range(self.num_latents)
        of_each = [function(mean, variance, tf.fill(tf.shape(unit), c), unit) for c in classes]
        return tf.reduce_sum(tf.cast(label, mean.dtype) * tf.stack(of_each, axis=1), axis=1)

    @check_shapes("mean: [B, C]", "variance: [B, C]", "unit: [B]")
    def predictions(self, mean: tf.Tensor, variance: tf.Tensor, unit: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return what `SoftmaxLikelihood.predictions` does."""
        outputs: dict[str, tf.Tensor] = self._softmax.predictions(mean, variance, unit)
        return outputs

    @check_shapes("logits: [B, C]", "label: [B, C]", "return: [B]")
    def log_probability(self, logits: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        """Return Σ_c s_c log softmax(logits)_c, nats, `[B]`."""
        return tf.reduce_sum(tf.cast(label, logits.dtype) * tf.nn.log_softmax(logits), axis=1)

    @check_shapes("label: [B, C]", "return: [B]")
    def valid_labels(self, label: tf.Tensor) -> tf.Tensor:
        """Whether the shares of each point are at least 0 and have the sum 1 but for rounding."""
        share = tf.cast(label, tf.float64)
        is_whole = tf.abs(tf.reduce_sum(share, axis=1) - 1.0) < _ROUNDING
        return tf.reduce_all(share >= 0.0, axis=1) & is_whole
