"""Whether probabilities mean what they say: calibration error, reliability diagram, temperature.

Calibration is that of the predicted label (Guo et al., 2017): the confidence of a prediction is the
probability of the label it chose, max(p, 1 - p) with two classes; confidences are counted in 15 equally wide
bins of (0, 1], each open below; the expected calibration error is Σ_b (n_b / N) |accuracy_b - mean
confidence_b|. With two classes no confidence is below one half, so only the upper eight bins are used.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special
from numpy.typing import NDArray

from pipelines.scores.definitions import AnyFloatArray, FloatArray, ratio

logger = logging.getLogger(__name__)

CALIBRATION_BINS = 15
TEMPERATURE_LIMITS = (0.01, 100.0)

LOG_ODDS_DEVIATION = 0.5
"""Standard deviation of 1/T around 1 that is expected of logits trained as log-odds.

Temperatures of networks are mostly between a half and three (Guo et al., 2017). The prior matters if a few
dozen examples are nearly all predicted right: alone they would ask for a temperature near 0, with which the
first mistake would be certain. Among thousands of examples it hardly matters."""
_LOGITS_PER_BLOCK = 1 << 20


@dataclass(frozen=True)
class CalibrationCounts:
    """Predictions of one example by confidence, `[CALIBRATION_BINS]` each.

    Attributes:
        count: Number of predictions.
        confidence: Sum of their confidences.
        correct: Number of right predictions.
    """

    count: NDArray[np.int64]
    confidence: FloatArray
    correct: NDArray[np.int64]


def calibration_counts(confidence: FloatArray, right: NDArray[np.bool_]) -> CalibrationCounts:
    """Count predictions by confidence.

    Args:
        confidence: Probability `[N]` of the predicted label, in [0, 1].
        right: Whether that label is the true one, `[N]`.
    """
    index = np.clip(np.ceil(confidence * CALIBRATION_BINS).astype(np.intp) - 1, 0, CALIBRATION_BINS - 1)
    return CalibrationCounts(
        count=np.bincount(index, minlength=CALIBRATION_BINS),
        confidence=np.bincount(index, confidence, CALIBRATION_BINS).astype(np.float64),
        correct=np.bincount(index[right], minlength=CALIBRATION_BINS),
    )


def expected_calibration_error(count: FloatArray, confidence: FloatArray, correct: FloatArray) -> FloatArray:
    """Return the expected calibration error from summed counts.

    Args:
        count: Numbers of predictions `[..., bins]`.
        confidence: Sums of confidences `[..., bins]`.
        correct: Numbers of right predictions `[..., bins]`.

    Returns:
        The error `[...]`, in [0, 1]; NaN where there are no predictions.

    Example:
        >>> float(expected_calibration_error(np.array([4.0]), np.array([3.0]), np.array([2.0])))
        0.25
    """
    return ratio(np.abs(correct - confidence).sum(axis=-1), count.sum(axis=-1))


@dataclass(frozen=True)
class ReliabilityDiagram:
    """What a reliability diagram draws.

    Attributes:
        edges: Confidences `[bins + 1]` between which the bins lie.
        count: Numbers of predictions `[bins]`.
        confidence: Mean confidences `[bins]`, NaN in empty bins.
        accuracy: Shares of right predictions `[bins]`, NaN in empty bins.
    """

    edges: FloatArray
    count: FloatArray
    confidence: FloatArray
    accuracy: FloatArray


def reliability_diagram(count: FloatArray, confidence: FloatArray, correct: FloatArray) -> ReliabilityDiagram:
    """Return the reliability diagram of summed counts `[bins]`; arguments as `expected_calibration_error`."""
    edges = np.linspace(0.0, 1.0, count.shape[-1] + 1)
    return ReliabilityDiagram(edges, count, ratio(confidence, count), ratio(correct, count))


def fit_temperature(
    logits: AnyFloatArray,
    labels: NDArray[Any],
    weights: NDArray[Any] | None = None,
    *,
    prior_deviation: float | None = None,
) -> float:
    """Return the temperature T with the least negative log-likelihood of sigmoid(logit / T) or softmax.

    The loss is convex in 1/T, with the prior 1/T ~ N(1, `prior_deviation`²) or without. Its slope therefore
    has at most one root, which is bracketed and found to rounding. Fit the temperature on data that neither
    train nor judge the model.

    Args:
        logits: Log-odds of class 1, of any shape; or with one more axis for the classes of a softmax.
        labels: Labels 0 or 1, or 0 to C - 1, of the shape without the classes.
        weights: Weights of the shape of the labels, not negative, 0 where ignored; 1 by default.
        prior_deviation: Standard deviation of 1/T around 1: `LOG_ODDS_DEVIATION` for logits that already are
            log-odds, None for logits without a scale of their own, such as the margins of an SVM.

    Returns:
        T, in `TEMPERATURE_LIMITS`, and 1 if all logits are 0. A limit is reached, and logged, if the best T
        is 0 (every logit has the right sign) or infinite (the logits say nothing about the labels).

    Raises:
        ValueError: Shapes differ, a value is not allowed, or nothing has weight.

    Example:
        >>> logits = np.array([2.0, 2.0, 2.0, 2.0])  # claims 0.88, is right in 3 of 4: log-odds log 3
        >>> round(fit_temperature(logits, np.array([1, 1, 1, 0])), 4) == round(2.0 / np.log(3.0), 4)
        True
    """
    flat_logits, flat_labels, flat_weights = _flat_temperature_data(logits, labels, weights)

    def slope(log_inverse: float) -> float:
        """Return d loss / d (1/T): Σ w Σ_c (p_c - [y = c]) logit_c, and the slope of the prior."""
        inverse = np.exp(log_inverse)
        total = 0.0 if prior_deviation is None else float(inverse - 1.0) / prior_deviation**2
        for start in range(0, len(flat_logits), _LOGITS_PER_BLOCK):
            block = slice(start, start + _LOGITS_PER_BLOCK)
            logit = flat_logits[block].astype(np.float64)
            slopes = _slopes(logit, flat_labels[block], inverse)
            total += float(np.dot(flat_weights[block], slopes))
        return total

    if not flat_logits.any():
        return 1.0
    coldest, hottest = (-np.log(limit) for limit in TEMPERATURE_LIMITS)
    if slope(coldest) <= 0:
        logger.warning("The best temperature is below %g: every prediction is right", TEMPERATURE_LIMITS[0])
        return TEMPERATURE_LIMITS[0]
    if slope(hottest) >= 0:
        logger.warning("The best temperature is above %g: the logits say nothing", TEMPERATURE_LIMITS[1])
        return TEMPERATURE_LIMITS[1]
    import scipy.optimize  # noqa: PLC0415 - takes .2 s, and predict does without

    return float(np.exp(-scipy.optimize.brentq(slope, hottest, coldest, xtol=1e-10)))


def _slopes(logit: FloatArray, label: NDArray[Any], inverse: float) -> FloatArray:
    """Return the derivative `[N]` of each point's loss with respect to the inverse temperature."""
    if logit.ndim == 1:
        return np.asarray((scipy.special.expit(inverse * logit) - label) * logit)
    probability = scipy.special.softmax(inverse * logit, axis=1)
    of_label = np.take_along_axis(logit, label.astype(np.intp)[:, None], axis=1)[:, 0]
    return np.asarray((probability * logit).sum(axis=1) - of_label)


def _flat_temperature_data(
    logits: AnyFloatArray, labels: NDArray[Any], weights: NDArray[Any] | None
) -> tuple[AnyFloatArray, NDArray[Any], NDArray[Any]]:
    """Return checked flat logits, labels and weights of what has weight, not copied to a larger dtype."""
    weight = np.ones(labels.shape, np.uint8) if weights is None else weights
    num_classes = logits.shape[-1] if logits.ndim == labels.ndim + 1 else 2
    if not logits.shape[: labels.ndim] == labels.shape == weight.shape or logits.ndim > labels.ndim + 1:
        raise ValueError(
            f"logits {logits.shape}, labels {labels.shape} and weights {weight.shape} differ in shape"
        )
    if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.any()):
        raise ValueError("weights must be finite, not negative and not all 0: is every pixel ignored?")
    used = weight != 0
    flat_logits, flat_labels = logits[used], labels[used]
    if not np.isfinite(flat_logits).all():
        raise ValueError("found a logit that is not finite; did the training diverge?")
    if not np.isin(flat_labels, np.arange(num_classes)).all():
        allowed = "0 or 1" if num_classes == 2 else f"integers from 0 to {num_classes - 1}"
        raise ValueError(f"labels must be {allowed}, found {np.unique(flat_labels)[:5].tolist()}")
    return flat_logits, flat_labels, weight[used]
