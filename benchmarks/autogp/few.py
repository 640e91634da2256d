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
    model = classifier(cell.method, cell.seed)
    started = time.process_time()
    model.fit(problem.x, problem.y)
    record = {
        "seconds": time.process_time() - started,
        **classification_measures(problem.test_y, model.predict_proba(problem.test_x)),
    }
    if cell.method not in MACHINES:
        record["left_out_nll"] = float(-model.leave_one_out(problem.x, problem.y).mean())
    return record
