"""The whole way of the application for cell events, on simulated sequences, to events in new ones."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import tifffile
from rich.console import Console
from tensorflow.python.framework.config import disable_op_determinism

from benchmarks.cells.simulator import (
    EVENTS_NAME,
    SEQUENCES_NAME,
    SimulationSettings,
    simulate_events,
    synthetic_frames,
    write_simulated,
)
from data_prep.cells.settings import CellsPrepareSettings
from data_prep.errors import InputError
from data_prep.prepared.manifest import file_sha256
from pipelines.bundles.preprocessing import PREPROCESSING
from pipelines.bundles.saved_model import verify_bundle
from pipelines.cells import commands as cells_commands
from pipelines.cells.application import CELLS
from pipelines.cells.prediction import CELLS_PREDICTION
from pipelines.cells.settings import EvaluateSettings, ExportSettings, PredictSettings, TrainSettings
from pipelines.command.folders import METADATA
from pipelines.command.steps import StepCall
from pipelines.evaluation.evaluate import evaluate as evaluate_run
from pipelines.evaluation.export import export as export_run
from pipelines.runs.train import train as train_run

pytestmark = pytest.mark.slow

TINY = TrainSettings(
    heads=("linear", "dfgp_mkl"),
    pretraining_epochs=4,
    learning_rate=0.02,
    head_epochs=1,
    steps_per_epoch=40,
    head_steps=40,
    num_inducing=8,
    components=10,
    class_balance=1.0,
    selection_fraction=0.4,
    panel_images=1,
    svms=("linear_svm",),
)


class Way:
    """What each step wrote and said."""

    def __init__(self, folder: Path) -> None:
        self.simulated, self.prepared, self.run = folder / "simulated", folder / "prepared", folder / "run"
        self.evaluation, self.bundle = folder / "evaluation", folder / "bundle"
        self.predictions = folder / "predictions"
        self.console = Console(record=True, width=100, quiet=False)


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> Way:
    way = Way(tmp_path_factory.mktemp("the whole way"))
    simulation = SimulationSettings(mitoses=2, apoptoses=2, roundings=1)
    sequences = {
        f"well_{number}": simulate_events(
            synthetic_frames(10, (160, 200), seed=number), simulation, seed=number
        )
        for number in range(4)
    }
    write_simulated(way.simulated, sequences)
    test_list = way.simulated / "test.txt"
    test_list.write_text("well_3\n", encoding="utf-8")
    console = way.console
    cells_commands.prepare(
        StepCall(CellsPrepareSettings(one_kind="event", test_list=test_list), console, 1, None),
        sequences=way.simulated / SEQUENCES_NAME,
        annotations=way.simulated / EVENTS_NAME,
        out=way.prepared,
    )
    try:
        train_run(CELLS, TINY, data=way.prepared, out=way.run, resume=False, console=console)
    finally:
        disable_op_determinism()  # other tests go on without
    evaluate_run(
        CELLS,
        EvaluateSettings(resamples=100),
        data=way.prepared,
        model=way.run,
        out=way.evaluation,
        console=console,
    )
    export_run(
        CELLS,
        ExportSettings(head="dfgp_mkl"),
        model=way.run,
        out=way.bundle,
        metrics=way.evaluation / "metrics.json",
        overwrite=False,
        console=console,
    )
    CELLS_PREDICTION(
        PredictSettings(refer_above=0.0, threshold=0.2),
        inputs=[way.simulated / SEQUENCES_NAME / "well_3"],
        model=way.bundle,
        out=way.predictions,
        console=console,
    )
    return way


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_step_says_what_it_did(way: Way) -> None:
    said = way.console.export_text(clear=False)
    assert "16 of 16 annotated events have a candidate" in said
    assert "540 features in 8 views" in said
    assert "Recall" in said
    events = [event for event in rows(way.predictions / "events.csv") if event["frame"]]
    assert f"{len(events)} events found, {len(events)} of them referred to a person, listed in" in said


def test_heads_and_machine_are_judged_by_the_events_of_another_sequence(way: Way) -> None:
    metrics = json.loads((way.evaluation / "metrics.json").read_text(encoding="utf-8"))
    assert list(metrics["methods"]) == [
        *("Linear SVM", "Linear", "Linear + temperature", "DFGP-MKL", "DFGP-MKL + temperature")
    ]
    for method in metrics["methods"].values():
        assert method["scores"]["event_f1"] == method["scores"]["event_f1_all"]  # each has a candidate
        assert method["counts"]["events_without_candidate"] == 0
    assert metrics["methods"]["Linear"]["scores"]["event_recall"] > 0.5  # of few candidates in a hundred
    assert (way.evaluation / "report.html").exists()


def test_a_bundle_takes_views_and_is_verified(way: Way) -> None:
    verify_bundle(way.bundle)
    metadata = json.loads((way.bundle / "metadata.json").read_text(encoding="utf-8"))
    inputs = metadata["signatures"]["serving_default"]["inputs"]
    assert inputs["current_difference_sift"]["shape"] == [None, 128]
    assert len(inputs) == 8
    assert json.loads((way.bundle / PREPROCESSING).read_text(encoding="utf-8"))["settings"]["patch"] == 52


def test_predicted_events_are_listed_and_marked(way: Way) -> None:
    (line,) = rows(way.predictions / "predictions.csv")
    events = rows(way.predictions / "events.csv")
    assert (line["sequence"], line["frames"], line["status"]) == ("well_3", "10", "ok")
    assert int(line["events"]) == len(events) == int(line["referred_events"])
    assert all(event["kind"] == "event" and event["sequence"] == "well_3" for event in events)
    marked = tifffile.imread(way.predictions / "marked" / "well_3.tif")
    assert marked.shape == (10, 160, 200, 3)
    coloured = np.ptp(marked.astype(int), axis=-1).max(axis=(1, 2)) > 50
    near = {f for event in events for f in range(int(event["frame"]) - 2, int(event["frame"]) + 3)}
    assert {int(f) for f in np.flatnonzero(coloured)} == near & set(range(10))


def test_features_of_another_version_are_refused(way: Way, tmp_path: Path) -> None:
    other = tmp_path / "bundle"
    other.mkdir()
    for entry in way.bundle.iterdir():
        (other / entry.name).symlink_to(entry)
    text = (way.bundle / PREPROCESSING).read_text(encoding="utf-8")
    (other / PREPROCESSING).unlink()
    (other / PREPROCESSING).write_text(text.replace("cell views 1", "cell views 0"), encoding="utf-8")
    metadata = json.loads((way.bundle / METADATA).read_text(encoding="utf-8"))
    metadata["sha256"][PREPROCESSING] = file_sha256(other / PREPROCESSING)
    (other / METADATA).unlink()
    (other / METADATA).write_text(json.dumps(metadata), encoding="utf-8")
    with pytest.raises(InputError, match="cell views 0"):
        CELLS_PREDICTION(
            PredictSettings(),
            inputs=[way.simulated / SEQUENCES_NAME / "well_3"],
            model=other,
            out=tmp_path / "out",
            console=Console(quiet=True),
        )
