"""What heads share whose logits are linear in weights with a Gaussian posterior of a Laplace approximation.

The logits of a point are f_c = β_cᵀ φ with q(β) = N(β̂, Σ), and their marginals are N(β̂_cᵀ φ, φᵀ Σ_c φ). The
weights β̂ are trained as any others; Σ follows from one pass over the training points at β̂.
"""

import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.heads.base import Head, Latent
from gpmodels.likelihoods import mixture
from gpmodels.likelihoods.base import Likelihood
from gpmodels.likelihoods.logistic import LogisticLikelihood
from gpmodels.likelihoods.logits import LogitLikelihood
from gpmodels.likelihoods.softmax import SoftmaxLikelihood


@check_shapes("root: [K, E, R]", "inputs: [B, E]", "return: [B, K]")
def marginal_variance(root: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
    """Return φᵀ R_k R_kᵀ φ of each point and logit.

    Args:
        root: R_k with Σ_k = R_k R_kᵀ, one for each logit.
        inputs: φ of each point.

    Example:
        >>> float(marginal_variance(2.0 * tf.eye(3)[None], tf.ones([1, 3]))[0, 0])
        12.0
    """
    # [K, B, R] -> [B, K]
    return tf.transpose(tf.reduce_sum(tf.square(tf.matmul(inputs[None], root)), axis=-1))


class GaussianLogits(Head):
    """Predictions from Gaussian logits; a head whose training knows their means alone.

    The objective is that of the weights' most probable values (MAP): log p(y) at the mean logits. Predictions
    average over the variance, by `LogisticLikelihood` for two classes and `SoftmaxLikelihood` for more, at
    fixed nodes. Mean-field logits (Lu, Ie and Sha, 2020: the mean over √(1 + πσ²/8)) approximate the same
    expectation.

    Attributes:
        num_classes: C.
    """

    num_classes: int

    def _set_classes(self, num_classes: int) -> None:
        """Take the number of classes.

        Raises:
            ValueError: There are fewer than two.
        """
        self._at_mean = LogitLikelihood(num_classes)
        self._averaged: Likelihood = (
            LogisticLikelihood() if num_classes == 2 else SoftmaxLikelihood(num_classes)
        )
        self.num_classes = num_classes
        self.label_requirement = self._at_mean.label_requirement

    @property
    def num_logits(self) -> int:
        """K: one logit decides between two classes, else there is one for each class."""
        return self._at_mean.num_latents

    def expected_log_likelihood(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """Return log p(y) at the mean logits, nats, `[B]`."""
        unit = self.responsible_expert(latent)
        return self._at_mean.expected_log_likelihood(latent.mean, latent.variance, label, unit)

    def log_predictive_density(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """Return log E[p(y | f)], nats, `[B]`."""
        return mixture.log_predictive_density(
            self._averaged, latent.mean, latent.variance, None, label, self.responsible_expert(latent)
        )

    def valid_labels(self, label: tf.Tensor) -> tf.Tensor:
        """Whether each label is a whole number from 0 to C - 1."""
        return self._at_mean.valid_labels(label)

    def predictions(self, latent: Latent) -> dict[str, tf.Tensor]:
        """Return probabilities averaged over the logits' variance, with their entropies."""
        return mixture.predictions(
            self._averaged, latent.mean, latent.variance, None, self.responsible_expert(latent)
        )
