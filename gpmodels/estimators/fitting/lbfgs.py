"""L-BFGS: SciPy's for an objective that stays, and one for an objective that is sharpened as it goes.

In the second case the sites of q may move after a step, and f with them. SciPy's L-BFGS-B holds its objective
fixed: a run would have to end at every change of the sites, and its memory with it. Here a pair (s, y) is
always the difference of two gradients of the same objective, and every change of the objective is checked to
lower it, so that the memory stays and the bound only grows.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import scipy.optimize

from gpmodels.estimators.fitting.engine import FloatArray

MEMORY = 100
"""Pairs kept."""

SUFFICIENT_DECREASE = 1e-4
"""Armijo's constant: the least share of the decrease that the gradient predicts."""

MAX_TRIALS = 25
"""Step lengths tried before the search gives up."""

PATIENCE = 5
"""Iterations whose mean decrease tells whether to go on."""

MAX_INTERVAL = 8
"""Most iterations between two attempts to sharpen the objective."""


class SharpenedObjective(Protocol):
    """A function with gradient that can be lowered without moving the point."""

    def __call__(self, x: FloatArray, /) -> tuple[float, FloatArray]:
        """Return value and gradient at `x`."""

    def sharpen(self, x: FloatArray, value: float) -> tuple[float, FloatArray] | None:
        """Try to lower the function at `x`, the last point evaluated: new value and gradient, or None."""


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


def minimise_sharpened(
    objective: SharpenedObjective,
    x: FloatArray,
    limit: FloatArray,
    *,
    max_iterations: int,
    tolerance: float,
    iteration_done: Callable[[float], None],
) -> Run:
    """Minimise from `x` within `[-limit, limit]`.

    Args:
        objective: The function.
        x: Start, `[n]`.
        limit: Bound of each variable's magnitude, `[n]`.
        max_iterations: Iterations.
        tolerance: See `stalled`.
        iteration_done: Called with the value after each iteration.

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


def minimise_fixed(
    objective: Callable[[FloatArray], tuple[float, FloatArray]],
    x: FloatArray,
    limit: FloatArray,
    *,
    max_iterations: int,
    tolerance: float,
    iteration_done: Callable[[float], None],
) -> Run:
    """Minimise a function that stays as it is, by SciPy; arguments as for `minimise_sharpened`."""
    values: list[float] = []

    def after_iteration(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        values.append(float(intermediate_result.fun))
        iteration_done(values[-1])
        if stalled(values, tolerance):
            raise StopIteration

    result = scipy.optimize.minimize(
        objective,
        x,
        jac=True,
        method="L-BFGS-B",
        bounds=scipy.optimize.Bounds(-limit, limit),
        callback=after_iteration,
        options={"maxiter": max_iterations, "maxcor": MEMORY, "maxls": 30, "ftol": 1e-12, "gtol": 1e-7},
    )
    return Run(result.x, converged=result.nit < max_iterations)


def _direction(gradient: FloatArray, memory: deque[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """Return minus the inverse Hessian's estimate times the gradient, by the two-loop recursion."""
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
    """Return a point along the direction that decreases enough, its value and gradient, or None."""
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
