"""Is one method better than another: paired bootstrap over examples, and the spread over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.scores.definitions import FloatArray, Score, Statistics

RESAMPLES = 2000
_RESAMPLES_PER_BLOCK = 256  # bounds the memory that resampled histograms take


@dataclass(frozen=True)
class PairedDifference:
    """One score of a method minus that of another one, on the same examples.

    Attributes:
        difference: The difference on the original examples.
        lower: The 2.5 % quantile over resamples; NaN where it is undefined.
        upper: The 97.5 % quantile; NaN where it is undefined.
        p_value: The two-sided p-value of no difference; NaN where it is undefined.
        resamples: How many resamples had a defined difference.
    """

    difference: float
    lower: float
    upper: float
    p_value: float
    resamples: int


def paired_bootstrap(
    method: Statistics,
    baseline: Statistics,
    scores: Sequence[Score],
    *,
    groups: Sequence[str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, PairedDifference]:
    """Resample whole groups with replacement, the same for both methods, and recompute every score.

    Scores of pooled predictions (NLL, ECE, AUROC) are recomputed from the resampled sums, not averaged. The
    interval is the percentile interval. The p-value is twice the smaller share of resamples on either side of
    0; no difference counts for both sides, and each count is raised by one. Groups are taken as independent:
    patches of one patient or frames of one walk are not, and as groups of their own they would make the
    interval too narrow. At least two groups are needed; with fewer than about twenty the interval is rough.
    Resamples of n groups that agree all fall on one side, however few groups there are: p is never below
    2 ** (1 - n), the smallest p-value that n signs can show.

    Args:
        method: The method's rows.
        baseline: The baseline's rows, of the same examples in the same order.
        scores: The scores to compare.
        groups: The group of each example; None makes each example a group.
        resamples: How many resamples to draw.
        seed: Seed of the draws.

    Returns:
        The difference by the key of the score.

    Raises:
        ValueError: The two were not evaluated on the same examples, or the groups are not theirs.
    """
    if method.names != baseline.names:
        raise ValueError("a paired comparison needs the same examples in the same order for both methods")
    examples = len(method.names)
    if groups is not None and len(groups) != examples:
        raise ValueError(f"{len(groups)} groups for {examples} examples")
    numbers: dict[str, int] = {}
    group_of = [numbers.setdefault(group, len(numbers)) for group in (groups or method.names)]
    observed = _differences(method, baseline, scores, np.ones((1, examples)))[0]
    if len(numbers) < 2:
        return {
            score.key: PairedDifference(float(value), math.nan, math.nan, math.nan, 0)
            for score, value in zip(scores, observed, strict=True)
        }
    random = np.random.default_rng(seed)
    blocks = []
    for start in range(0, resamples, _RESAMPLES_PER_BLOCK):
        size = min(_RESAMPLES_PER_BLOCK, resamples - start)
        drawn = random.multinomial(len(numbers), np.full(len(numbers), 1.0 / len(numbers)), size)
        blocks.append(_differences(method, baseline, scores, drawn[:, group_of].astype(np.float64)))
    resampled = np.concatenate(blocks)
    least_p = 2.0 ** (1 - len(numbers))
    return {
        score.key: _summarise(float(observed[column]), resampled[:, column], least_p)
        for column, score in enumerate(scores)
    }


def _differences(
    method: Statistics, baseline: Statistics, scores: Sequence[Score], weights: FloatArray
) -> FloatArray:
    """Return the differences `[R, scores]` under each weighting."""
    method_sums, baseline_sums = method.sums(weights), baseline.sums(weights)
    return np.stack(
        [score.from_sums(method_sums) - score.from_sums(baseline_sums) for score in scores], axis=-1
    )


def _summarise(observed: float, resampled: FloatArray, least_p: float) -> PairedDifference:
    defined = resampled[np.isfinite(resampled)]
    if not defined.size or not math.isfinite(observed):
        return PairedDifference(observed, math.nan, math.nan, math.nan, 0)
    lower, upper = np.quantile(defined, [0.025, 0.975])
    smaller_side = min((defined <= 0).sum(), (defined >= 0).sum())
    p_value = min(1.0, max(least_p, 2.0 * (1.0 + smaller_side) / (1.0 + defined.size)))
    return PairedDifference(observed, float(lower), float(upper), float(p_value), int(defined.size))


@dataclass(frozen=True)
class SeedSummary:
    """One number over runs that differ in their seed or their data.

    Attributes:
        mean: Mean over the runs in which it is defined; NaN if there are none.
        standard_deviation: Standard deviation over those runs (with n - 1); NaN with fewer than two.
        runs: How many runs these are.
    """

    mean: float
    standard_deviation: float
    runs: int


def summarise_seeds(runs: Sequence[Mapping[str, float]]) -> dict[str, SeedSummary]:
    """Return mean and spread of every score over runs.

    Args:
        runs: The scores of each run, all with the same keys.

    Raises:
        ValueError: There are no runs, or they have different scores.

    Example:
        >>> summarise_seeds([{"nll": 0.25}, {"nll": 0.75}])["nll"].mean
        0.5
    """
    if not runs:
        raise ValueError("found no runs to summarise")
    if any(run.keys() != runs[0].keys() for run in runs):
        raise ValueError("the runs have different scores; evaluate all of them with one version")
    return {key: summarise_values([run[key] for run in runs]) for key in runs[0]}


def summarise_values(values: Sequence[float]) -> SeedSummary:
    """Return mean and spread of the values that are defined."""
    defined = np.array([value for value in values if math.isfinite(value)])
    mean = float(defined.mean()) if defined.size else math.nan
    spread = float(defined.std(ddof=1)) if defined.size > 1 else math.nan
    return SeedSummary(mean, spread, int(defined.size))
