"""What decisions cost on judged examples: by hand, by groups, and the curve of referral."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from pipelines.scores.classification import classification_record
from pipelines.scores.cost_results import (
    ALWAYS_REFER,
    JudgedClasses,
    cost_curve,
    cost_results,
    cost_sentence,
    threshold_cost,
)
from pipelines.scores.costs import REFER, CostTable
from pipelines.scores.figures import costs_figure
from pipelines.scores.metrics import metrics_content
from pipelines.scores.report import Gallery, render_report
from pipelines.scores.results import Evaluation, classification_result

MOST_PROBABLE = "always the most probable class"
COSTS = CostTable(
    classes=("benign", "malignant"),
    decisions=("benign", "malignant", "refer"),
    values=((0, 10, 3), (50, 0, 3)),
)
PLAIN = COSTS.model_copy(update={"decisions": COSTS.classes, "values": ((0, 10), (50, 0))})


def simulated(number: int = 400, seed: int = 0, sharpness: float = 2.0) -> JudgedClasses:
    """Calibrated probabilities: the truth is drawn by them."""
    random = np.random.default_rng(seed)
    second = 1.0 / (1.0 + np.exp(-sharpness * random.normal(size=number)))
    truth = (random.random(number) < second).astype(int)
    return JudgedClasses(tuple(map(str, range(number))), truth, np.stack([1 - second, second], axis=1))


def results(judged, table=COSTS, *, groups=None, baseline=None, decided="class"):
    names = next(iter(judged.values())).names
    return cost_results(
        table,
        judged,
        baseline=baseline,
        groups=groups or {name: name for name in names},
        noun="images",
        decided=decided,
        resamples=200,
        seed=0,
    )


def test_means_and_shares_are_those_by_hand():
    said = JudgedClasses(
        ("a", "b", "c"), np.array([0, 1, 1]), np.array([[0.99, 0.01], [0.5, 0.5], [0.98, 0.02]])
    )
    found = results({"HGP": said}).methods["HGP"]
    assert found.decided == pytest.approx({"benign": 2 / 3, "malignant": 0.0, "refer": 1 / 3})
    assert found.mean.difference == pytest.approx((0 + 3 + 50) / 3)
    assert found.others == pytest.approx({MOST_PROBABLE: 100 / 3, ALWAYS_REFER: 3.0})
    assert found.against[ALWAYS_REFER].difference == pytest.approx(53 / 3 - 3)


def test_decisions_by_calibrated_probabilities_cost_less_than_the_simple_ones():
    judged = {"Linear": simulated(sharpness=2.0), "HGP": simulated(sharpness=2.0)}
    found = results(judged, baseline="Linear").methods["HGP"]
    assert found.against[MOST_PROBABLE].upper < 0
    assert found.against[ALWAYS_REFER].upper < 0
    assert found.against["Linear"].difference == 0.0
    assert found.mean.lower < found.mean.difference < found.mean.upper
    assert "Linear" not in results(judged, baseline="Linear").methods["Linear"].others
    sentence = cost_sentence(results(judged, baseline="Linear"), "HGP")
    assert "always refer costs 3 (clearly more)" in sentence
    assert "Linear costs" in sentence
    assert "(no clear difference)" in sentence


def test_copies_of_a_group_do_not_make_the_interval_narrower():
    one = simulated(60)
    many = JudgedClasses(
        tuple(f"{copy}/{name}" for copy in range(5) for name in one.names),
        np.tile(one.truth, 5),
        np.tile(one.probability, (5, 1)),
    )
    by_group = {name: name.partition("/")[2] for name in many.names}
    alone = results({"HGP": one}).methods["HGP"].mean
    grouped = results({"HGP": many}, groups=by_group).methods["HGP"].mean
    assert grouped.difference == pytest.approx(alone.difference)
    assert grouped.upper - grouped.lower == pytest.approx(alone.upper - alone.lower, rel=0.25)


def test_one_group_has_no_interval():
    said = simulated(10)
    found = results({"HGP": said}, groups=dict.fromkeys(said.names, "one"))
    assert math.isnan(found.methods["HGP"].mean.lower)
    assert "no interval of one group" in cost_sentence(found, "HGP")
    assert "nan" not in cost_sentence(found, "HGP")


def test_a_threshold_costs_what_is_kept_wrong_and_what_is_referred():
    said = JudgedClasses(tuple("abcd"), np.array([0, 1, 1, 0]), np.tile([0.8, 0.2], (4, 1)))
    kept = np.array([True, True, False, False])
    assert threshold_cost(COSTS, said, kept) == pytest.approx((0 + 50 + 3 + 3) / 4)
    assert threshold_cost(COSTS, said, ~kept) == pytest.approx((3 + 3 + 50 + 0) / 4)
    assert math.isnan(threshold_cost(PLAIN, said, kept))


def test_the_curve_begins_with_the_cheapest_classes_and_ends_with_referral_of_all():
    said = simulated(137)
    shares, curve = cost_curve(COSTS, said)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    decision, _ = PLAIN.decide(said.probability)
    assert curve[0] == pytest.approx(PLAIN.matrix[said.truth, decision].mean())
    assert curve[-1] == pytest.approx(3.0)


def test_without_costs_of_referral_the_curve_is_of_what_is_kept():
    said = simulated(100)
    _, curve = cost_curve(PLAIN, said)
    expected = PLAIN.decide(said.probability)[1]
    kept = np.argsort(-expected, kind="stable")[50:]
    decision = PLAIN.decide(said.probability)[0]
    assert curve[50] == pytest.approx(PLAIN.matrix[said.truth[kept], decision[kept]].mean())
    assert math.isnan(curve[-1])
    assert ALWAYS_REFER not in results({"HGP": said}, PLAIN).methods["HGP"].others
    assert "referred" not in cost_sentence(results({"HGP": said}, PLAIN), "HGP")


def test_the_figure_is_the_same_for_the_same_results():
    judged = {"Linear": simulated(50), "HGP": simulated(50, seed=1)}
    svg = costs_figure(results(judged), "HGP")
    assert svg.startswith("<?xml")
    assert svg == costs_figure(results(judged), "HGP")


def test_report_and_metrics_have_the_costs():
    said = simulated(60)
    records = [
        classification_record(name, said.truth[[row]], said.probability[[row]], {})
        for row, name in enumerate(said.names)
    ]
    judged = {"Linear + temperature": said, "HGP + temperature": said}
    evaluation = Evaluation(
        application="classify",
        results=tuple(classification_result(name, records) for name in judged),
        class_names=COSTS.classes,
        costs=results(judged, baseline="Linear + temperature"),
    )
    page = render_report("A", evaluation, Gallery(), datetime(2026, 2, 3, tzinfo=UTC))
    assert 'id="costs"' in page
    assert "minus Linear + temperature" in page
    assert cost_sentence(evaluation.costs, "HGP + temperature") in page
    costs = metrics_content(evaluation)["costs"]
    assert costs["decisions"] == ["benign", "malignant", "refer"]
    assert costs["methods"]["HGP + temperature"]["against"]["always refer"]["mean"] == 3.0
    assert len(costs["methods"]["HGP + temperature"]["curve"]["cost"]) == 101
    json.dumps(costs, allow_nan=False)
    assert metrics_content(replace(evaluation, costs=None))["costs"] is None


@pytest.mark.slow
def test_the_report_says_of_several_labels_once_what_holds_for_all():
    yes_no = COSTS.model_copy(update={"classes": ("no", "yes"), "decisions": ("no", "yes", REFER)})
    said = simulated(60)
    records = [
        classification_record(name, said.truth[[row]], said.probability[[row]], {})
        for row, name in enumerate(said.names)
    ]
    known = {name: simulated(number) for name, number in {"red": 41, "dark": 23}.items()}
    evaluation = Evaluation(
        application="classify",
        results=(classification_result("HGP", records),),
        label_costs={name: results({"HGP": one}, yes_no, decided="answer") for name, one in known.items()},
    )
    page = " ".join(render_report("A", evaluation, Gallery(), datetime(2026, 2, 3, tzinfo=UTC)).split())
    assert page.count("Each of the images whose label is known gets the decision") == 1
    assert page.count("If those with the largest expected cost go to a person") == 1
    assert "red, known of 41 images</h3>" in page
    assert "dark, known of 23 images</h3>" in page
    assert "minus always the most probable answer" in page
    assert "most probable class" not in page
    one = replace(evaluation, label_costs={}, costs=results({"HGP": said}))
    page = render_report("A", one, Gallery(), datetime(2026, 2, 3, tzinfo=UTC))
    assert "Each of the 60 images gets the decision" in page
    assert "always the most probable class" in page
