"""Random variation of training images or clips whose labels stay: flips, scale, shift, gain."""

import math

import tensorflow as tf
from check_shapes import check_shapes

from data_prep.augmentation_settings import LabelledAugmentation
from data_prep.warping import output_to_input, warp


@check_shapes(
    "images: [B, frames..., height, width, 3]",
    "uniforms: [B, 6]",
    "return: [B, frames..., height, width, 3]",
)
def augment_labelled(images: tf.Tensor, uniforms: tf.Tensor, settings: LabelledAugmentation) -> tf.Tensor:
    """Vary each of some images or clips, all frames of a clip alike; equal random numbers give equal results.

    Args:
        images: float32 [B, height, width, 3] or [B, frames, height, width, 3] in 0..255.
        uniforms: float32 [B, 6] in [0, 1), of `data_prep.augmentation.random_numbers`: left-right flip,
            up-down flip, scale, shift down, shift right, gain.
        settings: how much to vary.

    Returns:
        the images, interpolated bilinearly and clipped to 0..255. What comes from outside is a reflection.
    """
    down = tf.where(uniforms[:, 1] < settings.vertical_flip_probability, -1.0, 1.0)
    across = tf.where(uniforms[:, 0] < settings.flip_probability, -1.0, 1.0)
    *frames, _, _, _ = images.shape[1:]
    pictures = tf.reshape(images, [-1, *images.shape[-3:]])
    size = tf.shape(pictures)[1:3]
    shift = (2.0 * uniforms[:, 3:5] - 1.0) * settings.shift * tf.cast(size, tf.float32)
    zoom = _factor(uniforms[:, 2], settings.scale)
    transforms = output_to_input(size, tf.stack([down, across], axis=1), zoom, shift)
    moved = warp(pictures, tf.repeat(transforms, math.prod(frames), axis=0))
    gain = tf.reshape(_factor(uniforms[:, 5], settings.gain), [-1] + [1] * (len(frames) + 3))
    return tf.clip_by_value(tf.reshape(moved, [-1, *images.shape[1:]]) * gain, 0.0, 255.0)


def _factor(uniforms: tf.Tensor, largest_change: float) -> tf.Tensor:
    """Factors around 1; log-uniform, so that a factor and its inverse are equally likely."""
    return tf.exp((2.0 * uniforms - 1.0) * math.log1p(largest_change))
