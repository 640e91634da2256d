"""Scores of predicted numbers with normal or log-normal distributions, and intervals by held-out groups.

Source:
    Gneiting and Raftery (2007), Strictly proper scoring rules, equation (20), for the CRPS of a normal
    distribution; Baran and Lerch (2015) for that of a log-normal one. Lee, Barber and Willett (2023),
    Distribution-free inference with hierarchical data, theorem 1, for intervals by groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, Unpack

import numpy as np
import scipy.special
import scipy.stats
from numpy.typing import NDArray

from data_prep.errors import InputError
from data_prep.files.arrays import read_arrays
from data_prep.files.atomic import atomic_file
from data_prep.measure.scale import TargetScale
from pipelines.scores.definitions import FloatArray, Score, Statistics, ratio, stack_rows
from pipelines.scores.prediction_sets import groups_needed, set_threshold
from pipelines.scores.results import Measured, MethodResult

COVERAGES: Final = (0.5, 0.8, 0.9, 0.95)
"""Shares of examples whose interval of a report holds the truth."""

SHOWN: Final = 2
"""Place among them of the interval that pictures show."""

NORMAL_FACTORS: Final = tuple(float(scipy.stats.norm.ppf(0.5 + 0.5 * coverage)) for coverage in COVERAGES)
"""What the standard deviation is times at half the width of intervals of a normal distribution."""

_PIT_BINS = 10


def interval_factor(score: FloatArray, unit: NDArray[np.intp], coverage: float) -> float:
    """Return what the standard deviation is times at half the width of an interval.

    Args:
        score: Distance of each held-out truth from its mean, in standard deviations `[N]`.
        unit: Number of the group of each `[N]`.
        coverage: Share of new examples whose interval shall hold the truth, in (0, 1).

    Returns:
        The smallest factor that the groups support; the largest score, but no less than a normal
        distribution asks for, where they are fewer than `groups_needed(coverage)`.

    Example:
        >>> interval_factor(np.linspace(0.1, 1.9, 19), np.arange(19), 0.9)
        1.8
    """
    factor = set_threshold(score, unit, coverage)
    if np.isfinite(factor):
        return round(factor, 6)
    return float(max(score.max(), scipy.stats.norm.ppf(0.5 + 0.5 * coverage)))


@dataclass(frozen=True)
class HeldOutNumbers:
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
        if self.unit.ndim != 1 or self.unit.min() < 0 or (self.deviation <= 0.0).any():
            raise ValueError("found a standard deviation or a group that cannot be")

    @property
    def num_units(self) -> int:
        """Number of groups."""
        return len(np.unique(self.unit))

    @property
    def score(self) -> FloatArray:
        """Distance of each truth from its mean, in standard deviations `[N]`."""
        return np.asarray(np.abs(self.truth - self.mean) / self.deviation)

    def factor(self, coverage: float) -> float:
        """Return `interval_factor` of these examples."""
        return interval_factor(self.score, self.unit, coverage)

    def supports(self, coverage: float) -> bool:
        """Whether there are groups enough for a coverage."""
        return self.num_units >= groups_needed(coverage)

    def write(self, path: Any) -> None:
        """Write the predictions, complete or not at all.

        Raises:
            InputError: They cannot be written.
        """
        with atomic_file(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **vars(self))

    @classmethod
    def read(cls, path: Any) -> Self:
        """Return the predictions of a file.

        Raises:
            InputError: There is no such file, or it is damaged.
        """
        try:
            found = read_arrays(path)
            mean, deviation, truth = (found[key].astype(np.float64) for key in ("mean", "deviation", "truth"))
            return cls(mean, deviation, truth, found["unit"].astype(np.intp))
        except (OSError, ValueError, LookupError) as error:
            raise InputError(
                f"{path} cannot be read as predictions of held-out examples ({error}). Continue the training "
                "with --resume, which computes them, and export again."
            ) from error


@dataclass(frozen=True)
class NumberRecord:
    """One prediction and its truth, in the unit of these.

    Attributes:
        name: Of the example.
        group: Of the example.
        value: Truth.
        mean: Predicted mean.
        lower: Lower end of the interval of each of `COVERAGES`.
        upper: Upper end.
        nll: Negative log-likelihood, nats.
        crps: Continuous ranked probability score, in the unit.
        pit: Probability of less than the truth.
        scale: How numbers are standardised.
    """

    name: str
    group: str
    value: float
    mean: float
    lower: FloatArray
    upper: FloatArray
    nll: float
    crps: float
    pit: float
    scale: TargetScale


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
        prediction: Standardised mean and standard deviation.
        factors: What that is times at half the width of each interval.
        scale: How numbers are standardised.
    """
    mean, deviation = prediction
    log_slope = -float(scale.transformed(np.asarray(value))) if scale.transform == "log" else 0.0
    centre, spread = scale.centre + scale.spread * mean, scale.spread * deviation
    z = (float(scale.transformed(np.asarray(value))) - centre) / spread
    below = float(scipy.special.ndtr(z))
    if scale.transform == "log":
        middle = np.exp(centre + 0.5 * spread**2)
        crps = (value + scale.offset) * (2.0 * below - 1.0) - 2.0 * middle * (
            scipy.special.ndtr(z - spread) + scipy.special.ndtr(spread / np.sqrt(2.0)) - 1.0
        )
    else:
        crps = spread * (z * (2.0 * below - 1.0) + 2.0 * scipy.stats.norm.pdf(z) - 1.0 / np.sqrt(np.pi))
    half = deviation * np.asarray(factors)
    return NumberRecord(
        name=name,
        group=group,
        value=value,
        mean=float(scale.moments(np.asarray(mean), np.asarray(deviation))[0]),
        lower=scale.in_unit(mean - half),
        upper=scale.in_unit(mean + half),
        nll=float(0.5 * np.log(2.0 * np.pi) + np.log(spread) + 0.5 * z**2 - log_slope),
        crps=float(crps),
        pit=below,
        scale=scale,
    )


def _row(record: NumberRecord) -> dict[str, float | NDArray[np.generic]]:
    error = record.mean - record.value
    return {
        "count": 1.0,
        "value": record.value,
        "squared_value": record.value**2,
        "mean": record.mean,
        "squared_error": error**2,
        "absolute_error": abs(error),
        "nll": record.nll,
        "crps": record.crps,
        "covered": (record.lower <= record.value) & (record.value <= record.upper),
        "width": record.upper - record.lower,
        "pit": np.arange(_PIT_BINS) == min(int(record.pit * _PIT_BINS), _PIT_BINS - 1),
        "lower": record.lower[SHOWN],
        "upper": record.upper[SHOWN],
    }


def _mean_of(key: str) -> Any:
    return lambda sums: ratio(sums[key], sums["count"])


def _r2(sums: Mapping[str, FloatArray]) -> FloatArray:
    total = sums["squared_value"] - ratio(np.square(sums["value"]), sums["count"])
    return 1.0 - ratio(sums["squared_error"], np.where(total > 0.0, total, 0.0))


def _off(place: int) -> Any:
    return lambda sums: np.abs(ratio(sums["covered"][:, place], sums["count"]) - COVERAGES[place])


def _width(place: int) -> Any:
    return lambda sums: ratio(sums["width"][:, place], sums["count"])


_MEANS, _DISTRIBUTIONS = "Are the numbers right?", "Do the distributions and intervals hold?"

NUMBER_SCORES: Final[tuple[Score, ...]] = (
    Score(
        "rmse",
        "RMSE",
        _MEANS,
        "lower",
        "Root of the mean squared error, in the unit of the numbers.",
        lambda sums: np.sqrt(ratio(sums["squared_error"], sums["count"])),
        headline=True,
    ),
    Score("mae", "MAE", _MEANS, "lower", "Mean absolute error, in the unit.", _mean_of("absolute_error")),
    Score(
        "r2",
        "R²",
        _MEANS,
        "higher",
        "Share of the variance that is explained: 1 of perfect predictions, 0 of their mean for all.",
        _r2,
        headline=True,
    ),
    Score(
        "nll",
        "NLL",
        _DISTRIBUTIONS,
        "lower",
        "Negative log-density of the truth (nats), in the unit; punishes intervals that are too narrow.",
        _mean_of("nll"),
        headline=True,
    ),
    Score(
        "crps",
        "CRPS",
        _DISTRIBUTIONS,
        "lower",
        "Continuous ranked probability score, in the unit: the absolute error, for whole distributions.",
        _mean_of("crps"),
        headline=True,
    ),
    *(
        Score(
            f"coverage_error_{100 * coverage:g}",
            f"Coverage off {100 * coverage:g} %",
            _DISTRIBUTIONS,
            "lower",
            f"How far from {100 * coverage:g} % the share of truths within the {100 * coverage:g} % intervals is.",
            _off(place),
            headline=place == SHOWN,
        )
        for place, coverage in enumerate(COVERAGES)
    ),
    *(
        Score(
            f"width_{100 * coverage:g}",
            f"Width of {100 * coverage:g} %",
            _DISTRIBUTIONS,
            "lower",
            f"Mean width of the {100 * coverage:g} % intervals, in the unit.",
            _width(place),
            headline=place == SHOWN,
        )
        for place, coverage in enumerate(COVERAGES)
    ),
)
"""Scores of predicted numbers."""


@dataclass(frozen=True)
class GroupErrors:
    """How wrong a method is on one group, in the unit of the numbers.

    Attributes:
        name: Of the group.
        examples: How many it has.
        bias: Mean of predicted less true.
        mae: Mean absolute error.
        covered: Share of its truths within the intervals that pictures show.
    """

    name: str
    examples: int
    bias: float
    mae: float
    covered: float


@dataclass(frozen=True)
class NumberResult(MethodResult):
    """How one method did on numbers.

    Attributes:
        groups: Errors of each group, the largest mean absolute error first.
        unit: Unit of the numbers.
        learned: What is learned of them, in words.
    """

    groups: tuple[GroupErrors, ...] = ()
    unit: str = ""
    learned: str = ""

    def intervals(self) -> list[dict[str, float]]:
        """Return what came of each of the `COVERAGES`: share within, and mean width."""
        count = self.total("count")
        found = self.total("covered") / count, self.total("width") / count
        return [
            {"coverage": coverage, "covered": float(share), "width": float(width)}
            for coverage, share, width in zip(COVERAGES, *found, strict=True)
        ]


def number_result(name: str, records: Sequence[NumberRecord], **measured: Unpack[Measured]) -> NumberResult:
    """Return the result of a method from its records; arguments as `MethodResult`.

    Raises:
        ValueError: There are no records, or two have one name.
    """
    rows = stack_rows([_row(record) for record in records])
    statistics = Statistics(tuple(record.name for record in records), rows, {})
    sums = statistics.sums()
    values = {score.key: float(score.from_sums(sums)[0]) for score in NUMBER_SCORES}
    names, group = np.unique([record.group for record in records], return_inverse=True)
    size = np.bincount(group)
    signed, absolute, covered = (
        np.bincount(group, column) / size
        for column in (rows["mean"] - rows["value"], rows["absolute_error"], rows["covered"][:, SHOWN])
    )
    groups = [
        GroupErrors(str(names[i]), int(size[i]), float(signed[i]), float(absolute[i]), float(covered[i]))
        for i in np.argsort(-absolute, kind="stable")
    ]
    counts = {"examples": len(records)}
    scale = records[0].scale
    return NumberResult(
        name,
        statistics,
        NUMBER_SCORES,
        values,
        counts,
        **measured,
        groups=tuple(groups),
        unit=scale.unit,
        learned=scale.in_words(),
    )
