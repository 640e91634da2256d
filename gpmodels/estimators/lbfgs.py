"""L-BFGS for an objective that is sharpened as it goes: after a step the sites of q may move, and f too.

SciPy's L-BFGS-B holds its objective fixed: a run would have to end at every change of the sites, and its
memory with it. Here a pair (s, y) is always the difference of two gradients of the same objective, and every
change of the objective is checked to lower it, so that the memory stays and the bound only grows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from gpmodels.estimators.engine import FloatArray

MEMORY = 100
"""Pairs kept."""

SUFFICIENT_DECREASE = 1e-4
"""Armijo's constant: the least share of the decrease that the gradient promises."""

MAX_TRIALS = 25
"""Step lengths tried before the search gives up."""

PATIENCE = 5
"""Iterations whose mean decrease tells whether to go on."""

MAX_INTERVAL = 8
"""Most iterations between two attempts to sharpen the objective."""


class SharpenedObjective(Protocol):
    """A function with gradient that can be lowered without moving the point."""

    def __call__(self, x: FloatArray, /) -> tuple[float, FloatArray]:
        """Value and gradient at ``x``."""

    def sharpen(self, x: FloatArray, value: float) -> tuple[float, FloatArray] | None:
        """Try to lower the function at ``x``, the last point evaluated: new value and gradient, or None."""


class Run(NamedTuple):
    """Where a run ended.

    Attributes:
        x: The point.
        converged: Whether it ended before the last iteration it was allowed.
    """

    x: FloatArray
    converged: bool


def stalled(values: Sequence[float], tolerance: float) -> bool:
    """Whether the mean decrease of the last five iterations is less than the tolerance."""
    return len(values) > PATIENCE and values[-1 - PATIENCE] - values[-1] < PATIENCE * tolerance


def minimise(
    objective: SharpenedObjective,
    x: FloatArray,
    limit: FloatArray,
    *,
    max_iterations: int,
    tolerance: float,
    iteration_done: Callable[[float], None],
) -> Run:
    """Minimise from ``x`` within ``[-limit, limit]``.

    Args:
        objective: The function.
        x: Start, ``[n]``.
        limit: Bound of each variable's magnitude, ``[n]``.
        max_iterations: Iterations.
        tolerance: See :func:`stalled`.
        iteration_done: Told the value after each iteration.

    Source:
        Nocedal and Wright (2006), algorithms 7.4 and 3.1.
    """
    value, gradient = objective(x)
    memory: deque[tuple[FloatArray, FloatArray]] = deque(maxlen=MEMORY)
    values = [value]
    interval, wait = 1, 0
    for _ in range(max_iterations):
        step = _search(objective, x, value, gradient, _direction(gradient, memory), limit, first=not memory)
        if step is None:
            if not memory:
                return Run(x, converged=True)
            memory.clear()
            value, gradient = objective(x)
            continue
        x_new, value_new, gradient_new = step
        s, y = x_new - x, gradient_new - gradient
        if s @ y > 1e-10 * np.linalg.norm(s) * np.linalg.norm(y):
            memory.append((s, y))
        gain = value - value_new
        x, value, gradient = x_new, value_new, gradient_new
        wait -= 1
        if wait <= 0:
            sharper = objective.sharpen(x, value)
            sharpened = 0.0
            if sharper is not None:
                sharpened = value - sharper[0]
                value, gradient = sharper
            # Sharpening costs as much as an iteration: do it as often as it pays.
            interval = 1 if sharpened > 0.5 * gain else min(2 * interval, MAX_INTERVAL)
            wait = interval
        iteration_done(value)
        values.append(value)
        if stalled(values, tolerance):
            return Run(x, converged=True)
    return Run(x, converged=False)


def _direction(gradient: FloatArray, memory: deque[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """Minus the inverse Hessian's estimate times the gradient, by the two-loop recursion."""
    q = gradient.copy()
    weights = []
    for s, y in reversed(memory):
        weight = (s @ q) / (s @ y)
        weights.append(weight)
        q -= weight * y
    if memory:
        s, y = memory[-1]
        q *= (s @ y) / (y @ y)
    for (s, y), weight in zip(memory, reversed(weights), strict=True):
        q += (weight - (y @ q) / (s @ y)) * s
    return -q


def _search(
    objective: SharpenedObjective,
    x: FloatArray,
    value: float,
    gradient: FloatArray,
    direction: FloatArray,
    limit: FloatArray,
    *,
    first: bool,
) -> tuple[FloatArray, float, FloatArray] | None:
    """A point along the direction that decreases enough, with value and gradient; None if there is none."""
    slope = float(gradient @ direction)
    if slope >= 0.0:
        return None
    length = min(1.0, 1.0 / float(np.linalg.norm(gradient))) if first else 1.0
    for _ in range(MAX_TRIALS):
        x_new = np.clip(x + length * direction, -limit, limit)
        value_new, gradient_new = objective(x_new)
        if value_new <= value + SUFFICIENT_DECREASE * float(gradient @ (x_new - x)):
            return x_new, value_new, gradient_new
        # Minimum of the parabola through value, slope and the new value, kept within a tenth and a half.
        parabola = -0.5 * slope * length**2 / (value_new - value - slope * length)
        length = float(np.clip(parabola, 0.1 * length, 0.5 * length))
    return None
