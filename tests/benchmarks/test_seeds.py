"""The plans of the thesis' tables, with cells that are made up."""

import json
import sys

import pytest

from benchmarks import seeds
from benchmarks.tabular import __main__ as tabular
from benchmarks.tabular import runner


def run(monkeypatch, data, work, *options: str) -> int:
    monkeypatch.setattr(sys, "argv", ["seeds", "--data", str(data), "--work", str(work), *options])
    return seeds.main()


def made_up(cell, _data, record):
    """The command of a process that writes a record without training."""
    measures = {"error": 20.0 + cell.seed, "nlp": 0.5, "brier": 0.1, "ece": 0.01}
    text = json.dumps(
        {"cell": cell.as_dict(), "host": {}, "status": "done", "measures": measures, "seconds": 3.0}
        | {"processor_seconds": 2.0, "peak_memory": 900.0, "curve": [], "notes": {}}
    )
    return [sys.executable, "-S", "-c", f"open({str(record)!r}, 'w').write({text!r})"]


@pytest.mark.parametrize("table", seeds.PLANS)
def test_every_plan_is_one_of_the_tabular_benchmark(table):
    arguments = tabular.parse(["--data", "d", "--out", "o", *seeds.PLANS[table].split()])
    assert arguments.datasets
    assert set(arguments.methods) <= set(tabular.METHODS)


def test_a_table_resumes_lists_and_prints_the_paper_beside(monkeypatch, tmp_path, data_folder, capsys):
    (data_folder / "halves.npz").rename(data_folder / "german_numeric.npz")
    monkeypatch.setattr(runner, "cell_command", made_up)
    monkeypatch.setattr("benchmarks.tabular.report.plot_losses", lambda *_: None)
    options = ("--table", "4.3", "--datasets", "german_numeric", "--methods", "hgp", "--folds", "1")
    work = tmp_path / "work"
    assert run(monkeypatch, data_folder, work, *options, "--list") == 1
    assert "classification german_numeric hgp" in capsys.readouterr().out
    assert run(monkeypatch, data_folder, work, *options, "--budget", "0") == 1
    assert not list((work / "4.3" / "cells").iterdir())
    assert run(monkeypatch, data_folder, work, *options, "--seeds", "0") == 0
    assert run(monkeypatch, data_folder, work, *options) == 0
    printed = capsys.readouterr().out
    assert "2 cells, 1 of them computed before" in printed
    assert "| german_numeric | HGP | 1 | 2 | 20.5 ± 0.71 |" in printed
    assert "error 22.4, nlp 0.499" in printed
    assert run(monkeypatch, data_folder, work, *options, "--list") == 0
    assert "2 done" in capsys.readouterr().out
