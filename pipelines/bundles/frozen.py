"""Functions as bundles hold them: one graph, with small weights in it as constants.

A SavedModel loads as many functions, variables and operations as it has. A network of Keras has an operation
for each use of each of its variables, most of them of some hundred numbers, and each signature that calls it
has all of them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import tensorflow as tf
from tensorflow.lite.python.util import get_grappler_config, run_graph_optimizations
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

Tensors = dict[str, tf.Tensor]
"""Outputs of a batch of images, clips or features by their names."""

_LARGE: Final = 32 * 1024
"""Bytes from which weights stay variables: TensorFlow copies constants each time that it improves a graph."""

_SIMPLER: Final = ("constfold", "dependency", "pruning")
"""What is done to a graph once, for it would take a third of a second each time that a bundle is loaded."""


class FrozenGraph(NamedTuple):
    """The graph of a function of one tensor, in which its variables are constants.

    Attributes:
        graph: The graph, which may be changed.
        argument: Name of the tensor that the function is of.
        outputs: Names of what it returns, flat.
        structure: What it returns, as the function did.
    """

    graph: tf.compat.v1.GraphDef
    argument: str
    outputs: Sequence[str]
    structure: Any

    def imported(self, given: Mapping[str, tf.Tensor]) -> Tensors:
        """Compute the outputs in the current graph from tensors by the names that they have in this one."""
        values = tf.graph_util.import_graph_def(self.graph, given, self.outputs, name="")
        outputs: Tensors = tf.nest.pack_sequence_as(self.structure, values)
        return outputs


def frozen_graph(
    function: Callable[[tf.Tensor], Tensors], spec: tf.TensorSpec, optimisers: Sequence[str] = _SIMPLER
) -> FrozenGraph:
    """Trace a function, make constants of its variables, and simplify the graph.

    Args:
        function: From a tensor to named outputs.
        spec: Shape and type of the tensor.
        optimisers: Names of Grappler's optimisers.
    """
    traced = tf.function(function, input_signature=[spec], autograph=False).get_concrete_function()
    frozen = convert_variables_to_constants_v2(traced, lower_control_flow=False)
    (argument,) = frozen.inputs
    graph = run_graph_optimizations(
        frozen.graph.as_graph_def(),
        frozen.inputs,
        frozen.outputs,
        get_grappler_config(list(optimisers)),
        frozen.graph,
    )
    outputs = [output.name for output in frozen.outputs]
    return FrozenGraph(graph, argument.name, outputs, traced.structured_outputs)


class FrozenFunction(tf.Module):
    """A function of a batch with the values that its variables have now; small ones become constants.

    Args:
        function: From a tensor to named outputs. It is not kept.
        spec: Shape and type of the tensor.

    Example:
        >>> weight = tf.Variable(2.0)
        >>> spec = tf.TensorSpec([None], tf.float32)
        >>> double = FrozenFunction(lambda x: {"y": weight * x}, spec)
        >>> double(tf.constant([1.0]))["y"].numpy(), double.variables
        (array([2.], dtype=float32), ())
    """

    def __init__(self, function: Callable[[tf.Tensor], Tensors], spec: tf.TensorSpec) -> None:
        super().__init__(name="frozen_function")
        frozen = frozen_graph(function, spec)
        graph = frozen.graph
        weights = [node for node in graph.node if node.op == "Const" and _num_bytes(node) >= _LARGE]
        self.weights = [
            tf.Variable(tf.make_ndarray(node.attr["value"].tensor), trainable=False) for node in weights
        ]
        names = [node.name for node in weights]
        waits = {f"^{name}" for name in names}
        for node in weights:
            graph.node.remove(node)
        for node in graph.node:
            node.input[:] = [name for name in node.input if name not in waits]

        def call(inputs: tf.Tensor) -> Tensors:
            given = {frozen.argument: inputs}
            for name, weight in zip(names, self.weights, strict=True):
                given[f"{name}:0"] = tf.convert_to_tensor(weight)
            return frozen.imported(given)

        self._call = tf.function(call, input_signature=[spec], autograph=False)

    def __call__(self, inputs: tf.Tensor) -> Tensors:
        """Return the named outputs of a batch."""
        outputs: Tensors = self._call(inputs)
        return outputs


def _num_bytes(constant: tf.compat.v1.NodeDef) -> int:
    return len(constant.attr["value"].tensor.tensor_content)
