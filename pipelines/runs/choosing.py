"""Judging the heads of a run on its selection part: the temperatures of pools, and which head to take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special

from gpmodels.registry import in_order
from gpmodels.statistics.effective_sample import effective_fraction
from gpmodels.statistics.paired_difference import paired_gain
from pipelines.runs.choice import ALIKE, STANDARD_ERROR, HeadChoice
from pipelines.runs.job import Job
from pipelines.runs.selection import (
    GroupLosses,
    SelectedNumbers,
    SelectedPoints,
    SelectedPools,
    group_losses,
    selected_pools,
    usable_pools,
)
from pipelines.scores.pool_calibration import fit_pool_temperature, pool_logits


def pool_temperature(pools: SelectedPools) -> float:
    """Return the temperature of a head's pools.

    Pools of one group repeat each other, so that they count as effective observations. If all are of one
    group, they count as a single observation, and the prior decides.
    """
    groups = np.unique(pools.groups, return_inverse=True)[1]
    ones = np.ones(len(pools.labels))
    share = effective_fraction(pool_logits(pools.probability), pools.labels, ones, groups)
    return fit_pool_temperature(pools.probability, pools.labels, share)


def paired_p_value(first: GroupLosses, second: GroupLosses) -> float | None:
    """Return the two-sided p-value of no difference between the NLLs of two heads, by groups.

    It comes from Student's t test of the paired differences of G groups, with G - 1 degrees of freedom, and
    is never below 2 ** (1 - G), the smallest p-value that G signs allow.

    Returns:
        The p-value; None with one group.

    Example:
        >>> losses = np.linspace(0.5, 1.5, 20)
        >>> one = GroupLosses("images", tuple("abcdefghijklmnopqrst"), losses, np.ones(20))
        >>> paired_p_value(one, GroupLosses("images", one.names, losses + 0.1, np.ones(20))) < 1e-4
        True
    """
    number = len(first.names)
    if number < 2:
        return None
    gain = paired_gain(first.total / first.count, second.total / second.count, first.count)
    error = gain.standard_error * np.sqrt(number / (number - 1.0))
    if gain.mean == 0.0:
        return 1.0
    statistic = abs(gain.mean) / max(error, 1e-300)
    return max(float(2.0 * scipy.special.stdtr(number - 1, -statistic)), 2.0 ** (1 - number))


def choose_head(losses: Mapping[str, GroupLosses], trained_groups: int) -> HeadChoice:
    """Return the head to take: the one with the lowest NLL, or the cheapest one that is as good.

    A head is as good whose NLL is larger by at most `ALIKE`, within one standard error of the paired
    differences (by Student's t, at the p-value of one standard error of a normal distribution). The lowest
    NLL is the best guess however uncertain it is: to keep the cheaper head wherever the difference is not
    clear, as the rule of one standard error does (Breiman, Friedman, Olshen and Stone 1984, section 3.4.3),
    gives gains away that few groups cannot show.

    Where training had one group alone, that rule holds all the same: a Gaussian process that corrects a layer
    beside logits of this one group's own layers has not seen how groups differ.

    Args:
        losses: Losses of each head on the same examples; the order of reports is that of costs.
        trained_groups: Number of groups that the heads were trained on.
    """
    heads = in_order([name for name in losses if np.isfinite(losses[name].mean)] or losses)
    best = min(heads, key=lambda name: losses[name].mean)
    lowest = losses[best].mean
    p_values = {name: paired_p_value(losses[best], losses[name]) for name in heads if name != best}
    share = ALIKE if trained_groups > 1 else np.inf
    alike = [
        name
        for name, p in p_values.items()
        if (p is None or p >= STANDARD_ERROR) and losses[name].mean <= lowest + share * abs(lowest)
    ]
    head = in_order([*alike, best])[0]
    cheaper = heads[: heads.index(best)]
    against = best if head != best else min(cheaper, key=lambda name: losses[name].mean, default=None)
    compared = head if against == best else against
    return HeadChoice(
        head=head,
        best=best,
        nlls={name: losses[name].mean for name in heads},
        judged=losses[best].judged,
        groups=len(losses[best].names),
        trained_groups=trained_groups,
        against=against,
        p_value=None if compared is None else p_values[compared],
    )


@dataclass(frozen=True)
class SelectionResult:
    """Result of judging a head on the selection part of a run.

    Attributes:
        pool_temperatures: Temperature of the head's pools for each kind of pools, in the plural.
        losses: Losses of the head with its temperatures, of what the application judges.
    """

    pool_temperatures: dict[str, float]
    losses: GroupLosses


def judge_selection(
    job: Job[Any, Any, Any],
    names: Sequence[str],
    points: SelectedPoints,
    temperature: float,
    *,
    calibrates_pools: bool,
) -> SelectionResult:
    """Fit the temperatures of a head's pools, and return them with the head's losses.

    Args:
        job: Job on the run and its data.
        names: Names of the held-out examples.
        points: Predictions of the head for them, in their order.
        temperature: Temperature of the head.
        calibrates_pools: Whether pools get a temperature of their own; not in a run that an earlier version
            began.
    """
    application, examples = job.application, job.data.manifest.examples
    selected = job.data.manifest.select(names)
    groups = [example.group for example in selected]
    temperatures: dict[str, float] = {}
    judged = application.judge.judged if not application.pooled else "examples"
    of_points = points.losses(temperature)
    if isinstance(points, SelectedNumbers):  # in the unit of the numbers, as reports say it
        of_points = of_points + job.data.manifest.scale.log_slope(points.labels.astype(np.float64))
    losses = group_losses(judged, of_points, points.weights, points.examples, groups)
    for noun, pools_of in usable_pools(application.pooled, examples, selected).items():
        pools = selected_pools(points, temperature, pools_of, groups)
        if calibrates_pools:
            temperatures[noun] = pool_temperature(pools)
        if noun == application.judge.judged:
            ones = np.ones(len(pools.labels))
            of_pools = pools.losses(temperatures.get(noun, 1.0))
            losses = group_losses(noun, of_pools, ones, np.arange(len(ones)), pools.groups)
    return SelectionResult(temperatures, losses)
