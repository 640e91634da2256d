"""The command, end to end on tiny sets with cheap peers; every cell is a process of its own."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks.tabular import __main__ as command
from benchmarks.tabular import runner

ROOT = Path(__file__).parents[2]


def run(monkeypatch, data: Path, out: Path, *options: str) -> int:
    arguments = ["--data", str(data), "--out", str(out), "--tables", "classification", "regression"]
    monkeypatch.setattr(sys, "argv", ["tabular", *arguments, *options])
    return command.main()


def records(out: Path) -> dict[str, dict]:
    return {path.stem: json.loads(path.read_text()) for path in (out / "cells").glob("*.json")}


TREES = ("--methods", "trees", "--folds", "2", "--iterations", "5")


@pytest.mark.slow
def test_a_run_reports_and_the_next_one_resumes(monkeypatch, tmp_path, data_folder):
    out = tmp_path / "out"
    assert run(monkeypatch, data_folder, out, *TREES, "--jobs", "2") == 0
    first = records(out)
    assert len(first) == 4
    regression = first["regression--slope--trees--fold1--seed0--m10"]
    assert regression["num_train"] == 54
    assert 0.0 < regression["measures"]["smse"] < 2.0
    assert regression["peak_memory"] >= regression["memory_before_training"] > 0.0
    report = json.loads((out / "report.json").read_text())
    assert report["not_done"] == []
    assert report["tables"]["Classification (thesis Table 4.3)"][0]["folds"] == 2
    assert "| halves | boosted trees | 2 | 1 |" in (out / "report.md").read_text()
    assert (out / "classification_nlp.png").stat().st_size > 0

    removed = "classification--halves--trees--fold0--seed0--m10"
    (out / "cells" / f"{removed}.json").unlink()
    times = {path: path.stat().st_mtime_ns for path in (out / "cells").glob("*.json")}
    assert run(monkeypatch, data_folder, out, *TREES, "--jobs", "0") == 0  # in this process
    second = records(out)
    assert second[removed]["measures"] == first[removed]["measures"]
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())


def test_no_budget_starts_no_cell_and_lists_all(monkeypatch, tmp_path, data_folder):
    out = tmp_path / "out"
    assert run(monkeypatch, data_folder, out, *TREES, "--budget", "0") == 1
    assert records(out) == {}
    missing = json.loads((out / "report.json").read_text())["not_done"]
    assert [row["status"] for row in missing] == ["not run"] * 4


@pytest.mark.slow
def test_what_dies_or_takes_too_long_is_listed_and_retried_only_on_request(
    monkeypatch, tmp_path, data_folder
):
    out = tmp_path / "out"
    scripts = {"halves": "raise SystemExit('killed for memory')", "slope": "import time; time.sleep(60)"}
    calls = []

    def broken_command(cell, _data, _record):
        calls.append(cell.dataset)
        return [sys.executable, "-c", scripts[cell.dataset]]

    monkeypatch.setattr(runner, "cell_command", broken_command)
    options = ("--methods", "trees", "--folds", "1", "--timeout", "0.02")
    assert run(monkeypatch, data_folder, out, *options) == 1
    missing = json.loads((out / "report.json").read_text())["not_done"]
    assert {row["status"] for row in missing} == {"failed", "timeout"}
    assert "killed for memory" in next(row["reason"] for row in missing if row["status"] == "failed")
    assert "| classification--halves--trees--fold0--seed0--m10 | failed |" in (out / "report.md").read_text()
    run(monkeypatch, data_folder, out, *options)
    assert len(calls) == 2
    run(monkeypatch, data_folder, out, *options, "--retry")
    assert len(calls) == 4


@pytest.mark.slow
def test_a_method_that_raises_leaves_its_message(monkeypatch, tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    np.savez(data / "few.npz", X=np.eye(4), y=np.array([0, 0, 1, 1]))  # 4 rows cannot make 10 folds
    assert run(monkeypatch, data, out, *TREES) == 1
    assert {record["status"] for record in records(out).values()} == {"failed"}
    assert "ValueError: Cannot have number of splits n_splits=10" in (out / "report.md").read_text()


def test_refused_files_and_absent_peers_are_noted(monkeypatch, tmp_path, data_folder):
    out = tmp_path / "out"
    np.savez(data_folder / "other.npz", features=np.eye(2))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    run(monkeypatch, data_folder, out, "--methods", "trees", "gpytorch_svgp", "--budget", "0")
    notes = json.loads((out / "report.json").read_text())["notes"]
    assert notes[0] == "GPyTorch SVGP skipped: gpytorch is not installed (extra `peers`)."
    assert notes[1].startswith("Refused: other.npz: found the arrays ['features'], expected X")


def test_an_unknown_set_is_an_error_that_names_the_known_ones(monkeypatch, tmp_path, data_folder, capsys):
    assert run(monkeypatch, data_folder, tmp_path / "out", "--datasets", "iris") == 2
    assert "found no data set ['iris']; it has ['halves', 'slope']" in capsys.readouterr().err


@pytest.mark.slow
def test_results_of_other_settings_are_not_mixed(monkeypatch, tmp_path, data_folder, capsys):
    out = tmp_path / "out"
    options = ("--datasets", "halves", "--methods", "trees", "--folds", "1")
    assert run(monkeypatch, data_folder, out, *options, "--iterations", "2") == 0
    assert run(monkeypatch, data_folder, out, *options, "--iterations", "3") == 2
    assert "was made with another max_iterations" in capsys.readouterr().err


@pytest.mark.slow
def test_a_terminated_run_stops_its_cell_and_reports(tmp_path, data_folder):
    out = tmp_path / "out"
    command_line = [sys.executable, "-m", "benchmarks.tabular", "--data", data_folder, "--out", out]
    process = subprocess.Popen([*command_line, "--methods", "trees", "--folds", "10"], cwd=ROOT)
    while not list(out.glob("logs/*.txt")):
        time.sleep(0.05)
    process.terminate()
    assert process.wait(timeout=60) == 130
    assert json.loads((out / "report.json").read_text())["not_done"]
    count = len(records(out))
    time.sleep(3.0)  # a cell that went on would be done by now
    assert len(records(out)) == count


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("method", ["svgp", "gpflow_svgp", "gpytorch_svgp", "svm"])
def test_each_recording_method_draws_a_curve(monkeypatch, tmp_path, data_folder, method):
    if method == "gpytorch_svgp":
        reason = "gpytorch is optional (gpimaging[peers])"
        pytest.importorskip("gpytorch", reason=reason, exc_type=ImportError)
    out = tmp_path / "out"
    options = ("--tables", "time_accuracy", "classification", "--datasets", "halves", "--methods", method)
    assert run(monkeypatch, data_folder, out, *options, "--folds", "1", "--iterations", "30") == 0
    if method != "svm":
        curve = records(out)[f"time_accuracy--halves--{method}--fold0--seed0--m10"]["curve"]
        assert len(curve) > 1
        assert [point["seconds"] for point in curve] == sorted(point["seconds"] for point in curve)
        assert (out / "time_accuracy_halves.png").exists()
