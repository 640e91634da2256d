"""What intervals and sets of classes must reach, by how far held-out groups are off.

Source:
    Lee, Barber and Willett (2023), Distribution-free inference with hierarchical data, theorem 1.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt


def groups_needed(coverage: float) -> int:
    """Return by how many groups a coverage can be had.

    Example:
        >>> groups_needed(0.95)
        19
    """
    return math.ceil(coverage / (1.0 - coverage) - 1e-9)


def conformal_threshold(
    score: npt.NDArray[np.floating[Any]], unit: npt.NDArray[np.intp], coverage: float
) -> float:
    """Return the smallest score whose weights sum up to the coverage, infinity where none does.

    Args:
        score: How far each held-out example is off, `[N]`.
        unit: Number of the group of each example `[N]`.
        coverage: In (0, 1).

    Example:
        >>> [conformal_threshold(np.arange(number), np.arange(number), 0.95) for number in (19, 18)]
        [18.0, inf]
    """
    unit = np.unique(unit, return_inverse=True)[1].reshape(-1)
    sizes = np.bincount(unit)
    order = np.argsort(score)
    below = np.cumsum(1.0 / sizes[unit[order]]) / (sizes.size + 1)
    place = int(np.searchsorted(below, coverage - 1e-9))
    return float(score[order][place]) if place < score.size else math.inf
