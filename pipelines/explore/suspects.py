"""Probable label errors: examples whose class is not that of their neighbours on the map."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from pipelines.explore.latent import Floats, LatentMap

LEAST_SUSPICION = 0.5
"""An example is suspect from this share of its neighbours that agree on another class."""

_CANDIDATES = 400  # nearest means among which the neighbours of an example are looked for
_MOST_FOUND = 2_000_000  # neighbours that are held at once: 32 MB with their distances


@dataclass(frozen=True)
class Suspicion:
    """How well the classes of N examples agree with those of their neighbours.

    Attributes:
        share: Share of the neighbours `[N]` that have the class which most of the others have, where that is
            another one than the example's own; NaN where an example has no neighbours of other groups.
        own_share: Share of the neighbours with the example's own class `[N]`.
        suggested: Index of the class that is the commonest among the neighbours `[N]`; -1 without neighbours.
        suspects: Rows of the probable label errors, the most suspicious first.
        agreement: Share of the examples whose class is the commonest of their neighbours.
        commonest: Share of the examples that have the commonest class. Agreement no higher tells nothing.
    """

    share: Floats
    own_share: Floats
    suggested: NDArray[np.intp]
    suspects: tuple[int, ...]
    agreement: float
    commonest: float

    @property
    def tells_little(self) -> bool:
        """Whether the neighbours are hardly better than the commonest class alone."""
        return self.is_asked and self.agreement < 0.5 * (1.0 + self.commonest)

    @property
    def is_asked(self) -> bool:
        """Whether any example has neighbours of other groups."""
        return not bool(np.isnan(self.share).all())


def find_suspects(
    latent: LatentMap, classes: Sequence[str], groups: Sequence[str] | None, neighbours: int
) -> Suspicion | None:
    """Compare the class of each example with those of its neighbours.

    Distance is the expected squared distance in the relevant dimensions, in units of the kernel's
    lengthscales: E|x - x'|² = |μ - μ'|² + Σ(σ² + σ'²), so that an example whose place is uncertain is a near
    neighbour of none. Neighbours are of other groups than the example, since a group may be wrong as a whole.

    Args:
        latent: The map.
        classes: Class of each example.
        groups: Group of each example; None where each is one by itself.
        neighbours: How many neighbours are asked.

    Returns:
        What they say; None where there are fewer than two classes, or nothing was learned.
    """
    names, label = np.unique(np.asarray(classes), return_inverse=True)
    if len(names) < 2 or not latent.num_relevant:
        return None
    group = np.arange(len(label)) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    votes = _votes(latent, label, group, len(names), neighbours)
    total = votes.sum(axis=1)
    shares = votes / np.maximum(total, 1)[:, None]
    own = shares[np.arange(len(label)), label]
    suggested = np.where(total > 0, shares.argmax(axis=1), -1)
    suggested = np.where((total > 0) & (own == shares.max(axis=1)), label, suggested)  # own wins a tie
    others = shares.copy()
    others[np.arange(len(label)), label] = 0
    share = np.where(total > 0, others.max(axis=1), np.nan)
    is_suspect = (suggested != label) & (total > 0) & (share >= LEAST_SUSPICION)
    rows = np.flatnonzero(is_suspect)
    order = np.lexsort((latent.score[rows], own[rows], -share[rows]))
    asked = total > 0
    return Suspicion(
        share=share,
        own_share=np.where(total > 0, own, np.nan),
        suggested=suggested,
        suspects=tuple(int(row) for row in rows[order]),
        agreement=float((suggested == label)[asked].mean()) if asked.any() else float("nan"),
        commonest=float(np.bincount(label).max() / len(label)),
    )


def _votes(
    latent: LatentMap, label: NDArray[np.intp], group: NDArray[np.intp], num_classes: int, neighbours: int
) -> Floats:
    """Return how many neighbours of each example have each class `[N, C]`."""
    mean, std = latent.scaled
    spread = (std**2).sum(axis=1)
    # |μ - μ'|² + Σσ'² is a distance of means with one coordinate more, in which the asking one is at 0.
    others = np.hstack([mean, np.sqrt(spread)[:, None]])
    asking = np.hstack([mean, np.zeros((len(mean), 1))])
    index = NearestNeighbors().fit(others)
    votes = np.zeros((len(mean), num_classes))
    waiting, number = np.arange(len(mean)), min(len(mean), _CANDIDATES)
    while len(waiting):
        unfinished = []
        at_once = max(1, _MOST_FOUND // number)
        for start in range(0, len(waiting), at_once):
            rows = waiting[start : start + at_once]
            found = index.kneighbors(asking[rows], number, return_distance=False)
            for row, near in zip(rows, found, strict=True):
                foreign = near[(group[near] != group[row])][:neighbours]
                if len(foreign) < neighbours and number < len(mean):
                    unfinished.append(row)
                    continue
                votes[row] = np.bincount(label[foreign], minlength=num_classes)
        waiting, number = np.array(unfinished, np.intp), min(len(mean), 4 * number)
    return votes
