"""Arc-cosine kernels of several degrees and depths in an SVGP and an SVM, and the squared exponential one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks.autogp.models import classifier
from benchmarks.autogp.problems import load
from benchmarks.cell_runner import Cell
from benchmarks.tabular.measures import classification_measures

OF_SVM = "SVM, "
"""Prefix of the kernels that an SVM uses; without it an SVGP does."""


def compute(cell: Cell, data: Path) -> dict[str, Any]:
    """Return errors of an SVGP or an SVM with the kernel."""
    problem = load(cell.setting, data, cell.seed)
    named, _, inducing = cell.method.removeprefix(OF_SVM).partition(", M = ")
    kernel, _, depth = named.partition(" depth ")
    settings = {"num_inducing": int(inducing)} if inducing else {}
    name = "arc-cosine SVM" if cell.method.startswith(OF_SVM) else "SVGP"
    model = classifier(name, cell.seed, kernel=kernel, kernel_depth=int(depth or 1), **settings)
    started = time.process_time()
    model.fit(problem.x, problem.y)
    seconds = time.process_time() - started
    measured = classification_measures(problem.test_y, model.predict_proba(problem.test_x))
    return {"seconds": seconds, **measured}
