"""Minimise many small functions side by side: a quasi-Newton search for each row, all evaluated at once.

A joint L-BFGS of all rows would mix their curvatures, and the result of a row would depend on the others.
Here every row has its own inverse Hessian of n x n, step length and end, so that a row's result is its own.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpmodels.gplvm.data import FloatArray, IntArray

SUFFICIENT_DECREASE = 1e-4
"""Armijo's constant."""

ROUNDING = 1e-9
"""Decrease, in nats, that the rounding of a value may hide."""

MAX_TRIALS = 12
"""Step lengths tried before a row's search gives up."""

Evaluate = Callable[[FloatArray, IntArray], tuple[FloatArray, FloatArray]]
"""Takes positions `[R, n]` and the rows they are of `[R]`; returns values `[R]` and gradients `[R, n]`."""


class Found(NamedTuple):
    """Where the searches ended.

    Attributes:
        position: `[N, n]`.
        value: `[N]`.
        iterations: Iterations of the longest search.
    """

    position: FloatArray
    value: FloatArray
    iterations: int


def minimise_rows(
    evaluate: Evaluate,
    start: FloatArray,
    inverse_curvature: FloatArray,
    *,
    lower: FloatArray,
    upper: FloatArray,
    max_iterations: int,
    tolerance: float,
) -> Found:
    """Minimise each row's function by BFGS with backtracking.

    Args:
        evaluate: The functions.
        start: Start of each row, `[N, n]`.
        inverse_curvature: Diagonal of the inverse Hessian to begin with, `[N, n]`.
        lower: Least value of each variable, `[n]`; steps are clipped, and a variable whose minimum lies
            beyond its limit stays there while the others go on.
        upper: Largest value, `[n]`.
        max_iterations: Iterations.
        tolerance: A row ends when the decrease that the quadratic model expects is less than this.

    Source:
        Nocedal and Wright (2006), algorithm 6.1 with the backtracking of 3.1; updates without positive
        curvature are left out.
    """
    position = np.clip(start, lower, upper)
    rows = np.arange(len(start))
    value, gradient = evaluate(position, rows)
    inverse = inverse_curvature[:, :, None] * np.eye(start.shape[1])
    active, iteration = rows, 0
    while len(active) and iteration < max_iterations:
        iteration += 1
        # Variables at a limit whose gradient points outward stay there; the others take their own step.
        place, downhill = position[active], -gradient[active]
        stays = ((place <= lower) & (downhill < 0.0)) | ((place >= upper) & (downhill > 0.0))
        downhill[stays] = 0.0
        direction = np.einsum("rij,rj->ri", inverse[active], downhill)
        direction[stays] = 0.0
        slope = -np.einsum("ri,ri->r", direction, downhill)
        # With a positive definite estimate the slope is negative unless the gradient has vanished.
        going = -slope > tolerance
        active, direction = active[going], direction[going]
        if not len(active):
            break
        moved, new = _search(evaluate, position, value, gradient, active, direction, lower, upper)
        _update(inverse, active[moved], new[0] - position[active[moved]], new[2] - gradient[active[moved]])
        position[active[moved]], value[active[moved]], gradient[active[moved]] = new
        active = active[moved]
    return Found(position, value, iteration)


def _search(
    evaluate: Evaluate,
    position: FloatArray,
    value: FloatArray,
    gradient: FloatArray,
    active: IntArray,
    direction: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
) -> tuple[IntArray, tuple[FloatArray, FloatArray, FloatArray]]:
    """Return which active rows found a lower point, and their positions, values and gradients."""
    found = (np.empty_like(direction), np.empty(len(active)), np.empty_like(direction))
    length = np.ones(len(active))
    waiting, accepted = np.arange(len(active)), []
    for _ in range(MAX_TRIALS):
        rows = active[waiting]
        trial = np.clip(position[rows] + length[waiting, None] * direction[waiting], lower, upper)
        step = trial - position[rows]
        new_value, new_gradient = evaluate(trial, rows)
        expected = np.einsum("ri,ri->r", gradient[rows], step)
        finite = np.isfinite(new_value)
        lower_value = new_value <= value[rows] + SUFFICIENT_DECREASE * expected
        # Where the decrease is below the rounding of the values, gradients tell more.
        flatter = (expected > -ROUNDING) & (_squares(new_gradient) < _squares(gradient[rows]))
        good = finite & (expected < 0.0) & (lower_value | flatter)
        done = waiting[good]
        found[0][done], found[1][done], found[2][done] = trial[good], new_value[good], new_gradient[good]
        accepted.append(done)
        # Minimum of the parabola through value, slope and the new value, kept within a tenth and a half.
        rise = np.where(finite, new_value - value[rows] - expected, np.inf)[~good]
        waiting, expected = waiting[~good], expected[~good]
        shrink = np.where(rise > 0.0, -0.5 * expected / np.where(rise > 0.0, rise, 1.0), 0.5)
        length[waiting] *= np.clip(shrink, 0.1, 0.5)
        if not len(waiting):
            break
    moved = np.sort(np.concatenate(accepted))
    return moved, (found[0][moved], found[1][moved], found[2][moved])


def _squares(gradient: FloatArray) -> FloatArray:
    return np.einsum("ri,ri->r", gradient, gradient)


def _update(inverse: FloatArray, rows: IntArray, step: FloatArray, change: FloatArray) -> None:
    """Update the inverse Hessians of some rows in place, BFGS, in the variables that moved."""
    change = np.where(step == 0.0, 0.0, change)
    product = np.einsum("ri,ri->r", step, change)
    norms = np.linalg.norm(step, axis=1) * np.linalg.norm(change, axis=1)
    curved = product > 1e-8 * norms
    rows, step, change = rows[curved], step[curved], change[curved]
    rho = 1.0 / product[curved]
    old = inverse[rows]
    # H⁺ = H - ρ (s yᵀH + H y sᵀ) + ρ (1 + ρ yᵀHy) s sᵀ
    mapped = np.einsum("rij,rj->ri", old, change)
    mixed = step[:, :, None] * mapped[:, None, :]
    along = rho * (1.0 + rho * np.einsum("ri,ri->r", change, mapped))
    squares = step[:, :, None] * step[:, None, :]
    inverse[rows] = (
        old - rho[:, None, None] * (mixed + np.swapaxes(mixed, 1, 2)) + along[:, None, None] * squares
    )
