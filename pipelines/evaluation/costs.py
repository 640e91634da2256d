"""The cost of the decisions of a run's methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpmodels.registry import starting_head
from pipelines.runs.predictors import Predictor
from pipelines.runs.settings import EvaluateSettings
from pipelines.scores.cost_results import CostResults, JudgedClasses, cost_results
from pipelines.scores.costs import CostTable


def judged_costs(
    table: CostTable,
    predictors: Sequence[Predictor],
    said: Sequence[JudgedClasses],
    *,
    groups: Mapping[str, str],
    noun: str,
    decided: str,
    settings: EvaluateSettings,
) -> CostResults:
    """Return what the decisions of each method cost on the judged part.

    Of a head that has a temperature only the row with it is judged: the other one is not calibrated.

    Args:
        table: The costs.
        predictors: The methods.
        said: What each of them says of the judged examples.
        groups: Group of each judged example by name.
        noun: What an example is, in the plural.
        decided: What is decided for: a class, or the answer to a label.
        settings: Settings of the evaluation.
    """
    tempered = {one.head for one in predictors if one.temperature is not None}
    methods = {
        one.title: found
        for one, found in zip(predictors, said, strict=True)
        if one.head not in tempered or one.temperature is not None
    }
    linear = [one.title for one in predictors if one.head == starting_head() and one.title in methods]
    return cost_results(
        table,
        methods,
        baseline=linear[0] if linear else None,
        groups=groups,
        noun=noun,
        decided=decided,
        resamples=settings.resamples,
        seed=settings.seed,
    )
