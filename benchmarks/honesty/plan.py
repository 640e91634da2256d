"""Which training runs the study of honesty consists of; loads without TensorFlow."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class Subject:
    """A data set of the study.

    Attributes:
        name: In tables.
        counted: What the sizes of the training sets count.
        sizes: Sizes of the training sets.
        networks: Networks trained from scratch, or the features that are not learned, then the pretrained.
        classes: Classes to leave out in turn; none where that makes no sense.
    """

    name: str
    counted: str
    sizes: tuple[int, ...]
    networks: tuple[str, ...]
    classes: tuple[str, ...] = ()

    @property
    def largest(self) -> int:
        """The size at which classes are left out."""
        return self.sizes[-1]


_DEBRIS = (
    *("bottle", "can", "chain", "drink-carton", "hook"),
    *("propeller", "shampoo-bottle", "standing-bottle", "tire", "valve"),
)

PRETRAINED = "efficientnet_lite0"

SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject("colon", "patients", (2, 4, 6), ("handmade", PRETRAINED)),
        Subject("breast", "cores", (2, 4, 6), ("handmade", PRETRAINED)),
        Subject("debris", "snapshots a class", (5, 20, 80), ("FE1", PRETRAINED), _DEBRIS),
        Subject(
            "side-scan",
            "snapshots a class",
            (5, 20, 80),
            ("FE1", PRETRAINED),
            ("human", "plane", "seafloor", "ship"),
        ),
        Subject("walkable", "images", (10, 20, 50, 100, 300), ("C3K3", PRETRAINED)),
    )
}


@dataclass(frozen=True)
class Cell:
    """A training run with all its methods.

    Attributes:
        subject: One of `SUBJECTS`.
        network: Network or features.
        size: Size of the training set.
        seed: Of the division, the weights, the order and the augmentation.
        left_out: Class that training and test do without; None for none.
    """

    subject: str
    network: str
    size: int
    seed: int
    left_out: str | None = None

    @property
    def setting(self) -> tuple[str, str, int]:
        """What all seeds of one comparison share."""
        return (self.subject, self.network, self.size)

    @property
    def name(self) -> str:
        """For files."""
        without = "" if self.left_out is None else f"-without-{self.left_out}"
        return f"{self.subject}-{self.network}-{self.size}-{self.seed}{without}"


def plan_cells(
    subjects: Collection[str],
    networks: Collection[str],
    sizes: Collection[int],
    seeds: Sequence[int],
    *,
    left_out: bool,
) -> list[Cell]:
    """Every combination, all of a seed before the next, so that an interrupted study can be reported.

    Args:
        subjects: Names of subjects; empty for all.
        networks: Networks, where a subject has them; empty for all.
        sizes: Sizes, where a subject has them; empty for all.
        seeds: Seeds.
        left_out: Leave out each class in turn, at the largest size, instead of the learning curves.

    Example:
        >>> [cell.name for cell in plan_cells(["colon"], ["handmade"], [2], [0, 1], left_out=False)]
        ['colon-handmade-2-0', 'colon-handmade-2-1']
    """
    chosen = [subject for name, subject in SUBJECTS.items() if not subjects or name in subjects]
    return [
        Cell(subject.name, network, size, seed, one)
        for seed in seeds
        for subject in chosen
        for network, size in product(subject.networks, (subject.largest,) if left_out else subject.sizes)
        for one in (subject.classes if left_out else (None,))
        if (not networks or network in networks) and (not sizes or size in sizes)
    ]
