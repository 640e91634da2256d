"""One cell of the study: prepare, train all methods, judge them on the test part, shifts and unknown things.

    python -m benchmarks.honesty.cell TASK.json

The file has the cell, the folders and the settings that are changed; the record is written to the folder of
the study. Each cell has a process of its own, since TensorFlow keeps something of every graph.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.honesty.data_sets import divided, unknown_images
from benchmarks.honesty.plan import SUBJECTS, Cell
from data_prep.files.atomic import atomic_file
from data_prep.prepared.manifest import MANIFEST_NAME
from pipelines.command.folders import METRICS
from pipelines.evaluation.evaluate import evaluate
from pipelines.histopathology.application import HISTOPATHOLOGY
from pipelines.histopathology.settings import EvaluateSettings as TissueEvaluateSettings
from pipelines.histopathology.settings import TrainSettings as TissueTrainSettings
from pipelines.lane.application import LANE
from pipelines.lane.settings import TrainSettings as LaneTrainSettings
from pipelines.runs.application import Application
from pipelines.runs.settings import EvaluateSettings, HeadTrainSettings
from pipelines.runs.train import train
from pipelines.scores.results import MethodResult
from pipelines.sonar.application import SONAR
from pipelines.sonar.settings import TrainSettings as SonarTrainSettings

HEADS = ("linear", "ridge_linear", "laplace", "sngp", "dropout", "svgp", "hgp")
ENSEMBLE = 5


@dataclass(frozen=True)
class Room:
    """The application of a subject.

    Attributes:
        application: Its application.
        train: Class of the settings of its training.
        evaluate: Settings of its evaluation.
        changes: Settings of the training of every cell.
    """

    application: Application[Any, Any, Any]
    train: type[HeadTrainSettings]
    evaluate: EvaluateSettings
    changes: Mapping[str, Any]


_FEW_STEPS = {"pretraining_epochs": 5, "head_epochs": 5}
"""500 and 500 training steps of fifty images, instead of 2000 and 2000, for the many cells."""

_TISSUE = Room(
    HISTOPATHOLOGY,
    TissueTrainSettings,
    # Every image is dozens of patches, each of which goes through the trunk once for each shift.
    TissueEvaluateSettings(by="image", shifted_examples=8),
    {**_FEW_STEPS, "svms": []},  # support vector machines need more patients than the fewest
)
_SONAR = Room(SONAR, SonarTrainSettings, EvaluateSettings(shifted_examples=100), _FEW_STEPS)
_LANE = Room(
    LANE,
    LaneTrainSettings,
    EvaluateSettings(shifted_examples=30),
    {"pretraining_epochs": 20, "head_epochs": 10, "batch_size": 6, "num_experts": 4, "head_steps": 300},
)
ROOMS = {"colon": _TISSUE, "breast": _TISSUE, "debris": _SONAR, "side-scan": _SONAR, "walkable": _LANE}


def train_settings(cell: Cell, changes: Mapping[str, Any]) -> HeadTrainSettings:
    """Return the settings of a cell's training."""
    room = ROOMS[cell.subject]
    network = {} if cell.network == "handmade" else {"network": cell.network}
    values = {"heads": HEADS, "ensemble": ENSEMBLE, "seed": cell.seed, **room.changes, **network, **changes}
    return room.train.model_validate(values)


def run_cell(cell: Cell, data: Path, out: Path, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Prepare, train all methods and judge them.

    Args:
        cell: Which run.
        data: Folder of the data sets.
        out: Folder of the study.
        changes: Settings of the training that are not those of the study.

    Returns:
        The record, as `benchmarks.honesty.report` reads it.
    """
    logging.disable(logging.WARNING)
    room, console = ROOMS[cell.subject], Console(quiet=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        prepared = divided(cell, data, out, work)
        started = time.perf_counter()
        run = train(
            room.application,
            train_settings(cell, changes),
            data=prepared,
            out=work / "run",
            resume=False,
            console=console,
        )
        trained = time.perf_counter() - started
        judging = {
            "unfamiliar": unknown_images(cell, data, out),
            "shifted": is_shifted(cell),
        }
        evaluation = evaluate(
            room.application,
            room.evaluate.model_copy(update=judging),
            data=prepared,
            model=work / "run",
            out=work / "evaluation",
            console=console,
        )
        metrics = json.loads((work / "evaluation" / METRICS).read_text(encoding="utf-8"))
        groups = groups_of(prepared)
    return {
        "cell": asdict(cell),
        "counted": SUBJECTS[cell.subject].counted,
        "settings": dict(changes),
        "counts": run.counts,
        "seconds": {**run.seconds, "all": round(trained, 1)},
        "methods": {
            result.name: method_record(result, metrics["methods"][result.name], groups)
            for result in evaluation.results
        },
    }


def is_shifted(cell: Cell) -> bool:
    """Whether shifted images are judged: where there are images, with the most examples and all classes."""
    is_largest = cell.size == SUBJECTS[cell.subject].largest
    return is_largest and cell.left_out is None and cell.network != "handmade"


def groups_of(prepared: Path) -> dict[str, str]:
    """Return the group of each example of a prepared folder, and of each image that it is a part of."""
    examples = json.loads((prepared / MANIFEST_NAME).read_text(encoding="utf-8"))["examples"]
    groups = {example["name"]: example["group"] for example in examples}
    return groups | {example["source"]: example["group"] for example in examples if "source" in example}


def method_record(
    result: MethodResult, metrics: Mapping[str, Any], groups: Mapping[str, str]
) -> dict[str, Any]:
    """Return the scores of a method, its mean NLL in each judged group, and what else was judged."""
    rows = result.statistics.dense
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for name, nll, count in zip(
        result.statistics.names, rows["negative_log_likelihood"], rows["count"], strict=True
    ):
        total = sums[groups[name]]
        total[0] += float(nll)
        total[1] += float(count)
    return {
        "scores": {key: round(float(value), 5) for key, value in result.scores.items()},
        "nll_of_groups": {group: round(nll / count, 5) for group, (nll, count) in sums.items() if count},
        "seconds_per_example": result.seconds_per_image,
        "details": dict(result.details),
        "unfamiliar": metrics["unfamiliar"],
        "shifted": metrics["shifted"],
        "guarantees": [] if metrics["guarantee"] is None else metrics["guarantee"]["rows"],
    }


def main() -> None:
    """Compute the cell that the file names, and write its record."""
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    cell, out = Cell(**task["cell"]), Path(task["out"])
    started = time.perf_counter()
    record = run_cell(cell, Path(task["data"]), out, task["changes"])
    with atomic_file(out / "cells" / f"{cell.name}.json") as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    nll = {name: round(method["scores"]["nll"], 3) for name, method in record["methods"].items()}
    print(f"{time.perf_counter() - started:.0f} s, NLL {nll}")


if __name__ == "__main__":
    main()
