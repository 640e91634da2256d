"""Mini-batch training by Adam, in memory that does not grow with the number of rows."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.estimators.fitting.engine import Engine, FloatArray
from gpmodels.estimators.fitting.full_batch import count_assignments, drop_unused_experts, fit_full_batch
from gpmodels.estimators.fitting.monitoring import CALLBACK_INTERVAL, FitMonitor

CHUNK = 8192
"""Rows of a batch where nothing is trained: prediction, validation, routing."""

CHECKS = 40
"""How often the held-out points are looked at in a fit of full length."""

PATIENCE = 6
"""Stop after so many looks without a better held-out density than an earlier look, and those of a cycle.

The start is no look: it predicts the mean with a prior's variance, which the first steps of a model may not
reach. Its weights are kept all the same where no look is better, or none enough.
"""

WARM_START_ROWS = 2000
"""Rows of the sample that L-BFGS fits before Adam sees all."""

WARM_START_ITERATIONS = 40
"""Iterations of that fit; more would fit the sample rather than the data."""

WARM_START_TOLERANCE = 1e-4
"""Nats per row of an iteration of that fit, below which it ends."""

MiniBatchStep = Callable[[tuple[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor, tf.Tensor], tf.Tensor]
"""Trains on a batch (inputs, targets, weights), N and learning rate; returns minus the bound per point."""


Judge = Callable[[Engine, "Rows"], FloatArray]
"""Says how well an engine's head predicts each of some rows, `[N]`: more is better."""

MayReplaceStart = Callable[[FloatArray, FloatArray, "Rows"], bool]
"""Says whether weights may replace those of the start, by a judge's values of both for the held-out rows."""


@dataclass(frozen=True)
class Rows:
    """Training rows in the user's memory; only batches of them become tensors.

    Attributes:
        x: Standardised on the way, see `mean` and `scale`; `[N, D]`.
        y: Class indices or standardised targets, `[N]`.
        weight: `[N]`.
        mean: Mean of the inputs, `[D]`.
        scale: Deviation of the inputs, `[D]`.
        groups: Group of each row, `[N]`; None where each is one of its own.
        logits: Cross-fitted logits for a linear mean, `[N, P]`; None takes those of the layer itself.
        logit_variance: Their variance, `[N, P]`; None takes that of the layer itself, if it has some.
    """

    x: FloatArray
    y: FloatArray
    weight: FloatArray
    mean: FloatArray
    scale: FloatArray
    groups: npt.NDArray[np.intp] | None = None
    logits: FloatArray | None = None
    logit_variance: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.y)

    def subset(self, index: npt.NDArray[np.integer[Any]]) -> "Rows":
        """Return some of the rows, by index."""
        x, y, weight = self.x[index], self.y[index], self.weight[index]
        groups, logits, variance = (
            None if part is None else part[index] for part in (self.groups, self.logits, self.logit_variance)
        )
        return replace(self, x=x, y=y, weight=weight, groups=groups, logits=logits, logit_variance=variance)

    @property
    def standardised(self) -> FloatArray:
        """The inputs as a head sees them, `[N, D]`."""
        return (self.x - self.mean) / self.scale

    def take(self, index: FloatArray | slice, dtype: tf.DType) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the standardised inputs, targets and weights of some rows, as tensors."""
        x = (self.x[index] - self.mean) / self.scale
        return tuple(tf.constant(part, dtype) for part in (x, self.y[index], self.weight[index]))

    def chunks(self, size: int | None = None) -> Iterator[slice]:
        """Yield slices of all rows, at most `size` at a time, by default `CHUNK`."""
        size = CHUNK if size is None else size
        return (slice(start, start + size) for start in range(0, len(self), size))


class TrainingSteps(Protocol):
    """What one iteration of a fit by mini-batches does."""

    @property
    def cycle(self) -> int:
        """Iterations after which kinds of steps repeat, which early stopping waits for; 0 of one kind."""

    def take(
        self,
        number: int,
        batch: tuple[tf.Tensor, tf.Tensor, tf.Tensor],
        num_data: tf.Tensor,
        rate: tf.Tensor,
    ) -> float:
        """Train on a batch and return the loss, nats per row.

        Args:
            number: Of the iteration, from 0.
            batch: Inputs, targets and weights.
            num_data: How many observations all rows count as.
            rate: Learning rate.
        """

    def settle(self) -> None:
        """Bring the head's weights up to date before anyone looks at them."""


@dataclass(frozen=True)
class BoundSteps:
    """Steps that maximise the bound.

    Attributes:
        step: Trains on a batch.
    """

    step: MiniBatchStep

    @property
    def cycle(self) -> int:
        """0: there is one kind of step."""
        return 0

    def take(
        self,
        number: int,  # noqa: ARG002 - others need it
        batch: tuple[tf.Tensor, tf.Tensor, tf.Tensor],
        num_data: tf.Tensor,
        rate: tf.Tensor,
    ) -> float:
        """Take a step, and return minus the bound per row."""
        return float(self.step(batch, num_data, rate))

    def settle(self) -> None:
        """Do nothing: each step moves the weights themselves."""


def fit_mini_batch(
    engine: Engine,
    training: Rows,
    held_out: Rows | None,
    monitor: FitMonitor,
    *,
    batch_size: int,
    max_iterations: int,
    learning_rate: float,
    rng: np.random.Generator,
    steps: TrainingSteps | None = None,
    judge: Judge | None = None,
    may_replace_start: MayReplaceStart | None = None,
    first_look: int | None = None,
    stop_after: int | None = None,
    before_first_step: Callable[[], None] | None = None,
) -> int:
    """Maximise the bound by Adam with a cosine schedule; keep the best weights on the held-out rows.

    Args:
        engine: Its head is placed at the data; on return it holds the result.
        training: Rows to train on.
        held_out: Rows for early stopping, None to train to the end.
        monitor: What every iteration is reported to.
        batch_size: Rows of a step.
        max_iterations: Steps.
        learning_rate: At the start.
        rng: Orders the rows.
        steps: What an iteration does; None maximises the bound.
        judge: What is looked at of the held-out rows; None for `log_densities`.
        may_replace_start: What weights must pass to replace those of the start; None asks no more than a
            better mean.
        first_look: Held-out rows are looked at after so many steps, too, and after twice as many and so on,
            before the looks at equal distances begin; None for these alone.
        stop_after: Ends a fit of that schedule after so many steps; None for all.
        before_first_step: Changes the start after the held-out rows have judged it; None leaves it.

    Returns:
        After how many steps the weights that are kept were there.

    Raises:
        FloatingPointError: The bound stopped being finite.
    """
    steps = BoundSteps(engine.adam_step) if steps is None else steps
    engine.reset_optimizer()
    num_data = tf.constant(training.weight.sum(), engine.dtype)
    batches = _batches(len(training), batch_size, rng)
    stopping = (
        None
        if held_out is None
        else _EarlyStopping(engine, held_out, judge or log_densities, may_replace_start)
    )
    interval = max(max_iterations // CHECKS, CALLBACK_INTERVAL)
    patience = PATIENCE + steps.cycle // interval
    early = set() if first_look is None else _doublings(first_look, interval)
    num_steps, last = 0, max_iterations if stop_after is None else min(stop_after, max_iterations)
    if before_first_step is not None and last > 0:
        before_first_step()
    for done in range(last):
        rate = 0.5 * learning_rate * (1.0 + math.cos(math.pi * done / max_iterations)) + 1e-3 * learning_rate
        batch = training.take(next(batches), engine.dtype)
        loss = steps.take(done, batch, num_data, tf.constant(rate, engine.dtype))
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"The objective is {-loss} after {done + 1} mini-batches. "
                f"Lower learning_rate (now {learning_rate})."
            )
        num_steps = done + 1
        density = math.nan
        is_regular = num_steps % interval == 0 or num_steps == max_iterations
        if stopping is not None and (is_regular or num_steps in early):
            steps.settle()
            density = stopping.look(num_steps, counts=is_regular)
        monitor.report(-loss, validation=density, prepare=steps.settle)
        if stopping is not None and stopping.looks_in_vain >= patience:
            break
    steps.settle()
    kept = num_steps if stopping is None else stopping.restore(num_steps)
    drop_unused_experts(engine.head, lambda: _count_rows(engine, training))
    return kept


def _doublings(first: int, end: int) -> set[int]:
    """Return `first`, twice as much and so on, below `end`."""
    return {first << number for number in range(end.bit_length()) if first << number < end}


class _EarlyStopping:
    """Keeps the weights that held-out rows like best: the start's, or those of one of the looks.

    Args:
        engine: At the start.
        held_out: Rows that choose.
        judge: What is looked at of them.
        may_replace_start: As of `fit_mini_batch`.

    Attributes:
        looks_in_vain: Looks that count since the best one of these, whatever the start was.
    """

    def __init__(
        self, engine: Engine, held_out: Rows, judge: Judge, may_replace_start: MayReplaceStart | None
    ) -> None:
        self._engine, self._rows, self._judge, self._test = engine, held_out, judge, may_replace_start
        self._at_start = judge(engine, held_out)
        mean = float(np.average(self._at_start, weights=held_out.weight))
        self._best = mean if math.isfinite(mean) else -math.inf
        self._weights, self._step = engine.head.get_weights(), 0
        self._best_look = -math.inf
        self.looks_in_vain = 0

    def look(self, step: int, *, counts: bool) -> float:
        """Return the mean density of the held-out rows, nats, after so many steps.

        Args:
            step: Number of steps.
            counts: Whether the look is one of those that end a fit in which they are in vain.
        """
        densities = self._judge(self._engine, self._rows)
        density = float(np.average(densities, weights=self._rows.weight))
        if density > self._best and self._may_replace_start(densities):
            self._best, self._weights, self._step = density, self._engine.head.get_weights(), step
        if counts:
            self.looks_in_vain = 0 if density > self._best_look else self.looks_in_vain + 1
            self._best_look = max(self._best_look, density)
        return density

    def _may_replace_start(self, densities: FloatArray) -> bool:
        if self._test is None or not np.isfinite(self._at_start).all():
            return True  # a start that holds a row impossible is no measure
        return self._test(densities, self._at_start, self._rows)

    def restore(self, num_steps: int) -> int:
        """Give the head the best weights; return after how many of the steps they were there."""
        if self._best == -math.inf:  # nothing that could be chosen: the last ones stay
            return num_steps
        self._engine.set_weights(self._weights)
        return self._step


def warm_start(
    engine: Engine,
    rows: Rows,
    rng: np.random.Generator,
    *,
    max_iterations: int = WARM_START_ITERATIONS,
    tolerance: float = WARM_START_TOLERANCE,
) -> None:
    """Fit to a sample by L-BFGS first: seconds that spare Adam thousands of steps.

    Args:
        engine: Its head is placed at the data; on return it fits the sample.
        rows: Up to `WARM_START_ROWS` of them are the sample, of which all are taken.
        rng: Draws the sample.
        max_iterations: Of L-BFGS.
        tolerance: L-BFGS stops when an iteration gains less, in nats per row.
    """
    sample = rows.subset(np.sort(rng.permutation(len(rows))[:WARM_START_ROWS]))
    points = engine.points(sample.standardised, sample.y, sample.weight, sample.logits, sample.logit_variance)
    fit_full_batch(
        engine,
        points,
        quiet_monitor(engine, len(sample)),
        max_iterations=max_iterations,
        tolerance=tolerance,
        drop_unused=False,
    )


def quiet_monitor(
    engine: Engine, num_data: float, callback: Callable[[int], None] | None = None
) -> FitMonitor:
    """Return a monitor of a part of a fit that nobody watches but a callback."""
    return FitMonitor(
        engine, num_data=num_data, total=1, verbose=0, log_dir=None, publish=lambda: None, callback=callback
    )


def _batches(num_rows: int, batch_size: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    """Yield endless batches of row numbers, each row once an epoch."""
    while True:
        order = rng.permutation(num_rows)
        full = max(num_rows // batch_size, 1) * batch_size
        for start in range(0, full, batch_size):
            yield np.sort(order[start : start + batch_size])


def log_densities(engine: Engine, rows: Rows) -> FloatArray:
    """Return log p(y) of each row, nats, `[N]`."""
    chunks = rows.chunks(max(CHUNK // engine.head.samples_per_point, 1))
    parts = [engine.log_densities(rows.take(chunk, engine.dtype)[:2]).numpy() for chunk in chunks]
    return np.concatenate(parts).astype(np.float64)


def _count_rows(engine: Engine, rows: Rows) -> npt.NDArray[np.int64]:
    """Return the rows of positive weight that each expert answers for, `[T]`."""
    counts = count_assignments(engine.head, np.zeros(0, np.int32))
    for chunk in rows.chunks():
        x, _, weight = rows.take(chunk, engine.dtype)
        counts += count_assignments(engine.head, engine.assign(x).numpy()[weight.numpy() > 0])
    return counts
