"""Memory of the softmax of many classes: blocks of rows against all rows at once, each in its own process."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.cell_runner import Cell
from benchmarks.common import peak_memory, resident_memory
from gpmodels.estimators.fitting.engine import Engine
from gpmodels.likelihoods import softmax
from gpmodels.likelihoods.softmax import SoftmaxLikelihood

ROWS, COLUMNS, CLASSES = 1000, 20, 100
REPEATS = 3


def compute(cell: Cell, _: Path) -> dict[str, Any]:
    """Return the MiB above what the process held before, and the processor seconds of a call."""
    if cell.method == "all rows at once":
        softmax.LEAST_CLASSES_IN_BLOCKS = CLASSES + 1
    step = _svgp_step() if cell.setting.startswith("SVGP") else _likelihood_step(cell.setting)
    step(2)  # compiled, and libraries are loaded
    before = resident_memory()
    seconds = []
    for _round in range(REPEATS):
        started = time.process_time()
        value = step(ROWS)
        seconds.append(time.process_time() - started)
    return {
        "mebibytes": max(peak_memory() - before, 0.0),
        "seconds": float(np.median(seconds)),
        "value": value,
    }


def _svgp_step() -> Callable[[int], float]:
    """Return the step of an SVGP with a shared kernel on some of the rows; it returns its loss."""
    rng = np.random.default_rng(0)
    settings = {"num_inducing": 100, "num_classes": CLASSES, "likelihood": "softmax", "dtype": "float32"}
    engine = Engine("svgp", settings, COLUMNS)
    x, label = rng.normal(size=(ROWS, COLUMNS)), rng.integers(0, CLASSES, ROWS)
    engine.head.initialize(x)
    points = [tf.constant(part, tf.float32) for part in (x, label, np.ones(ROWS))]
    rate, count = tf.constant(1e-3), tf.constant(60_000.0)
    return lambda rows: float(engine.adam_step(tuple(part[:rows] for part in points), count, rate))


def _likelihood_step(setting: str) -> Callable[[int], float]:
    """Return the likelihood's part of a step on some of the rows; it returns the norm of its gradient."""
    rng = np.random.default_rng(0)
    moments = rng.normal(size=(ROWS, CLASSES)), np.exp(rng.normal(size=(ROWS, CLASSES)))
    mean, variance = (tf.constant(part, tf.float32) for part in moments)
    label, unit = tf.constant(rng.integers(0, CLASSES, ROWS)), tf.zeros(ROWS, tf.int32)
    likelihood = SoftmaxLikelihood(CLASSES)
    compiled = _second(likelihood) if setting.startswith("gradient of the sites") else _first(likelihood)
    return lambda rows: float(tf.norm(compiled(*(part[:rows] for part in (mean, variance, label, unit)))[-1]))


def _first(likelihood: SoftmaxLikelihood) -> Callable[..., Any]:
    """Return the bound's terms of the data with their gradient by both moments, compiled."""

    def step(mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch((mean, variance))
            value = tf.reduce_sum(likelihood.expected_log_likelihood(mean, variance, label, unit))
        return [value, *tape.gradient(value, (mean, variance))]

    return _compiled(step)


def _second(likelihood: SoftmaxLikelihood) -> Callable[..., Any]:
    """Return a function of the gradient, as leaving out has it, with its own gradient, compiled."""

    def step(mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as outer:
            outer.watch((mean, variance))
            with tf.GradientTape() as inner:
                inner.watch((mean, variance))
                value = tf.reduce_sum(likelihood.expected_log_likelihood(mean, variance, label, unit))
            slopes = inner.gradient(value, (mean, variance))
            summary = tf.add_n([tf.reduce_sum(tf.square(slope)) for slope in slopes])
        return [summary, *outer.gradient(summary, (mean, variance))]

    return _compiled(step)


def _compiled(step: Callable[..., list[tf.Tensor]]) -> Callable[..., Any]:
    moments = tf.TensorSpec([None, CLASSES], tf.float32)
    label, unit = tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], tf.int32)
    return tf.function(step, input_signature=[moments, moments, label, unit], autograph=False)
