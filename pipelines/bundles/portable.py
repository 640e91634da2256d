"""`network.tflite` of a bundle: its network and folded head for LiteRT, on phones and in browsers.

It takes one input of the network's size, and returns all that the signatures do; resizing and decoding are
left to whoever calls it. All its operations are LiteRT's own.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import tensorflow as tf
from numpy.typing import NDArray

from data_prep.errors import InputError
from pipelines.bundles.frozen import Tensors, frozen_graph

PORTABLE: Final = "network.tflite"

PORTABLE_TOLERANCE: Final = 1e-5
"""Largest difference to the bundle's own outputs, relative to 1 + their size."""

_SIMPLER: Final = ("function", "constfold", "dependency", "pruning")


def portable_network(function: Callable[[tf.Tensor], Tensors], spec: tf.TensorSpec, head: str) -> bytes:
    """Convert a function of one input for LiteRT.

    Args:
        function: From inputs `[1, ...]` to named outputs.
        spec: Shape and type of the inputs.
        head: What the head is called, for the message.

    Returns:
        The content of a `.tflite` file with the signature `serving_default`.

    Raises:
        InputError: An operation of the function is not one of LiteRT's.
    """
    frozen = frozen_graph(function, spec, _SIMPLER)
    _replace_operations(frozen.graph)

    def serve(inputs: tf.Tensor) -> Tensors:
        return frozen.imported({frozen.argument: inputs})

    module, named = tf.Module(), tf.TensorSpec(spec.shape, spec.dtype, name="inputs")
    module.serve = tf.function(serve, input_signature=[named], autograph=False)
    with tempfile.TemporaryDirectory() as folder:
        options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
        tf.saved_model.save(module, folder, signatures=module.serve, options=options)
        try:
            content: bytes = tf.lite.TFLiteConverter.from_saved_model(folder).convert()
        except Exception as error:  # TensorFlow's class is not public; what is not recognised is raised again
            missing = sorted(set(re.findall(r"'tf\.(\w+)' op is neither", str(error))))
            if not missing:
                raise
            raise InputError(
                f"The {head} head cannot be written for LiteRT, which has no {', '.join(missing)} for what "
                "it computes in. Leave --format litert out, or export another head by --set head."
            ) from error
    return content


def portable_outputs(network: bytes | Path, inputs: NDArray[Any]) -> Mapping[str, NDArray[Any]]:
    """Return the named outputs of a converted network for inputs `[1, ...]`.

    Raises:
        ValueError: It is no such network.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\s*Warning: tf\.lite\.Interpreter is deprecated", UserWarning)
        content = network if isinstance(network, bytes) else network.read_bytes()
        interpreter = tf.lite.Interpreter(model_content=content)
    outputs: Mapping[str, NDArray[Any]] = interpreter.get_signature_runner("serving_default")(inputs=inputs)
    return outputs


@tf.function(input_signature=[tf.TensorSpec(None, tf.float32)], autograph=False)
def _erfc(z: tf.Tensor) -> tf.Tensor:
    from gpmodels.likelihoods.error_function import portable_erfc  # noqa: PLC0415 - `predict` needs none of it

    return portable_erfc(z)


@tf.function(input_signature=[tf.TensorSpec([1, None], tf.float32)] * 2, autograph=False)
def _lower_bound(ascending: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Return how many of the numbers are below each value, `[1, V]`."""
    below = ascending[:, None] < values[..., None]
    return tf.reduce_sum(tf.cast(below, tf.int32), axis=-1)


_OWN: Final = {"Erfc": _erfc, "LowerBound": _lower_bound}
"""Operations of heads that LiteRT does not have, and functions of operations that it has."""


def _replace_operations(graph: tf.compat.v1.GraphDef) -> None:
    """Replace the operations that LiteRT does not have by calls of functions that the graph then holds."""
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    for operation, function in _OWN.items():
        kind = tf.float32.as_datatype_enum
        found = [node for node in nodes if node.op == operation and node.attr["T"].type == kind]
        if found:
            own = function.get_concrete_function().function_def
            graph.library.function.append(own)
        for node in found:
            node.op = own.signature.name
            node.ClearField("attr")
