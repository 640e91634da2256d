"""Scores of several yes/no labels an example, each by itself and on average; unknown labels do not count.

Average precision and AUROC need the numbers of examples with and without a label at each probability. As for
uncertainties they are counted in fine bins, equally wide in the log-odds; probabilities in one bin are ties.

Source:
    Davis and Goadrich (2006), The relationship between precision-recall and ROC curves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Final, Literal, Unpack

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import logit

from pipelines.scores.calibration import calibration_counts, expected_calibration_error
from pipelines.scores.classification import PROBABILITY_GROUP
from pipelines.scores.cost_results import JudgedClasses
from pipelines.scores.definitions import FloatArray, Score, Statistics, ratio, stack_rows
from pipelines.scores.guarantee_sizes import CONFIDENCE
from pipelines.scores.guarantee_thresholds import Guarantee, SelectiveErrors, referral_threshold
from pipelines.scores.held_out import HeldOutArrays
from pipelines.scores.results import Measured, MethodResult, score_values
from pipelines.scores.uncertainty import error_auroc

_BINS = 2048
_LARGEST_LOG_ODDS = 16.0  # float32 rounds what is closer to 0 or 1
_EPSILON = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class LabelRecord:
    """The predicted labels of an example and the true ones.

    Attributes:
        name: Of the example.
        label_names: Names of the L labels.
        truth: 0 or 1, NaN where unknown `[L]`.
        probability: Of yes `[L]`.
    """

    name: str
    label_names: tuple[str, ...]
    truth: FloatArray
    probability: FloatArray

    @property
    def losses(self) -> FloatArray:
        """Negative log-likelihood of each label in nats, 0 of unknown ones `[L]`."""
        of_truth = np.where(self.truth == 1.0, self.probability, 1.0 - self.probability)
        losses = -np.log(np.clip(of_truth, _EPSILON, 1.0 - _EPSILON))
        return np.where(np.isfinite(self.truth), losses, 0.0)


@dataclass(frozen=True)
class LabelResult(MethodResult):
    """How one method did on several labels.

    Attributes:
        truth: 0 or 1, NaN where unknown `[N, L]`.
        probability: Of yes `[N, L]`.
    """

    truth: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    probability: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))

    def said(self, place: int) -> JudgedClasses:
        """Return what the method says of no and yes where one label is known.

        Args:
            place: Of the label.
        """
        known = np.isfinite(self.truth[:, place])
        yes = self.probability[known, place]
        names = tuple(np.array(self.statistics.names, object)[known])
        truth = self.truth[known, place].astype(np.intp)
        return JudgedClasses(names, truth, np.stack([1.0 - yes, yes], axis=1))


def label_result(name: str, records: Sequence[LabelRecord], **measured: Unpack[Measured]) -> LabelResult:
    """Return the result of a method from its records; arguments as `MethodResult`.

    Raises:
        ValueError: There are no records, or two have one name.
    """
    truth, probability = (
        np.stack([getattr(one, key) for one in records]).astype(np.float64)
        for key in ("truth", "probability")
    )
    known = np.isfinite(truth)
    right = known & ((probability > 0.5) == (truth == 1.0))
    rows = [_calibration(*row) for row in zip(probability, known, right, strict=True)]
    dense = {
        "count": known.sum(axis=1).astype(np.float64),
        "known": known.astype(np.float64),
        "correct": right.astype(np.float64),
        "nll": np.stack([one.losses for one in records]),
        **stack_rows(rows),
    }
    dense |= {f"calibration/{key}": dense[f"label/{key}"].sum(axis=1) for key in _CALIBRATION}
    sparse = {
        key: _histograms(probability, truth == value) for key, value in (("present", 1.0), ("absent", 0.0))
    }
    statistics = Statistics(tuple(one.name for one in records), dense, sparse)
    names = records[0].label_names
    counts = {"examples": len(records), "known labels": int(known.sum())}
    counts |= {
        f"{what} {label}": int(found[:, place].sum())
        for place, label in enumerate(names)
        for what, found in (("known", known), ("with", truth == 1.0))
    }
    definitions = label_scores(names)
    scores, judged = score_values(definitions, statistics), {"truth": truth, "probability": probability}
    return LabelResult(name, statistics, definitions, scores, counts, **measured, **judged)


_CALIBRATION = ("count", "confidence", "correct")


def _calibration(
    probability: FloatArray, known: NDArray[np.bool_], right: NDArray[np.bool_]
) -> dict[str, NDArray[Any]]:
    """Return the calibration counts of each label `[L, bins]`."""
    confidence = np.maximum(probability, 1.0 - probability)
    each = [
        calibration_counts(confidence[[i]][known[[i]]], right[[i]][known[[i]]]) for i in range(len(known))
    ]
    return {f"label/{key}": np.stack([getattr(one, key) for one in each]) for key in _CALIBRATION}


def _histograms(probability: FloatArray, counted: NDArray[np.bool_]) -> scipy.sparse.csr_array:
    """Return which bin of its label each counted probability is in, `[N, L * bins]`."""
    odds = logit(np.clip(probability, _EPSILON, 1.0 - _EPSILON)) / _LARGEST_LOG_ODDS
    bins = np.clip(((0.5 + 0.5 * odds) * _BINS).astype(np.intp), 0, _BINS - 1)
    row, label = np.nonzero(counted)
    columns = label * _BINS + bins[row, label]
    shape = (len(counted), counted.shape[1] * _BINS)
    return scipy.sparse.csr_array((np.ones(len(row)), (row, columns)), shape=shape)


def average_precision(present: FloatArray, absent: FloatArray) -> FloatArray:
    """Return the mean precision at the examples that have a label, the most probable first.

    Args:
        present: Numbers of examples with the label `[..., bins]` by ascending probability.
        absent: Numbers of examples without it `[..., bins]`.

    Returns:
        The mean `[...]`; NaN where no example has the label. Ties are counted together, as scikit-learn does.

    Example:
        >>> float(average_precision(np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0])))
        0.8333333333333333
    """
    found = np.cumsum(present[..., ::-1], axis=-1)
    taken = found + np.cumsum(absent[..., ::-1], axis=-1)
    precision = np.divide(found, taken, out=np.zeros_like(found), where=taken > 0)
    return ratio((precision * present[..., ::-1]).sum(axis=-1), present.sum(axis=-1))


Sums = Mapping[str, FloatArray]


def _of_labels(key: str, sums: Sums) -> FloatArray:
    """Return a score of each label `[R, L]`."""
    if key in ("nll", "accuracy"):
        return ratio(sums["correct" if key == "accuracy" else key], sums["known"])
    if key == "ece":
        return expected_calibration_error(*(sums[f"label/{part}"] for part in _CALIBRATION))
    shape = (*sums["known"].shape, _BINS)
    present, absent = (sums[part].reshape(shape) for part in ("present", "absent"))
    return average_precision(present, absent) if key == "ap" else error_auroc(absent, present)


def _mean(key: str, sums: Sums) -> FloatArray:
    """Return the mean over the labels for which a score is defined `[R]`."""
    found = _of_labels(key, sums)
    defined = np.isfinite(found)
    return ratio(np.where(defined, found, 0.0).sum(axis=-1), defined.sum(axis=-1))


def _one(place: int, key: str, sums: Sums) -> FloatArray:
    return _of_labels(key, sums)[..., place]


_RIGHT = "Are the labels right?"
_MEAN = "Mean over the labels."
_SCORES: Final[tuple[tuple[str, str, str, Literal["higher", "lower"]], ...]] = (
    ("ap", "Average precision", _RIGHT, "higher"),
    ("auroc", "AUROC", _RIGHT, "higher"),
    ("accuracy", "Accuracy", _RIGHT, "higher"),
    ("nll", "NLL", PROBABILITY_GROUP, "lower"),
    ("ece", "ECE", PROBABILITY_GROUP, "lower"),
)
_TEXTS: Final = {
    "ap": "Mean precision at the images with the label, the most probable first; chance is their share.",
    "auroc": "How often an image with the label has a larger probability than one without; 0.5 is chance.",
    "accuracy": "Share of known labels that are right, at the probability 0.5.",
    "nll": "Negative log-likelihood of a known label (nats); punishes being confidently wrong.",
    "ece": "Expected calibration error: how far the stated confidence is from the share that is right.",
}


@lru_cache(maxsize=8)
def label_scores(label_names: tuple[str, ...]) -> tuple[Score, ...]:
    """Return the scores of several labels: means over the labels, then those of each.

    Example:
        >>> [score.key for score in label_scores(("head", "tail"))][4:7]
        ['ece', 'ap/head', 'auroc/head']
    """
    means = [
        Score(key, title, group, better, f"{_TEXTS[key]} {_MEAN}", partial(_mean, key), headline=True)
        for key, title, group, better in _SCORES
    ]
    of_each = [
        Score(f"{key}/{name}", title, f"Label {name}", better, _TEXTS[key], partial(_one, place, key))
        for place, name in enumerate(label_names)
        for key, title, _, better in _SCORES
    ]
    return (*means, *of_each)


@dataclass(frozen=True)
class HeldOutLabels(HeldOutArrays):
    """Predicted labels of N held-out examples, which did not train the model.

    Attributes:
        probability: Of yes `[N, L]`.
        truth: 0 or 1, NaN where unknown `[N, L]`.
        unit: Number of the group of each `[N]`, from 0.

    Raises:
        ValueError: Shapes contradict each other, or a value is not possible.
    """

    probability: FloatArray
    truth: FloatArray
    unit: NDArray[np.intp]

    def __post_init__(self) -> None:
        shapes = {self.probability.shape, self.truth.shape, (*self.unit.shape, self.truth.shape[-1])}
        if len(shapes) != 1 or self.truth.ndim != 2 or not self.truth.size:
            raise ValueError("found arrays of different shapes, or none at all")
        if not ((self.probability >= 0.0) & (self.probability <= 1.0)).all() or self.unit.min() < 0:
            raise ValueError("found a probability or a group that cannot be")
        if not (np.isnan(self.truth) | np.isin(self.truth, (0.0, 1.0))).all():
            raise ValueError("found a label that is neither 0 nor 1")

    def thresholds(self, max_error: float) -> list[Guarantee]:
        """Return for each label the largest uncertainty, min(p, 1 - p), at which an answer is kept.

        With 95 % confidence at most a share `max_error` of the kept answers is wrong, of all labels for
        which there is a threshold at once: each has the confidence 1 - 0.05 / L (Bonferroni).

        Args:
            max_error: The share, in (0, 1).
        """
        return [
            Guarantee(max_error, self.confidence, None, 0.0, "no held-out image has it known", 0)
            if errors is None
            else referral_threshold(errors, max_error, confidence=self.confidence)
            for errors in self.errors
        ]

    @property
    def confidence(self) -> float:
        """Confidence of each label with which all of them hold at once with 95 % confidence."""
        return 1.0 - (1.0 - CONFIDENCE) / self.truth.shape[1]

    @property
    def errors(self) -> list[SelectiveErrors | None]:
        """Uncertainty and error of the known answers for each label; None where none is known."""
        found: list[SelectiveErrors | None] = []
        for probability, truth in zip(self.probability.T, self.truth.T, strict=True):
            known = np.isfinite(truth)
            wrong = ((probability > 0.5) != (truth == 1.0))[known].astype(np.float64)
            unit = np.unique(self.unit[known], return_inverse=True)[1].reshape(-1)
            uncertainty = answer_uncertainty(probability[known])
            found.append(SelectiveErrors(uncertainty, wrong, unit, "groups") if known.any() else None)
        return found


def answer_uncertainty(probability: FloatArray) -> FloatArray:
    """Return the probability that yes, where it is the more probable one, or no is wrong, of any shape.

    Example:
        >>> answer_uncertainty(np.array([0.25, 0.75, 1.0])).tolist()
        [0.25, 0.25, 0.0]
    """
    return np.minimum(probability, 1.0 - probability)
