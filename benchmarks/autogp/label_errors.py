"""Exchanged labels: how many of the most suspicious rows were exchanged."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import cross_val_predict

from benchmarks.autogp.models import FOLDS, classifier
from benchmarks.autogp.problems import FloatArray, IntArray, load
from benchmarks.cell_runner import Cell

SHARE = 0.02


def compute(cell: Cell, data: Path) -> dict[str, Any]:
    """Return the precision of the most suspicious 2 % of the rows, where 2 % were exchanged."""
    problem = load(cell.setting, data, cell.seed)
    rng = np.random.default_rng(cell.seed)
    count = round(SHARE * len(problem.y))
    exchanged = rng.choice(len(problem.y), count, replace=False)
    classes = problem.y.max() + 1
    labels = problem.y.copy()
    labels[exchanged] = (labels[exchanged] + rng.integers(1, classes, count)) % classes
    started = time.process_time()
    listed = _most_suspicious(cell.method, problem.x, labels, count, cell.seed)
    return {
        "precision": float(np.isin(listed, exchanged).mean()),
        "seconds": time.process_time() - started,
    }


def _most_suspicious(method: str, x: FloatArray, labels: IntArray, count: int, seed: int) -> IntArray:
    """Return the most suspicious rows by one method."""
    name, _, how = method.partition(", ")
    settings: dict[str, Any] = {"num_inducing": 100, "dtype": "float32"}
    if how == "all rows":
        settings["early_stopping"] = False
    model = classifier("SVGP" if name == "cleanlab" else name, seed, **settings)
    if name == "cleanlab" or how == "cross-validated":
        probability = cross_val_predict(model, x, labels, cv=FOLDS, method="predict_proba")
        if name == "cleanlab":
            from cleanlab.rank import get_label_quality_scores  # noqa: PLC0415 - of the extra `peers`

            return np.argsort(get_label_quality_scores(labels, probability), kind="stable")[:count]
        return np.argsort(probability[np.arange(len(labels)), labels], kind="stable")[:count]
    model.fit(x, labels)
    return np.argsort(model.leave_one_out(x, labels), kind="stable")[:count]
