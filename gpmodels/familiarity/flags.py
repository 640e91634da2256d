"""What a familiarity says: which examples are flagged, and how familiar several are as one.

Predicting with a bundle needs these alone, so that nothing here imports TensorFlow.
`gpmodels.familiarity.nearest` tells how a familiarity is computed.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

UNFAMILIAR_BELOW = 0.01
"""Below this familiarity, what is predicted is flagged as unfamiliar."""

POOLED_FACTOR = 2
"""The familiarity of several examples as one is so many times their median."""

FloatArray = npt.NDArray[np.floating[Any]]


def flagged(familiarity: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return where a familiarity of any shape is below `UNFAMILIAR_BELOW`, in float32, as it is computed."""
    return np.asarray(np.asarray(familiarity, np.float32) < np.float32(UNFAMILIAR_BELOW))


def is_unfamiliar(familiarity: float) -> bool:
    """Return whether one familiarity is `flagged`.

    Example:
        >>> is_unfamiliar(1 / 100), is_unfamiliar(1 / 101)
        (False, True)
    """
    return bool(flagged(familiarity))


def pooled_familiarity(of_examples: FloatArray) -> float:
    """Return the familiarity of several examples as one: twice their median, at most 1.

    Twice the median of p-values is one again, however they depend on each other (Rüger, 1978; Vovk and Wang,
    "Combining p-values via averaging", 2020).

    Args:
        of_examples: Familiarity of each of them, of any shape.

    Example:
        >>> pooled_familiarity(np.array([0.01, 0.02, 0.9]))
        0.04
    """
    # Of an even number the larger middle one: the mean of both would need another factor.
    ordered = np.sort(np.ravel(of_examples))
    return float(min(1.0, POOLED_FACTOR * ordered[len(ordered) // 2]))
