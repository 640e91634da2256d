"""Learning rates, judged by rows held out from the training part, as `regression` judges by the test part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.deep_gp.plan import Cell
from benchmarks.deep_gp.regression import FloatArray, fit_and_judge, load

HELD_OUT = 1000


def compute(cell: Cell, data: Path) -> dict[str, Any]:
    """Fit and judge one model."""
    return fit_and_judge(cell, _without_test_part(load(data, cell.data)))


def _without_test_part(parts: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Divide the training part, the same rows for every method."""
    order = np.random.default_rng(5).permutation(len(parts["y_train"]))
    held_out, kept = order[:HELD_OUT], order[HELD_OUT:]
    divided = {}
    for kind in "Xy":
        rows = parts[f"{kind}_train"]
        divided |= {f"{kind}_train": rows[kept], f"{kind}_test": rows[held_out]}
    return divided
