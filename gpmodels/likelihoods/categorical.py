"""What the likelihoods of C classes with one latent function each have in common."""

import tensorflow as tf
from check_shapes import check_shapes, inherit_check_shapes

from gpmodels.likelihoods.base import Likelihood


@check_shapes("probability: [batch..., C]", "return: [batch...]")
def categorical_entropy(probability: tf.Tensor) -> tf.Tensor:
    """Return -Σ_c p_c log p_c in nats; a class of probability 0 adds nothing.

    Example:
        >>> round(float(categorical_entropy(tf.constant([0.5, 0.5, 0.0]))), 4)
        0.6931
    """
    return -tf.reduce_sum(tf.math.xlogy(probability, probability), axis=-1)


@check_shapes("values: [B, C]", "label: [B]", "return: [B]")
def of_label(values: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
    """Return each point's entry of its own class, 0 where there is no such class.

    A label out of range must stay finite, since points of weight 0 (pixels without a label) come along.
    """
    chosen = tf.one_hot(tf.cast(label, tf.int32), values.shape[-1], dtype=values.dtype)
    return tf.reduce_sum(chosen * values, axis=-1)


@check_shapes("label: [batch...]", "return: [batch...]")
def is_class(label: tf.Tensor, num_classes: int) -> tf.Tensor:
    """Whether each label, of any dtype, is a whole number from 0 to C - 1."""
    value = tf.cast(label, tf.float64)
    in_range = tf.logical_and(value >= 0.0, value <= num_classes - 1.0)
    return tf.logical_and(in_range, tf.equal(value, tf.floor(value)))


class CategoricalLikelihood(Likelihood):
    """Base class of the likelihoods whose latent function f_c speaks for class c.

    Args:
        num_classes: C, at least 2.

    Raises:
        ValueError: There are fewer classes.
    """

    is_classifier = True

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        if num_classes < 2:
            raise ValueError(f"A classifier needs at least 2 classes, but num_classes is {num_classes}.")
        self.num_classes = num_classes
        self.num_latents = num_classes
        self.label_requirement = f"an integer from 0 to {num_classes - 1}"

    @inherit_check_shapes
    def valid_labels(self, label: tf.Tensor) -> tf.Tensor:
        """Whether each label is a whole number from 0 to C - 1."""
        return is_class(label, self.num_classes)
