"""Networks for LiteRT in integers of 8 bits up to their last convolution; all that follows stays float32.

The convolutions take nearly all the time. The head must not be rounded: LiteRT would write its variances,
logarithms and probabilities in 256 steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.lite.python.optimize.calibrator import Calibrator
from tensorflow.lite.python.schema_py_generated import BuiltinOperator
from tensorflow.lite.tools import flatbuffer_utils

from data_prep.errors import InputError

_CONVOLUTIONS: Final = {
    BuiltinOperator.CONV_2D,
    BuiltinOperator.DEPTHWISE_CONV_2D,
    BuiltinOperator.CONV_3D,
    BuiltinOperator.TRANSPOSE_CONV,
}


def int8_network(network: bytes, inputs: Sequence[NDArray[Any]]) -> bytes:
    """Quantise the convolutions of a network, weights and activations, by what these are for some inputs.

    Args:
        network: What `portable_network` returns.
        inputs: Inputs `[1, ...]`, float32, as training saw them; a hundred do.

    Returns:
        A network with the same float32 input and outputs.

    Raises:
        InputError: It has no convolution, or loops or branches.
    """
    whole = _read(network)
    if len(whole.subgraphs) > 1:
        raise InputError(
            "The network or its head has loops or branches, which cannot be divided into a part in int8 and "
            "the rest. Leave --quantise out, or export another head by --set head."
        )
    graph, codes = whole.subgraphs[0], [_builtin(code) for code in whole.operatorCodes]
    ends = [end for end, made in enumerate(graph.operators, 1) if codes[made.opcodeIndex] in _CONVOLUTIONS]
    if not ends:
        raise InputError("The network has no convolution to be written in int8. Leave --quantise out.")
    rest = graph.operators[ends[-1] :]
    made = {int(tensor) for operator in graph.operators[: ends[-1]] for tensor in operator.outputs}
    read = {int(tensor) for operator in rest for tensor in operator.inputs} | set(map(int, graph.outputs))
    passed = sorted(made & read)
    part = _read(_quantised(_read(network), ends[-1], passed, inputs))
    _join(whole, part, rest, passed)
    return _written(whole)


def _quantised(model: Any, end: int, outputs: Sequence[int], inputs: Sequence[NDArray[Any]]) -> bytes:
    """Return the first operators of a model in int8."""
    graph = model.subgraphs[0]
    graph.operators, graph.outputs, model.signatureDefs = graph.operators[:end], outputs, []
    # The calibrator knows the operations that the graph uses, and refuses others even where none is used.
    used = sorted({operator.opcodeIndex for operator in graph.operators})
    model.operatorCodes = [model.operatorCodes[code] for code in used]
    for operator in graph.operators:
        operator.opcodeIndex = used.index(operator.opcodeIndex)

    def given() -> Iterator[list[NDArray[Any]]]:
        yield from ([one] for one in inputs)

    quantised: bytes = Calibrator(_written(model)).calibrate_and_quantize(given, tf.float32, tf.float32, True)
    return quantised


def _join(whole: Any, part: Any, rest: Sequence[Any], passed: Sequence[int]) -> None:
    """Put the operators of a part before the `rest` of a model, in the place of those that it has there.

    Args:
        whole: The model, which is changed.
        part: The part, which gives up its operators, tensors and buffers.
        rest: Operators of the model that stay.
        passed: Tensors of the model that are the outputs of the part.
    """
    graph, first = whole.subgraphs[0], part.subgraphs[0]
    places = {place: len(graph.tensors) + place for place in range(len(first.tensors))} | {-1: -1}
    places |= dict(zip(first.inputs, graph.inputs, strict=True))
    places |= dict(zip(first.outputs, passed, strict=True))
    for tensor in first.tensors:
        tensor.buffer += len(whole.buffers)
    for operator in first.operators:
        operator.opcodeIndex += len(whole.operatorCodes)
        operator.inputs = [places[tensor] for tensor in operator.inputs]
        operator.outputs = [places[tensor] for tensor in operator.outputs]
    graph.tensors += first.tensors
    graph.operators = [*first.operators, *rest]
    whole.buffers += part.buffers
    whole.operatorCodes += part.operatorCodes
    used = {int(tensor) for operator in graph.operators for tensor in (*operator.inputs, *operator.outputs)}
    used |= set(map(int, graph.outputs))  # some of which are constants
    kept = {graph.tensors[tensor].buffer for tensor in used if tensor >= 0}
    kept |= {described.buffer for described in whole.metadata or ()}
    for number, buffer in enumerate(whole.buffers):
        if number not in kept:
            buffer.data = None  # the float weights of what is in int8 now


def _builtin(code: Any) -> int:
    return max(code.builtinCode, code.deprecatedBuiltinCode)  # the latter holds those below 127 of old files


def _read(network: bytes) -> Any:
    return flatbuffer_utils.convert_bytearray_to_object(bytearray(network))


def _written(model: Any) -> bytes:
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))
