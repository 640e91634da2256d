"""Seconds of a step of Adam, as ratios within one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.cell_runner import Cell
from gpmodels.estimators.fitting.engine import Engine

ROUNDS, STEPS = 15, 10
ROWS, COLUMNS, CLASSES = 1000, 20, 10
COMMON = {"num_inducing": 100, "num_classes": CLASSES, "likelihood": "softmax", "dtype": "float32"}

CONTENDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "AutoGP K = 1 over SVGP": ("autogp", {}),
    "AutoGP K = 4 full over SVGP": ("autogp", {"num_components": 4}),
    "AutoGP K = 4 diagonal over SVGP": ("autogp", {"num_components": 4, "posterior": "diagonal"}),
    "arc_cosine1 depth 3 over squared_exponential": ("svgp", {"kernel": "arc_cosine1", "kernel_depth": 3}),
}


def compute(cell: Cell, _: Path) -> dict[str, Any]:
    """Return the median ratio of a step's time to that of an SVGP with the squared exponential kernel."""
    family, settings = CONTENDERS[cell.method]
    ours, theirs = _step(family, settings), _step("svgp", {})
    times = np.array([(_seconds(ours), _seconds(theirs)) for _ in range(ROUNDS)])
    ratios = times[:, 0] / times[:, 1]
    return {
        "milliseconds": float(1e3 * np.median(times[:, 0])),
        "ratio": float(np.median(ratios)),
        "lowest": float(ratios.min()),
        "highest": float(ratios.max()),
    }


def _step(family: str, settings: dict[str, Any]) -> Callable[[], Any]:
    """Return a compiled step of Adam on one batch, warmed up."""
    rng = np.random.default_rng(0)
    engine = Engine(family, COMMON | settings, COLUMNS)
    x = rng.normal(size=(ROWS, COLUMNS))
    engine.head.initialize(x)
    batch = tuple(
        tf.constant(part, engine.dtype) for part in (x, rng.integers(0, CLASSES, ROWS), np.ones(ROWS))
    )
    rate, count = tf.constant(1e-3, engine.dtype), tf.constant(60_000.0, engine.dtype)

    def step() -> None:
        float(engine.adam_step(batch, count, rate))

    step()
    return step


def _seconds(step: Callable[[], Any]) -> float:
    """Return the processor seconds of a step, over several."""
    started = time.process_time()
    for _ in range(STEPS):
        step()
    return (time.process_time() - started) / STEPS
