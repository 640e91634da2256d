"""Graphs that reach beyond their model are refused, however they hide it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tensorflow.core.protobuf import saved_model_pb2

from data_prep.errors import InputError
from pipelines.bundles.operations import GRAPH, require_own_operations

SAVER = "__inference__traced_save_7"


def write(folder: Path, change: Callable[[Any], None]) -> Path:
    """A bundle whose graph has a function that saves, as TensorFlow writes it, and one that computes."""
    model = saved_model_pb2.SavedModel()
    graph = model.meta_graphs.add()
    for name, operation in ((SAVER, "SaveV2"), ("__inference_serve_8", "AddV2")):
        function = graph.graph_def.library.function.add()
        function.signature.name = name
        function.node_def.add(name="node", op=operation)
    change(graph)
    (folder / GRAPH).write_bytes(model.SerializeToString())
    return folder


def serve(graph: Any) -> Any:
    """The nodes of the function that computes."""
    return graph.graph_def.library.function[1].node_def


def saved_by_a_saver(graph: Any) -> None:
    graph.object_graph_def.nodes.add().function.concrete_functions.append(SAVER)
    saveable = graph.object_graph_def.nodes.add().saveable_objects["weight"]
    saveable.save_function = saveable.restore_function = 0


def test_what_tensorflow_writes_is_accepted(tmp_path: Path) -> None:
    require_own_operations(write(tmp_path, saved_by_a_saver))


@pytest.mark.parametrize(
    "operation",
    [
        *("WriteFile", "ReadFile", "PrintV2", "PyFunc", "RestoreV2", "ImmutableConst", "CSVDatasetV2"),
        *("DatasetToTFRecord", "LMDBDataset", "LoadAndRemapMatrix", "GenerateVocabRemapping", "RecordInput"),
        *("FixedUnigramCandidateSampler", "Skipgram", "DecodeProtoV2", "CreateSummaryDbWriter", "Abort"),
        *("RegisterDatasetV2", "DistributedSave", "XlaCustomCallV2", "InitializeTableFromTextFileV2"),
    ],
)
@pytest.mark.parametrize("is_inside", [True, False], ids=["in a function", "outside"])
def test_operations_that_reach_out_are_refused(tmp_path: Path, operation: str, is_inside: bool) -> None:
    def change(graph: Any) -> None:
        nodes = serve(graph) if is_inside else graph.graph_def.node
        nodes.add(name="more", op=operation)

    with pytest.raises(InputError, match=f"has the operations {operation}, which reach beyond the model"):
        require_own_operations(write(tmp_path, change))


def called_by_name(graph: Any) -> None:
    serve(graph).add(name="call", op=SAVER)


def called_by_a_call(graph: Any) -> None:
    serve(graph).add(name="call", op="PartitionedCall").attr["f"].func.name = SAVER


def called_by_a_branch(graph: Any) -> None:
    serve(graph).add(name="call", op="Case").attr["branches"].list.func.add().name = SAVER


def served(graph: Any) -> None:
    graph.object_graph_def.nodes.add().function.concrete_functions.append(SAVER)


def served_bare(graph: Any) -> None:
    graph.object_graph_def.nodes.add().bare_concrete_function.concrete_function_name = SAVER


def saved_and_served(graph: Any) -> None:
    saved_by_a_saver(graph)
    graph.object_graph_def.nodes.add().children.add(node_id=0, local_name="serving_default")


@pytest.mark.parametrize(
    "change", [called_by_name, called_by_a_call, called_by_a_branch, served, served_bare, saved_and_served]
)
def test_functions_that_save_may_be_called_by_nothing_else(
    tmp_path: Path, change: Callable[[Any], None]
) -> None:
    with pytest.raises(InputError, match=f"has the operations {SAVER}"):
        require_own_operations(write(tmp_path, change))


def test_what_is_no_graph_is_refused(tmp_path: Path) -> None:
    (tmp_path / GRAPH).write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match=r"saved_model\.pb cannot be read"):
        require_own_operations(tmp_path)
