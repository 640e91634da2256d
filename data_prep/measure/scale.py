"""Between numbers in a user's unit and what models learn: transformed, standardised, without extremes."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

FloatArray = NDArray[np.float64]

FENCE = 10.0
"""Interquartile ranges from the quartiles beyond which a number is an outlier."""

_SKEWED = 0.3
"""Skewness by the quantiles 0.05, 0.5 and 0.95 from which the logarithm is tried; that of log-normal numbers
with a deviation of 0.4."""


class TargetScale(BaseModel):
    """How numbers are transformed and standardised.

    Attributes:
        unit: Unit of the numbers; empty without one.
        transform: `"log"` takes log(y + offset); `"count"` leaves counts as they are, for models of counts.
        offset: Added before the logarithm: half of the least positive number where there are zeros, else 0.
        centre: Mean of the transformed numbers.
        spread: Their standard deviation.
        lowest: Numbers below this one are outliers, and learned as this one.
        highest: Numbers above this one are outliers, and learned as this one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    unit: str = ""
    transform: Literal["none", "log", "count"] = "none"
    offset: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    centre: float = Field(allow_inf_nan=False)
    spread: float = Field(gt=0, allow_inf_nan=False)
    lowest: float = Field(allow_inf_nan=False)
    highest: float = Field(allow_inf_nan=False)

    def standardised(self, values: FloatArray) -> FloatArray:
        """Return numbers in the unit as models learn them."""
        kept = np.clip(values, self.lowest, self.highest)
        return np.asarray((self.transformed(kept) - self.centre) / self.spread)

    def transformed(self, values: FloatArray) -> FloatArray:
        """Return y or log(y + offset)."""
        return np.log(values + self.offset) if self.transform == "log" else values

    def in_unit(self, standardised: FloatArray) -> FloatArray:
        """Return standardised numbers in the unit.

        Example:
            >>> scale = TargetScale(transform="log", centre=0.0, spread=1.0, lowest=1.0, highest=9.0)
            >>> scale.in_unit(scale.standardised(np.array([1.0, 4.0]))).round(6).tolist()
            [1.0, 4.0]
        """
        plain = self.centre + self.spread * standardised
        if self.transform == "count":
            return np.maximum(plain, 0.0)
        return np.exp(plain) - self.offset if self.transform == "log" else plain

    def log_slope(self, standardised: FloatArray) -> FloatArray:
        """Return how many nats a density in the unit is below that of standardised numbers, at these."""
        plain = self.centre + self.spread * standardised
        return np.log(self.spread) + (plain if self.transform == "log" else np.zeros_like(plain))

    def moments(self, mean: FloatArray, deviation: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation in the unit of standardised normal predictions."""
        plain, spread = self.centre + self.spread * mean, self.spread * deviation
        if self.transform != "log":
            return plain, spread
        variance = np.square(spread)
        middle = np.exp(plain + 0.5 * variance)
        return middle - self.offset, middle * np.sqrt(np.expm1(variance))

    def standard_moments(self, mean: FloatArray, deviation: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and deviation of the standardised normal predictions with these `moments` in the unit.

        Example:
            >>> scale = TargetScale(transform="log", centre=1.0, spread=2.0, lowest=1.0, highest=9.0)
            >>> found = scale.standard_moments(*scale.moments(np.array([0.5]), np.array([0.25])))
            >>> [float(one.round(6)[0]) for one in found]
            [0.5, 0.25]
        """
        plain, spread = mean, deviation
        if self.transform == "log":
            # 32 bits may round a mean to where there is no logarithm.
            middle = np.maximum(mean + self.offset, np.finfo(np.float32).tiny)
            variance = np.log1p(np.square(deviation / middle))
            plain, spread = np.log(middle) - 0.5 * variance, np.sqrt(variance)
        return (plain - self.centre) / self.spread, spread / self.spread

    def in_words(self) -> str:
        """Return in words what is done to the numbers."""
        of_unit = f" {self.unit}" if self.unit else ""
        if self.transform == "count":
            return "counts, as they are"
        if self.transform == "none":
            return f"standardised: mean {self.centre:.4g}{of_unit}, deviation {self.spread:.4g}{of_unit}"
        added = f" + {self.offset:.4g}" if self.offset else ""
        moments = f"mean {self.centre:.4g}, deviation {self.spread:.4g}"
        return f"log(value{added}), for they are skewed; then standardised: {moments}"


def count_scale(values: FloatArray, unit: str = "") -> TargetScale:
    """Return the scale that leaves counts as they are.

    Args:
        values: All numbers that are to be learned or judged.
        unit: Of the numbers.

    Raises:
        ValueError: One is no count.

    Example:
        >>> count_scale(np.array([0.0, 12.0])).standardised(np.array([12.0])).tolist()
        [12.0]
    """
    wrong = values[(values < 0.0) | (values != np.floor(values))]
    if wrong.size:
        raise ValueError(
            f"found the number {wrong[0]:g}, which is no count (0, 1, 2, ...). Leave such images out, or "
            "train with --set likelihood=gaussian"
        )
    largest = float(np.finfo(np.float32).max)
    return TargetScale(unit=unit, transform="count", centre=0.0, spread=1.0, lowest=0.0, highest=largest)


def find_scale(
    values: FloatArray,
    transform: Literal["auto", "none", "log"] = "auto",
    unit: str = "",
    *,
    least: float = np.inf,
) -> TargetScale:
    """Return the scale of training numbers.

    Args:
        values: At least two different numbers.
        transform: `"auto"` takes the logarithm of numbers from 0 on that are skewed less by it.
        unit: Of the numbers.
        least: Smallest number that is to be judged, which must have a logarithm, too.

    Raises:
        ValueError: There are none, they are all equal or too far apart, or the logarithm is asked for with
            numbers below 0.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> [find_scale(values).transform for values in (rng.normal(size=99), np.exp(rng.normal(size=99)))]
        ['none', 'log']
    """
    if not values.size:
        raise ValueError("found no number to train on")
    if np.ptp(values) == 0.0:
        raise ValueError(f"all {len(values)} numbers to train on are {values[0]:g}; nothing can be learned")
    least = min(least, float(values.min()))
    if transform == "log" and least < 0.0:
        raise ValueError("transform is log, but there are numbers below 0. Take transform auto or none")
    positive = values[values > 0.0]
    offset = 0.5 * float(positive.min()) if least <= 0.0 and positive.size else 0.0
    if transform == "auto":
        skewness = _skewness(values) if least >= 0.0 else 0.0
        helps = skewness > _SKEWED and abs(_skewness(np.log(values + offset))) < skewness
        transform = "log" if helps else "none"
    rough = TargetScale(
        unit=unit,
        transform=transform,
        offset=offset if transform == "log" else 0.0,
        centre=0.0,
        spread=1.0,
        lowest=values.min(),
        highest=values.max(),
    )
    plain = rough.transformed(values)
    low, high = fences(plain)
    kept = np.clip(plain, low, high)
    # Not the range of these numbers: held-out ones beyond it decide how wide intervals are.
    with np.errstate(over="ignore"):
        lowest, highest = rough.in_unit(np.array([low, high])).tolist()
        spread = float(kept.std())
    if not (spread > 0.0 and np.isfinite([spread, lowest, highest]).all()):
        raise ValueError(
            f"the numbers from {values.min():g} to {values.max():g} are too small or too far apart to be "
            "computed with. Take another unit, or their logarithms"
        )
    if rough.transform == "log":
        lowest = max(lowest, 0.0 if offset else float(np.finfo(np.float64).tiny))
    return rough.model_copy(
        update={"centre": float(kept.mean()), "spread": spread, "lowest": lowest, "highest": highest}
    )


def fences(values: FloatArray) -> tuple[float, float]:
    """Return the bounds beyond which a number is an outlier; of these none where half of them are equal."""
    first, third = np.quantile(values, [0.25, 0.75])
    if first == third:
        first, third = values.min(), values.max()
    reach = FENCE * (third - first)
    return float(first - reach), float(third + reach)


def _skewness(values: FloatArray) -> float:
    """Return Bowley's skewness by the quantiles 0.05, 0.5 and 0.95, from -1 to 1; 0 of equal ones."""
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    return float((low + high - 2.0 * middle) / (high - low)) if high > low else 0.0
