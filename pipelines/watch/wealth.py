"""A test martingale: the wealth of a bettor against p-values being uniform and independent.

A bet b(p) >= 0 of integral 1 multiplies the money on it. While nothing changes, no bet gains on average, so
the wealth, which is 1 at first, ever reaches 1/α with a probability of at most α (Ville, 1939; Vovk,
Nouretdinov and Gammerman, "Testing exchangeability on-line", 2003).

Half of the money is on `BETS` from the first image on. The rest is cash c(t) = 1 / (2 + 2 ln(1 + t / 100)),
whose decrease is bet at each image: a change that comes late finds fresh money, at a cost that is about the
logarithm of the time before it. Bets use +, x, / and square roots alone, which are rounded alike everywhere,
so that a stream that is read in several calls has the same wealth to the last bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from pipelines.scores.definitions import FloatArray

BETS = (
    *("a few images are unfamiliar", "some images are unfamiliar", "many images are unfamiliar"),
    *("most images are less familiar than usual", "most images are a little less familiar than usual"),
    *("most images are more familiar than usual", "most images are a little more familiar than usual"),
)
"""What each bet says, in the order of the money on them."""

_MOST_POINTS = 1000
_SHARES = (0.02, 0.1, 0.4)  # of unfamiliar images, by the first three bets
_NARROW, _WIDE = 0.001, 0.1  # their p-values: log-uniform between these, and uniform below the first
_NARROW_MASS = 1 + math.log(_WIDE / _NARROW)
_LEAST_P = 1e-12
_ENOUGH = 1e100  # of money, to stop betting before numbers become too large

_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class Wealth:
    """The money of the bettor after some images.

    Attributes:
        number: How many images were bet on.
        money: On each of `BETS`.
    """

    number: _Count = 0
    money: tuple[Annotated[float, Field(ge=0, le=1e150)], ...] = (0.5 / len(BETS),) * len(BETS)

    @property
    def total(self) -> float:
        """The money on all bets, and what is not bet yet."""
        return float(sum(self.money)) + _cash(self.number)

    @property
    def best(self) -> str:
        """What the bet with the most money says."""
        return BETS[int(np.argmax(self.money))]


@dataclass(frozen=True)
class Course:
    """What is remembered of the wealth over time.

    Attributes:
        low: Least log10 of the wealth before the alarm, if any.
        low_at: Number of images at that time; since then it has risen.
        alarm_at: Number of images at the alarm; None without one.
        stride: Number of images from one point to the next.
        points: log10 of the wealth after `stride`, 2 `stride`, ... images.
    """

    low: _Finite = 0.0
    low_at: _Count = 0
    alarm_at: _Count | None = None
    stride: Annotated[int, Field(ge=1)] = 1
    points: tuple[_Finite, ...] = ()

    def followed(self, path: FloatArray, first: int, alpha: float) -> Course:
        """Return the course with log10 of the wealth after further images `[T]`.

        Example:
            >>> Course().followed(np.array([-0.5, 1.0, 2.5]), 0, 0.01).alarm_at
            3
        """
        low, low_at, alarm_at = self.low, self.low_at, self.alarm_at
        points, stride = list(self.points), self.stride
        for number, value in enumerate(path.tolist(), start=first + 1):
            if alarm_at is None:
                low, low_at = (value, number) if value < low else (low, low_at)
                alarm_at = number if value >= -math.log10(alpha) else None
            points += [] if number % stride else [value]
            if len(points) > _MOST_POINTS:
                points, stride = points[1::2], 2 * stride
        return Course(low, low_at, alarm_at, stride, tuple(points))


def bet_on(p_values: FloatArray, wealth: Wealth) -> tuple[Wealth, FloatArray]:
    """Bet on p-values `[T]` in their order.

    Returns:
        The money afterwards, and log10 of the wealth after each of them `[T]`.

    Example:
        >>> bool(bet_on(np.full(4, 0.001), Wealth())[1][-1] > 3)
        True
    """
    money, path = np.array(wealth.money), np.empty(p_values.size)
    cash = _cash(wealth.number)
    for new, factor in enumerate(_factors(p_values)):
        left = _cash(wealth.number + new + 1)
        if money.sum() < _ENOUGH:
            money = (money + (cash - left) / len(BETS)) * factor
        cash = left
        path[new] = math.log10(float(money.sum()) + cash)
    return Wealth(wealth.number + p_values.size, tuple(money.tolist())), path


def _cash(number: int) -> float:
    return 0.5 / (1 + math.log1p(number / 100))


def _factors(p: FloatArray) -> FloatArray:
    """Return by what each bet multiplies its money, `[T, bets]`."""
    unfamiliar = np.where(p <= _WIDE, 1 / (np.maximum(p, _NARROW) * _NARROW_MASS), 0.0)
    return np.stack(
        [
            *(1 - share + share * unfamiliar for share in _SHARES),
            *(0.5 / np.sqrt(np.maximum(p, _LEAST_P)), 1.5 - p),
            *(0.5 / np.sqrt(np.maximum(1 - p, _LEAST_P)), 0.5 + p),
        ],
        axis=-1,
    )
