"""The network and folded head of a bundle in one file for other runtimes, on phones and in browsers.

`network.tflite` is for LiteRT, `network.onnx` for onnxruntime. Each takes one input of the network's size,
and returns all that the signatures do; resizing and decoding are left to whoever calls it. All operations are
the runtime's own. The packages for ONNX are an extra, and are imported where they are used.
"""

from __future__ import annotations

import logging
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import tensorflow as tf
from numpy.typing import NDArray

from data_prep.errors import InputError
from pipelines.bundles.frozen import Tensors, frozen_graph
from pipelines.bundles.metadata import Int8Loss
from pipelines.bundles.runtimes import INT8, LITERT

ONNX: Final = "network.onnx"

PORTABLE_TOLERANCE: Final = 1e-5
"""Largest difference to the bundle's own outputs, relative to 1 + their size."""

INT8_TOLERANCE: Final = 0.05
"""Of a network in int8, to its outputs where it was exported: processors round to neighbouring integers."""

_OPSET: Final = 17

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
                "it computes in. Leave --format out, or export another head by --set head."
            ) from error
    return content


def onnx_network(network: bytes) -> bytes:
    """Convert a network for LiteRT to ONNX.

    Args:
        network: What `portable_network` returns.

    Returns:
        The content of an `.onnx` file with the input `inputs`, and outputs of the same names.

    Raises:
        InputError: The extra `onnx` is not installed.
    """
    with _onnx_extra():
        import onnx  # noqa: PLC0415 - of the extra
        from tf2onnx.convert import from_tflite  # noqa: PLC0415 - of the extra
    with tempfile.TemporaryDirectory() as folder, _deprecation_hidden(), _converter_silent():
        path = Path(folder) / LITERT
        path.write_bytes(network)
        model, _ = from_tflite(str(path), opset=_OPSET)
    graph, tensors = model.graph, {value.name: value for value in model.graph.output}
    (inputs,) = graph.input
    graph.node.insert(0, onnx.helper.make_node("Identity", ["inputs"], [inputs.name]))
    inputs.name = "inputs"
    del graph.output[:]
    for name, details in litert_runner(network).get_output_details().items():
        graph.node.append(onnx.helper.make_node("Identity", [details["name"]], [name]))
        graph.output.add().CopyFrom(tensors[details["name"]])
        graph.output[-1].name = name
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content


def litert_outputs(network: bytes, inputs: NDArray[Any]) -> Mapping[str, NDArray[Any]]:
    """Return the named outputs of `network.tflite` for inputs `[1, ...]`.

    Raises:
        ValueError: It is no such network.
    """
    outputs: Mapping[str, NDArray[Any]] = litert_runner(network)(inputs=inputs)
    return outputs


def onnx_outputs(network: bytes, inputs: NDArray[Any]) -> Mapping[str, NDArray[Any]]:
    """Return the named outputs of `network.onnx` for inputs `[1, ...]`.

    Raises:
        InputError: The extra `onnx` is not installed.
        ValueError: It is no such network.
    """
    with _onnx_extra():
        import onnxruntime  # noqa: PLC0415 - of the extra
    try:
        session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])
        outputs = session.run(None, {"inputs": inputs})
    except Exception as error:  # onnxruntime's errors have no base but this; the caller names the file
        raise ValueError(str(error)) from error
    return dict(zip((output.name for output in session.get_outputs()), outputs, strict=True))


def litert_runner(network: bytes) -> Any:
    """Return what runs a network for LiteRT on `inputs=` and returns named outputs.

    Raises:
        ValueError: It is no such network.
    """
    with _deprecation_hidden():
        return tf.lite.Interpreter(model_content=network).get_signature_runner("serving_default")


@contextmanager
def _deprecation_hidden() -> Iterator[None]:
    """Hide that TensorFlow's own runtime of LiteRT is to become a package of its own."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\s*Warning: tf\.lite\.Interpreter is deprecated", UserWarning)
        yield


@contextmanager
def _converter_silent() -> Iterator[None]:
    """Hide what tf2onnx calls errors: a rewriter of it that fails leaves the graph as it was."""
    logger = logging.getLogger("tf2onnx")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def require_onnx() -> None:
    """Refuse to begin what needs the extra `onnx` in the end.

    Raises:
        InputError: A package of it is not installed.
    """
    with _onnx_extra():
        for name in ("onnx", "onnxruntime", "tf2onnx"):
            if find_spec(name) is None:
                raise ModuleNotFoundError(name=name)


@contextmanager
def _onnx_extra() -> Iterator[None]:
    """Turn the lack of a package into a sentence."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(
            f"{ONNX} needs the package {error.name}, which is not installed. Install it with "
            "`pip install 'gpimaging[onnx]'`."
        ) from error


class Portable(NamedTuple):
    """A file of a bundle for another runtime.

    Attributes:
        name: Name of the file.
        runtime: What the runtime is called.
        package: Package that runs it.
        convert: From what `portable_network` returns to the content of the file.
        outputs: Runs the content for inputs `[1, ...]`; returns named outputs. Raises `ValueError` where it
            cannot be run.
        tolerance: Largest difference of outputs to stored ones, relative to 1 + their size.
        is_quantised: Whether the stored outputs are those that it has itself where it is exported, for the
            bundle's own outputs are others; else they are TensorFlow's.
        loss: Returns what the content of the file predicts worse than the bundle; None where it is not known.
    """

    name: str
    runtime: str
    package: str
    convert: Callable[[bytes], bytes]
    outputs: Callable[[bytes, NDArray[Any]], Mapping[str, NDArray[Any]]]
    tolerance: float = PORTABLE_TOLERANCE
    is_quantised: bool = False
    loss: Callable[[bytes], Int8Loss | None] = lambda _: None


PORTABLES: Final = {
    "litert": Portable(LITERT, "LiteRT", "tensorflow", lambda network: network, litert_outputs),
    "onnx": Portable(ONNX, "onnxruntime", "onnxruntime", onnx_network, onnx_outputs),
}
"""What `export --format` can write beside the SavedModel."""


def int8_portable(
    inputs: Sequence[NDArray[Any]], loss: Callable[[bytes], Int8Loss | None] = lambda _: None
) -> Portable:
    """Return the file of a network in int8; of it, `verify` knows all but these arguments.

    Args:
        inputs: Inputs `[1, ...]`, float32, as training saw them.
        loss: As of `Portable`.
    """

    def convert(network: bytes) -> bytes:
        try:
            from pipelines.bundles.int8 import int8_network  # noqa: PLC0415 - it uses TensorFlow's own parts
        except ImportError as error:
            raise InputError(
                f"{INT8} is made by parts of TensorFlow that TensorFlow {tf.__version__} does not have "
                f"({error}). Leave --quantise out, or install TensorFlow 2.21."
            ) from error
        return int8_network(network, inputs)

    return Portable(
        INT8,
        "LiteRT",
        "tensorflow",
        convert,
        litert_outputs,
        INT8_TOLERANCE,
        is_quantised=True,
        loss=loss,
    )


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
