"""Images of any proportions at a network's size in a graph, as `data_prep.files.fitting` does it outside."""

import tensorflow as tf
from check_shapes import check_shapes

from data_prep.files.fitting import BORDER_LEVEL, placement
from data_prep.files.image_settings import Fit


@check_shapes("images: [B, height, width, 3]", "return: [B, rows, columns, 3]")
def fit_images(images: tf.Tensor, size: tuple[int, int], fit: Fit) -> tf.Tensor:
    """Bring images to a size without distorting them.

    Args:
        images: uint8 `[B, height, width, 3]` of any height and width.
        size: Height and width of the result.
        fit: Whether to cut off what is too long, or to add grey borders.

    Returns:
        Whole grey levels, float32 `[B, *size, 3]` in 0..255: those of `data_prep.files.fitting.fit_image` in
        all but about one pixel of a hundred, and there within one level.

    Example:
        >>> fit_images(tf.zeros([1, 30, 40, 3], tf.uint8), (8, 8), "pad")[0, :, 0, 0].numpy().tolist()
        [127.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 127.0]
    """
    extent = tf.shape(images, out_type=tf.int64)[1:3]
    placed = placement((extent[0], extent[1]), size, fit, minimum=tf.minimum, maximum=tf.maximum)
    part, shown = tf.stack(placed.part), tf.cast(tf.stack(placed.shown), tf.int32)
    start = (extent - part) // 2
    cut = images[:, start[0] : start[0] + part[0], start[1] : start[1] + part[1]]
    shrunk = tf.raw_ops.ResizeArea(images=cut, size=tf.minimum(shown, tf.cast(part, tf.int32)))
    enlarged = tf.round(tf.image.resize(shrunk, shown, method="bilinear"))
    before = (tf.constant(size) - shown) // 2
    after = tf.constant(size) - shown - before
    borders = [[0, 0], [before[0], after[0]], [before[1], after[1]], [0, 0]]
    fitted = tf.pad(enlarged, borders, constant_values=BORDER_LEVEL)
    return tf.ensure_shape(fitted, [None, *size, 3])
