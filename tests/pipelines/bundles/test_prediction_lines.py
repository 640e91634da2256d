"""Decisions by costs in lines of `predictions.csv`, and in a bundle's description."""

from dataclasses import asdict
from io import StringIO

import pytest
from rich.console import Console

from data_prep.errors import InputError
from pipelines.bundles.line_rules import LineRules, rules_for
from pipelines.bundles.metadata import Metadata, class_signatures
from pipelines.bundles.prediction import predict_files
from pipelines.bundles.prediction_lines import ClassPredictionLine, PredictionLine
from pipelines.bundles.sources import Source
from pipelines.command.referral import ClassReferralSettings
from pipelines.scores.costs import CostTable
from tests.pipelines.written import rows

NAMES = ("benign", "malignant")
COSTS = CostTable(classes=NAMES, decisions=(*NAMES, "refer"), values=((0, 10, 3), (50, 0, 3)))
PLAIN = CostTable(classes=NAMES, decisions=NAMES, values=((0, 10), (50, 0)))


def line(malignant: float, *, referred: bool = False) -> ClassPredictionLine:
    label = NAMES[int(malignant > 0.5)]
    probability = {"benign": 1 - malignant, "malignant": malignant}
    return ClassPredictionLine(file="a.png", label=label, referred=referred, probability=probability)


@pytest.mark.parametrize(
    ("malignant", "referred", "costs", "decision", "expected"),
    [
        (0.02, False, COSTS, "benign", 1.0),
        (0.5, False, COSTS, "refer", 3.0),
        (0.9, False, COSTS, "malignant", 1.0),
        (0.02, True, COSTS, "refer", 3.0),  # by --max-error or --refer-above, which win
        (0.5, False, PLAIN, "malignant", 5.0),
        (0.5, True, PLAIN, "refer", None),  # whose costs the table does not know
    ],
)
def test_a_line_has_the_cheapest_decision_unless_it_is_referred(
    malignant, referred, costs, decision, expected
):
    before = line(malignant, referred=referred)
    found = before.ruled(LineRules(costs=costs))
    assert (found.decision, found.referred) == (decision, decision == "refer")
    assert found.expected_cost == (None if expected is None else pytest.approx(expected))
    assert found.probability == before.probability


def test_lines_without_probabilities_have_no_decision():
    for nothing in (PredictionLine(file="a.png"), ClassPredictionLine(file="a.png", status="unreadable")):
        assert nothing.ruled(LineRules(costs=COSTS)) == nothing


def test_the_table_has_decisions_only_where_there_are_costs(tmp_path):
    for file in ("a.png", "b.png"):
        (tmp_path / file).touch()
    sources = [Source(tmp_path / file, file) for file in ("a.png", "b.png")]

    def predict(source):
        yield line(0.9 if source.stem == "a.png" else 0.4)

    def table(out, costs):
        rules = LineRules(costs=costs)
        predict_files(ClassPredictionLine, predict, sources, tmp_path / out, class_names=NAMES, rules=rules)
        return rows(tmp_path / out / "predictions.csv")

    plain, decided = table("plain", None), table("decided", COSTS)
    assert not {"decision", "expected_cost"} & plain[0].keys()
    assert [row["decision"] for row in decided] == ["malignant", "refer"]
    assert [row["expected_cost"] for row in decided] == ["1", "3"]
    assert [row["referred"] for row in decided] == ["false", "true"]
    for name in NAMES:
        column = f"probability of {name}"
        assert [row[column] for row in decided] == [row[column] for row in plain]


def test_what_an_earlier_version_remembers_of_a_line_is_a_line():
    fields = asdict(line(0.5))
    del fields["decision"], fields["expected_cost"]
    assert ClassPredictionLine(**fields) == line(0.5)


def metadata(**changes) -> Metadata:
    return Metadata.model_validate(
        {
            "name": "a",
            "application": "classify",
            "head": "hgp",
            "class_names": NAMES,
            "network_size": (8, 8),
            "preprocessing": "",
            "signatures": class_signatures(NAMES, single_latent=True),
            "versions": {},
            "training_data": {},
            "intended_use": "",
            "limitations": "",
            **changes,
        }
    )


def test_a_bundle_keeps_its_costs_and_others_may_be_given(tmp_path):
    kept = metadata(costs=COSTS)
    assert Metadata.model_validate_json(kept.model_dump_json()) == kept
    assert metadata().costs is None  # as of an earlier version
    console = Console(file=StringIO(), width=200)

    def used(**settings: object) -> CostTable | None:
        given = ClassReferralSettings(**settings)
        return rules_for(given, kept, bundle=tmp_path, judged="images", console=console)[1].costs

    assert used() == COSTS
    path = tmp_path / "costs.csv"
    path.write_text("class,benign,malignant,refer\nbenign,0,1,3\nmalignant,50,0,3\n")
    assert used(costs=path).values[0] == (0, 1, 3)
    assert "With these costs refer is never the cheapest decision" in console.file.getvalue()
    path.write_text("class,cat,dog\ncat,0,1\ndog,1,0\n")
    with pytest.raises(InputError, match="the column 'cat' is no decision"):
        used(costs=path)


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (
            COSTS.model_dump() | {"classes": NAMES[::-1], "decisions": NAMES[::-1]},
            "expected 2 rows|other classes",
        ),
        (
            PLAIN.model_dump() | {"classes": ("a", "b"), "decisions": ("a", "b")},
            "of other classes than the model",
        ),
        (PLAIN.model_dump() | {"values": ((0, float("nan")), (1, 0))}, "finite number"),
        (PLAIN.model_dump() | {"more": 1}, "Extra inputs"),
    ],
)
def test_costs_that_do_not_fit_the_bundle_are_refused(costs, message):
    with pytest.raises(ValueError, match=message):
        metadata(costs=costs)
