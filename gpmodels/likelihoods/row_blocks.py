"""Functions of rows computed block by block, so that a block's intermediate values alone are held.

A tape would keep every block's intermediate values until the gradient is asked for. Here the gradient of a
block computes them again, and the gradient is itself a function of rows computed block by block, so that it
has a gradient in turn: learning by leaving out differentiates the slopes of a likelihood.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from gpmodels.units.gradients import custom_gradient

RowFunction = Callable[..., tuple[tf.Tensor, ...]]
"""Takes tensors `[B, ...]` and returns tensors `[B, ...]`; a row of them depends on that row alone."""


def by_row_blocks(
    function: RowFunction, arguments: tuple[tf.Tensor, ...], most_rows: int
) -> tuple[tf.Tensor, ...]:
    """Return `function(*arguments)`, computed for a few rows at once; differentiable any number of times.

    Args:
        function: What is computed. It must not use variables, and returns at least one tensor.
        arguments: Floating-point tensors with B rows, `[B, ...]`, of known rank.
        most_rows: Most rows of a block, at least 1.

    Returns:
        Tensors `[B, ...]`, equal to those of all rows at once but for rounding.

    Example:
        >>> def squares(x):
        ...     return (tf.reduce_sum(x * x, axis=-1),)
        >>> by_row_blocks(squares, (tf.constant([[1.0], [2.0], [3.0]]),), 2)[0].numpy().tolist()
        [1.0, 4.0, 9.0]
    """

    @custom_gradient
    def blocked(*rows: tf.Tensor) -> tuple[tuple[tf.Tensor, ...], Callable[..., tuple[tf.Tensor, ...]]]:
        results = _map_blocks(function, rows, most_rows)

        def gradient(*upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
            def products(*both: tf.Tensor) -> tuple[tf.Tensor, ...]:
                return _vector_jacobian(function, both[: len(rows)], both[len(rows) :])

            return by_row_blocks(products, (*rows, *upstream), most_rows)

        return results, gradient

    return tuple(tf.nest.flatten(blocked(*arguments)))


def _vector_jacobian(
    function: RowFunction, rows: tuple[tf.Tensor, ...], upstream: tuple[tf.Tensor, ...]
) -> tuple[tf.Tensor, ...]:
    """Return Σ_j upstream_j ∂function_j/∂rows_i for each i."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(rows)
        values = function(*rows)
    return tuple(tape.gradient(values, rows, output_gradients=upstream, unconnected_gradients="zero"))


def _map_blocks(
    function: RowFunction, arguments: tuple[tf.Tensor, ...], most_rows: int
) -> tuple[tf.Tensor, ...]:
    """Return the function of all rows from blocks of equal size, the last of them filled up with ones."""
    num_rows = tf.shape(arguments[0])[0]
    num_blocks = tf.maximum(-(-num_rows // most_rows), 1)
    size = tf.maximum(-(-num_rows // num_blocks), 1)

    def in_blocks(values: tf.Tensor) -> tf.Tensor:
        # Without a gradient of its own: a tape would keep what each block computes.
        values = tf.stop_gradient(values)
        filling = [[0, num_blocks * size - num_rows]] + [[0, 0]] * (values.shape.rank - 1)
        filled = tf.pad(values, filling, constant_values=1)
        return tf.reshape(filled, tf.concat([[num_blocks, size], tf.shape(values)[1:]], axis=0))

    def of_block(parts: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
        # A block has lost the static sizes of its columns.
        shaped = [
            tf.ensure_shape(part, [None, *whole.shape[1:]])
            for part, whole in zip(parts, arguments, strict=True)
        ]
        return tuple(function(*shaped))

    signature = _signature(function, arguments)
    blocks = tf.map_fn(
        of_block,
        tuple(in_blocks(values) for values in arguments),
        parallel_iterations=1,
        fn_output_signature=signature,
    )
    return tuple(
        tf.ensure_shape(
            tf.reshape(block, tf.concat([[-1], tf.shape(block)[2:]], axis=0))[:num_rows],
            [arguments[0].shape[0], *spec.shape[1:]],
        )
        for block, spec in zip(blocks, signature, strict=True)
    )


def _signature(function: RowFunction, arguments: tuple[tf.Tensor, ...]) -> tuple[tf.TensorSpec, ...]:
    """Return type and shape of the function's results, with a number of rows that is not known."""
    specs = [tf.TensorSpec([None, *values.shape[1:]], values.dtype) for values in arguments]
    graph: Any = tf.Graph()
    with graph.as_default():
        results = function(*(tf.compat.v1.placeholder(spec.dtype, spec.shape) for spec in specs))
    return tuple(tf.TensorSpec([None, *result.shape[1:]], result.dtype) for result in results)
