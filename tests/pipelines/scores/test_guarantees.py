"""Guarantees of a method, compared with what came of them."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.simulated_classes import simulated
from pipelines.scores.class_results import class_results
from pipelines.scores.guarantee_sizes import TABLE_ERRORS
from pipelines.scores.guarantee_thresholds import SelectiveErrors, referral_threshold
from pipelines.scores.guarantees import ReferralErrors, method_guarantees
from pipelines.scores.metrics import metrics_content
from pipelines.scores.report import Gallery, render_report
from pipelines.scores.tables import class_sentence, guarantee_sentences, kept_sentence, referral_sentence
from tests.pipelines.scores.test_report import CREATED


def errors(seed: int, number: int = 2500) -> SelectiveErrors:
    generator = np.random.default_rng(seed)
    uncertainty = generator.random(number)
    wrong = generator.random(number) < 0.3 * uncertainty**3
    return SelectiveErrors(uncertainty, wrong.astype(float), np.arange(number), "images")


@pytest.fixture
def guarantees():
    return method_guarantees(
        errors(0), errors(1), judged_noun="images", max_errors=(0.001, 0.02, 0.1), source={"head": "hgp"}
    )


def test_rows_compare_the_guarantee_with_the_judged_part(guarantees):
    impossible, small, large = guarantees.rows
    assert impossible.guarantee.threshold is None
    assert impossible.is_violated is None
    assert "2995 images are needed" in impossible.guarantee.reason
    kept, error = errors(1).reality(small.guarantee.threshold)
    assert (small.judged_kept, small.judged_error) == (kept, error)
    assert small.is_violated == (error > 0.02)
    assert large.judged_kept > 0.99


def test_the_table_has_the_thresholds_that_single_guarantees_have(guarantees):
    table = dict(guarantees.table)
    for max_error in TABLE_ERRORS:
        assert table.get(max_error) == referral_threshold(errors(0), max_error).threshold
    assert {0.001, 0.01, 0.02, 0.05, 0.1, 0.95} <= set(TABLE_ERRORS)
    assert list(TABLE_ERRORS) == sorted(set(TABLE_ERRORS))


def test_units_are_groups_where_there_are_groups():
    found = ReferralErrors(("a", "b", "c"), np.array([0.1, 0.2, 0.3]), np.zeros(3))
    alone = found.by({"a": "1", "b": "2", "c": "3"}, "images")
    assert (alone.num_units, alone.noun) == (3, "images")
    grouped = found.by({"a": "1", "b": "2", "c": "1"}, "images")
    assert (grouped.unit.tolist(), grouped.noun) == ([0, 1, 0], "groups of images")
    assert ReferralErrors((), np.zeros(0), np.zeros(0)).by({}, "images") is None


@pytest.mark.slow
def test_metrics_report_and_console_show_them(evaluation, guarantees):
    name = evaluation.results[-1].name
    judged = replace(evaluation, guarantees={name: guarantees})
    content = json.loads(json.dumps(metrics_content(judged), allow_nan=False))
    written = content["methods"][name]["guarantee"]
    assert written["source"] == {"head": "hgp"}
    assert written["rows"][0]["threshold"] is None
    assert written["rows"][1]["judged_error"] == guarantees.rows[1].judged_error
    assert written["table"][-1][0] == 0.95
    assert content["methods"][evaluation.results[0].name]["guarantee"] is None
    html = render_report("Title", judged, Gallery(), CREATED)
    assert "Does the guarantee hold?" in html
    assert "2995 images are needed" in html
    assert guarantee_sentences(judged)[0].startswith(f"Guarantees of {name}: at most 2 % wrong: ")
    assert (
        "0.1 %: not guaranteed (for 0.1 %, at least 2995 images are needed" in guarantee_sentences(judged)[0]
    )


@pytest.mark.slow
def test_the_report_begins_with_the_head_to_take_and_its_referral_thresholds(evaluation, guarantees):
    first, last = evaluation.results[0].name, evaluation.results[-1].name
    judged = replace(
        evaluation,
        guarantees={first: guarantees, last: replace(guarantees, rows=())},
        choice="Take the linear head: so.",
        chosen=first,
    )
    sentence = referral_sentence(judged)
    assert sentence.startswith(
        f"Refer to a person, with {first}: for at most 2 % wrong above an entropy of 0."
    )
    assert "0.1 %" not in sentence
    kept = guarantees.rows[1].guarantee.kept
    assert kept_sentence(judged) == (
        f"Of what is like the held-out data it keeps {100 * kept:.1f} %, of which at most 2 % are wrong, "
        f"with 95% confidence; {100 - 100 * kept:.1f} % go to a person."
    )
    assert guarantee_sentences(judged)[0].startswith(f"Guarantees of {first}: ")
    html = render_report("Title", judged, Gallery(), CREATED)
    start = html.index("<main>")
    assert (
        html[start:]
        .replace("\n", "")
        .startswith(
            '<main><h2 id="choice">What to take</h2><p class="answer">Take the linear head: so.</p>'
            f'<p class="answer">{kept_sentence(judged)}</p><p class="answer">{sentence}</p>'
        )
    )
    assert metrics_content(judged)["chosen"] == first
    assert judged.main is evaluation.results[0]
    assert evaluation.main is evaluation.results[-1]
    none = replace(judged, guarantees={first: replace(guarantees, rows=guarantees.rows[:1])})
    assert "for at most 0.1 % wrong, at least 2995 images are needed" in referral_sentence(none)
    assert "What to take" not in render_report("Title", evaluation, Gallery(), CREATED)


@pytest.mark.slow
def test_a_reason_for_no_guarantee_is_shown(evaluation):
    judged = replace(evaluation, no_guarantee="The folder is another one.")
    assert "No guarantee was given. The folder is another one." in render_report(
        "T", judged, Gallery(), CREATED
    )
    assert guarantee_sentences(judged)[0].endswith("The folder is another one.")
    assert referral_sentence(judged).endswith("The folder is another one.")
    assert "Does the guarantee hold?" not in render_report("T", evaluation, Gallery(), CREATED)


def test_nothing_kept_is_no_violation():
    selection = SelectiveErrors(np.zeros(100), np.zeros(100), np.arange(100), "images")
    judged = SelectiveErrors(np.ones(10), np.ones(10), np.arange(10), "images")
    (row,) = method_guarantees(selection, judged, judged_noun="images", max_errors=(0.1,), source={}).rows
    assert (row.judged_kept, row.is_violated) == (0.0, None)
    assert math.isnan(row.judged_error)


def test_a_selection_part_without_anything_to_judge_by_gives_the_reason(evaluation):
    guarantees = method_guarantees(
        None, errors(1), judged_noun="candidates", max_errors=(0.02, 0.1), source={}
    )
    assert (guarantees.units, guarantees.table) == (0, ())
    assert [row.is_violated for row in guarantees.rows] == [None, None]
    judged = replace(evaluation, guarantees={evaluation.results[-1].name: guarantees})
    reason = "of the selection part's candidates none is referred or kept"
    assert reason in guarantee_sentences(judged)[0]
    json.dumps(metrics_content(judged), allow_nan=False)
    assert "none is referred or kept" in render_report("Title", judged, Gallery(), CREATED)


def test_single_classes_are_in_report_and_metrics(evaluation, guarantees):
    method = evaluation.results[-1].name
    held_out = simulated(np.random.default_rng(0), 600, slope=1.4)
    classes = class_results(held_out, held_out, ("a", "b", "c"), shares=(0.001, 0.05), noun="images")
    judged = replace(
        evaluation, guarantees={method: replace(guarantees, classes=classes)}, class_names=(), chosen=method
    )
    listed = ", ".join(f"at most 5 % of {name}" for name in "abc")
    assert (
        class_sentence(judged) == f"Each by itself, it can guarantee that {listed} are kept as another class."
    )
    assert class_sentence(replace(evaluation, guarantees={method: guarantees})) == ""
    content = metrics_content(judged)["methods"][method]["guarantee"]["classes"]
    assert [row["class_name"] for row in content["limits"]] == ["a", "a", "b", "b", "c", "c"]
    assert all(row["guarantee"] and 0 < row["judged_kept"] < 1 for row in content["limits"])
    assert [row["coverage"] for row in content["sets"]] == [0.9, 0.95]
    html = render_report("T", judged, Gallery(), CREATED)
    assert "Of single classes, and as sets" in html
    assert html.count("<td>missed</td><td>5 %</td>") == 3


def test_errors_that_cannot_be_guaranteed_share_a_row(evaluation):
    name = evaluation.results[-1].name
    few = method_guarantees(
        errors(0, 20), errors(1), judged_noun="images", max_errors=(0.01, 0.02, 0.05), source={}
    )
    html = render_report("T", replace(evaluation, guarantees={name: few}), Gallery(), CREATED)
    assert html.count("not given. For 5 %: at least 59 images are needed") == 1
    assert "<td>1 %, 2 %, 5 %</td>" in html
