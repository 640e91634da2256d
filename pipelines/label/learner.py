"""The learner: what the labelled images say of all others, and which image to ask next."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.label.progress import Progress

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


class Learner:
    """Learns from each answer at once; safe to call from several threads.

    Args:
        features: Features of a frozen trunk `[N, D]`.
        group: Name of the group of each image, `[N]`.
        num_classes: C, how many classes there are.
        seed: Seed of every choice.
        is_judging: Whether each image judges and never trains, `[N]`; by `judging_groups` where None.
    """

    def __init__(
        self,
        features: ArrayLike,
        group: Sequence[str],
        num_classes: int,
        *,
        seed: int = 0,
        is_judging: ArrayLike | None = None,
    ) -> None:
        raise NotImplementedError

    def set_labels(self, labels: ArrayLike) -> None:
        """Take all labels at once, `[N]`, -1 for none."""
        raise NotImplementedError

    def update(self, row: int, label: int) -> None:
        """Take one answer; -1 takes an answer back."""
        raise NotImplementedError

    def refit(self) -> None:
        """Choose the hyperparameters and the temperature anew; for a background thread."""
        raise NotImplementedError

    def probability(self) -> FloatArray:
        """Return calibrated class probabilities of all images, `[N, C]`."""
        raise NotImplementedError

    def familiarity(self) -> FloatArray:
        """Return how familiar each image is, `[N]` in [0, 1]; NaN while too few are labelled."""
        raise NotImplementedError

    def nearest(self, row: int, count: int = 3) -> tuple[tuple[int, float], ...]:
        """Return the most similar labelled training images and their similarities."""
        raise NotImplementedError

    def alike(self, row: int, count: int = 20) -> IntArray:
        """Return unlabelled images like one, of which the model predicts the same class."""
        raise NotImplementedError

    def next(self, count: int, skip: Collection[int] = ()) -> IntArray:
        """Return the rows to ask next; every fifth one is a random one of the judging groups.

        Args:
            count: How many.
            skip: Rows that are not to be asked, as those that another browser shows.
        """
        raise NotImplementedError

    def suspects(self, count: int) -> IntArray:
        """Return labelled rows whose label the model without them doubts, the worst first."""
        raise NotImplementedError

    def unfamiliar(self, count: int) -> IntArray:
        """Return unlabelled rows, the least familiar first."""
        raise NotImplementedError

    def progress(self) -> Progress:
        """Return what the answers have bought so far."""
        raise NotImplementedError
