"""Two factors that the mean-field classifiers share (BEMKL, KBTL): Gamma precisions, truncated normals."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import special, stats

Array = npt.NDArray[np.float64]

SHAPE = 1.0
"""Shape and rate of all Gamma priors."""


def gamma_mean(square: Array) -> Array:
    """Return the mean of each precision under its Gamma factor.

    Args:
        square: Expected square of what each precision scales, of any shape.

    Source:
        Gönen (2012), Bayesian efficient multiple kernel learning, section 3.

    Example:
        >>> gamma_mean(np.zeros(1)).tolist()
        [1.5]
    """
    return (SHAPE + 0.5) / (SHAPE + 0.5 * square)


def truncated_mean(mean: Array, y: Array, margin: float) -> Array:
    """Return E[f] of f ~ N(mean, 1) given y f > margin.

    Args:
        mean: Means before the truncation, of any shape.
        y: Sides, -1 or 1, of the same shape.
        margin: Half the width of the region between the sides.

    Example:
        >>> bool(np.isclose(truncated_mean(np.zeros(1), np.ones(1), 0.0)[0], np.sqrt(2.0 / np.pi)))
        True
    """
    distance = margin - y * mean
    # φ/Φ of the tail, from logarithms, which do not underflow
    hazard = np.exp(stats.norm.logpdf(distance) - special.log_ndtr(-distance))
    return mean + y * hazard
