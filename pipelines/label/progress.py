"""What the answers have bought so far: scores on judging groups, and what further labels are expected to buy."""

from __future__ import annotations

from dataclasses import dataclass

Interval = tuple[float, float, float]
"""An estimate and the ends of its 90 % interval."""


@dataclass(frozen=True)
class Progress:
    """What the answers have bought so far.

    Attributes:
        num_training: How many labelled images train.
        num_judging: How many labelled images judge.
        num_judging_groups: Of how many groups these are.
        accuracy: Accuracy on the judging images, and its interval by groups; None while too few are labelled.
        nll: Their mean negative log likelihood, and its interval.
        kept_now: Share of images that could be kept with an error of at most 5 % among them.
        kept_later: The same with 50 further labels, extrapolated; None while the history is too short.
        nll_later: Mean negative log likelihood with 50 further labels, extrapolated.
        sentence: What further labels are expected to buy, in one or two sentences.
    """

    num_training: int
    num_judging: int
    num_judging_groups: int
    accuracy: Interval | None
    nll: Interval | None
    kept_now: Interval | None
    kept_later: Interval | None
    nll_later: Interval | None
    sentence: str
