"""The sonar benchmark's own arithmetic: what is run, what counts as found, what the report says."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from benchmarks.sonar.cell_plan import Cell, plan_cells
from benchmarks.sonar.data_sets import class_folders
from benchmarks.sonar.detection import shares_found
from benchmarks.sonar.report import write_report


def test_a_target_counts_once_and_alarms_are_per_tile() -> None:
    scores = np.array([0.5, 0.9, 0.8, 0.7, 0.6, 0.4])
    hits = np.array([2, 0, 0, -1, -1, 1])  # by score: 0, 0 again, alarm, alarm, 2, 1
    # Two tiles: 0.5 alarms per tile is one alarm, before the second one only target 0 is found.
    assert shares_found(scores, hits, num_targets=4, num_tiles=2) == [0.25, 0.75, 0.75]
    assert shares_found(np.array([]), np.array([]), num_targets=4, num_tiles=2) == [0.0, 0.0, 0.0]


def test_a_seed_is_complete_before_the_next() -> None:
    cells = plan_cells(["side-scan"], ["FE1"], [0, 1], unseen=True)
    assert [cell.left_out for cell in cells] == ["human", "plane", "seafloor", "ship"] * 2
    assert [cell.seed for cell in cells] == [0] * 4 + [1] * 4
    assert len({cell.name for cell in cells}) == 8
    assert plan_cells(["tiles"], ["FE1"], [0], unseen=True) == []
    assert len(plan_cells(None, ["FE1", "FE2"], [0], unseen=False)) == 8


def test_the_class_left_out_is_nowhere(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "1.png").touch()
    kept = class_folders(tmp_path / "data", "b", tmp_path / "work")
    assert sorted(str(path.relative_to(kept)) for path in kept.rglob("*.png")) == ["a/1.png", "c/1.png"]
    assert class_folders(tmp_path / "data", None, tmp_path / "work") == tmp_path / "data"


def test_the_report_keeps_runs_with_a_class_left_out_apart(tmp_path: Path) -> None:
    def record(cell: Cell, accuracy: float, **unseen: float) -> dict[str, object]:
        scores = dict.fromkeys(("balanced_accuracy", "nll", "ece", "auroc_predictive_entropy"), 0.5)
        return {
            "cell": vars(cell),
            "settings": {"head_epochs": 3},
            "seconds": {"all": 10.0},
            "methods": {"HGP": {**scores, "accuracy": accuracy, **unseen}},
        }

    unseen = {"unseen_predictive_entropy": 0.75, "unseen_mutual_information": 0.25}
    records = [
        record(Cell("side-scan", "FE1", 0), 0.8),
        record(Cell("side-scan", "FE1", 1), 0.9),
        record(Cell("side-scan", "FE1", 0, "ship"), 0.1, **unseen),
    ]
    write_report(tmp_path, records)
    tables = json.loads((tmp_path / "report.json").read_text())
    (snapshots,) = tables["Test snapshots"]
    assert snapshots["accuracy"] == "0.850 ± 0.071"
    assert snapshots["runs"] == "2"
    left_out = next(rows for title, rows in tables.items() if "left out" in title)
    assert [row["entropy"] for row in left_out] == ["0.750 ± 0.000"] * 2
    text = (tmp_path / "report.md").read_text()
    assert "head_epochs=3" in text
    assert "over 2 seeds" in text


def test_classes_are_what_is_counted_and_tested_where_one_is_left_out(tmp_path: Path) -> None:
    scores = dict.fromkeys(
        ("accuracy", "balanced_accuracy", "nll", "ece", "auroc_predictive_entropy"), 0.5
    ) | {"unseen_mutual_information": 0.5}
    gains = {"ship": (0.1, 0.3), "plane": (-0.2, 0.1), "human": (0.05, 0.0)}
    records = [
        {
            "cell": vars(Cell("side-scan", "FE1", seed, left_out)),
            "settings": {},
            "seconds": {"all": 10.0},
            "methods": {
                "Linear + temperature": {**scores, "unseen_predictive_entropy": 0.6},
                "HGP": {**scores, "unseen_predictive_entropy": 0.6 + gain},
            },
        }
        for left_out, of_class in gains.items()
        for seed, gain in enumerate(of_class)
    ]
    write_report(tmp_path, records)
    tables = json.loads((tmp_path / "report.json").read_text())
    (row,) = next(rows for title, rows in tables.items() if "less that of" in title)
    means = [0.2, -0.05, 0.025]
    assert row["difference"] == f"{np.mean(means):+.3f}"
    assert row["classes at least as good"] == "2 of 3"
    assert row["runs at least as good"] == "5 of 6"
    assert row["p"].startswith(f"{scipy.stats.ttest_1samp(means, 0).pvalue:.3f} (paired t of 3")


def test_names_of_files_are_plain() -> None:
    assert Cell("debris, few", "FE1", 2, "drink-carton").name == "debris-few-FE1-2-without-drink-carton"
    with pytest.raises(KeyError):
        plan_cells(["unknown"], ["FE1"], [0], unseen=False)
