"""Classes by logits that are known exactly, as each member of an ensemble has them.

`gpmodels.likelihoods.mixture` mixes members by it: without a variance there is nothing to integrate over, and
the expectations need no nodes.
"""

# ruff: noqa: ARG002 - the base class has the arguments `variance` and `unit`
import math

import tensorflow as tf
from check_shapes import inherit_check_shapes

from gpmodels.likelihoods import mixture
from gpmodels.likelihoods.base import Likelihood
from gpmodels.likelihoods.categorical import categorical_entropy, is_class
from gpmodels.likelihoods.probit import bernoulli_entropy


class LogitLikelihood(Likelihood):
    """p(y = 1 | f) = σ(f) of two classes, or p(y = c | f) = exp(f_c)/Σ exp(f) of more, at f = mean.

    The variance is passed on to the outputs and plays no other part: give 0.

    Args:
        num_classes: C; 2 takes one latent function, more take one for each class.

    Raises:
        ValueError: There are fewer than two classes.

    Example:
        >>> outputs = LogitLikelihood(2).predictions(tf.zeros([1, 1]), tf.zeros([1, 1]), tf.constant([0]))
        >>> float(outputs["probability"][0]), float(outputs["mutual_information"][0])
        (0.5, 0.0)
    """

    is_classifier = True

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        if num_classes < 2:
            raise ValueError(f"A classifier needs at least 2 classes, but num_classes is {num_classes}.")
        self.num_classes = num_classes
        self.num_latents = 1 if num_classes == 2 else num_classes
        self.label_requirement = "0 or 1" if num_classes == 2 else f"an integer from 0 to {num_classes - 1}"

    @inherit_check_shapes
    def expected_log_likelihood(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return log p(y | f = mean), nats, `[B]`."""
        if self.num_classes == 2:
            return -tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(label, mean.dtype), tf.squeeze(mean, 1))
        classes = tf.cast(label, tf.int32)
        return -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=mean)

    @inherit_check_shapes
    def log_predictive_density(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return log p(y | f = mean), nats, `[B]`."""
        return self.expected_log_likelihood(mean, variance, label, unit)

    @inherit_check_shapes
    def predictions(self, mean: tf.Tensor, variance: tf.Tensor, unit: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the probabilities of the logits and their entropy; the mutual information is 0."""
        if self.num_classes == 2:
            mean, variance = tf.squeeze(mean, 1), tf.squeeze(variance, 1)
            probability = tf.sigmoid(mean)
            label, entropy = tf.cast(probability > 0.5, tf.int32), bernoulli_entropy(probability)
        else:
            probability = tf.nn.softmax(mean)
            label = tf.argmax(mean, axis=-1, output_type=tf.int32)
            entropy = categorical_entropy(probability)
        return {
            "probability": probability,
            "label": label,
            "latent_mean": mean,
            "latent_variance": variance,
            "predictive_entropy": entropy,
            "mutual_information": tf.zeros_like(entropy),
        }

    @inherit_check_shapes
    def valid_labels(self, label: tf.Tensor) -> tf.Tensor:
        """Whether each label is a whole number from 0 to C - 1."""
        return is_class(label, self.num_classes)


def ensemble_predictions(logits: tf.Tensor, num_classes: int) -> dict[str, tf.Tensor]:
    """Return the outputs of an ensemble whose members count alike, under the names that heads use.

    Args:
        logits: Logits of each member: `[S, ...]` of class 1 for two classes, else `[S, ..., C]`.
        num_classes: C.

    Returns:
        `probability`, the members' mean; `label`; `latent_mean` and `latent_variance` of the logits over the
        members; `predictive_entropy` of the mean probability; and `mutual_information`, what it exceeds the
        members' mean entropy by.

    Source:
        Lakshminarayanan, Pritzel and Blundell (2017), Simple and scalable predictive uncertainty estimation
        using deep ensembles, section 2.4.

    Example:
        >>> outputs = ensemble_predictions(tf.constant([[2.0], [-2.0]]), num_classes=2)
        >>> float(outputs["probability"][0]), bool(outputs["mutual_information"][0] > 0.2)
        (0.5, True)
    """
    num_members = logits.shape[0]
    points = tf.shape(logits[0] if num_classes == 2 else logits[0, ..., 0])  # the leading shape
    flat = tf.reshape(logits, [num_members, -1, 1 if num_classes == 2 else num_classes])  # [S, B, K]
    log_weight = tf.fill(tf.shape(flat)[:2], tf.constant(-math.log(num_members), flat.dtype))
    unit = tf.zeros([tf.shape(flat)[1]], tf.int32)
    outputs = mixture.predictions(LogitLikelihood(num_classes), flat, tf.zeros_like(flat), log_weight, unit)
    return {
        name: tf.reshape(value, tf.concat([points, value.shape[1:]], axis=0))
        for name, value in outputs.items()
    }
