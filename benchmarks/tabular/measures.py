"""Scores of predictions, as the thesis defines them; those of classifiers are the pipelines' own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.tabular.problem import FloatArray
from pipelines.scores.calibration import expected_calibration_error
from pipelines.scores.classification import classification_record

SMALLEST_PROBABILITY = 1e-15


def classification_measures(labels: npt.NDArray[np.int64], probability: FloatArray) -> dict[str, float]:
    """Error in per cent, NLP in nats, Brier score and expected calibration error.

    With two classes the Brier score is the mean of (p - y)², else the sum over classes of the same.

    Args:
        labels: `[N]`, 0 to C - 1.
        probability: `[N, C]`.

    Example:
        >>> classification_measures(np.array([0, 1]), np.array([[0.5, 0.5], [0.2, 0.8]]))["error"]
        0.0
    """
    of_truth = np.take_along_axis(probability, labels[:, None], axis=1)[:, 0]
    if not np.isfinite(probability).all():
        raise ValueError("The method predicted probabilities that are not numbers.")
    probability = np.clip(probability / probability.sum(axis=1, keepdims=True), 0.0, 1.0)
    record = classification_record(
        "test part", labels, probability[:, 1] if probability.shape[1] == 2 else probability, {}
    )
    calibration = record.calibration
    return {
        "error": 100.0 * (1.0 - float(np.trace(record.confusion)) / record.count),
        # Of the probability as predicted: 1 - p of the other class has lost the digits of a small one.
        "nlp": float(-np.log(np.maximum(of_truth, SMALLEST_PROBABILITY)).mean()),
        "brier": record.brier / record.count,
        "ece": float(
            expected_calibration_error(
                calibration.count.astype(np.float64),
                calibration.confidence,
                calibration.correct.astype(np.float64),
            )
        ),
    }


def regression_measures(
    targets: FloatArray, mean: FloatArray, variance: FloatArray, train_targets: FloatArray
) -> dict[str, float]:
    """SMSE, MSLL, RMSE (thesis 3.5.1) and NLP in nats, in the targets' own units.

    SMSE divides by the variance of the test targets; MSLL subtracts the loss of the Gaussian with the mean
    and variance of the training targets.

    Args:
        targets: Of the test part, `[N]`.
        mean: Predicted, `[N]`.
        variance: Predicted, of the noisy target, `[N]`.
        train_targets: By which the trivial model predicts.
    """
    if not (np.isfinite(mean).all() and np.isfinite(variance).all() and (variance > 0.0).all()):
        raise ValueError("The method predicted means or variances that are not numbers, or variances of 0.")
    nlp = _negative_log_density(targets, mean, variance)
    trivial = _negative_log_density(targets, train_targets.mean(), train_targets.var())
    return {
        "smse": float(((targets - mean) ** 2).mean() / targets.var()),
        "msll": float((nlp - trivial).mean()),
        "rmse": float(np.sqrt(((targets - mean) ** 2).mean())),
        "nlp": float(nlp.mean()),
    }


def _negative_log_density(targets: FloatArray, mean: Any, variance: Any) -> FloatArray:
    density: FloatArray = 0.5 * (np.log(2.0 * np.pi * variance) + (targets - mean) ** 2 / variance)
    return density
