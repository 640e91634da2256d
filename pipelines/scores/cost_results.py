"""What the decisions of methods cost on judged examples, against simpler ways to decide, by groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.scores.bootstrap import PairedDifference, paired_bootstrap
from pipelines.scores.costs import CostTable
from pipelines.scores.definitions import FloatArray, Score, Statistics, ratio

ALWAYS_REFER = "always refer"

_SHARES = 101


@dataclass(frozen=True)
class JudgedClasses:
    """What a method says of each judged example, and what is true.

    Attributes:
        names: Names of the N examples.
        truth: Their classes `[N]`.
        probability: Probabilities of the classes `[N, C]`.
    """

    names: tuple[str, ...]
    truth: NDArray[np.intp]
    probability: FloatArray


@dataclass(frozen=True)
class MethodCosts:
    """What the decisions of a method cost per judged example.

    Attributes:
        mean: Mean cost with its interval, as a difference from costs of 0; its p-value means nothing.
        decided: Share of the examples that each decision was taken for.
        others: Mean cost of deciding otherwise, by the name of that.
        against: Mean cost minus that of deciding otherwise, on the same groups.
        shares: Shares of the examples that are referred, those with the largest expected cost first `[S]`.
        curve: Mean cost of all examples where so many are referred; of the kept ones where the costs of
            referring are not known; `[S]`.
    """

    mean: PairedDifference
    decided: Mapping[str, float]
    others: Mapping[str, float]
    against: Mapping[str, PairedDifference]
    shares: FloatArray
    curve: FloatArray


@dataclass(frozen=True)
class CostResults:
    """What was judged by costs.

    Attributes:
        table: The costs.
        judged: What is judged, in the plural.
        number: How many of them.
        decided: What is decided for: a class, or the answer to a label.
        methods: What each method's decisions cost, by its name.
    """

    table: CostTable
    judged: str
    number: int
    decided: str
    methods: Mapping[str, MethodCosts]

    @property
    def most_probable(self) -> str:
        """What it is called to decide without costs."""
        return f"always the most probable {self.decided}"


def cost_results(
    table: CostTable,
    judged: Mapping[str, JudgedClasses],
    *,
    baseline: str | None,
    groups: Mapping[str, str],
    noun: str,
    decided: str,
    resamples: int,
    seed: int,
) -> CostResults:
    """Return what the decisions of methods cost, each example counting the same, by resampled groups.

    Args:
        table: The costs.
        judged: What each method says of the same examples, by its name.
        baseline: Method whose decisions by the same costs the others are compared with; None for none.
        groups: Group of each example by name.
        noun: What an example is, in the plural.
        decided: What is decided for: a class, or the answer to a label.
        resamples: How many resamples to draw.
        seed: Seed of the draws.
    """
    first = next(iter(judged.values()))
    names, group = np.unique([groups[name] for name in first.names], return_inverse=True)

    def statistics(cost: FloatArray) -> Statistics:
        summed = (np.bincount(group, values).astype(np.float64) for values in (cost, np.ones_like(cost)))
        sums = dict(zip(("cost", "count"), summed, strict=True))
        return Statistics(tuple(names.tolist()), sums, {})

    def difference(cost: FloatArray, other: FloatArray) -> PairedDifference:
        drawn = paired_bootstrap(
            statistics(cost), statistics(other), [_MEAN_COST], resamples=resamples, seed=seed
        )
        return drawn[_MEAN_COST.key]

    def cost_of(said: JudgedClasses, decision: NDArray[np.intp]) -> FloatArray:
        return np.asarray(table.matrix[said.truth, decision])

    decisions = {title: table.decide(said.probability)[0] for title, said in judged.items()}
    methods: dict[str, MethodCosts] = {}
    results = CostResults(table, noun, len(first.names), decided, methods)
    for title, said in judged.items():
        cost = cost_of(said, decisions[title])
        others = {results.most_probable: cost_of(said, said.probability.argmax(axis=1))}
        if table.refers:
            others[ALWAYS_REFER] = np.asarray(table.matrix[said.truth, -1])
        if baseline is not None and title != baseline:
            others[baseline] = cost_of(judged[baseline], decisions[baseline])
        counts = np.bincount(decisions[title], minlength=len(table.decisions)) / len(cost)
        shares, curve = cost_curve(table, said)
        methods[title] = MethodCosts(
            mean=difference(cost, np.zeros_like(cost)),
            decided=dict(zip(table.decisions, counts.tolist(), strict=True)),
            others={name: float(other.mean()) for name, other in others.items()},
            against={name: difference(cost, other) for name, other in others.items()},
            shares=shares,
            curve=curve,
        )
    return results


def cost_curve(table: CostTable, said: JudgedClasses) -> tuple[FloatArray, FloatArray]:
    """Return the mean cost where the examples with the largest expected cost are referred, by their share.

    Args:
        table: The costs.
        said: What a method says of the examples.

    Returns:
        Shares and mean costs, as in `MethodCosts`.

    Example:
        >>> decisions = ("a", "b", "refer")
        >>> table = CostTable(classes=("a", "b"), decisions=decisions, values=((0, 1, 3), (9, 0, 3)))
        >>> said = JudgedClasses(("x", "y"), np.array([0, 1]), np.array([[0.5, 0.5], [1.0, 0.0]]))
        >>> cost_curve(table, said)[1][[0, 50, 100]].tolist()
        [5.0, 6.0, 3.0]
    """
    number, classes = len(said.truth), len(table.classes)
    kept_only = table.model_copy(
        update={
            "decisions": table.classes,
            "values": tuple(row[:classes] for row in table.values),
        }
    )
    decision, expected = kept_only.decide(said.probability)
    order = np.argsort(-expected, kind="stable")
    cost = table.matrix[said.truth, decision][order]
    shares = np.linspace(0.0, 1.0, _SHARES)
    referred = np.round(shares * number).astype(np.intp)
    kept = cost.sum() - np.concatenate([[0.0], np.cumsum(cost)])[referred]
    if not table.refers:
        return shares, ratio(kept, (number - referred).astype(np.float64))
    asked = np.concatenate([[0.0], np.cumsum(table.matrix[said.truth, -1][order])])[referred]
    return shares, np.asarray((kept + asked) / number)


def threshold_cost(table: CostTable, said: JudgedClasses, kept: NDArray[np.bool_]) -> float:
    """Return the mean cost where what is kept gets its most probable class and the rest is referred.

    Args:
        table: The costs; NaN where they do not say what it costs to refer.
        said: Classes and predicted probabilities of the examples.
        kept: Which examples are kept `[N]`.
    """
    if not table.refers:
        return float("nan")
    decision = np.where(kept, said.probability.argmax(axis=1), len(table.classes))
    return float(table.matrix[said.truth, decision].mean())


_MEAN_COST = Score(
    "cost",
    "Mean cost",
    "What do the decisions cost?",
    "lower",
    "Mean cost of the decisions with the least expected cost.",
    lambda sums: ratio(sums["cost"], sums["count"]),
)


def cost_sentence(results: CostResults, method: str) -> str:
    """Return in a sentence what the decisions of a method cost, against deciding otherwise.

    Args:
        results: What was judged by costs.
        method: Name of the method.
    """
    found = results.methods[method]
    others = "; ".join(
        f"{name} costs {value:.4g} ({_verdict(found.against[name])})" for name, value in found.others.items()
    )
    referred = f", {found.decided['refer']:.0%} referred" if results.table.refers else ""
    interval = f" (95 % of resamples {found.mean.lower:.4g} to {found.mean.upper:.4g})"
    return (
        f"By the costs given, the decisions of {method} cost {found.mean.difference:.4g} on average over the "
        f"{results.judged}{interval if found.mean.lower <= found.mean.upper else ''}{referred}; {others}."
    )


def _verdict(difference: PairedDifference) -> str:
    """Return whether deciding otherwise costs more, by the interval of the difference."""
    if not difference.lower <= difference.upper:
        return "no interval of one group"
    if difference.lower <= 0.0 <= difference.upper:
        return "no clear difference"
    return "clearly more" if difference.upper < 0.0 else "clearly less"
