"""Prediction sets beside those of crepes and MAPIE, where all three do the same thing: groups of one example.

    pip install 'gpimaging[peers]'
    python -m benchmarks.prediction_set_peers --out benchmarks/results/prediction_set_peers

The same probabilities of held-out and new examples go to each. crepes has a threshold for each class
(Mondrian categories), MAPIE one for all classes together. Our sets have a class where either of them has it,
and the most probable one.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from crepes import ConformalClassifier
from mapie.classification import SplitConformalClassifier
from sklearn.base import BaseEstimator, ClassifierMixin

from benchmarks.common import host, write_results
from benchmarks.simulated_classes import simulated
from pipelines.scores.held_out import HeldOut
from pipelines.scores.prediction_sets import prediction_sets

COVERAGES = (0.8, 0.9, 0.95)
_SEEDS = 20


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose inputs are the probabilities that it predicts."""

    def __init__(self, num_classes: int) -> None:
        self.num_classes = num_classes

    def fit(self, _x: np.ndarray, _y: np.ndarray) -> Given:
        """Learn nothing but the classes."""
        self.classes_ = np.arange(self.num_classes)
        return self

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Return the probabilities."""
        return x

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return the most probable classes."""
        return x.argmax(axis=1)


def of_crepes(held_out: HeldOut, new: np.ndarray, coverage: float) -> np.ndarray:
    """Return which classes are in the sets by a threshold for each class, `[N, C]`."""
    score = 1.0 - held_out.probability[np.arange(held_out.truth.size), held_out.truth]
    sets = np.zeros(new.shape, bool)
    for place in range(new.shape[1]):
        classifier = ConformalClassifier().fit(score[held_out.truth == place])
        found = classifier.predict_set(1.0 - new[:, place : place + 1], confidence=coverage, smoothing=False)
        sets[:, place] = np.asarray(found)[:, 0].astype(bool)
    return sets


def of_mapie(held_out: HeldOut, new: np.ndarray, coverage: float) -> np.ndarray:
    """Return which classes are in the sets by one threshold, `[N, C]`."""
    given = Given(new.shape[1]).fit(new, held_out.truth)
    classifier = SplitConformalClassifier(
        given, confidence_level=coverage, conformity_score="lac", prefit=True
    )
    classifier.conformalize(held_out.probability, held_out.truth)
    return np.asarray(classifier.predict_set(new)[1][..., 0], bool)


def main() -> None:
    """Compare the sets of all and write how many differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="result files without suffix")
    rows = []
    out = parser.parse_args().out
    for coverage in COVERAGES:
        differ = cells = 0
        for seed in range(_SEEDS):
            held_out = simulated(np.random.default_rng(seed), 300, slope=0.4)
            new = simulated(np.random.default_rng(1000 + seed), 500, slope=0.4).probability
            most = np.eye(3, dtype=bool)[new.argmax(axis=1)]
            of_both = of_crepes(held_out, new, coverage) | of_mapie(held_out, new, coverage)
            differ += int((prediction_sets(held_out, coverage).contains(new) != (of_both | most)).sum())
            cells += new.size
        rows.append({"coverage": coverage, "classes asked": cells, "differ": differ})
    write_results(out, title="Prediction sets beside crepes and MAPIE", rows=rows, host=host())


if __name__ == "__main__":
    main()
