"""What is wanted of transfer, as lines of a table: what was asked, what was measured, whether that is met."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.tabular.summary import PairedTest, paired_test

Record = dict[str, Any]

CLEARLY = 0.05
"""Two-sided p-value below which a paired difference counts as clear."""


class Check(NamedTuple):
    """One thing that is wanted.

    Attributes:
        wanted: In words.
        measured: In words.
        is_met: Whether it is so.
    """

    wanted: str
    measured: str
    is_met: bool

    def row(self) -> dict[str, str]:
        """Return a line of a table."""
        return {"wanted": self.wanted, "measured": self.measured, "met": "yes" if self.is_met else "**no**"}


def values_of(record: Record, key: str) -> list[float]:
    """Return a score of each split."""
    return [split[key] for split in record["splits"]]


def split_means(records: Sequence[Record], key: str) -> list[float]:
    """Return the mean of a score over problems, of each split."""
    return np.mean([values_of(record, key) for record in records], axis=0).tolist()


def paired(ours: Sequence[float], theirs: Sequence[float]) -> PairedTest:
    """Return the paired test of two methods over splits, ours minus theirs.

    Raises:
        ValueError: They are not of the same splits.
    """
    if not len(ours) == len(theirs) > 0:
        raise ValueError(f"There are {len(ours)} and {len(theirs)} splits; compare methods on the same ones.")
    test = paired_test(dict(enumerate(ours)), dict(enumerate(theirs)))
    if test is None:
        raise ValueError(f"{len(ours)} splits are too few for a test. Compare methods on more of them.")
    return test


def is_clear(test: PairedTest) -> bool:
    """Whether a paired difference is no accident."""
    return bool(test.p_value < CLEARLY)
