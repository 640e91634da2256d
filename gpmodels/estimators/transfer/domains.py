"""Which domain each row is of, and the scales of the domains' columns.

The convention is skada's: a number from 0 names a source, one negative number is the target.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpmodels.estimators.fitting.engine import FloatArray
from gpmodels.estimators.fitting.rows import weighted_moments

SCALINGS = ("domain", "joint", None)

TARGET = -1
"""Index of the target among the domains, whatever negative number the user gave it."""


@dataclass(frozen=True)
class Domains:
    """The domains of a fit.

    Attributes:
        sources: Numbers of the sources in order.
        target: The negative number of the target.
    """

    sources: tuple[int, ...]
    target: int

    def index(self, sample_domain: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        """Return the place of each row's domain among the sources, or `TARGET`, `[N]`.

        Raises:
            ValueError: A number is of no domain of the fit.
        """
        place = {number: k for k, number in enumerate(self.sources)} | {self.target: TARGET}
        unknown = sorted(set(sample_domain.tolist()) - set(place))
        if unknown:
            raise ValueError(
                f"sample_domain holds {unknown[:5]}, but fit had the sources {list(self.sources)} and the "
                f"target {self.target}. Give each row one of these numbers."
            )
        return np.array([place[number] for number in sample_domain.tolist()], np.intp)


def checked_domains(sample_domain: Any, num_rows: int) -> npt.NDArray[np.int64]:
    """Return the domain of each row as a whole number, `[N]`; all are the target where none is given.

    Raises:
        ValueError: There is not one whole number for each row.
    """
    if sample_domain is None:
        return np.full(num_rows, TARGET, np.int64)
    values = np.asarray(sample_domain)
    if values.shape != (num_rows,):
        raise ValueError(
            f"sample_domain has the shape {list(values.shape)}, but there are {num_rows} rows. Give one "
            "number for each row."
        )
    numbers = values.astype(np.float64) if values.dtype.kind in "iufb" else np.full(num_rows, np.nan)
    if not np.isfinite(numbers).all() or not np.array_equal(numbers, np.round(numbers)):
        raise ValueError(
            "sample_domain must hold whole numbers: from 0 for a source, one negative number for the target; "
            f"but it holds {values.reshape(-1)[:3].tolist()}."
        )
    return numbers.astype(np.int64)


def domains_of(sample_domain: npt.NDArray[np.int64]) -> Domains:
    """Return the sources and the target of a fit.

    Raises:
        ValueError: There is no target, or more than one.

    Example:
        >>> domains_of(np.array([1, 2, -2, 1]))
        Domains(sources=(1, 2), target=-2)
    """
    numbers = np.unique(sample_domain)
    targets = numbers[numbers < 0].tolist()
    if len(targets) != 1:
        found = "no negative number" if not targets else f"the negative numbers {targets}"
        raise ValueError(
            f"sample_domain holds {found}, but the rows of the target are named by one negative number, -1 "
            "say, and those of each source by a number from 0."
        )
    return Domains(tuple(numbers[numbers >= 0].tolist()), targets[0])


@dataclass(frozen=True)
class Scales:
    """Mean and deviation of the columns of each domain, the target's last.

    Attributes:
        mean: `[K + 1, D]`.
        deviation: `[K + 1, D]`, positive.
    """

    mean: FloatArray
    deviation: FloatArray

    def scaled(self, x: FloatArray, domain: int) -> FloatArray:
        """Return rows `[N, D]` of a domain in its scales."""
        return (x - self.mean[domain]) / self.deviation[domain]


def scales_of(
    parts: Sequence[tuple[FloatArray, FloatArray]],
    scaling: str | None,
) -> Scales:
    """Return the scales of all domains.

    Args:
        parts: All rows of each domain, unlabelled ones too, and their weights.
        scaling: `"domain"` for each domain's own, `"joint"` for those of all rows, None for none.
    """
    if scaling is None:
        shape = (len(parts), parts[0][0].shape[1])
        return Scales(np.zeros(shape), np.ones(shape))
    if scaling == "joint":
        whole = tuple(np.concatenate(values) for values in zip(*parts, strict=True))
        moments = [weighted_moments(*whole)] * len(parts)
    else:
        moments = [weighted_moments(*part) for part in parts]
    return Scales(np.array([mean for mean, _ in moments]), np.array([deviation for _, deviation in moments]))
