"""Values of the mixing weights π that the exact limit is averaged over, with their prior weights.

K = 1:  π = (π_s, 1 - π_s),  π_s ~ Beta(a⁰, a⁰), on a grid
K > 1:  π ~ Dir(a⁰, ..., a⁰), at quasi-random points of the prior itself
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax
from scipy.stats import beta, qmc

from gpmodels.transfer.rows import FloatArray

GRID_SIZE = 10
"""Values of π of one source: 0.05, 0.15, ..., 0.95."""

NUM_POINTS = 64
"""Values of π of several sources."""

MAX_CONCENTRATION = 15
"""Largest a⁰. The author's program takes half the number of target rows, 15 of thirty; a prior that grows
ever surer with the rows could not learn from them."""


class MixingGrid(NamedTuple):
    """Values of π.

    Attributes:
        values: `[J, K + 1]`, the target's own share last.
        log_weight: Logarithms of their prior weights, whose sum is 1, `[J]`.
    """

    values: FloatArray
    log_weight: FloatArray


def prior_concentration(num_rows: int) -> int:
    """Return a⁰ for a number of target rows: half of it, at least 1 and at most `MAX_CONCENTRATION`.

    Example:
        >>> prior_concentration(30), prior_concentration(1), prior_concentration(1000)
        (15, 1, 15)
    """
    return min(max(num_rows // 2, 1), MAX_CONCENTRATION)


def prior_nodes(num_sources: int, concentration: float) -> MixingGrid:
    """Return the values of π and what the prior says of each.

    Args:
        num_sources: K; without a source there is one value, 1 for the target itself.
        concentration: a⁰ of every domain.

    Example:
        >>> prior_nodes(1, 15).values[:2].round(2).tolist()
        [[0.05, 0.95], [0.15, 0.85]]
    """
    if num_sources == 0:
        return fixed_mixing([1.0])
    if num_sources == 1:
        source = (np.arange(GRID_SIZE) + 0.5) / GRID_SIZE
        values = np.stack([source, 1.0 - source], axis=1)
        return MixingGrid(values, log_softmax(beta.logpdf(source, concentration, concentration)))
    uniform = qmc.Sobol(num_sources, scramble=True, seed=0).random(NUM_POINTS)
    left, columns = np.ones(NUM_POINTS), []
    for k in range(num_sources):  # a stick is broken K times
        part = left * beta.ppf(uniform[:, k], concentration, concentration * (num_sources - k))
        columns.append(part)
        left = left - part
    return MixingGrid(np.stack([*columns, left], axis=1), np.full(NUM_POINTS, -np.log(NUM_POINTS)))


def fixed_mixing(shares: Sequence[float]) -> MixingGrid:
    """Return one value of π, of sum 1, the target's own share last."""
    return MixingGrid(np.array([shares], np.float64), np.zeros(1))
