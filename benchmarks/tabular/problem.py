"""What a method is given and gives back, and the clock that stands still while a model is judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]

Predict: TypeAlias = Callable[[FloatArray], FloatArray]
"""Of inputs `[N, D]`: probabilities `[N, C]`, or mean and variance of the noisy target `[N, 2]`."""

NUM_EXPERTS = 3


class Clock:
    """Seconds since it was made or restarted, less those spent inside `paused`."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Count from 0 again."""
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return time.perf_counter() - self._started

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the time of this block out."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._started += time.perf_counter() - began


@dataclass(frozen=True)
class Problem:
    """A training set and the sizes that the comparison prescribes.

    Args:
        inputs: Standardised by the training part, `[N, D]`.
        targets: Classes 0 to C - 1, or standardised floats, `[N]`.
        num_classes: C; 0 for regression.
        num_inducing: M, of the global unit and, unless the next says otherwise, of each expert.
        num_expert_inducing: Inducing points of each expert; None for M.
        num_experts: T at the start.
        seed: Of all that is random in a method.
        max_iterations: None leaves it to the method.
        clock: Of the training.
        record: Called as training goes on with the iteration and a function that predicts; None if nobody
            wants to know.
        notes: Filled by the method with what a reader should know: settings chosen, iterations done.
    """

    inputs: FloatArray
    targets: npt.NDArray[Any]
    num_classes: int
    num_inducing: int
    num_expert_inducing: int | None = None
    num_experts: int = NUM_EXPERTS
    seed: int = 0
    max_iterations: int | None = None
    clock: Clock = field(default_factory=Clock)
    record: Callable[[int, Predict], None] | None = None
    notes: dict[str, Any] = field(default_factory=dict)


RECORDING_INTERVAL = 10
"""Iterations between two points of a time-accuracy curve, as in the thesis."""


def kmeans_centres(problem: Problem) -> FloatArray:
    """The peers' inducing inputs `[M, D]`: k-means centres of the training inputs."""
    from sklearn.cluster import KMeans  # noqa: PLC0415 - slow, only some methods need it

    count = min(problem.num_inducing, len(np.unique(problem.inputs, axis=0)))
    centres: FloatArray = (
        KMeans(count, n_init=1, random_state=problem.seed).fit(problem.inputs).cluster_centers_
    )
    return centres


def split_off(problem: Problem, share: float) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Rows to fit and rows to judge, of the training set alone, by which a method chooses its settings."""
    order = np.random.default_rng(problem.seed).permutation(len(problem.targets))
    held = round(share * len(order))
    return order[held:], order[:held]
