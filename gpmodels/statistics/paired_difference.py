"""Two models compared by the same rows: the mean gain of one over the other, and how sure it is."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating[Any]]


class Gain(NamedTuple):
    """What one model has more than another.

    Attributes:
        mean: Weighted mean over the rows.
        standard_error: Of the mean; 0 where all rows gain alike, and of a single one.
        num_effective: Number of rows, or of groups, of equal weight that would tell as much: 1/Σ s², where s
            is the share of each in all weight.
    """

    mean: float
    standard_error: float
    num_effective: float


def paired_gain(
    first: FloatArray,
    second: FloatArray,
    weight: FloatArray,
    groups: npt.NDArray[np.intp] | None = None,
) -> Gain:
    """Return what a first model gains over a second one, row by row.

    What makes a row hard for both is not in the error: it is that of the differences.

    Args:
        first: What the first model has at each row, as log densities, `[N]`. Where both models have the same
            infinity, neither gains.
        second: What the second one has there, `[N]`.
        weight: How often each row counts, `[N]`.
        groups: Group of each row, `[N]`: the error is over groups, whose rows are alike. None: over rows.

    Example:
        >>> paired_gain(np.array([-1.0, -2.0]), np.array([-3.0, -4.0]), np.ones(2))
        Gain(mean=2.0, standard_error=0.0, num_effective=2.0)
    """
    share = weight / weight.sum()
    difference = np.subtract(first, second, out=np.zeros(len(share)), where=first != second)
    gain = float(share @ difference)
    parts = share * (difference - gain)
    if groups is not None:
        parts, share = np.bincount(groups, parts), np.bincount(groups, share)
    error = float(np.sqrt(np.sum(np.square(parts))))
    return Gain(gain, error, float(1.0 / np.sum(np.square(share))))
