"""Computes one cell in a process of its own and writes its record: `python -m benchmarks.tabular.cell`.

A process of its own has a peak memory of its own, and can be stopped.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.common import host, peak_memory
from benchmarks.tabular.datasets import FOLD_SEED, load_dataset
from benchmarks.tabular.measures import classification_measures, regression_measures
from benchmarks.tabular.methods import METHODS
from benchmarks.tabular.plan import Cell
from benchmarks.tabular.problem import Clock, FloatArray, Predict, Problem
from data_prep.files.atomic import atomic_file

CURVE_TEST_ROWS = 5000
"""A time-accuracy curve judges at most so many test points."""
PEER_PACKAGES = ("gpimaging", "scikit-learn", "scipy", "torch", "gpytorch")


def main() -> None:
    """Compute the cell given as JSON; a failure is recorded too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="the record")
    parser.add_argument("--cell", type=json.loads, required=True)
    arguments = parser.parse_args()
    record = compute_record(Cell(**arguments.cell), arguments.data, arguments.out)
    sys.exit(record["status"] != "done")


def compute_record(cell: Cell, data: Path, path: Path) -> dict[str, Any]:
    """Write the record of a cell to a path, also where it fails, and return it."""
    record = {"cell": cell.as_dict(), "host": host(*PEER_PACKAGES), "load": os.getloadavg()[0]}
    try:
        record.update(status="done", **compute(cell, data))
    except Exception as error:  # noqa: BLE001 - whatever a method does wrong belongs into its record
        traceback.print_exc()
        record.update(status="failed", error=f"{type(error).__name__}: {error}")
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return record


def compute(cell: Cell, folder: Path) -> dict[str, Any]:
    """Train, predict and judge.

    Inputs and, for regression, targets are standardised by the training part, for every method alike.

    Returns:
        `seconds` of training and of prediction, `processor_seconds` of training and of drawing its curve,
        `peak_memory` of the process in MiB and the one before training, `measures`, `curve` and `notes`.
    """
    dataset = load_dataset(folder, cell.dataset)
    train, test = dataset.fold(cell.fold, cell.num_folds)
    if cell.num_train:  # rows of a file may be in order of time
        train = np.random.default_rng(FOLD_SEED).permutation(train)[: cell.num_train]
    shift, scale = _standardisation(dataset.inputs[train])
    inputs = (dataset.inputs - shift) / scale
    targets: npt.NDArray[Any] = dataset.targets
    target_shift, target_scale = 0.0, 1.0
    if dataset.task == "regression":
        target_shift, target_scale = targets[train].mean(), targets[train].std()

    def judge(predict: Predict, rows: npt.NDArray[np.intp]) -> dict[str, float]:
        outputs = predict(inputs[rows])
        if dataset.task == "classification":
            return classification_measures(targets[rows], outputs)
        mean = target_shift + target_scale * outputs[:, 0]
        return regression_measures(targets[rows], mean, target_scale**2 * outputs[:, 1], targets[train])

    fit = METHODS[cell.method].load()
    clock = Clock()
    curve: list[dict[str, float]] = []
    sample = np.random.default_rng(0).permutation(test)[:CURVE_TEST_ROWS]

    def record(iteration: int, predict: Predict) -> None:
        seconds = clock.seconds
        with clock.paused():
            curve.append({"iteration": iteration, "seconds": seconds, **judge(predict, sample)})

    problem = Problem(
        inputs=inputs[train],
        targets=targets[train] if dataset.num_classes else (targets[train] - target_shift) / target_scale,
        num_classes=dataset.num_classes,
        num_inducing=min(cell.num_inducing, len(train)),
        num_expert_inducing=cell.num_expert_inducing,
        num_experts=cell.num_experts,
        seed=cell.seed,
        max_iterations=cell.max_iterations,
        clock=clock,
        record=record if cell.table == "time_accuracy" else None,
    )
    before = peak_memory()
    clock.restart()
    began = time.process_time()
    predict = fit(problem)
    seconds, processor_seconds = clock.seconds, time.process_time() - began
    if problem.record is not None:
        curve.append(
            {
                "iteration": curve[-1]["iteration"] if curve else 0,
                "seconds": seconds,
                **judge(predict, sample),
            }
        )
    clock.restart()
    measures = judge(predict, test)
    return {
        "num_train": len(train),
        "num_test": len(test),
        "measures": measures,
        "seconds": seconds,
        "processor_seconds": processor_seconds,
        "test_seconds": clock.seconds,
        "peak_memory": peak_memory(),
        "memory_before_training": before,
        "curve": curve,
        "notes": problem.notes,
    }


def _standardisation(inputs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations of the columns; 1 for a constant one."""
    scale = inputs.std(axis=0)
    return inputs.mean(axis=0), np.where(scale > 0.0, scale, 1.0)


if __name__ == "__main__":
    main()
