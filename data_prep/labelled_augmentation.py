"""Random variation of training images whose labels stay: flips, scale, shift, gain."""

import math

import tensorflow as tf
from check_shapes import check_shapes

from data_prep.augmentation_settings import LabelledAugmentation
from data_prep.warping import output_to_input, warp


@check_shapes("images: [B, height, width, 3]", "uniforms: [B, 6]", "return: [B, height, width, 3]")
def augment_labelled(images: tf.Tensor, uniforms: tf.Tensor, settings: LabelledAugmentation) -> tf.Tensor:
    """Vary each of some images; the same random numbers give the same result.

    Args:
        images: float32 [B, height, width, 3] in 0..255.
        uniforms: float32 [B, 6] in [0, 1), of `data_prep.augmentation.random_numbers`: left-right flip,
            up-down flip, scale, shift down, shift right, gain.
        settings: how much to vary.

    Returns:
        the images, interpolated bilinearly and clipped to 0..255. What comes from outside is a reflection.
    """
    down = tf.where(uniforms[:, 1] < settings.vertical_flip_probability, -1.0, 1.0)
    across = tf.where(uniforms[:, 0] < settings.flip_probability, -1.0, 1.0)
    size = tf.shape(images)[1:3]
    shift = (2.0 * uniforms[:, 3:5] - 1.0) * settings.shift * tf.cast(size, tf.float32)
    zoom = _factor(uniforms[:, 2], settings.scale)
    moved = warp(images, output_to_input(size, tf.stack([down, across], axis=1), zoom, shift))
    gain = _factor(uniforms[:, 5], settings.gain)[:, tf.newaxis, tf.newaxis, tf.newaxis]
    return tf.clip_by_value(moved * gain, 0.0, 255.0)


def _factor(uniforms: tf.Tensor, largest_change: float) -> tf.Tensor:
    """Factors around 1; log-uniform, so that a factor and its inverse are equally likely."""
    return tf.exp((2.0 * uniforms - 1.0) * math.log1p(largest_change))
