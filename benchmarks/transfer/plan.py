"""Which cells each part has; loads without TensorFlow."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.transfer.paper import TABLE_1

PARTS = ("office", "tissue", "speed")

PROTOCOLS = ("transductive", "inductive")
"""Whether scales and components come from all rows, as in the paper, or from training rows alone."""

PAIRS = tuple(TABLE_1)
DIRECTIONS = ("breast-colon", "colon-breast")

LABELS = (*((kind, count) for kind, counts in {"patches": (5, 10, 20, 40), "images": (1, 2, 5, 10)}.items()
            for count in counts),)  # fmt: skip
"""How many labelled patches, or images, of each class the target has."""

NUM_SPLITS = 20


class Cell(NamedTuple):
    """One method on all splits of one problem.

    Attributes:
        part: Part of the benchmark.
        method: Key of the method.
        problem: Protocol and pair, or direction, or what is timed.
    """

    part: str
    method: str
    problem: str

    @property
    def file(self) -> str:
        """Name of its record."""
        return f"{self.part}--{self.method}--{self.problem.replace(' ', '_')}.json"
