"""Random variation of training images or clips whose labels stay: flips, scale, shift, gain, turn.

The content of an image is mirrored, turned, enlarged and shifted in one interpolation.
"""

import math

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes

from data_prep.labelled.image_settings import LabelledAugmentation

NUM_RANDOM = 7
"""Number of random numbers that one example takes."""


def random_numbers(num_examples: int, seed: int, epoch: int) -> npt.NDArray[np.float32]:
    """Draw the random numbers that the augmentation of an epoch takes.

    Args:
        num_examples: Number of examples, N.
        seed: Seed of the run.
        epoch: Number of the pass over the examples.

    Returns:
        float32 [N, 7] in [0, 1), a pure function of the arguments.
    """
    six = np.random.default_rng([seed, epoch, 1]).random((num_examples, NUM_RANDOM - 1), dtype=np.float32)
    # The last one came later, from a stream of its own: a resumed run sees the first ones as before.
    last = np.random.default_rng([seed, epoch, 2]).random((num_examples, 1), dtype=np.float32)
    return np.concatenate([six, last], axis=1)


@check_shapes(
    "images: [B, frames..., height, width, 3]",
    "uniforms: [B, 7]",
    "return: [B, frames..., height, width, 3]",
)
def augment_labelled(images: tf.Tensor, uniforms: tf.Tensor, settings: LabelledAugmentation) -> tf.Tensor:
    """Vary each of some images or clips, all frames of a clip alike; equal random numbers give equal results.

    Args:
        images: float32 [B, height, width, 3] or [B, frames, height, width, 3] in 0..255.
        uniforms: float32 [B, 7] in [0, 1), of `random_numbers`: left-right flip,
            up-down flip, scale, shift down, shift right, gain, turn.
        settings: Settings that say how much to vary.

    Returns:
        The images, interpolated bilinearly and clipped to 0..255. What comes from outside is a reflection.
    """
    down = tf.where(uniforms[:, 1] < settings.vertical_flip_probability, -1.0, 1.0)
    across = tf.where(uniforms[:, 0] < settings.flip_probability, -1.0, 1.0)
    *frames, _, _, _ = images.shape[1:]
    pictures = tf.reshape(images, [-1, *images.shape[-3:]])
    size = tf.shape(pictures)[1:3]
    shift = (2.0 * uniforms[:, 3:5] - 1.0) * settings.shift * tf.cast(size, tf.float32)
    zoom = _factor(uniforms[:, 2], settings.scale)
    turn = (2.0 * uniforms[:, 6] - 1.0) * math.radians(settings.rotation)
    transforms = output_to_input(size, tf.stack([down, across], axis=1), zoom, shift, turn)
    moved = warp(pictures, tf.repeat(transforms, math.prod(frames), axis=0))
    gain = tf.reshape(_factor(uniforms[:, 5], settings.gain), [-1] + [1] * (len(frames) + 3))
    return tf.clip_by_value(tf.reshape(moved, [-1, *images.shape[1:]]) * gain, 0.0, 255.0)


def _factor(uniforms: tf.Tensor, largest_change: float) -> tf.Tensor:
    """Return factors around 1, log-uniform, so that a factor and its inverse are equally likely."""
    return tf.exp((2.0 * uniforms - 1.0) * math.log1p(largest_change))


@check_shapes("size: [2]", "mirror: [B, 2]", "zoom: [B]", "shift: [B, 2]", "turn: [B]", "return: [B, 8]")
def output_to_input(
    size: tf.Tensor, mirror: tf.Tensor, zoom: tf.Tensor, shift: tf.Tensor, turn: tf.Tensor
) -> tf.Tensor:
    """Return the coefficients by which `warp` finds the input position of an output pixel.

    Args:
        size: int32 [2], height and width in pixels.
        mirror: float32 [B, 2], -1 where an image is to be mirrored up-down and left-right, else 1.
        zoom: float32 [B], factor by which the content is enlarged about the centre.
        shift: float32 [B, 2], by how many pixels the content then moves down and right.
        turn: float32 [B], angle in radians by which the content, once mirrored, is turned clockwise about the
            centre.

    Returns:
        float32 [B, 8], as `tf.raw_ops.ImageProjectiveTransformV3` takes them.
    """
    # in = centre + mirror · R (out - shift - centre) / zoom, where R turns back, for rows and for columns
    scale = mirror / zoom[:, tf.newaxis]
    centre = (tf.cast(size, tf.float32) - 1.0) / 2.0
    along, aside = scale * tf.cos(turn)[:, tf.newaxis], scale * tf.sin(turn)[:, tf.newaxis]
    from_centre = shift + centre
    down, right = from_centre[:, 0], from_centre[:, 1]
    row_offset = centre[0] - along[:, 0] * down + aside[:, 0] * right
    column_offset = centre[1] - along[:, 1] * right - aside[:, 1] * down
    zero = tf.zeros_like(zoom)
    columns = [along[:, 1], aside[:, 1], column_offset]
    rows = [-aside[:, 0], along[:, 0], row_offset]
    return tf.stack([*columns, *rows, zero, zero], axis=1)


@check_shapes(
    "images: [B, height, width, channels]", "transforms: [B, 8]", "return: [B, height, width, channels]"
)
def warp(
    images: tf.Tensor, transforms: tf.Tensor, *, nearest: bool = False, outside: float | None = None
) -> tf.Tensor:
    """Take each pixel from the position that `output_to_input` gives.

    Args:
        images: [B, height, width, channels], uint8 or float32.
        transforms: float32 [B, 8], coefficients from `output_to_input`.
        nearest: Take the nearest pixel instead of interpolating bilinearly, for masks.
        outside: Level of what comes from outside the image; None for the image's reflection.

    Returns:
        The moved images, of the same shape and type.
    """
    moved = tf.raw_ops.ImageProjectiveTransformV3(
        images=images,
        transforms=transforms,
        output_shape=tf.shape(images)[1:3],
        fill_value=0.0 if outside is None else outside,
        interpolation="NEAREST" if nearest else "BILINEAR",
        fill_mode="REFLECT" if outside is None else "CONSTANT",
    )
    return tf.ensure_shape(moved, images.shape)  # the operation itself knows height and width only when run
