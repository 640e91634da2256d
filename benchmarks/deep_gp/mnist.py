"""Digits, pixels from 0 to 1, layers of 30 functions: error and mean negative log probability."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.deep_gp.plan import BATCH, INDUCING, MNIST_STEPS, MNIST_WIDTH, Cell
from gpmodels.estimators.deep.deep_gp import SOFTMAX_VARIANCE
from gpmodels.estimators.deep.natural_gradient import NaturalGradientSteps, natural_gradient_step
from gpmodels.estimators.fitting.engine import Engine
from gpmodels.estimators.fitting.mini_batch import Rows, fit_mini_batch
from gpmodels.estimators.fitting.monitoring import FitMonitor

PLACEMENT_ROWS = 10_000


def compute(cell: Cell, data: Path) -> dict[str, Any]:
    """Fit and judge one model."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    x, y, x_test, y_test = load(data)
    settings = {
        "num_layers": cell.layers,
        "widths": (MNIST_WIDTH,) * (cell.layers - 1),
        "num_inducing": INDUCING,
        "num_classes": 10,
        "likelihood": "softmax",
        "kernel_variance": SOFTMAX_VARIANCE,
        "inner_kernels": "separate" if cell.method == "deep_gp_separate" else "shared",
        "dtype": "float32",
    }
    engine = Engine("deep_gp", settings, x.shape[1])
    rng = np.random.default_rng(cell.seed)
    sample = rng.choice(len(x), PLACEMENT_ROWS, replace=False)
    engine.head.initialize(x[sample].astype(np.float64), seed=cell.seed)
    steps = NaturalGradientSteps(
        natural_gradient_step(engine), length=0.1, steps_per_epoch=len(x) / BATCH, total=MNIST_STEPS
    )
    # Pixels share one scale: standardised alone, the rarest of them would decide distances.
    no_change = np.zeros(x.shape[1]), np.ones(x.shape[1])
    rows = Rows(x, y, np.ones(len(x)), *no_change)
    monitor = FitMonitor(
        engine,
        num_data=len(x),
        total=MNIST_STEPS,
        verbose=0,
        log_dir=None,
        publish=lambda: None,
        callback=None,
    )
    started = time.process_time()
    with monitor:
        fit_mini_batch(
            engine,
            rows,
            None,
            monitor,
            batch_size=BATCH,
            max_iterations=MNIST_STEPS,
            learning_rate=0.01,
            rng=rng,
            steps=steps,
        )
    seconds = time.process_time() - started
    errors, nll = 0, 0.0
    for block in np.array_split(np.arange(len(x_test)), 50):
        inputs = tf.constant(x_test[block], engine.dtype)
        labels = tf.constant(y_test[block], engine.dtype)
        errors += int(np.sum(engine.predict(inputs)[0]["label"].numpy() != y_test[block]))
        nll -= float(np.sum(engine.log_densities((inputs, labels))))
    bound = float(np.mean([point.bound_per_point for point in monitor.curve[-50:]]))
    return {
        "accuracy": 1.0 - errors / len(y_test),
        "nll": nll / len(y_test),
        "seconds": seconds,
        "bound": bound,
    }


def load(data: Path) -> tuple[np.ndarray, ...]:
    """Return the rows of pixels from 0 to 1 and their digits, of the training and the test part."""
    path = data / "mnist" / "mnist.npz"
    if not path.exists():
        raise SystemExit(f"{path} is missing; expected the complete MNIST.")
    with np.load(path) as file:
        parts = [file[key] for key in ("x_train", "y_train", "x_test", "y_test")]
    x, y, x_test, y_test = parts
    flat = [(part.reshape(len(part), -1) / np.float32(255.0)).astype(np.float32) for part in (x, x_test)]
    return flat[0], y.astype(np.float64), flat[1], y_test.astype(np.float64)
