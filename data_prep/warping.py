"""Moving the content of an image: mirrored, enlarged and shifted in one interpolation."""

import tensorflow as tf
from check_shapes import check_shapes


@check_shapes("size: [2]", "mirror: [2]", "zoom: []", "shift: [2]", "return: [8]")
def output_to_input(size: tf.Tensor, mirror: tf.Tensor, zoom: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
    """Coefficients by which `warp` finds the input position of an output pixel.

    Args:
        size: int32 [2], height and width in pixels.
        mirror: float32 [2], -1 where the image is to be mirrored up-down and left-right, else 1.
        zoom: float32 [], factor by which the content is enlarged about the centre.
        shift: float32 [2], by how many pixels the content then moves down and right.

    Returns:
        float32 [8], as `tf.raw_ops.ImageProjectiveTransformV3` takes them.
    """
    # in = centre + mirror · (out - shift - centre) / zoom, for rows and for columns
    scale = mirror / zoom
    centre = (tf.cast(size, tf.float32) - 1.0) / 2.0
    offset = centre - scale * (shift + centre)
    zero = tf.zeros([])
    return tf.stack([scale[1], zero, offset[1], zero, scale[0], offset[0], zero, zero])


@check_shapes("image: [height, width, channels]", "transform: [8]", "return: [height, width, channels]")
def warp(
    image: tf.Tensor, transform: tf.Tensor, *, nearest: bool = False, outside: float | None = None
) -> tf.Tensor:
    """Take each pixel from the position that `output_to_input` gives.

    Args:
        image: [height, width, channels], uint8 or float32.
        transform: from `output_to_input`.
        nearest: take the nearest pixel instead of interpolating bilinearly, for masks.
        outside: level of what comes from outside the image; None for the image's reflection.

    Returns:
        the moved image, of the same shape and type.
    """
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=image[tf.newaxis],
        transforms=transform[tf.newaxis],
        output_shape=tf.shape(image)[:2],
        fill_value=0.0 if outside is None else outside,
        interpolation="NEAREST" if nearest else "BILINEAR",
        fill_mode="REFLECT" if outside is None else "CONSTANT",
    )[0]
