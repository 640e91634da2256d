"""What each strategy asks next: ours, chance, entropy, and two of scikit-activeml."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.label.learning.learner import Learner

IntArray = NDArray[np.intp]


@dataclass(frozen=True)
class Turn:
    """What a strategy may look at.

    Attributes:
        learner: Learner of all answers so far.
        components: What the strategies of scikit-activeml are given: the learner's principal components.
        answers: Answer of each image `[N]`, -1 for none.
        is_judging: Whether an image judges `[N]`; none of them is asked for.
        group: Number of the group of each image `[N]`.
        rng: Source of chance.
        count: How many images to ask for.
    """

    learner: Learner
    components: NDArray[np.float64]
    answers: IntArray
    is_judging: NDArray[np.bool_]
    group: IntArray
    rng: np.random.Generator
    count: int

    @property
    def free(self) -> IntArray:
        """Rows that may be asked for."""
        return np.flatnonzero((self.answers < 0) & ~self.is_judging)


def ours(turn: Turn) -> IntArray:
    """Ask what the learner asks, without its questions for judging."""
    return turn.learner.next(turn.count, turn.is_judging)


def random_groups(turn: Turn) -> IntArray:
    """Ask for a random image of each of some random groups."""
    free, chosen = turn.free, []
    for _ in range(min(turn.count, len(free))):
        group = turn.rng.choice(np.unique(turn.group[free]))
        chosen.append(int(turn.rng.choice(free[turn.group[free] == group])))
        free = free[free != chosen[-1]]
    return np.array(chosen, np.intp)


def random_images(turn: Turn) -> IntArray:
    """Ask for random images, whatever groups they are of."""
    return turn.rng.permutation(turn.free)[: turn.count]


def entropy(turn: Turn) -> IntArray:
    """Ask for the images of largest predictive entropy."""
    if not (turn.answers >= 0).any():
        return random_groups(turn)
    share = turn.learner.probability()[turn.free]
    doubt = -np.sum(share * np.log(np.maximum(share, 1e-12)), axis=1)
    return turn.free[np.argsort(-doubt, kind="stable")[: turn.count]]


def badge(turn: Turn) -> IntArray:
    """Ask what BADGE asks, given the learner's probabilities; first for random groups."""
    if not (turn.answers >= 0).any():
        return random_groups(turn)
    free, probability = turn.free, turn.learner.probability()

    base: Any = resolve_name("skactiveml.base:SkactivemlClassifier")

    class Given(base):
        """Classifier whose probabilities of the free images are known."""

        def fit(self, *_: Any) -> Any:
            return self

        def predict_proba(self, _: Any) -> NDArray[np.float64]:
            return probability[free]

    labels = np.where(turn.answers >= 0, turn.answers, np.nan).astype(float)
    query = resolve_name("skactiveml.pool:Badge")(random_state=int(turn.rng.integers(2**31)))
    found = query.query(
        turn.components,
        labels,
        Given(),
        fit_clf=False,
        candidates=free,
        batch_size=min(turn.count, len(free)),
    )
    return np.array(found, np.intp)


def typiclust(turn: Turn) -> IntArray:
    """Ask what TypiClust asks."""
    labels = np.where(turn.answers >= 0, turn.answers, np.nan).astype(float)
    query = resolve_name("skactiveml.pool:TypiClust")(
        random_state=int(turn.rng.integers(2**31)), cluster_algo_dict={"n_init": 1}
    )
    pool = np.flatnonzero(~turn.is_judging)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = query.query(turn.components[pool], labels[pool], batch_size=min(turn.count, len(turn.free)))
    return pool[np.array(found, np.intp)]


STRATEGIES: dict[str, Callable[[Turn], IntArray]] = {
    "ours": ours,
    "random groups": random_groups,
    "random images": random_images,
    "entropy": entropy,
    "BADGE": badge,
    "TypiClust": typiclust,
}
"""Each strategy by its name."""

PEERS = ("BADGE", "TypiClust")
"""Those of scikit-activeml."""
