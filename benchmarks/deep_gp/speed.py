"""The time of a training step: kin40k, two layers, width 8, M = 100, batches of 1000, one sample, float32."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.common import median_and_spread
from benchmarks.deep_gp.plan import BATCH, INDUCING, Cell
from benchmarks.deep_gp.regression import gpytorch_peer, load
from gpmodels.estimators.deep.natural_gradient import natural_gradient_step
from gpmodels.estimators.fitting.engine import Engine

WARM_UP, REPEATS = 20, 100


def compute(cell: Cell, data: Path) -> dict[str, Any]:
    """Return the median time of a step and its spread, milliseconds of one thread."""
    parts = load(data, cell.data)
    own = {"deep_gp": "shared", "deep_gp_separate": "separate"}
    step = _own_step(parts, own[cell.method]) if cell.method in own else gpytorch_peer(cell, parts).step
    times = []
    for number in range(WARM_UP + REPEATS):
        started = time.process_time()  # the machine may be shared
        step()
        if number >= WARM_UP:
            times.append(1000.0 * (time.process_time() - started))
    middle, spread = median_and_spread(times)
    return {"milliseconds": middle, "spread": spread}


def _own_step(parts: dict[str, Any], inner_kernels: str) -> Callable[[], Any]:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    x, y = parts["X_train"], parts["y_train"]
    settings = {
        "num_layers": 2,
        "num_inducing": INDUCING,
        "inner_kernels": inner_kernels,
        "likelihood": "gaussian",
        "dtype": "float32",
    }
    engine = Engine("deep_gp", settings, x.shape[1])
    engine.head.initialize(x, seed=0)
    natural = natural_gradient_step(engine)
    rng = np.random.default_rng(0)
    scalars = [tf.constant(value, engine.dtype) for value in (len(x), 0.01, 0.1)]

    def step() -> float:
        rows = rng.integers(len(x), size=BATCH)
        batch = tuple(tf.constant(part, engine.dtype) for part in (x[rows], y[rows], np.ones(BATCH)))
        return float(natural(batch, *scalars))

    return step
