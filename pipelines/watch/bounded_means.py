"""Whether a mean is at most a limit, by losses that come one after another; one may look after each.

A bettor who says that the mean is q has the wealth Π (1 + λ (L - limit)) for losses L, where
λ = (q - limit) / (limit (1 - limit)): the likelihood ratio of q and the limit where losses are 0 or 1. With
money on several q above the limit, the wealth ever reaches 1/δ with a probability of at most δ if the mean is
at most the limit; on several q below it, if the mean is at least the limit (Ville's inequality; Waudby-Smith
and Ramdas, "Estimating means of bounded random variables by betting", 2024, section 4). Losses are those of
independent units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from scipy.special import logsumexp

from pipelines.scores.definitions import FloatArray
from pipelines.scores.guarantee_sizes import CONFIDENCE, LARGEST_STAKE_WEIGHT

Verdict = Literal["kept", "broken", "not known yet"]

_SIDES: Final[tuple[tuple[Verdict, FloatArray, FloatArray], ...]] = (
    ("broken", 0.7 ** np.arange(1, 16), np.full(15, 1 / 15)),
    (
        "kept",
        np.array([0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9]),
        np.array([LARGEST_STAKE_WEIGHT, *[(1 - LARGEST_STAKE_WEIGHT) / 8] * 8]),
    ),
)
"""What is found if the bettors are right; their q in units of what lies beyond the limit; weight of each."""

_STEPS: Final = np.unique((1.02 ** np.arange(582)).astype(np.int64))  # to 100,000


@dataclass(frozen=True)
class MeanTest:
    """What losses say of a limit.

    Attributes:
        verdict: Whether their mean is at most the limit.
        number: How many losses there are.
        mean: Their mean; NaN without any.
        more: About how many more are needed if they go on like this; None where it is known, or where more
            than 100,000 are needed since the mean is so close to the limit.
    """

    verdict: Verdict
    number: int
    mean: float
    more: int | None


def mean_test(losses: FloatArray, limit: float, confidence: float = CONFIDENCE) -> MeanTest:
    """Return whether the mean of losses is at most a limit; both answers hold with this confidence each.

    Args:
        losses: In [0, 1], in the order in which they came, `[N]`.
        limit: In (0, 1).
        confidence: Of an answer, over all looks.

    Raises:
        ValueError: A loss, the limit or the confidence is not allowed.

    Example:
        >>> mean_test(np.zeros(200), 0.02).verdict, mean_test(np.ones(3), 0.02).verdict
        ('kept', 'broken')
        >>> mean_test(np.zeros(60), 0.02).more
        109
    """
    if not (0 < limit < 1 and 0 < confidence < 1):
        raise ValueError(f"limit {limit} and confidence {confidence} must be in (0, 1)")
    if not ((losses >= 0) & (losses <= 1)).all():
        raise ValueError("losses must be in [0, 1]")
    needed = -math.log(1 - confidence)
    mean = float(losses.mean()) if losses.size else math.nan
    more: list[int] = []
    for verdict, shares, weight in _SIDES:
        q = limit * shares if verdict == "kept" else limit + (1 - limit) * shares
        with np.errstate(divide="ignore"):  # who says that none is wrong loses all with the first that is
            growth = np.log(1 + (q - limit) / (limit * (1 - limit)) * (losses[:, None] - limit))
            usual = growth.mean(axis=0) if losses.size else np.log((1 - q) / (1 - limit))
        log_wealth = np.log(weight) + np.vstack([np.zeros(q.size), np.cumsum(growth, axis=0)])
        if (logsumexp(log_wealth, axis=1) >= needed).any():
            return MeanTest(verdict, losses.size, mean, None)
        enough = logsumexp(log_wealth[-1] + _STEPS[:, None] * usual, axis=1) >= needed
        more.extend(_STEPS[enough][:1].tolist())
    return MeanTest("not known yet", losses.size, mean, min(more, default=None))
