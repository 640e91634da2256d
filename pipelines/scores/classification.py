"""Scores of probabilistic classification, of pixels, patches or clips alike.

The scores are computed from labels, probabilities and uncertainties: accuracy, negative log-likelihood,
Brier score, calibration error, and how well the uncertainty finds the errors. Each example leaves one small
record; a test set is a list of records.

The log-likelihood is that of probabilities clipped to [ε, 1 - ε] with ε the machine epsilon of their dtype
(1.2e-7 for float32), so that a probability of exactly 0 or 1 costs at most 15.9 nats (float32), not infinity.
Nothing else is clipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pipelines.scores.calibration import CalibrationCounts, calibration_counts, expected_calibration_error
from pipelines.scores.definitions import AnyFloatArray, FloatArray, Score, Statistics, ratio, stack_rows
from pipelines.scores.uncertainty import (
    UNCERTAINTY_SCORES,
    UncertaintyHistogram,
    histogram_rows,
    uncertainty_histogram,
)

PROBABILITY_GROUP = "Do the probabilities mean what they say?"

_SUM_TOLERANCE = 1e-3


@dataclass(frozen=True)
class ClassificationRecord:
    """All that the scores need to know about one example (image, clip, group of patches).

    Attributes:
        name: The example's name.
        confusion: Numbers of predictions `[C, C]`, rows true label, columns predicted label.
        negative_log_likelihood: Sum over predictions, nats.
        brier: Sum over predictions.
        calibration: Predictions by confidence.
        uncertainty: Predictions by each uncertainty.
    """

    name: str
    confusion: NDArray[np.int64]
    negative_log_likelihood: float
    brier: float
    calibration: CalibrationCounts
    uncertainty: Mapping[str, UncertaintyHistogram]

    @property
    def count(self) -> int:
        """Return the number of predictions."""
        return int(self.confusion.sum())


def classification_record(
    name: str,
    label: NDArray[np.generic],
    probability: AnyFloatArray,
    uncertainty: Mapping[str, AnyFloatArray],
) -> ClassificationRecord:
    """Sum up one example's predictions.

    Args:
        name: The example's name.
        label: True labels `[N]`, integers from 0 to C - 1. N may be 0.
        probability: Probabilities `[N]` of class 1 (two classes; above 0.5 predicts class 1), or `[N, C]`.
        uncertainty: Uncertainties `[N]` in nats under names like `predictive_entropy`.

    Raises:
        ValueError: Shapes differ, or a value is not allowed; the message names the example.

    Example:
        >>> record = classification_record("a", np.array([1, 0]), np.array([0.9, 0.2]), {})
        >>> record.confusion.tolist(), round(record.brier, 2)
        ([[1, 0], [0, 1]], 0.05)
    """
    binary = probability.ndim == 1
    num_classes = 2 if binary else probability.shape[-1]
    _check_predictions(name, label, probability, num_classes)
    truth = label.astype(np.intp)
    p = probability.astype(np.float64)
    if binary:
        predicted = (p > 0.5).astype(np.intp)
        of_truth = np.where(truth == 1, p, 1.0 - p)
        confidence = np.maximum(p, 1.0 - p)
        brier = np.square(p - truth).sum()
    else:
        predicted = p.argmax(axis=-1)
        of_truth = np.take_along_axis(p, truth[:, None], axis=-1)[:, 0]
        confidence = p.max(axis=-1)
        brier = np.square(p - np.eye(num_classes)[truth]).sum()
    right = predicted == truth
    epsilon = float(np.finfo(probability.dtype).eps)
    confusion = np.bincount(truth * num_classes + predicted, minlength=num_classes**2)
    try:
        histograms = {
            key: uncertainty_histogram(value, right, num_classes) for key, value in uncertainty.items()
        }
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    return ClassificationRecord(
        name=name,
        confusion=confusion.reshape(num_classes, num_classes),
        negative_log_likelihood=float(-np.log(np.clip(of_truth, epsilon, 1.0 - epsilon)).sum()),
        brier=float(brier),
        calibration=calibration_counts(confidence, right),
        uncertainty=histograms,
    )


def _check_predictions(
    name: str, label: NDArray[np.generic], probability: AnyFloatArray, num_classes: int
) -> None:
    if label.ndim != 1 or probability.ndim not in {1, 2} or probability.shape[0] != label.shape[0]:
        raise ValueError(
            f"{name}: label {label.shape} and probability {probability.shape} must be [N] and [N] or [N, C]"
        )
    if num_classes < 2:
        raise ValueError(f"{name}: found one column of probabilities, expected [N] or at least two columns")
    if not ((probability >= 0) & (probability <= 1)).all():
        raise ValueError(
            f"{name}: probabilities must be in [0, 1], found one that is not (or is not a number)"
        )
    if probability.ndim == 2 and not np.allclose(probability.sum(axis=-1), 1.0, atol=_SUM_TOLERANCE):
        raise ValueError(f"{name}: the probabilities of a row must sum to 1")
    if not np.isin(label, np.arange(num_classes)).all():
        found = np.unique(label)[:5].tolist()
        raise ValueError(f"{name}: labels must be integers from 0 to {num_classes - 1}, found {found}")


def classification_statistics(records: Sequence[ClassificationRecord]) -> Statistics:
    """Return the rows from which scores are computed, one per record.

    An uncertainty that not every record has is left out; its scores are then undefined.
    """
    dense = stack_rows([_row(record) for record in records])
    sparse = {}
    measures = [
        key
        for key in (records[0].uncertainty if records else {})
        if all(key in r.uncertainty for r in records)
    ]
    for measure in measures:
        totals, histograms = histogram_rows(measure, [record.uncertainty[measure] for record in records])
        dense.update(totals)
        sparse.update(histograms)
    return Statistics(tuple(record.name for record in records), dense, sparse)


def _row(record: ClassificationRecord) -> dict[str, float | NDArray[np.generic]]:
    return {
        "count": record.count,
        "correct": float(np.trace(record.confusion)),
        "confusion": record.confusion,
        "negative_log_likelihood": record.negative_log_likelihood,
        "brier": record.brier,
        "calibration/count": record.calibration.count,
        "calibration/confidence": record.calibration.confidence,
        "calibration/correct": record.calibration.correct,
    }


def _per_prediction(quantity: str, sums: Mapping[str, FloatArray]) -> FloatArray:
    return ratio(sums[quantity], sums["count"])


def _calibration_error(sums: Mapping[str, FloatArray]) -> FloatArray:
    return expected_calibration_error(
        sums["calibration/count"], sums["calibration/confidence"], sums["calibration/correct"]
    )


def _mean_recall(confusion: FloatArray) -> FloatArray:
    """Return the recall `[R]`, averaged over the classes with examples, of confusion matrices `[R, C, C]`."""
    examples = confusion.sum(axis=-1)
    recall = np.diagonal(confusion, axis1=-2, axis2=-1) / np.where(examples > 0, examples, 1.0)
    return ratio(recall.sum(axis=-1), (examples > 0).sum(axis=-1).astype(np.float64))


PROBABILITY_SCORES: tuple[Score, ...] = (
    Score(
        "nll",
        "NLL",
        PROBABILITY_GROUP,
        "lower",
        "Negative log-likelihood (nats): the surprise at the truth; punishes being confidently wrong.",
        lambda sums: _per_prediction("negative_log_likelihood", sums),
        headline=True,
    ),
    Score(
        "brier",
        "Brier score",
        PROBABILITY_GROUP,
        "lower",
        "Mean squared distance between the probability and the truth (0 or 1); with a probability for every "
        "class, summed over the classes.",
        lambda sums: _per_prediction("brier", sums),
    ),
    Score(
        "ece",
        "ECE",
        PROBABILITY_GROUP,
        "lower",
        "Expected calibration error: how far the stated confidence is from the share that is right.",
        _calibration_error,
        headline=True,
    ),
    *UNCERTAINTY_SCORES,
)

CLASSIFICATION_SCORES: tuple[Score, ...] = (
    Score(
        "accuracy",
        "Accuracy",
        "Are the labels right?",
        "higher",
        "Share of predictions that are right.",
        lambda sums: _per_prediction("correct", sums),
        headline=True,
    ),
    Score(
        "balanced_accuracy",
        "Mean recall",
        "Are the labels right?",
        "higher",
        "Share of each class that is given its label, averaged over the classes: rare ones count as much.",
        lambda sums: _mean_recall(sums["confusion"]),
    ),
    *(replace(score, headline=score.headline or score.key == "brier") for score in PROBABILITY_SCORES),
)
