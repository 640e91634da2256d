"""Progress of a fit: a bar on the terminal, TensorBoard, the learning curve and the user's callback."""

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from types import TracebackType
from typing import Any, NamedTuple, Self

import tensorflow as tf
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gpmodels.estimators.fitting.engine import Engine
from gpmodels.heads.base import write_unit_summaries

CALLBACK_INTERVAL = 10
"""Iterations between two calls of the user's callback and two entries in TensorBoard."""


class CurvePoint(NamedTuple):
    """State of a fit at some iteration.

    Attributes:
        iteration: Iterations done.
        seconds: Since the start of the fit, without the time spent in the user's callback.
        bound_per_point: Training bound, nats per point; of the batch where there are mini-batches.
        validation: Mean log density of held-out points, NaN where none were looked at.
    """

    iteration: int
    seconds: float
    bound_per_point: float
    validation: float = float("nan")


class FitMonitor:
    """Keeps the learning curve and reports it to whoever wants to know; a context manager.

    Args:
        engine: What is being trained; None where it is no head.
        num_data: N, to write the whole bound.
        total: Iterations planned.
        verbose: 0 shows nothing, 1 and more a progress bar.
        log_dir: Folder for TensorBoard, None for no log.
        publish: Called before `callback` to make the estimator ready to predict.
        callback: Called with the iteration every ten iterations.
        scalars: Further entries of TensorBoard, by tag.

    Attributes:
        curve: One point for each iteration.
    """

    def __init__(
        self,
        engine: Engine | None,
        *,
        num_data: float,
        total: int,
        verbose: int,
        log_dir: str | None,
        publish: Callable[[], None],
        callback: Callable[[int], None] | None,
        scalars: Callable[[], Mapping[str, float]] | None = None,
    ) -> None:
        self._engine = engine
        self._num_data = num_data
        self._publish = publish
        self._callback = callback
        self._scalars = scalars
        self._writer = tf.summary.create_file_writer(log_dir) if log_dir is not None else None
        self._bar = Progress(
            TextColumn("fit"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("bound per point {task.fields[bound]:.4f}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            disable=not verbose,
        )
        self._task = self._bar.add_task("fit", total=total, bound=float("nan"))
        self._started = time.perf_counter()
        self._elsewhere = 0.0
        self.curve: list[CurvePoint] = []

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        if self._writer is not None:
            self._writer.close()

    @property
    def iteration(self) -> int:
        """Iterations done so far."""
        return self.curve[-1].iteration if self.curve else 0

    @property
    def is_watched(self) -> bool:
        """Whether anyone looks at the head's weights while it is trained."""
        return self._writer is not None or self._callback is not None

    def report(
        self,
        bound_per_point: float,
        *,
        validation: float = float("nan"),
        prepare: Callable[[], Any] | None = None,
    ) -> None:
        """Record one more iteration.

        Args:
            bound_per_point: Training bound, nats per point.
            validation: Mean log density of held-out points, if it was measured.
            prepare: Called before anyone looks at the head's weights, to bring q up to date.
        """
        seconds = time.perf_counter() - self._started - self._elsewhere
        iteration = self.iteration + 1
        self.curve.append(CurvePoint(iteration, seconds, bound_per_point, validation))
        self._bar.update(self._task, completed=iteration, bound=bound_per_point)
        if iteration % CALLBACK_INTERVAL or not self.is_watched:
            return
        if prepare is not None:
            prepare()
        paused = time.perf_counter()
        if self._writer is not None:
            self._write(self._writer, self.curve[-1])
        if self._callback is not None:
            self._publish()
            # It may use another estimator of the same configuration.
            with nullcontext() if self._engine is None else self._engine.unchanged():
                self._callback(iteration)
        self._elsewhere += time.perf_counter() - paused

    def _write(self, writer: Any, point: CurvePoint) -> None:
        with writer.as_default(step=point.iteration):
            tf.summary.scalar("bound_per_point/training", point.bound_per_point)
            tf.summary.scalar("bound/training", point.bound_per_point * self._num_data)
            if point.validation == point.validation:  # not NaN
                tf.summary.scalar("nll/selection", -point.validation)
            if self._engine is not None:
                write_unit_summaries(self._engine.head)
            for tag, value in (self._scalars() if self._scalars is not None else {}).items():
                tf.summary.scalar(tag, value)
