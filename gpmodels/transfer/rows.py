"""The rows that a transfer model learns from: one block for each source, and the target's.

    domains i: sources k = 1..K, then the target t; X_i `[N_i, D]`, labels y_i

What the models fit are real codes of the labels: `onehot(y) - 1/C` of classes, standardised targets else.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import pdist

FloatArray = npt.NDArray[np.float64]

MAX_DISTANCE_ROWS = 2000
"""Most rows of a domain whose distances are averaged for its lengthscale."""


@dataclass(frozen=True)
class DomainRows:
    """Labelled rows of one domain.

    Attributes:
        x: Scaled inputs, `[N_i, D]`.
        codes: What the model fits, `[N_i, C]`; one column for real targets.
        weight: How often each row counts, `[N_i]`, above 0.
        lengthscale: Lengthscale with which its kernel starts, the mean distance of its rows.
    """

    x: FloatArray
    codes: FloatArray
    weight: FloatArray
    lengthscale: float

    def __len__(self) -> int:
        """Return N_i."""
        return len(self.x)


@dataclass(frozen=True)
class TransferRows:
    """Rows of all domains.

    Attributes:
        sources: Rows of each source, none without transfer.
        target: Rows of the target.
        is_classifier: Whether codes are those of classes.
    """

    sources: tuple[DomainRows, ...]
    target: DomainRows
    is_classifier: bool = True

    @property
    def num_sources(self) -> int:
        """K."""
        return len(self.sources)

    @property
    def num_outputs(self) -> int:
        """C, columns of the codes."""
        return self.target.codes.shape[1]

    @property
    def domains(self) -> tuple[DomainRows, ...]:
        """The sources, then the target."""
        return (*self.sources, self.target)

    def without_sources(self) -> "TransferRows":
        """Return the target alone."""
        return TransferRows((), self.target, self.is_classifier)


class LeftOut(NamedTuple):
    """What is predicted of each target row by the others.

    Attributes:
        mean: `[N_t, C]`.
        variance: Of the noisy codes, one for all of them, `[N_t]`.
    """

    mean: FloatArray
    variance: FloatArray


def class_codes(labels: npt.NDArray[np.integer[Any]], num_classes: int) -> FloatArray:
    """Return one-hot codes less 1/C, whose sum over classes is 0.

    Args:
        labels: Class indices, `[N]`.
        num_classes: C.

    Returns:
        The codes, `[N, C]`.

    Example:
        >>> class_codes(np.array([0, 1]), 2).tolist()
        [[0.5, -0.5], [-0.5, 0.5]]
    """
    return np.eye(num_classes)[labels] - 1.0 / num_classes


def mean_distance(x: FloatArray) -> float:
    """Return the mean distance between rows `[N, D]`, or 1 where there is none to measure.

    Args:
        x: Rows; of more than `MAX_DISTANCE_ROWS`, as many are drawn.
    """
    if len(x) > MAX_DISTANCE_ROWS:
        x = x[np.random.default_rng(0).choice(len(x), MAX_DISTANCE_ROWS, replace=False)]
    distance = float(pdist(x).mean()) if len(x) > 1 else 0.0
    return distance if distance > 0.0 else 1.0
