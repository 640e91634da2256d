"""The prediction of an ensemble: the mean of its members' probabilities."""

from __future__ import annotations

import math

import tensorflow as tf

from gpmodels.likelihoods import mixture
from gpmodels.likelihoods.logits import LogitLikelihood


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
