"""Sets of classes that hold the true one for a share of what is like the held-out examples.

The set of an example has each class k whose score 1 - p[k] is at most q[k], and in any case the most probable
class. Among all sets with a coverage these are the smallest on average
where probabilities are calibrated (Sadinle, Lei and Wasserman, "Least ambiguous set-valued classifiers with
bounded error levels", 2019).
With examples of K held-out groups, q is the smallest score below which the weights

    1 / (n_g (K + 1)) for each of the n_g examples of group g, 1 / (K + 1) at infinity

sum up to the coverage. An example of a new group, which is exchangeable with these, is then covered with at
least this probability, on average over held-out data (Lee, Barber and Willett, "Distribution-free inference
with hierarchical data", 2023, theorem 1; with groups of one example it is split conformal prediction). It
needs K >= coverage / (1 - coverage). With the examples of one class alone this holds for the class (Vovk,
"Conditional validity of inductive conformal predictors", 2012). A class with so many groups takes the larger
of its own q and the q of all, so that both hold; the others take the q of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpmodels.statistics.conformal import conformal_threshold, groups_needed
from pipelines.scores.definitions import FloatArray
from pipelines.scores.held_out import HeldOut


@dataclass(frozen=True)
class PredictionSets:
    """Which classes are in a set.

    Attributes:
        coverage: Share of examples whose set holds the true class.
        largest: q, the largest score 1 - p of each class that is in a set `[C]`; infinite where it always is.
        own: Whether the coverage holds for each class by itself, too `[C]`.
    """

    coverage: float
    largest: FloatArray
    own: NDArray[np.bool_]

    def contains(self, probability: FloatArray) -> NDArray[np.bool_]:
        """Return which classes are in the set of each example, `[N, C]`.

        Args:
            probability: Probabilities of the classes `[N, C]`.
        """
        within = 1.0 - probability <= self.largest
        within[np.arange(len(probability)), probability.argmax(axis=1)] = True
        return np.asarray(within)


@dataclass(frozen=True)
class JudgedSets:
    """What came of prediction sets on judged examples, each unit counting the same.

    Attributes:
        coverage: Share of the examples whose set should hold the true class.
        covered: Share of them whose set does.
        of_classes: The same of each class `[C]`; NaN of one without examples.
        size: Mean number of classes in a set.
        single: Share of the sets that have one class.
    """

    coverage: float
    covered: float
    of_classes: FloatArray
    size: float
    single: float


def prediction_sets(held_out: HeldOut, coverage: float) -> PredictionSets:
    """Find the thresholds of prediction sets.

    Args:
        held_out: Examples with classes that did not train the model.
        coverage: Share of examples whose set shall hold the true class, in (0, 1).

    Raises:
        ValueError: The coverage is not in (0, 1), or the examples have no classes.

    Example:
        >>> truth = np.arange(100) % 2
        >>> sure = HeldOut(np.zeros(100), np.zeros(100), np.arange(100), truth, np.eye(2)[truth])
        >>> prediction_sets(sure, 0.95).contains(np.array([[0.6, 0.4]])).tolist()
        [[True, False]]
    """
    if not (0 < coverage < 1 and held_out.has_classes):
        raise ValueError(f"expected examples with classes, and a coverage in (0, 1), found {coverage}")
    num_classes = held_out.probability.shape[1]
    score = 1.0 - held_out.probability[np.arange(held_out.truth.size), held_out.truth]
    groups = [np.unique(held_out.unit[held_out.truth == place]).size for place in range(num_classes)]
    own = np.array(groups) >= groups_needed(coverage)
    largest = np.full(num_classes, conformal_threshold(score, held_out.unit, coverage))
    for place in np.flatnonzero(own):
        of_class = held_out.truth == place
        of_this = conformal_threshold(score[of_class], held_out.unit[of_class], coverage)
        largest[place] = max(largest[place], of_this)
    return PredictionSets(coverage, largest, own)


def judged_sets(sets: PredictionSets, judged: HeldOut) -> JudgedSets:
    """Return what came of prediction sets on examples.

    Args:
        sets: The thresholds.
        judged: The examples, with classes.
    """
    contains = sets.contains(judged.probability)
    covered = contains[np.arange(judged.truth.size), judged.truth]
    every, size = np.ones(judged.truth.size, bool), contains.sum(axis=1)
    of_classes = [judged.mean(covered, judged.truth == place) for place in range(contains.shape[1])]
    return JudgedSets(
        coverage=sets.coverage,
        covered=judged.mean(covered, every),
        of_classes=np.array(of_classes),
        size=judged.mean(size, every),
        single=judged.mean(size == 1, every),
    )


def set_text(members: Sequence[bool], class_names: Sequence[str]) -> str:
    """Return a set of classes as a cell of a table.

    Example:
        >>> set_text([True, False, True], ["benign", "malignant", "normal"])
        'benign | normal'
    """
    return " | ".join(name for name, is_in in zip(class_names, members, strict=True) if is_in)
