"""Predictive probabilities at another temperature: less certain above 1, more certain below it."""

import math
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.likelihoods.categorical import categorical_entropy
from gpmodels.likelihoods.probit import bernoulli_entropy


@check_shapes("probability: [batch...]", "return: [batch...]")
def log_odds(probability: tf.Tensor) -> tf.Tensor:
    """Return log p - log(1 - p) of the probability p of class 1, finite at 0 and 1 too.

    Near 1 rounding leaves nothing of 1 - p, so that no less than half of it is assumed; nor of p, for both
    classes to be treated alike. So log-odds lie within 16.7 of 0 in float32, and within 36.8 in float64.

    Example:
        >>> round(float(log_odds(tf.constant(0.75))), 4)
        1.0986
    """
    least = 0.5 * np.finfo(probability.dtype.as_numpy_dtype).eps
    complement = tf.maximum(1.0 - probability, least)
    return tf.math.log(tf.maximum(probability, least)) - tf.math.log(complement)


@check_shapes("probability: [batch..., C]", "return: [batch..., C]")
def log_probabilities(probability: tf.Tensor) -> tf.Tensor:
    """Return log p_c of the probabilities of C classes, finite at 0 too.

    Example:
        >>> bool(np.isfinite(log_probabilities(tf.constant([1.0, 0.0])).numpy()).all())
        True
    """
    return tf.math.log(tf.maximum(probability, np.finfo(probability.dtype.as_numpy_dtype).tiny))


def logits_of(outputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Return logits whose sigmoid, or softmax, is the probability that a classifier predicts.

    Args:
        outputs: Predictions as `gpmodels.heads.base.Head.call` returns them; a probability of the label's
            shape is that of class 1, one with a further axis those of all classes.

    Returns:
        Log-odds of class 1 of the label's shape, or log p_c with a further axis for the classes.

    Example:
        >>> outputs = {"probability": tf.constant([0.75]), "label": tf.constant([1])}
        >>> [round(float(logit), 4) for logit in logits_of(outputs)]
        [1.0986]
    """
    probability = outputs["probability"]
    of_one_class = probability.shape.rank == outputs["label"].shape.rank
    return log_odds(probability) if of_one_class else log_probabilities(probability)


def tempered(outputs: Mapping[str, tf.Tensor], temperature: float) -> dict[str, tf.Tensor]:
    """Return predictions at a temperature T: softmax(log p / T), with the entropy of these probabilities.

    Whatever a head's latent functions are, this scales the logits of what it predicts. For the linear head,
    which predicts softmax(logit), it is softmax(logit / T) (Guo et al., 2017). The label stays, since the
    order of the classes does, and so do the moments of the latent functions, which are of the head as it was
    trained. So is the mutual information I with T > 1. With T < 1, where the entropy H falls to H_T, I keeps
    its share of it, I H_T / H: what the head does not know was overstated with all else.

    Of real targets the standard deviation is T times as large, and so is that of the latent function.

    Args:
        outputs: Predictions as `gpmodels.heads.base.Head.call` returns them, of any leading shape.
        temperature: T > 0; 1 changes nothing.

    Returns:
        The same outputs, with other `probability` and `predictive_entropy`, and, with T < 1, another
        `mutual_information`; of real targets with other variances.

    Raises:
        ValueError: T is not a positive number.

    Source:
        C. Guo, G. Pleiss, Y. Sun, K. Weinberger, On calibration of modern neural networks, ICML 2017,
        section 4.2, applied to log p for lack of a single logit.

    Example:
        >>> outputs = {"probability": tf.constant([0.9]), "label": tf.constant([1])}
        >>> outputs |= {"predictive_entropy": tf.constant([0.325]), "mutual_information": tf.constant([0.1])}
        >>> round(float(tempered(outputs, 2.0)["probability"][0]), 4)
        0.75
    """
    if not (temperature > 0.0 and math.isfinite(temperature)):
        raise ValueError(f"The temperature must be a positive number, but is {temperature}.")
    if temperature == 1.0:
        return dict(outputs)
    if "probability" not in outputs:
        names = ("variance", "latent_variance")
        return {**outputs, **{name: temperature**2 * outputs[name] for name in names}}
    logits = logits_of(outputs) / temperature
    if logits.shape.rank == outputs["label"].shape.rank:
        probability = tf.sigmoid(logits)
        entropy = bernoulli_entropy(probability)
    else:
        probability = tf.nn.softmax(logits)
        entropy = categorical_entropy(probability)
    changed = {"probability": probability, "predictive_entropy": entropy}
    if temperature < 1.0:
        left = tf.math.divide_no_nan(entropy, outputs["predictive_entropy"])
        changed["mutual_information"] = tf.minimum(left * outputs["mutual_information"], entropy)
    return {**outputs, **changed}
