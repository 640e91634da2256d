"""What the graph of a bundle may do: compute, and nothing with files, Python or other machines.

A SavedModel is a program. A bundle may come from anyone, so its operations are read before it is loaded, and
those refused that are known to reach out or that take the name of a place. TensorFlow has over a thousand
operations, and this is no sandbox: load bundles of strangers on a machine, or as a user, that may be lost.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry

from data_prep.errors import InputError

GRAPH: Final = "saved_model.pb"

_OF_CHECKPOINTS: Final = frozenset({"SaveV2", "RestoreV2", "MergeV2Checkpoints", "ShardedFilename"})
"""Operations of the functions with which TensorFlow saves and restores the weights themselves."""

_CHECKPOINTS: Final = re.compile(r"__inference__traced_(save|restore)_\d+")

_REACHING: Final = re.compile(
    r"(Read|Write|Matching)File.*|.*Reader(V2|Read.*|Restore.*)?|(Save|Restore)(V2|Slices?)?|"
    r"MergeV2Checkpoints|.*PyFunc.*|Print(V2)?|.*Summary.*|.*(File|Rpc|Socket|Service).*|"
    r".*Dataset.*|.*Iterator.*|RecordInput|ImportEvent|Abort|XlaCustomCall.*|DTensor.*|Distributed.*|"
    r"InitializeTableFromTextFile.*|Debug.*|Dump.*|Remote.*|Send|Recv|_.*(Send|Recv).*"
)
"""Names of operations that reach beyond what a model is given."""

_PLACES: Final = re.compile(
    r".*(file|path|director|address|prefix|uri|url|memory_region|descriptor_source|log_location).*"
)
"""Names of inputs and attributes that hold paths or addresses: no exported graph needs any of them."""


def require_own_operations(bundle: Path) -> None:
    """Refuse a bundle whose graph reaches files, the screen, Python or other machines.

    Args:
        bundle: Folder of the bundle.

    Raises:
        InputError: It does, or its graph cannot be read.
    """
    path = bundle / GRAPH
    model = saved_model_pb2.SavedModel()
    try:
        model.ParseFromString(path.read_bytes())
    except (DecodeError, OSError) as error:
        raise InputError(f"{path} cannot be read ({error}). Export the bundle again.") from error
    for graph in model.meta_graphs:
        outside = (node.op for node in graph.graph_def.node if _reaches(node.op))
        found = sorted({*outside, *_operations(graph.graph_def.library.function), *_exposed(graph)})
        if found:
            raise InputError(
                f"{path} has the operations {', '.join(found)}, which reach beyond the model: to files, the "
                "screen, Python or other machines. No export writes such a graph, and it was not loaded."
            )


@functools.cache
def _reaches(name: str) -> bool:
    """Whether an operation reaches out, by its name or by what it takes."""
    if _REACHING.fullmatch(name):
        return True
    definition = op_def_registry.get(name)
    if definition is None:  # a function of the graph, whose operations are looked at themselves
        return False
    taken = [*(part.name for part in definition.input_arg), *(part.name for part in definition.attr)]
    return any(_PLACES.fullmatch(part.lower()) for part in taken)


def _operations(functions: Any) -> Iterator[str]:
    """Yield the operations of functions that no export writes."""
    for function in functions:
        saves = _CHECKPOINTS.fullmatch(function.signature.name) is not None
        for node in function.node_def:
            allowed = saves and node.op in _OF_CHECKPOINTS
            if _reaches(node.op) and not allowed:
                yield node.op
            yield from filter(_CHECKPOINTS.fullmatch, _called(node))


def _called(node: Any) -> Iterator[str]:
    """Yield the names of the functions that a node may call."""
    yield node.op
    for value in node.attr.values():
        yield value.func.name
        yield from (function.name for function in value.list.func)


def _exposed(graph: Any) -> Iterator[str]:
    """Yield checkpoint functions that anything but saving and restoring may call, as a signature would."""
    nodes = graph.object_graph_def.nodes
    savers = {
        number
        for node in nodes
        for saveable in node.saveable_objects.values()
        for number in (saveable.save_function, saveable.restore_function)
    }
    savers -= {child.node_id for node in nodes for child in node.children}  # those have names of their own
    for number, node in enumerate(nodes):
        names = [*node.function.concrete_functions, node.bare_concrete_function.concrete_function_name]
        if number not in savers:
            yield from filter(_CHECKPOINTS.fullmatch, names)
