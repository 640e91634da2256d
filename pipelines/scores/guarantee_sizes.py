"""What can be guaranteed of referral at best, whatever the model; nothing heavy is imported here.

`pipelines.scores.guarantee_thresholds` says how guarantees are given.
"""

from __future__ import annotations

import math

CONFIDENCE = 0.95
"""Probability, over the examples that a threshold is chosen by, with which its guarantee holds."""

LARGEST_STAKE_WEIGHT = 0.5
"""Share of a bettor's wealth on the largest stake, which alone grows fast enough where nothing is wrong."""

TABLE_ERRORS = tuple(
    round(step / 10 * 10.0**power, 5) for power in (-3, -2, -1) for step in range(10, 100, 5)
)
"""Errors 0.001, 0.0015, 0.002 and so on to 0.95 whose thresholds a table has."""


def units_needed(max_error: float, *, binomial: bool, confidence: float = CONFIDENCE) -> int:
    """Return by how many units an error can be guaranteed if none of them is wrong, about ln(1/δ)/α.

    Args:
        max_error: α, in (0, 1).
        binomial: Whether each unit is one example that is right or wrong, which needs fewest.
        confidence: 1 - δ.

    Example:
        >>> units_needed(0.02, binomial=True)
        149
    """
    evidence = -math.log1p(-confidence) - (0.0 if binomial else math.log(LARGEST_STAKE_WEIGHT))
    return math.ceil(evidence / -math.log1p(-max_error))
