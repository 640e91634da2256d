"""One simulated annotator: a pool, a strategy, a seed, and the curve of what the answers bought."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from benchmarks.labelling.pools import Pool
from benchmarks.labelling.strategies import STRATEGIES, Turn
from pipelines.label.learning.division import judging_groups
from pipelines.label.learning.learner import Learner
from pipelines.label.learning.progress import kept_share

BATCH = 10
"""Images that are asked for before the learner learns again; one at a time would cost ten times as much."""
BUDGET = 240
REFIT_EVERY = 60
BY_LOGISTIC_TOO = ("ours", "random groups", "all")
"""Strategies that a logistic regression judges too, in the first draws."""
LOGISTIC_DRAWS = 5
JUDGED_FRACTION = 0.3
"""Share of the groups that judge: more than in use, for less chance in the scores."""


class Run(NamedTuple):
    """A simulated annotator.

    Attributes:
        pool: Name of the pool.
        strategy: Name of the strategy; `all` labels everything at once.
        wrong: Share of wrong answers.
        seed: Of the division into judging and other groups, and of every choice.
    """

    pool: str
    strategy: str
    wrong: float
    seed: int

    @property
    def file(self) -> str:
        """Name of its record."""
        strategy = self.strategy.replace(" ", "_")
        return f"{self.pool}--{strategy}--{round(100 * self.wrong)}--{self.seed}.json"


def simulate(run: Run, pool: Pool) -> dict[str, Any]:
    """Return the scores after every batch: labels, accuracy, loss, share that could be kept.

    All strategies are judged by our learner with all answers, and by a logistic regression of the same
    principal components as well.
    """
    names = [f"group {number}" for number in pool.group]
    is_judging = judging_groups(names, run.seed, JUDGED_FRACTION)
    num_classes = int(pool.label.max()) + 1
    rng = np.random.default_rng([run.seed, 41])
    answer = np.where(
        rng.random(len(pool.label)) < run.wrong,
        (pool.label + rng.integers(1, num_classes, len(pool.label))) % num_classes,
        pool.label,
    )
    learner = Learner(pool.features, names, num_classes, seed=run.seed, is_judging=is_judging)
    given = np.full(len(pool.label), -1)
    rows: list[dict[str, float]] = []
    if run.strategy == "all":
        given[~is_judging] = answer[~is_judging]
        learner.set_labels(given)
        learner.refit()
        return run._asdict() | {"curve": [_scores(learner, given, is_judging, pool, run)]}
    num_asked = 0
    while num_asked < min(BUDGET, int(np.sum(~is_judging))):
        turn = Turn(learner, learner.components, given.copy(), is_judging, pool.group, rng, BATCH)
        chosen = STRATEGIES[run.strategy](turn)
        given[chosen] = answer[chosen]
        num_asked += len(chosen)
        learner.set_labels(given)
        if num_asked % REFIT_EVERY == 0:
            learner.refit()
        rows.append(_scores(learner, given, is_judging, pool, run))
    return run._asdict() | {"curve": rows}


def _scores(
    learner: Learner,
    given: NDArray[np.intp],
    is_judging: NDArray[np.bool_],
    pool: Pool,
    run: Run,
) -> dict[str, float]:
    probability, label = learner.probability()[is_judging], pool.label[is_judging]
    own = np.log(np.maximum(probability[np.arange(len(label)), label], 1e-12))
    scores = {
        "labels": int(np.sum(given >= 0)),
        "accuracy": round(float(np.mean(probability.argmax(axis=1) == label)), 5),
        "nll": round(-float(np.mean(own)), 5),
        "kept": round(kept_share(probability, label, np.ones(len(label))), 5),
    }
    if run.strategy in BY_LOGISTIC_TOO and run.seed < LOGISTIC_DRAWS:
        right = _by_logistic(learner.components, given, is_judging) == label
        scores["logistic"] = round(float(np.mean(right)), 5)
    return scores


def _by_logistic(
    components: NDArray[np.float64], given: NDArray[np.intp], is_judging: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """Return the classes of the judging images by a logistic regression on the labelled images."""
    known = given >= 0
    if len(np.unique(given[known])) < 2:
        return np.full(int(is_judging.sum()), given[known][0])
    machine = LogisticRegression(C=1.0, max_iter=200, tol=1e-3).fit(components[known], given[known])
    return np.asarray(machine.predict(components[is_judging]), np.intp)
