"""Random variation of a training image together with its mask: flip, scale, shift, brightness, contrast."""

import math

import tensorflow as tf
from check_shapes import check_shapes

from data_prep.labelled.augmentation import output_to_input, warp
from data_prep.lane.augmentation_settings import LaneAugmentation
from data_prep.lane.masks import IGNORED

NUM_LANE_RANDOM = 6
"""Number of random numbers that one image takes."""


@check_shapes(
    "image: [height, width, 3]",
    "mask: [height, width]",
    "uniforms: [6]",
    "return[0]: [height, width, 3]",
    "return[1]: [height, width]",
)
def augment(
    image: tf.Tensor, mask: tf.Tensor, uniforms: tf.Tensor, settings: LaneAugmentation
) -> tuple[tf.Tensor, tf.Tensor]:
    """Vary one image and its mask; the same random numbers give the same result.

    Args:
        image: float32 [height, width, 3] in 0..255.
        mask: uint8 [height, width], 0 background, 1 lane, 255 ignored.
        uniforms: float32 [6] in [0, 1): flip, scale, shift down, shift right, brightness, contrast.
        settings: Settings that say how much to vary.

    Returns:
        The image, interpolated bilinearly and clipped to 0..255, and the mask, of nearest pixels. What comes
        from outside is the image's reflection, and ignored (255) in the mask.
    """
    transforms = _transform(tf.shape(mask), uniforms, settings)[tf.newaxis]
    image = warp(image[tf.newaxis], transforms)[0]
    mask = warp(mask[tf.newaxis, :, :, tf.newaxis], transforms, nearest=True, outside=float(IGNORED))
    return _relight(image, uniforms, settings), mask[0, :, :, 0]


def _transform(size: tf.Tensor, uniforms: tf.Tensor, settings: LaneAugmentation) -> tf.Tensor:
    mirror = tf.where(uniforms[0] < settings.flip_probability, -1.0, 1.0)
    # Log-uniform: enlarging and shrinking by the same factor are equally likely.
    zoom = tf.exp((2.0 * uniforms[1] - 1.0) * math.log1p(settings.scale))
    shift = (2.0 * uniforms[2:4] - 1.0) * settings.shift * tf.cast(size, tf.float32)
    return output_to_input(size, tf.stack([[1.0, mirror]]), zoom[tf.newaxis], shift[tf.newaxis], [0.0])[0]


def _relight(image: tf.Tensor, uniforms: tf.Tensor, settings: LaneAugmentation) -> tf.Tensor:
    brighter = (2.0 * uniforms[4] - 1.0) * settings.brightness * 255.0
    contrast = 1.0 + (2.0 * uniforms[5] - 1.0) * settings.contrast
    mean = tf.reduce_mean(image)
    return tf.clip_by_value((image - mean) * contrast + mean + brighter, 0.0, 255.0)
