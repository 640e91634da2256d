"""Cells of the speed part: a fit and a prediction beside those of the deep GP on pooled rows, and many rows.

Each method fits twice in a process and the second fit counts, since the first compiles. Times are of the
processor in one thread; the ratios are of one process, where the two take turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import peak_memory
from benchmarks.transfer.methods import METHODS
from benchmarks.transfer.office import Split, load_split
from benchmarks.transfer.plan import Cell

PAIR = "webcam-amazon"
ROUNDS = 5
MANY_ROWS, MANY_COLUMNS, MANY_TARGET = 20_000, 20, 30


def methods() -> list[str]:
    """Return what is timed: each estimator that is there, and the exact limit on many rows."""
    names = [key for key in ("atl", "atl_trained") if METHODS[key].is_available]
    return [*names, "many_rows"]


def cells_of(methods: list[str]) -> list[Cell]:
    """Return one cell for each."""
    return [Cell("speed", method, PAIR if method != "many_rows" else "synthetic") for method in methods]


def compute(cell: Cell, data: Path, out: Path) -> dict[str, Any]:  # noqa: ARG001 - as of all parts
    """Measure one thing."""
    if cell.method == "many_rows":
        return _many_rows()
    return _ratios(cell.method, load_split(data, PAIR, 0, "transductive"))


def _own(method: str) -> Any:
    import gpmodels  # noqa: PLC0415 - imports TensorFlow

    settings = {"max_iterations": 100} if method == "atl_trained" else {}
    return gpmodels.ATLDGPClassifier(scaling=None, random_state=0, **settings)


def _ratios(method: str, split: Split) -> dict[str, Any]:
    """Return medians of processor seconds of both models, fitted and asked in turn."""
    import gpmodels  # noqa: PLC0415 - imports TensorFlow

    def reference() -> Any:
        return gpmodels.DFGPClassifier(num_hidden=20, num_inducing=10, max_iterations=100, random_state=0)

    fits: dict[str, Callable[[], Any]] = {
        "own": lambda: _own(method).fit(split.x, split.label, sample_domain=split.sample_domain),
        "dfgp": lambda: reference().fit(split.x, split.label),
    }
    record: dict[str, Any] = {"rows": len(split.x), "judged": len(split.test_x)}
    for name, fit in fits.items():
        started = time.perf_counter()
        fit().predict_proba(split.test_x)
        record[f"{name}_first_seconds"] = time.perf_counter() - started
    times: dict[str, list[float]] = {f"{name}_{what}": [] for name in fits for what in ("fit", "predict")}
    elapsed: dict[str, list[float]] = {name: [] for name in fits}
    for _ in range(ROUNDS):
        for name, fit in fits.items():
            started, wall = time.process_time(), time.perf_counter()
            model = fit()
            times[f"{name}_fit"].append(time.process_time() - started)
            elapsed[name].append(time.perf_counter() - wall)
            started = time.process_time()
            model.predict_proba(split.test_x)
            times[f"{name}_predict"].append(time.process_time() - started)
    medians = {f"{name}_seconds": float(np.median(values)) for name, values in times.items()}
    walls = {f"{name}_fit_wall_seconds": float(np.median(values)) for name, values in elapsed.items()}
    return {
        **record,
        **medians,
        **walls,
        "fit_ratio": medians["own_fit_seconds"] / medians["dfgp_fit_seconds"],
        "predict_ratio": medians["own_predict_seconds"] / medians["dfgp_predict_seconds"],
    }


def _many_rows() -> dict[str, Any]:
    """Return seconds and memory of a fit with many source rows."""
    rng = np.random.default_rng(0)
    centres = 2.0 * rng.normal(size=(10, MANY_COLUMNS))
    label = np.r_[np.arange(MANY_ROWS) % 10, np.arange(MANY_TARGET) % 10]
    x = centres[label] + rng.normal(size=(len(label), MANY_COLUMNS))
    domain = np.repeat([0, -1], [MANY_ROWS, MANY_TARGET])
    model = _own("atl")
    before = peak_memory()
    started, processor = time.perf_counter(), time.process_time()
    model.fit(x, label, sample_domain=domain)
    return {
        "rows": len(x),
        "fit_wall_seconds": time.perf_counter() - started,
        "fit_seconds": time.process_time() - processor,
        "peak_mib": peak_memory(),
        "peak_mib_before_fit": before,
    }
