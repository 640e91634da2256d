"""Is one method better than another: paired bootstrap over examples, and the spread over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.scores import FloatArray, Score, Statistics

RESAMPLES = 2000
_RESAMPLES_PER_BLOCK = 256  # bounds the memory that resampled histograms take


@dataclass(frozen=True)
class PairedDifference:
    """One score of a method less that of another one, on the same examples.

    Args:
        difference: on the examples as they are.
        lower: 2.5 % quantile over resamples; NaN where undefined.
        upper: 97.5 % quantile; NaN where undefined.
        p_value: two-sided, of no difference; NaN where undefined.
        resamples: how many resamples had a defined difference.
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
    """Resamples whole groups with replacement, the same ones for both methods, and recomputes every score.

    Scores of pooled predictions (NLL, ECE, AUROC) are recomputed from the resampled sums, not averaged. The
    interval is the percentile interval; the p-value twice the smaller share of resamples on either side of 0,
    no difference counting for both, each count raised by one. It takes the groups as independent: patches of
    one patient or frames of one walk are not, and taken one by one they would make the interval too narrow.
    It needs at least two groups; with fewer than about twenty it is rough. Resamples of n groups that agree
    all fall on one side, however few they are: p is never below 2 ** (1 - n), the least n signs can show.

    Args:
        method: the method's rows.
        baseline: the baseline's rows, of the same examples in the same order.
        scores: what to compare.
        groups: the group of each example; None takes each for a group of its own.
        resamples: how many resamples to draw.
        seed: seed of the draws.

    Returns:
        Score key to difference.

    Raises:
        ValueError: the two were not evaluated on the same examples, or the groups are not theirs.
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
    """``[R, scores]`` differences under each weighting."""
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
    """One score over runs that differ in their seed only.

    Args:
        mean: over runs in which the score is defined; NaN if there are none.
        standard_deviation: of those runs (divided by their number less one); NaN with fewer than two.
        runs: how many runs that were.
    """

    mean: float
    standard_deviation: float
    runs: int


def summarise_seeds(runs: Sequence[Mapping[str, float]]) -> dict[str, SeedSummary]:
    """Mean and spread of every score over runs.

    Args:
        runs: the scores of each run, all with the same keys.

    Raises:
        ValueError: no runs, or runs with different scores.

    Example:
        >>> summarise_seeds([{"nll": 0.25}, {"nll": 0.75}])["nll"].mean
        0.5
    """
    if not runs:
        raise ValueError("found no runs to summarise")
    if any(run.keys() != runs[0].keys() for run in runs):
        raise ValueError("the runs have different scores; evaluate all of them with one version")
    return {key: _seed_summary([run[key] for run in runs]) for key in runs[0]}


def _seed_summary(values: Sequence[float]) -> SeedSummary:
    defined = np.array([value for value in values if math.isfinite(value)])
    mean = float(defined.mean()) if defined.size else math.nan
    spread = float(defined.std(ddof=1)) if defined.size > 1 else math.nan
    return SeedSummary(mean, spread, int(defined.size))
