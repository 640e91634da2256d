"""How well an uncertainty finds the errors: AUROC, referral, risk and coverage.

The scores need only the numbers of right and of wrong predictions at each uncertainty. These are counted in
fine bins, equally wide in logit(u / ln C); nothing else is kept of an example. The transformation is
monotone, so it changes no rank, and it is as fine for the many nearly certain predictions as for the nearly
undecided ones. Predictions in one bin are ties: each is as likely as any other to come first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from pipelines.scores.definitions import AnyFloatArray, FloatArray, Score, ratio

UNCERTAINTY_BINS = 4096
_LOGIT_RANGE = (-24.0, 16.0)  # u / ln C from 4e-11 to 1 - 1e-7: float32 rounds what is closer to 1
_TOLERANCE = 1e-3  # nats by which rounding may take an uncertainty out of [0, ln C]

PREDICTIVE_ENTROPY = "predictive_entropy"
MUTUAL_INFORMATION = "mutual_information"
REFERRED_PERCENT = (5, 10, 20)
HEADLINE_REFERRED_PERCENT = 10
UNCERTAINTY_GROUP = "Does the uncertainty find the errors?"


@dataclass(frozen=True)
class UncertaintyHistogram:
    """Right and wrong predictions of one example by uncertainty; only the occupied bins.

    Attributes:
        bins: Indices `[K]` of the occupied bins, ascending.
        right: Numbers of right predictions `[K]`.
        wrong: Numbers of wrong predictions `[K]`.
        total: Sum of the uncertainties in nats.
    """

    bins: NDArray[np.uint16]
    right: NDArray[np.uint32]
    wrong: NDArray[np.uint32]
    total: float


def uncertainty_bin(uncertainty: FloatArray, num_classes: int) -> NDArray[np.intp]:
    """Return the bin of each uncertainty; a larger uncertainty has the same or a later bin.

    Args:
        uncertainty: Uncertainties `[N]` in nats, in [0, ln C]; rounding beyond the ends is clipped.
        num_classes: The number C of classes.
    """
    t = np.clip(uncertainty / np.log(num_classes), 1e-12, 1.0 - 1e-12)
    low, high = _LOGIT_RANGE
    position = (np.log(t) - np.log1p(-t) - low) / (high - low)
    return np.clip((position * UNCERTAINTY_BINS).astype(np.intp), 0, UNCERTAINTY_BINS - 1)


def bin_edges(num_classes: int) -> FloatArray:
    """Return the uncertainties `[UNCERTAINTY_BINS + 1]` in nats between the bins, from 0 to ln C."""
    logit = np.linspace(*_LOGIT_RANGE, UNCERTAINTY_BINS + 1)
    edges = np.log(num_classes) / (1.0 + np.exp(-logit))
    edges[0], edges[-1] = 0.0, np.log(num_classes)
    return edges


def uncertainty_histogram(
    uncertainty: AnyFloatArray, right: NDArray[np.bool_], num_classes: int = 2
) -> UncertaintyHistogram:
    """Count one example's predictions by uncertainty.

    Args:
        uncertainty: Uncertainties `[N]` in nats.
        right: Whether the predicted label is the true one, `[N]`.
        num_classes: The number C of classes, which limits the uncertainty to ln C.

    Raises:
        ValueError: Shapes differ, or an uncertainty is not finite or not in [0, ln C].
    """
    if uncertainty.shape != right.shape or uncertainty.ndim != 1:
        raise ValueError(f"uncertainty {uncertainty.shape} and right {right.shape} must have one shape [N]")
    u = uncertainty.astype(np.float64)
    limit = np.log(num_classes)
    outside = ~((u >= -_TOLERANCE) & (u <= limit + _TOLERANCE))
    if outside.any():
        raise ValueError(
            f"found an uncertainty of {u[outside][0]}, expected nats from 0 to ln {num_classes} = {limit:.4f}"
        )
    index = uncertainty_bin(u, num_classes)
    count_right = np.bincount(index[right], minlength=UNCERTAINTY_BINS)
    count_wrong = np.bincount(index[~right], minlength=UNCERTAINTY_BINS)
    bins = np.flatnonzero(count_right + count_wrong)
    return UncertaintyHistogram(
        bins=bins.astype(np.uint16),
        right=count_right[bins].astype(np.uint32),
        wrong=count_wrong[bins].astype(np.uint32),
        total=float(np.clip(u, 0.0, limit).sum()),
    )


def histogram_rows(
    measure: str, histograms: Sequence[UncertaintyHistogram]
) -> tuple[dict[str, FloatArray], dict[str, scipy.sparse.csr_array]]:
    """Return the dense and sparse rows that the scores of one uncertainty need, see `Statistics`.

    Args:
        measure: Name of the uncertainty.
        histograms: The histogram of each example.
    """
    columns = np.concatenate([histogram.bins for histogram in histograms]).astype(np.intp)
    starts = np.cumsum([0, *(histogram.bins.size for histogram in histograms)])
    shape = (len(histograms), UNCERTAINTY_BINS)

    def matrix(counts: Sequence[NDArray[np.uint32]]) -> scipy.sparse.csr_array:
        return scipy.sparse.csr_array(
            (np.concatenate(counts).astype(np.float64), columns, starts), shape=shape
        )

    sparse = {
        f"{measure}/right": matrix([histogram.right for histogram in histograms]),
        f"{measure}/wrong": matrix([histogram.wrong for histogram in histograms]),
    }
    return {f"{measure}/total": np.array([histogram.total for histogram in histograms])}, sparse


def error_auroc(right: FloatArray, wrong: FloatArray) -> FloatArray:
    """Return how often a wrong prediction is more uncertain than a right one, ties counting one half.

    It is the area under the ROC curve of the uncertainty as a detector of errors: 0.5 is chance.

    Args:
        right: Numbers of right predictions `[..., bins]` by ascending uncertainty.
        wrong: Numbers of wrong predictions `[..., bins]`.

    Returns:
        The share `[...]`; NaN where nothing is wrong, or nothing is right.

    Example:
        >>> float(error_auroc(np.array([3.0, 1.0]), np.array([0.0, 2.0])))
        0.875
    """
    below = np.cumsum(right, axis=-1) - right
    pairs = np.sum(wrong * (below + 0.5 * right), axis=-1)
    return ratio(pairs, right.sum(axis=-1) * wrong.sum(axis=-1))


def referral_accuracy(right: FloatArray, wrong: FloatArray, referred: float) -> FloatArray:
    """Return the accuracy of what is left when the most uncertain share of predictions goes to a person.

    Args:
        right: Numbers of right predictions `[..., bins]` by ascending uncertainty.
        wrong: Numbers of wrong predictions `[..., bins]`.
        referred: Share that is referred, in [0, 1).

    Returns:
        The accuracy `[...]`. If the limit falls into a bin, it is the mean over which ties are referred.

    Example:
        >>> float(referral_accuracy(np.array([3.0, 3.0]), np.array([0.0, 2.0]), 0.25))
        0.8
    """
    kept, wrong_kept = _kept(right, wrong, 1.0 - referred)
    return 1.0 - ratio(wrong_kept, kept)


def _kept(right: FloatArray, wrong: FloatArray, coverage: float) -> tuple[FloatArray, FloatArray]:
    """Return the numbers of predictions and of wrong ones among the most certain share `coverage`."""
    count = right + wrong
    cumulative = np.cumsum(count, axis=-1)
    kept = coverage * cumulative[..., -1]
    # All of the bins below the limit, and of the bin with the limit the part up to it.
    below = cumulative <= kept[..., None]
    wrong_below = np.sum(wrong * below, axis=-1)
    index = np.minimum(below.sum(axis=-1), count.shape[-1] - 1)[..., None]
    in_bin = np.take_along_axis(count, index, axis=-1)[..., 0]
    part = ratio(kept - np.sum(count * below, axis=-1), in_bin)
    wrong_in_bin = np.take_along_axis(wrong, index, axis=-1)[..., 0]
    at_end = below.all(axis=-1)
    return kept, wrong_below + np.where(at_end | (in_bin == 0), 0.0, np.nan_to_num(part) * wrong_in_bin)


def risk_coverage_area(right: FloatArray, wrong: FloatArray) -> FloatArray:
    """Return the area under the risk-coverage curve: the error rate averaged over the number kept.

    Args:
        right: Numbers of right predictions `[..., bins]` by ascending uncertainty.
        wrong: Numbers of wrong predictions `[..., bins]`.

    Returns:
        The area `[...]`; 0 is best. Within a bin wrong predictions are spread evenly; the integral is exact.

    Example:
        >>> float(risk_coverage_area(np.array([3.0]), np.array([1.0])))  # all tied: the error rate
        0.25
    """
    count = right + wrong
    before = np.cumsum(count, axis=-1) - count
    wrong_before = np.cumsum(wrong, axis=-1) - wrong
    # A bin of n with w wrong, after C with W wrong, adds ∫₀¹ (W + w s) / (C + n s) n ds
    # = w + (W - C w / n) log(1 + n / C), and w where C = 0.
    growth = np.log1p(np.divide(count, before, out=np.zeros_like(count), where=before > 0))
    share_wrong = np.divide(wrong, count, out=np.zeros_like(count), where=count > 0)
    area = wrong + (wrong_before - before * share_wrong) * growth
    return ratio(area.sum(axis=-1), count.sum(axis=-1))


@dataclass(frozen=True)
class RiskCoverageCurve:
    """Error rate of the most certain predictions, by how many are kept.

    Attributes:
        coverage: Shares kept `[P]`, ascending, in (0, 1].
        risk: Error rates of what is kept `[P]`.
    """

    coverage: FloatArray
    risk: FloatArray


def risk_coverage_curve(right: FloatArray, wrong: FloatArray, points: int = 100) -> RiskCoverageCurve:
    """Return the risk-coverage curve at equally spaced coverages.

    Args:
        right: Numbers of right predictions `[bins]` by ascending uncertainty.
        wrong: Numbers of wrong predictions `[bins]`.
        points: The number of coverages.
    """
    coverage = np.arange(1, points + 1) / points
    cumulative = np.concatenate([[0.0], np.cumsum(right + wrong)])
    cumulative_wrong = np.concatenate([[0.0], np.cumsum(wrong)])
    kept = coverage * cumulative[-1]
    return RiskCoverageCurve(coverage, ratio(np.interp(kept, cumulative, cumulative_wrong), kept))


def _auroc_score(measure: str, title: str, explanation: str) -> Score:
    def value(sums: Mapping[str, FloatArray]) -> FloatArray:
        return error_auroc(sums[f"{measure}/right"], sums[f"{measure}/wrong"])

    return Score(
        f"auroc_{measure}",
        title,
        UNCERTAINTY_GROUP,
        "higher",
        explanation,
        value,
        needs=(f"{measure}/right",),
        headline=measure == PREDICTIVE_ENTROPY,
    )


def _referral_score(percent: int) -> Score:
    def value(sums: Mapping[str, FloatArray]) -> FloatArray:
        right, wrong = sums[f"{PREDICTIVE_ENTROPY}/right"], sums[f"{PREDICTIVE_ENTROPY}/wrong"]
        return referral_accuracy(right, wrong, percent / 100.0)

    return Score(
        f"referral_accuracy_{percent}",
        f"Accuracy with {percent} % referred",
        UNCERTAINTY_GROUP,
        "higher",
        f"Share of right predictions when the {percent} % with the highest entropy are left to a person.",
        value,
        needs=(f"{PREDICTIVE_ENTROPY}/right",),
        headline=percent == HEADLINE_REFERRED_PERCENT,
    )


def _risk_coverage_value(sums: Mapping[str, FloatArray]) -> FloatArray:
    return risk_coverage_area(sums[f"{PREDICTIVE_ENTROPY}/right"], sums[f"{PREDICTIVE_ENTROPY}/wrong"])


UNCERTAINTY_SCORES: tuple[Score, ...] = (
    _auroc_score(
        PREDICTIVE_ENTROPY,
        "AUROC of entropy",
        "How often a wrong prediction has a higher predictive entropy than a right one; 0.5 is chance.",
    ),
    _auroc_score(
        MUTUAL_INFORMATION,
        "AUROC of mutual information",
        "The same for mutual information, the model's own share of the uncertainty; 0.5 is chance.",
    ),
    *(_referral_score(percent) for percent in REFERRED_PERCENT),
    Score(
        "risk_coverage_area",
        "Risk-coverage area",
        UNCERTAINTY_GROUP,
        "lower",
        "Error rate averaged over all choices of how many predictions to keep, the most certain first.",
        _risk_coverage_value,
        needs=(f"{PREDICTIVE_ENTROPY}/right",),
    ),
)
