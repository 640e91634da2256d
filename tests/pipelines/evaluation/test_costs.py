"""Judging a run by costs: which methods are judged, and with which they are compared."""

from types import SimpleNamespace

import numpy as np
import pytest

from pipelines.evaluation.costs import judged_costs
from pipelines.runs.guarantees import ClassCollector
from pipelines.runs.predictors import Predictor
from pipelines.runs.settings import EvaluateSettings
from pipelines.scores.costs import CostTable

COSTS = CostTable(classes=("a", "b"), decisions=("a", "b", "refer"), values=((0, 1, 0.4), (5, 0, 0.4)))


def collected() -> ClassCollector:
    found = ClassCollector()
    for number in range(10):
        second = np.float32(number / 10)
        truth = int(number > 4)
        of_second = number % 2  # two ways in which methods give the probabilities of two classes
        probability = second if of_second else np.array([1 - second, second])
        found.add(SimpleNamespace(name=str(number), truth=truth), {"probability": probability})
    return found


def row(title: str, head: str | None, temperature: float | None = None) -> Predictor:
    return Predictor(title, lambda _: {}, {}, head=head, temperature=temperature)


ROWS = [
    row("SVM", None),
    row("Linear", "linear"),
    row("Linear + temperature", "linear", 1.2),
    row("HGP", "hgp"),
    row("HGP + temperature", "hgp", 1.1),
    row("Older", "svgp"),
]


def results(rows, table=COSTS):
    return judged_costs(
        table,
        rows,
        [collected().classes() for _ in rows],
        groups={str(number): str(number // 2) for number in range(10)},
        noun="images",
        decided="class",
        settings=EvaluateSettings(resamples=100),
    )


def test_heads_are_judged_with_their_temperature_and_compared_with_the_linear_one():
    found = results(ROWS)
    assert list(found.methods) == ["SVM", "Linear + temperature", "HGP + temperature", "Older"]
    assert found.methods["HGP + temperature"].against["Linear + temperature"].difference == 0.0
    assert "Linear + temperature" not in found.methods["Linear + temperature"].against
    assert found.methods["SVM"].mean.difference == pytest.approx(found.methods["Older"].mean.difference)


def test_without_a_linear_head_nothing_is_compared_with_it():
    assert list(results([ROWS[4]]).methods["HGP + temperature"].against) == [
        "always the most probable class",
        "always refer",
    ]


def test_probabilities_of_two_classes_are_understood_in_both_forms():
    said = collected().classes()
    np.testing.assert_allclose(said.probability.sum(axis=1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(said.probability[:, 1], np.arange(10) / 10, rtol=1e-6)
