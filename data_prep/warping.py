"""Moving the content of images: mirrored, enlarged and shifted in one interpolation."""

import tensorflow as tf
from check_shapes import check_shapes


@check_shapes("size: [2]", "mirror: [B, 2]", "zoom: [B]", "shift: [B, 2]", "return: [B, 8]")
def output_to_input(size: tf.Tensor, mirror: tf.Tensor, zoom: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
    """Coefficients by which `warp` finds the input position of an output pixel.

    Args:
        size: int32 [2], height and width in pixels.
        mirror: float32 [B, 2], -1 where an image is to be mirrored up-down and left-right, else 1.
        zoom: float32 [B], factor by which the content is enlarged about the centre.
        shift: float32 [B, 2], by how many pixels the content then moves down and right.

    Returns:
        float32 [B, 8], as `tf.raw_ops.ImageProjectiveTransformV3` takes them.
    """
    # in = centre + mirror · (out - shift - centre) / zoom, for rows and for columns
    scale = mirror / zoom[:, tf.newaxis]
    centre = (tf.cast(size, tf.float32) - 1.0) / 2.0
    offset = centre - scale * (shift + centre)
    zero = tf.zeros_like(zoom)
    rows = [scale[:, 1], zero, offset[:, 1], zero, scale[:, 0], offset[:, 0], zero, zero]
    return tf.stack(rows, axis=1)


@check_shapes(
    "images: [B, height, width, channels]", "transforms: [B, 8]", "return: [B, height, width, channels]"
)
def warp(
    images: tf.Tensor, transforms: tf.Tensor, *, nearest: bool = False, outside: float | None = None
) -> tf.Tensor:
    """Take each pixel from the position that `output_to_input` gives.

    Args:
        images: [B, height, width, channels], uint8 or float32.
        transforms: from `output_to_input`.
        nearest: take the nearest pixel instead of interpolating bilinearly, for masks.
        outside: level of what comes from outside the image; None for the image's reflection.

    Returns:
        the moved images, of the same shape and type.
    """
    moved = tf.raw_ops.ImageProjectiveTransformV3(
        images=images,
        transforms=transforms,
        output_shape=tf.shape(images)[1:3],
        fill_value=0.0 if outside is None else outside,
        interpolation="NEAREST" if nearest else "BILINEAR",
        fill_mode="REFLECT" if outside is None else "CONSTANT",
    )
    return tf.ensure_shape(moved, images.shape)  # the operation itself tells a height and width only when run
