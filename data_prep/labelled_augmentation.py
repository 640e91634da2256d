"""Random variation of a training image whose label stays: flips, scale, shift, gain."""

import math

import tensorflow as tf
from check_shapes import check_shapes

from data_prep.augmentation_settings import LabelledAugmentation
from data_prep.warping import output_to_input, warp


@check_shapes("image: [height, width, 3]", "uniforms: [6]", "return: [height, width, 3]")
def augment_labelled(image: tf.Tensor, uniforms: tf.Tensor, settings: LabelledAugmentation) -> tf.Tensor:
    """Vary one image; the same random numbers give the same result.

    Args:
        image: float32 [height, width, 3] in 0..255.
        uniforms: float32 [6] in [0, 1), of `data_prep.augmentation.random_numbers`: left-right flip, up-down
            flip, scale, shift down, shift right, gain.
        settings: how much to vary.

    Returns:
        the image, interpolated bilinearly and clipped to 0..255. What comes from outside is its reflection.
    """
    across = tf.where(uniforms[0] < settings.flip_probability, -1.0, 1.0)
    down = tf.where(uniforms[1] < settings.vertical_flip_probability, -1.0, 1.0)
    size = tf.shape(image)[:2]
    shift = (2.0 * uniforms[3:5] - 1.0) * settings.shift * tf.cast(size, tf.float32)
    transform = output_to_input(size, tf.stack([down, across]), _factor(uniforms[2], settings.scale), shift)
    return tf.clip_by_value(warp(image, transform) * _factor(uniforms[5], settings.gain), 0.0, 255.0)


def _factor(uniform: tf.Tensor, largest_change: float) -> tf.Tensor:
    """A factor around 1; log-uniform, so that a factor and its inverse are equally likely."""
    return tf.exp((2.0 * uniform - 1.0) * math.log1p(largest_change))
