"""Which cells each part has, the most telling first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

SEEDS = range(3)

DATA = ("kin40k", "pole_telecom")
STEPS, MNIST_STEPS = 5000, 6000
INDUCING, DRAWS, BATCH = 100, 100, 1000
LEARNING_RATE = 0.01  # of Adam, at the start of its cosine schedule
MNIST_WIDTH = 30


class Cell(NamedTuple):
    """One model on one set with one seed.

    Attributes:
        part: Part of the benchmark.
        data: Name of the data.
        method: Name of the method, see `METHODS`, with "@" and a learning rate that is not `LEARNING_RATE`.
        layers: L.
        seed: Of the model and of its batches.
    """

    part: str
    data: str
    method: str
    layers: int
    seed: int

    @property
    def file(self) -> str:
        """Name of its record."""
        return f"{self.part}--{self.data}--{self.method}-{self.layers}--{self.seed}.json"

    @property
    def model(self) -> str:
        """The method without its learning rate."""
        return self.method.partition("@")[0]

    @property
    def learning_rate(self) -> float:
        """Learning rate of the method."""
        return float(self.method.partition("@")[2] or LEARNING_RATE)


METHODS = (
    *(("deep_gp", layers) for layers in (2, 1, 3)),
    ("gpytorch", 2),
    ("deep_gp_separate", 2),
    ("deep_gp@0.03", 2),
    ("gpytorch@0.03", 2),
    ("deep_gp_separate@0.03", 2),
    ("deep_gp_adam", 2),
    ("svgp_100", 1),
    *(("random_features", layers) for layers in (1, 2, 3, 5, 10)),
    ("dfgp", 2),
    ("svgp_500", 1),
    ("gpytorch", 1),
    ("gpytorch", 3),
)
"""Of the regression part. `deep_gp` has natural gradients, `deep_gp_adam` has none from the same start."""


CELLS: Mapping[str, list[Cell]] = {
    "regression": [
        Cell("regression", data, method, layers, seed)
        for seed in SEEDS
        for data in DATA
        for method, layers in METHODS
    ],
    "rates": [
        Cell("rates", data, f"{model}@{rate}", 2, 0)
        for data in DATA
        for model in ("deep_gp", "deep_gp_separate", "gpytorch")
        for rate in (0.01, 0.03, 0.1)
    ],
    "mnist": [
        Cell("mnist", "mnist", method, layers, 0)
        for method, layers in (("deep_gp", 2), ("deep_gp_separate", 2), ("deep_gp", 3))
    ],
    "speed": [
        Cell("speed", "kin40k", method, 2, 0) for method in ("deep_gp", "deep_gp_separate", "gpytorch")
    ],
}
