"""The scoreboard: its plan, which method has which role, and what its table says."""

import importlib
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.scoreboard import __main__ as command
from benchmarks.scoreboard.data_sets import _DIVIDE, image_table
from benchmarks.scoreboard.plan import SEEDS, SETTINGS, STAGES, plan_cells
from benchmarks.scoreboard.record import least, method_record
from benchmarks.scoreboard.report import comparisons, rows_of, settings_of, summary, write_report
from benchmarks.scoreboard.runs import roles, title_of, training
from benchmarks.scoreboard.tables import cross_validated_nll, fitted, makers, result_of, table_split
from pipelines.histopathology.settings import TrainSettings as TissueTrainSettings
from pipelines.scores.classification import classification_record
from pipelines.scores.results import classification_result

NAME = "BUSI, trunk"


def cell(ours: list[float], theirs: list[float], *, seed: int = 7101, gp: str = "HGP") -> dict[str, object]:
    """A record in which each group has two predictions, with these NLL of each."""

    def method(nll: list[float]) -> dict[str, object]:
        scores = {"nll": np.mean(nll), "ece": 0.1, "accuracy": 0.5, "referral_accuracy_10": 0.75}
        scores |= {"auroc_predictive_entropy": float("nan")}
        return {"scores": scores, "sums": {f"g{i}": [2, 2 * value, 1] for i, value in enumerate(nll)}}

    return {
        "setting": NAME,
        "seed": seed,
        "minutes": 1.0,
        "roles": {"named": "Linear", "gp": gp, "linear": "Linear", "ridge": "Ridge"},
        "held_out": {},
        "counts": {},
        "seconds": {},
        "methods": {"Linear": method(theirs), gp: method(ours), "Ridge": method(theirs)},
    }


def test_the_plan_has_each_data_set_once_with_data_and_fresh_seeds():
    names = [setting.name for stage in STAGES for setting in stage]
    assert len(names) == len(SETTINGS)
    assert len({cell.file for cell in plan_cells([], [])}) == sum(len(s.seeds) for s in SETTINGS.values())
    assert min(SEEDS) >= 100
    for setting in SETTINGS.values():
        assert setting.kind == "table" or setting.source in _DIVIDE


def test_all_of_a_seed_goes_before_the_next_and_the_cheap_stage_first():
    cells = plan_cells([], [])
    first = cells[: sum(len(setting.seeds) for setting in STAGES[0])]
    assert {cell.setting.name for cell in first} == {setting.name for setting in STAGES[0]}
    assert [cell.seed for cell in first] == sorted(cell.seed for cell in first)
    assert [cell.seed for cell in plan_cells(["BUSI"], [5, 6])] == [5, 6]
    with pytest.raises(ValueError, match="no data set begins with 'BUSO'"):
        plan_cells(["BUSO"], [])


def test_heads_are_the_defaults_and_the_ridge_without_views_on_a_trunk():
    (on_trunk,) = plan_cells(["colon, trunk, 2"], [7101])
    settings, defaults = training(TissueTrainSettings, on_trunk, {})
    assert defaults == ("linear", "svgp", "hgp", "dfgp")
    assert settings.heads == ("linear", "ridge_linear", "svgp", "hgp", "dfgp")
    assert settings.seed == 7101
    (handmade,) = plan_cells(["colon, handmade, 2"], [7101])
    settings, defaults = training(TissueTrainSettings, handmade, {})
    assert defaults == ("linear", "svgp", "hgp", "dfgp", "dfgp_mkl")
    assert settings.svms == ()


HELD_OUT = {
    "Ensemble of 5": 0.1,
    "Linear": 0.5,
    "Linear + temperature": 0.3,
    "Linear, regularised": 0.2,
    "Linear, regularised + temperature": 0.2,
    "SVGP": 0.2,
    "SVGP + temperature": 0.4,
    "HGP": 0.6,
    "HGP + temperature": 0.35,
}
DEFAULTS = ("linear", "svgp", "hgp")


def test_roles_are_given_by_what_is_held_out_among_the_default_heads():
    found = roles(SimpleNamespace(), HELD_OUT, DEFAULTS, 5)
    assert found == {
        "named": "Linear + temperature",
        "gp": "HGP + temperature",
        "linear": "Linear + temperature",
        "ridge": "Linear, regularised + temperature",
        "ensemble": "Ensemble of 5",
    }
    assert "ensemble" not in roles(SimpleNamespace(), HELD_OUT, DEFAULTS, 0)


def test_a_run_that_names_its_head_is_followed_unless_it_is_no_default_one():
    for head, title in (("svgp", "SVGP + temperature"), ("ridge_linear", "Linear + temperature")):
        run = SimpleNamespace(choice=SimpleNamespace(head=head))
        assert roles(run, HELD_OUT, DEFAULTS, 0)["named"] == title


def test_a_head_is_found_with_whatever_calibrates_it():
    assert title_of("hgp", HELD_OUT) == "HGP + temperature"
    assert title_of("hgp", {"HGP": 0, "HGP + map of images": 0}) == "HGP + map of images"
    assert title_of("hgp", {"HGP": 0}) == "HGP"


def test_ties_go_to_the_cheaper():
    assert least({"linear": 0.30001, "svgp": 0.3}, ["linear", "svgp"]) == "linear"


def test_sums_of_groups_are_those_of_their_examples():
    records = [
        classification_record(name, np.array([label]), np.array([0.8]), {})
        for name, label in (("a", 1), ("b", 1), ("c", 0))
    ]
    found = method_record(classification_result("HGP", records), {"a": "x", "b": "x", "c": "y"})
    np.testing.assert_allclose(found["sums"]["x"], [2, -2 * np.log(0.8), 2], atol=1e-5)
    np.testing.assert_allclose(found["sums"]["y"], [1, -np.log(0.2), 0], atol=1e-5)


def test_a_group_judged_by_two_seeds_is_drawn_as_one():
    """Six groups in two seeds are six observations: six signs show no less than 2 ** -5."""
    records = [cell([0.4] * 6, [0.5] * 6), cell([0.4] * 6, [0.5] * 6, seed=7102)]
    difference = comparisons(records)["gp", "linear"]["nll"]
    assert difference.difference == pytest.approx(-0.1)
    assert difference.p_value == pytest.approx(2.0**-5)


@pytest.mark.parametrize(
    ("ours", "told"),
    [
        (0.4, "mean relative NLL 0.800 (wanted: at most 0.93); NLL: 0 clear losses, 1 clear gains"),
        (0.6, f"mean relative NLL 1.200 (wanted: at most 0.93); NLL: 1 clear losses ({NAME}), 0 clear"),
        (0.5, "mean relative NLL 1.000 (wanted: at most 0.93); NLL: 0 clear losses, 0 clear gains"),
    ],
)
def test_the_bottom_lines_count_clear_losses_and_gains(ours, told):
    by_setting = settings_of([cell([ours] * 10, [0.5] * 10)])
    lines = summary(by_setting, {name: comparisons(cells) for name, cells in by_setting.items()})
    (line,) = [line for line in lines if "best GP head against linear" in line]
    assert told in line
    assert "accuracy: 0 clear losses, 0 clear gains" in line


def test_rows_name_the_methods_and_compare_with_baselines_alone():
    records = [cell([0.4] * 6, [0.5] * 6), cell([0.4] * 6, [0.5] * 6, seed=7102, gp="SVGP")]
    named, gp, linear, ridge = rows_of(NAME, records, comparisons(records))
    assert named["data"] == f"{NAME} (2 seeds, 6 groups)"
    assert named["method"] == "named head: Linear 2"
    assert gp["method"] == "best GP head: HGP 1, SVGP 1"
    assert gp["NLL"] == "0.4000"
    assert gp["best GP head less it, NLL"] == ""
    assert linear["best GP head less it, NLL"] == "**-0.1000, p 0.031**"
    assert linear["named head less it, NLL"] == "+0.0000, p 1.000"
    assert ridge["risk at 10 % referred"] == "0.2500"
    assert ridge["AUROC of errors"] == "nan"


def test_the_report_keeps_scores_and_says_how_to_read_them(tmp_path):
    write_report(tmp_path / "before", [cell([0.4] * 6, [0.5] * 6)])
    text = (tmp_path / "before.md").read_text()
    assert "best GP head against linear + T" in text
    assert "paired bootstrap" in text
    kept = json.loads((tmp_path / "before.json").read_text())
    assert kept["cells"][0]["scores"]["HGP"]["nll"] == pytest.approx(0.4)
    assert kept["cells"][0]["scores"]["HGP"]["auroc_predictive_entropy"] is None


def test_a_second_call_computes_what_is_missing_and_data_that_lack_are_said(tmp_path, monkeypatch, capsys):
    arguments = ["scoreboard", "--work", str(tmp_path), "--results", str(tmp_path / "results")]
    arguments += ["--label", "now", "--only", "BUSI", "table iris", "--seeds", "7101"]
    monkeypatch.setattr(sys, "argv", arguments)
    (tmp_path / "now").mkdir()
    (iris,) = plan_cells(["table iris"], [7101])
    (tmp_path / "now" / iris.file).write_text(
        json.dumps(cell([0.4] * 6, [0.5] * 6) | {"setting": "table iris"})
    )
    monkeypatch.setattr(command.subprocess, "run", pytest.fail)
    command.main()
    said = capsys.readouterr().out
    assert "2 cells, 1 of them computed before" in said
    assert "BUSI, trunk is left out: it needs busi_breast_ultrasound in --data" in said
    assert (tmp_path / "results" / "now.md").exists()


def test_a_budget_begins_nothing_that_would_end_after_it(tmp_path, monkeypatch):
    begun = []

    def run(line: list[str], **_: object) -> SimpleNamespace:
        begun.append(line[3])
        return SimpleNamespace(returncode=0, stdout="done\n", stderr="")

    arguments = ["scoreboard", "--work", str(tmp_path), "--only", "demo", "table iris", "--seeds", "7101"]
    monkeypatch.setattr(sys, "argv", [*arguments, "--budget-minutes", "2"])
    monkeypatch.setattr(command.subprocess, "run", run)
    command.main()
    assert begun == ["table iris"]


def test_tables_are_judged_by_rows_that_no_fit_has_seen():
    train, test, names = table_split("iris", 7101, None)
    assert len(names) == len(test[1]) == 38
    title, make = next(iter(makers().items()))
    held_out = cross_validated_nll(make, train, 7101)
    result = result_of(title, fitted(make, train, 7101), test, names)
    assert 0.0 < held_out < 0.5
    assert 0.0 < result.scores["nll"] < 0.5
    assert result.scores["accuracy"] > 0.85
    assert np.isfinite(result.scores["referral_accuracy_10"])


def test_the_readme_example_is_not_standardised():
    train, _, _ = table_split("readme", 0, None)
    assert train[0].max() > 1000.0


def test_a_table_of_images_is_what_prepare_reads(tmp_path):
    path = image_table(tmp_path / "table.csv", [("a.png", "good"), ("b.png", "bad")])
    assert path.read_text() == "image,class\na.png,good\nb.png,bad\n"


@pytest.mark.parametrize("name", [name for name, one in SETTINGS.items() if one.kind != "table"])
def test_every_application_takes_the_settings_of_its_cells(name):
    room = importlib.import_module(f"pipelines.{SETTINGS[name].kind}.settings")
    settings, defaults = training(room.TrainSettings, plan_cells([name], [7101])[0], {})
    assert set(settings.heads) == {*defaults, "ridge_linear"}
    assert defaults[0] == "linear"
    assert room.EvaluateSettings(split="selection").split == "selection"
