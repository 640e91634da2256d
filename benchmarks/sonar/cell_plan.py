"""Which training runs the sonar benchmark consists of; loads without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.sonar.data_sets import SETS


@dataclass(frozen=True)
class Cell:
    """A training run.

    Attributes:
        data_set: One of `benchmarks.sonar.data_sets.SETS`.
        network: Feature extractor.
        seed: Of the split, the weights, the order and the augmentation.
        left_out: Class that training and test do without; None for none.
    """

    data_set: str
    network: str
    seed: int
    left_out: str | None = None

    @property
    def name(self) -> str:
        """For files."""
        without = "" if self.left_out is None else f"-without-{self.left_out}"
        return f"{self.data_set}-{self.network}-{self.seed}{without}".replace(", ", "-")


def plan_cells(
    sets: Iterable[str] | None, networks: Sequence[str], seeds: Sequence[int], *, unseen: bool
) -> list[Cell]:
    """Every combination, all of a seed before the next, so that an interrupted run can be reported.

    Args:
        sets: Names of data sets; None for all.
        networks: Feature extractors.
        seeds: Of splits and weights.
        unseen: Whether each class is left out in turn, where a data set names classes for that.
    """
    chosen = [SETS[name] for name in (sets or SETS)]
    return [
        Cell(data_set.name, network, seed, left_out)
        for seed in seeds
        for data_set in chosen
        for network in networks
        for left_out in (data_set.classes if unseen else (None,))
    ]
