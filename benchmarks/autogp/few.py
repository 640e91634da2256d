"""Some hundred labels: AutoGP beside the other Gaussian processes, logistic regression and an SVM."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks.autogp.models import classifier
from benchmarks.autogp.problems import load
from benchmarks.cell_runner import Cell
from benchmarks.tabular.measures import classification_measures

MACHINES = ("logistic", "RBF-SVM")


def compute(cell: Cell, data: Path) -> dict[str, Any]:
    """Return errors, and the NLL by leaving out where the model has one."""
    problem = load(cell.setting, data, cell.seed)
    name, _, components = cell.method.partition(", K = ")
    model = classifier(name, cell.seed, **({"num_components": int(components)} if components else {}))
    started = time.process_time()
    model.fit(problem.x, problem.y)
    record = {
        "seconds": time.process_time() - started,
        **classification_measures(problem.test_y, model.predict_proba(problem.test_x)),
    }
    # With several components `leave_one_out` judges another model, which has one.
    if cell.method not in MACHINES and not components:
        record["left_out_nll"] = float(-model.leave_one_out(problem.x, problem.y).mean())
    return record
