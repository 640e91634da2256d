"""One training run of the sonar benchmark, and what its heads do on snapshots they never saw."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from rich.console import Console
from sklearn.metrics import roc_auc_score

from benchmarks.sonar.cell_plan import Cell
from benchmarks.sonar.data_sets import SETS, class_files
from benchmarks.sonar.detection import detection_scores
from data_prep.sonar.images import read_sonar
from data_prep.splits.divide import manifest_splits
from pipelines.runs.application import JudgedExample, Prepared
from pipelines.runs.job import trained_job
from pipelines.runs.models import run_predictors
from pipelines.runs.predictors import Predictor
from pipelines.runs.train import train
from pipelines.scores.pictures import Outputs, Picture
from pipelines.sonar.application import SONAR
from pipelines.sonar.settings import SonarRun, TrainSettings
from pipelines.sonar.windows import snapshot_of

_AT_ONCE = 256


def run_cell(cell: Cell, data: Path, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Prepare, train all heads and judge them.

    Args:
        cell: Which run.
        data: Folder of the data sets.
        changes: Settings of the training that are not the defaults.

    Returns:
        The cell, its settings, the seconds of each stage, and under `methods` the scores of each.
    """
    logging.disable(logging.WARNING)
    settings = TrainSettings.model_validate({**changes, "network": cell.network, "seed": cell.seed})
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        prepared = SONAR.inputs.open(SETS[cell.data_set].prepare(data, cell.seed, cell.left_out, work))
        started = time.perf_counter()
        run = train(
            SONAR, settings, data=prepared.folder, out=work / "run", resume=False, console=Console(quiet=True)
        )
        seconds = time.perf_counter() - started
        job = trained_job(SONAR, work / "run", Console(quiet=True))
        methods = {
            predictor.title: scores_of(predictor, cell, run, prepared, data)
            for predictor in run_predictors(job)
        }
    return {
        "cell": asdict(cell),
        "settings": dict(changes),
        "classes": list(run.class_names),
        "counts": run.counts,
        "seconds": {**run.seconds, "all": round(seconds, 1)},
        "methods": methods,
    }


def scores_of(
    predictor: Predictor, cell: Cell, run: SonarRun, prepared: Prepared[Any], data: Path
) -> dict[str, Any]:
    """All that is measured of one method."""
    names = manifest_splits(prepared.manifest).test
    examples = [
        JudgedExample(example.name, example.image, example.truth)
        for example in SONAR.judge.examples(prepared, names)
    ]
    outputs = predict_all(predictor, [example.image for example in examples])
    records = [SONAR.judge.record(example, row) for example, row in zip(examples, outputs, strict=True)]
    result = SONAR.judge.result(predictor.title, records)
    scores = {key: float(value) for key, value in result.scores.items()}
    scores |= {"recalls": np.round(result.recalls(), 4).tolist()}
    if cell.left_out is not None:
        unseen = [
            snapshot_of(read_sonar(path), run.size, run.snapshots.normalisation)
            for path in class_files(data, cell.data_set, cell.left_out)
        ]
        scores |= unseen_scores(outputs, predict_all(predictor, unseen))
    if cell.data_set == "tiles":
        # A snapshot's name is its tile's, a slash and a number.
        scores |= detection_scores(predictor, run, data, {name.rpartition("/")[0] for name in names})
    return scores


def predict_all(predictor: Predictor, images: Sequence[Picture]) -> list[Outputs]:
    """Outputs of each image."""
    rows: list[Outputs] = []
    for start in range(0, len(images), _AT_ONCE):
        batch = tf.constant(np.stack(images[start : start + _AT_ONCE]), tf.float32)
        outputs = {name: value.numpy() for name, value in predictor.predict(batch).items()}
        rows += [{name: value[i] for name, value in outputs.items()} for i in range(len(batch))]
    return rows


def unseen_scores(known: Sequence[Outputs], unseen: Sequence[Outputs]) -> dict[str, float]:
    """How well each uncertainty tells images of an unseen class from test images of the known ones."""

    def auroc(measure: str) -> float:
        values: NDArray[np.float64] = np.array([row[measure] for row in (*known, *unseen)], np.float64)
        return float(roc_auc_score(np.arange(len(values)) >= len(known), values))

    return {f"unseen_{name}": auroc(name) for name in ("predictive_entropy", "mutual_information")}


def run_fresh_cell(cell: Cell, data: Path, changes: Mapping[str, Any]) -> dict[str, Any]:
    """As `run_cell`, after forgetting the graphs of the cells before in this process."""
    keras.backend.clear_session()
    return run_cell(cell, data, changes)
