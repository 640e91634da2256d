"""Functions with a gradient of their own whose graphs TensorFlow can free."""

import weakref
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import keras
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
        The function of the same positional arguments that returns the value.

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
            _hold_by_graph(tf.nest.flatten(value)[0].op)
        return value

    return call


@tf.autograph.experimental.do_not_convert
def apply_gradients(
    optimizer: keras.optimizers.Optimizer, pairs: Iterable[tuple[tf.Tensor | None, keras.Variable]]
) -> None:
    """Take an optimiser's step, whose graph can be freed.

    Keras adds up gradients over replicas by a function of TensorFlow with its own gradient, which would keep
    the graph of the whole training step, see `custom_gradient`.

    Args:
        optimizer: Built for these variables.
        pairs: Pairs of a gradient and its variable.

    Example:
        >>> variable = keras.Variable(1.0)
        >>> optimizer = keras.optimizers.SGD(0.1)
        >>> apply_gradients(optimizer, [(tf.constant(2.0), variable)])
        >>> round(float(variable), 6)
        0.8
    """
    optimizer.apply_gradients(pairs)
    if tf.executing_eagerly():
        return
    for operation in tf.compat.v1.get_default_graph().get_operations():
        if operation.type == "IdentityN" and operation.node_def.attr[_OVERRIDE].s.startswith(
            b"CustomGradient-"
        ):
            _hold_by_graph(operation)


@tf.autograph.experimental.do_not_convert
def _hold_by_graph(operation: tf.Operation) -> None:
    """Let the graph of an operation own its gradient, which the registry finds as long as the graph lives."""
    # The registry has no public name, and no function that replaces an entry.
    name = operation.get_attr(_OVERRIDE).decode()
    entry = gradient_registry._registry.get(name)
    if entry is None:  # of a graph that was read from a file, which has no gradient here
        return
    held = getattr(operation.graph, _HELD, {})
    if name in held:
        return
    gradient = getattr(entry["type"], _HELD, lambda: entry["type"])()  # another graph may hold it
    if gradient is None:
        return
    setattr(operation.graph, _HELD, {**held, name: gradient})
    # A strong reference here would keep the gradient, hence its tensors, hence their graph.
    reference = weakref.ref(gradient)

    def referred(operation: Any, *upstream: tf.Tensor) -> Any:
        held_gradient = reference()
        if held_gradient is None:
            raise RuntimeError(
                f"The graph of {operation.name} was freed before its gradient was asked for. Keep the "
                "function that was traced as long as gradients are taken."
            )
        return held_gradient(operation, *upstream)

    setattr(referred, _HELD, reference)
    entry["type"] = referred
