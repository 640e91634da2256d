"""Scores of predicted numbers with normal, log-normal or count distributions, and intervals by groups.

Source:
    Gneiting and Raftery (2007), Strictly proper scoring rules, equation (20), for the CRPS of a normal
    distribution; Baran and Lerch (2015) for that of a log-normal one. Lee, Barber and Willett (2023),
    Distribution-free inference with hierarchical data, theorem 1, for intervals by groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from data_prep.measure.scale import TargetScale
from gpmodels.statistics.conformal import conformal_threshold
from pipelines.scores.counts import count_scores
from pipelines.scores.definitions import FloatArray, Score, Statistics, ratio, stack_rows
from pipelines.scores.held_out import HeldOutArrays
from pipelines.scores.results import Measured, MethodResult

COVERAGES: Final = (0.5, 0.8, 0.9, 0.95)
"""Shares of examples whose interval of a report holds the truth."""

SHOWN: Final = 2
"""Place among them of the interval that pictures and bundles have."""

NORMAL_FACTORS: Final = tuple(float(ndtri(0.5 + 0.5 * coverage)) for coverage in COVERAGES)
"""What the standard deviation is times at half the width of intervals of a normal distribution."""

_PIT_BINS = 10


@dataclass(frozen=True)
class HeldOutNumbers(HeldOutArrays):
    """Predictions of N held-out examples, standardised.

    Attributes:
        mean: Means `[N]`.
        deviation: Their standard deviations `[N]`.
        truth: What was measured `[N]`.
        unit: Number of the group of each `[N]`, from 0.

    Raises:
        ValueError: Shapes contradict each other, or a value is not possible.
    """

    mean: FloatArray
    deviation: FloatArray
    truth: FloatArray
    unit: NDArray[np.intp]

    def __post_init__(self) -> None:
        arrays, shape = (self.mean, self.deviation, self.truth), self.unit.shape
        if not self.unit.size or any(one.shape != shape or not np.isfinite(one).all() for one in arrays):
            raise ValueError("found arrays of different shapes, none at all, or numbers that are not finite")
        if len(shape) != 1 or self.unit.min() < 0 or (self.deviation <= 0.0).any():
            raise ValueError("found a standard deviation or a group that cannot be")

    @property
    def score(self) -> FloatArray:
        """Distance of each truth from its mean, in standard deviations `[N]`."""
        return np.asarray(np.abs(self.truth - self.mean) / self.deviation)

    def factor(self, coverage: float) -> float:
        """Return what the standard deviation is times at half the width of an interval.

        It is the smallest factor that the groups support; where they are too few for the coverage, the
        largest score, but no less than a normal distribution asks for.

        Args:
            coverage: Share of new examples whose interval shall hold the truth, in (0, 1).

        Example:
            >>> ones, units = np.ones(19), np.arange(19)
            >>> HeldOutNumbers(0.0 * ones, ones, 0.1 + 0.1 * units, units).factor(0.9)
            1.8
        """
        found = conformal_threshold(self.score, self.unit, coverage)
        if np.isfinite(found):
            return round(found, 6)
        return float(max(self.score.max(), ndtri(0.5 + 0.5 * coverage)))


@dataclass(frozen=True)
class NumberRecord:
    """One prediction and its truth.

    Attributes:
        name: Of the example.
        group: Of the example.
        scale: How numbers are standardised.
        row: What the scores are computed from, in the unit of the numbers; `lower` and `upper` are the ends
            of the interval of each of `COVERAGES`, `pit` says in which tenth of the prediction the truth
            is, of a count what share of it is in each.
    """

    name: str
    group: str
    scale: TargetScale
    row: Mapping[str, float | NDArray[np.generic]]


def number_record(
    name: str,
    group: str,
    value: float,
    prediction: tuple[float, float],
    factors: Sequence[float],
    scale: TargetScale,
) -> NumberRecord:
    """Return what the scores need to know of one prediction.

    Args:
        name: Of the example.
        group: Of the example.
        value: Truth in its unit.
        prediction: Standardised mean and variance.
        factors: What the standard deviation is times at half the width of each interval.
        scale: How numbers are standardised.
    """
    mean, deviation = prediction[0], float(np.sqrt(prediction[1]))
    centre, spread = scale.centre + scale.spread * mean, scale.spread * deviation
    plain = float(scale.transformed(np.asarray(value)))
    z = (plain - centre) / spread
    below = float(ndtr(z))
    nll = 0.5 * np.log(2.0 * np.pi) + np.log(spread) + 0.5 * z**2
    if scale.transform == "log":
        nll += plain  # the slope of the logarithm
        tails = ndtr(z - spread) + ndtr(spread / np.sqrt(2.0)) - 1.0
        crps = np.exp(plain) * (2.0 * below - 1.0) - 2.0 * np.exp(centre + 0.5 * spread**2) * tails
    else:
        density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
        crps = spread * (z * (2.0 * below - 1.0) + 2.0 * density - 1.0 / np.sqrt(np.pi))
    pit = np.arange(_PIT_BINS) == min(int(below * _PIT_BINS), _PIT_BINS - 1)
    if scale.transform == "count":
        nll, crps, pit = count_scores(mean, deviation**2, value, _PIT_BINS)
    half = deviation * np.asarray(factors)
    lower, upper = scale.in_unit(mean - half), scale.in_unit(mean + half)
    predicted = float(scale.moments(np.asarray(mean), np.asarray(deviation))[0])
    row = {
        "count": 1.0,
        "value": value,
        "squared_value": value**2,
        "mean": predicted,
        "squared_error": (predicted - value) ** 2,
        "absolute_error": abs(predicted - value),
        "nll": float(nll),
        "crps": float(crps),
        "covered": (lower <= value) & (value <= upper),
        "lower": lower,
        "upper": upper,
        "pit": pit,
    }
    return NumberRecord(name, group, scale, row)


Sums = Mapping[str, FloatArray]


def _mean_of(key: str) -> Any:
    return lambda sums: ratio(sums[key], sums["count"])


def _rmse(sums: Sums) -> FloatArray:
    return np.sqrt(ratio(sums["squared_error"], sums["count"]))


def _r2(sums: Sums) -> FloatArray:
    total = sums["squared_value"] - ratio(np.square(sums["value"]), sums["count"])
    return 1.0 - ratio(sums["squared_error"], np.maximum(total, 0.0))


def _of_interval(place: int) -> tuple[Score, Score]:
    """Return the scores of the intervals of one of the `COVERAGES`."""
    percent, is_shown = f"{100 * COVERAGES[place]:g}", place == SHOWN
    off_text = f"How far from {percent} % the share of truths within the {percent} % intervals is."
    width_text = f"Mean width of the {percent} % intervals, in the unit."

    def off(sums: Sums) -> FloatArray:
        return np.abs(ratio(sums["covered"][:, place], sums["count"]) - COVERAGES[place])

    def width(sums: Sums) -> FloatArray:
        return ratio(sums["upper"][:, place] - sums["lower"][:, place], sums["count"])

    return (
        Score(f"coverage_error_{percent}", f"Off {percent} %", _SPREAD, "lower", off_text, off, (), is_shown),
        Score(f"width_{percent}", f"Width {percent} %", _SPREAD, "lower", width_text, width, (), is_shown),
    )


_RIGHT, _SPREAD = "Are the numbers right?", "Do the distributions and intervals hold?"
_RMSE = "Root of the mean squared error, in the unit of the numbers."
_R2 = "Explained share of the variance: 1 if all are right, 0 of the mean for all."
_NLL = "Negative log-density of the truth (nats), in the unit; punishes too narrow intervals."
_CRPS = "Continuous ranked probability score: the absolute error of whole distributions, in the unit."

NUMBER_SCORES: Final[tuple[Score, ...]] = (
    Score("rmse", "RMSE", _RIGHT, "lower", _RMSE, _rmse, headline=True),
    Score("mae", "MAE", _RIGHT, "lower", "Mean absolute error, in the unit.", _mean_of("absolute_error")),
    Score("r2", "R²", _RIGHT, "higher", _R2, _r2, headline=True),
    Score("nll", "NLL", _SPREAD, "lower", _NLL, _mean_of("nll"), headline=True),
    Score("crps", "CRPS", _SPREAD, "lower", _CRPS, _mean_of("crps"), headline=True),
    *(score for place in range(len(COVERAGES)) for score in _of_interval(place)),
)
"""Scores of predicted numbers."""


@dataclass(frozen=True)
class NumberResult(MethodResult):
    """How one method did on numbers.

    Attributes:
        groups: Name, examples, bias (mean of predicted less true), mae and covered of each group, by the
            interval that is shown; the largest mean absolute error first.
        scale: How numbers are standardised.
    """

    groups: tuple[Mapping[str, Any], ...] = ()
    scale: TargetScale | None = None

    @property
    def unit(self) -> str:
        """Unit of the numbers; empty without one."""
        return "" if self.scale is None else self.scale.unit

    def intervals(self) -> list[dict[str, float]]:
        """Return what came of each of the `COVERAGES`: share within, and mean width."""
        count, width = self.total("count"), self.total("upper") - self.total("lower")
        return [
            {"coverage": coverage, "covered": float(within), "width": float(wide)}
            for coverage, within, wide in zip(
                COVERAGES, self.total("covered") / count, width / count, strict=True
            )
        ]


def number_result(name: str, records: Sequence[NumberRecord], **measured: Unpack[Measured]) -> NumberResult:
    """Return the result of a method from its records; arguments as `MethodResult`.

    Raises:
        ValueError: There are no records, or two have one name.
    """
    rows = stack_rows([record.row for record in records])
    statistics = Statistics(tuple(record.name for record in records), rows, {})
    sums = statistics.sums()
    values = {score.key: float(score.from_sums(sums)[0]) for score in NUMBER_SCORES}
    names, group = np.unique([record.group for record in records], return_inverse=True)
    size = np.bincount(group)
    columns = {
        "bias": rows["mean"] - rows["value"],
        "mae": rows["absolute_error"],
        "covered": rows["covered"][:, SHOWN],
    }
    means = {key: np.bincount(group, column) / size for key, column in columns.items()}
    groups = tuple(
        {"name": str(names[i]), "examples": int(size[i])} | {key: float(of[i]) for key, of in means.items()}
        for i in np.argsort(-means["mae"], kind="stable")
    )
    counts, scale = {"examples": len(records)}, records[0].scale
    return NumberResult(
        name, statistics, NUMBER_SCORES, values, counts, **measured, groups=groups, scale=scale
    )
