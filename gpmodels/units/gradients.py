"""Functions with a gradient of their own whose graphs TensorFlow can free."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import tensorflow as tf
from tensorflow.python.framework.ops import gradient_registry

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_HELD = "_gpimaging_gradients"
_OVERRIDE = "_gradient_op_type"


def custom_gradient(
    function: Callable[Arguments, tuple[Result, Callable[..., Any]]],
) -> Callable[Arguments, Result]:
    """Return `tf.custom_gradient` of a function, without its leak: graphs that nobody needs are freed.

    TensorFlow enters the gradient of each trace into a registry of the whole process. The gradient holds the
    tensors of its graph, so that a process that builds many models, as in a search over settings, keeps the
    graphs of all: about 13 MB for each head. Here the graph holds its gradient, and the registry refers to it
    weakly.

    Args:
        function: Returns its value, one tensor or several, and the function of its gradient, as
            `tf.custom_gradient` expects.

    Returns:
        The function of the same arguments that returns the value.

    Example:
        >>> @custom_gradient
        ... def clipped(x):
        ...     return tf.identity(x), lambda upstream: tf.clip_by_value(upstream, -1.0, 1.0)
        >>> x = tf.constant(2.0)
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = 5.0 * clipped(x)
        >>> float(tape.gradient(y, x))
        1.0
    """
    with_gradient = tf.custom_gradient(function)

    # AutoGraph would read the undecorated source behind `functools.wraps`.
    def call(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        value: Result = with_gradient(*arguments, **named)
        if not tf.executing_eagerly():
            _hold_by_graph(tf.nest.flatten(value)[0])
        return value

    return call


@tf.autograph.experimental.do_not_convert
def _hold_by_graph(value: tf.Tensor) -> None:
    """Let the graph of a value own its gradient, and the registry find it as long as the graph is there."""
    # The registry has no public name, and no function that takes an entry out or replaces it.
    entry = gradient_registry._registry[value.op.get_attr(_OVERRIDE).decode()]
    gradient = entry["type"]
    setattr(value.graph, _HELD, [*getattr(value.graph, _HELD, []), gradient])
    reference = weakref.ref(gradient)

    def referred(operation: Any, *upstream: tf.Tensor) -> Any:
        held = reference()
        if held is None:
            raise RuntimeError(
                f"The graph of {operation.name} was freed before its gradient was asked for. Keep the "
                "function that was traced as long as gradients are taken."
            )
        return held(operation, *upstream)

    entry["type"] = referred
