"""Enlarging images that are smaller than what a trunk can make use of."""

import tensorflow as tf


def enlarged_to(images: tf.Tensor, smallest_side: int | None) -> tf.Tensor:
    """Return images whose shorter side is at least so long, enlarged bilinearly where it is shorter.

    Args:
        images: `[B, H, W, C]`; height and width may be known only when the graph runs.
        smallest_side: In pixels; None leaves all images as they are.

    Returns:
        The images as they are, or `[B, H', W', C]` in float32 with min(H', W') = `smallest_side` and the
        proportions of before, to a pixel.

    Example:
        >>> enlarged_to(tf.zeros([1, 32, 64, 3]), 96).shape
        TensorShape([1, 96, 192, 3])
    """
    if smallest_side is None:
        return images
    height, width = images.shape[1:3]
    if height is not None and width is not None:
        if min(height, width) >= smallest_side:
            return images
        scale = smallest_side / min(height, width)
        return tf.image.resize(images, [round(height * scale), round(width * scale)])
    size = tf.cast(tf.shape(images)[1:3], tf.float32)
    scale = tf.maximum(1.0, float(smallest_side) / tf.reduce_min(size))
    return tf.image.resize(images, tf.cast(tf.round(size * scale), tf.int32))
