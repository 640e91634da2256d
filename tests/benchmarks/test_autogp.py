"""The benchmark of AutoGP, and the runner of cells that it shares."""

import json
import shutil
from contextlib import nullcontext

import numpy as np
import pytest

from benchmarks import cell_runner
from benchmarks.autogp import label_errors, problems
from benchmarks.autogp.plan import CELLS, needs_package
from benchmarks.autogp.report import rows_of
from benchmarks.cell_runner import Cell, CellBenchmark
from data_prep.prepared import workers


def test_cells_have_files_of_their_own():
    cells = [cell for part in CELLS.values() for cell in part]
    assert len({cell.file for cell in cells}) == len(cells)
    assert {cell.part for cell in cells} == set(CELLS)
    assert all(" " not in cell.file for cell in cells)
    assert needs_package(Cell("label_errors", "cleanlab", "", 0)) == "cleanlab"


def toy_problem(_, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(200, 2))
    y = (x[:, 0] > 0).astype(np.intp)
    return problems.Problem(x, y, x[:50], y[:50])


def test_problems_have_the_rows_asked_for_of_every_class(tmp_path, monkeypatch):
    monkeypatch.setattr(problems, "digits", toy_problem)
    problem = problems.load("MNIST 40", tmp_path, 3)
    assert len(problem.y) == 40
    assert 15 <= problem.y.sum() <= 25
    assert len(problem.test_y) == 50
    assert len(problems.load("MNIST 1000", tmp_path, 3).y) == 200


@pytest.mark.slow
def test_exchanged_labels_are_found_where_a_model_knows_better(tmp_path, monkeypatch):
    monkeypatch.setattr(problems, "digits", toy_problem)
    record = label_errors.compute(Cell("label_errors", "SVGP", "MNIST 200", 0), tmp_path)
    assert record["precision"] >= 0.5  # by chance .02


@pytest.mark.parametrize("part", CELLS)
def test_tables_have_a_row_for_each_method(part):
    record = {
        **dict.fromkeys(("error", "nlp", "ece", "seconds", "validation_nll", "precision"), 0.1),
        **dict.fromkeys(("milliseconds", "ratio", "lowest", "highest", "mebibytes", "value"), 1.0),
        "best_step": 3,
        "steps": 5,
    }
    cells = CELLS[part][:4]
    rows = rows_of(part, [cell._asdict() | record for cell in cells])
    assert len(rows) == len({(cell.method, cell.setting) for cell in cells})
    assert len({tuple(row) for row in rows}) == 1


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of two cells, one of which needs what is not there."""
    folder = tmp_path / "toy_benchmark"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "one.py").write_text("def compute(cell, data):\n    return {'value': cell.seed + 1}\n")
    main = (
        "from benchmarks.cell_runner import Cell, CellBenchmark\n"
        "CellBenchmark('toy_benchmark', 'Toy', '', 'anything',\n"
        "    {'one': [Cell('one', 'a', 'b', 1), Cell('one', 'missing', 'b', 1)]},\n"
        "    lambda part, records: [{'value': r['value']} for r in records],\n"
        "    lambda cell: 'no_such_package' if cell.method == 'missing' else None).main()\n"
    )
    (folder / "__main__.py").write_text(main)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    return tmp_path


def test_runner_computes_what_is_missing_once(package, monkeypatch, capsys):
    cells = {"one": [Cell("one", "a", "b", 1), Cell("one", "missing", "b", 1)]}
    benchmark = CellBenchmark(
        "toy_benchmark",
        "Toy",
        "",
        "anything",
        cells,
        lambda _, records: [{"value": record["value"]} for record in records],
        lambda cell: "no_such_package" if cell.method == "missing" else None,
    )
    out = package / "out"
    monkeypatch.setattr("sys.argv", ["toy", "--data", str(package), "--out", str(out)])
    benchmark.main()
    assert [path.name for path in (out / "cells").iterdir()] == ["one--a--b--1.json"]
    assert json.loads((out / "one.json").read_text())["rows"] == [{"value": 2}]
    changed = Cell("one", "a", "b", 1)._asdict() | {"value": 7}
    (out / "cells" / "one--a--b--1.json").write_text(json.dumps(changed))
    capsys.readouterr()
    benchmark.main()
    assert json.loads((out / "one.json").read_text())["rows"] == [{"value": 7}]
    assert "one--a--b--1.json" not in capsys.readouterr().out
    # Another machine has the report alone; a cell of an earlier plan in it is left out.
    report = json.loads((out / "one.json").read_text())
    report["cells"].append(report["cells"][0] | {"seed": 5})
    (out / "one.json").write_text(json.dumps(report))
    shutil.rmtree(out / "cells")
    benchmark.main()
    assert json.loads((out / "one.json").read_text())["rows"] == [{"value": 7}]
    assert "one--a--b--1.json" not in capsys.readouterr().out


def test_runner_computes_cells_on_a_cluster(package, cluster, monkeypatch):
    benchmark = CellBenchmark(
        "toy_benchmark",
        "Toy",
        "",
        "anything",
        {"one": [Cell("one", "a", "b", 1)]},
        lambda _, records: [{"value": record["value"]} for record in records],
        lambda _: None,
    )
    opened = []
    monkeypatch.setattr(
        cell_runner, "open_cluster", lambda address: opened.append(address) or nullcontext(cluster)
    )
    out = package / "out"
    monkeypatch.setattr(
        "sys.argv", ["toy", "--data", str(package), "--out", str(out), "--cluster", "local:2"]
    )
    benchmark.main()
    assert json.loads((out / "one.json").read_text())["rows"] == [{"value": 2}]
    benchmark.main()  # nothing is missing
    assert opened == ["local:2"]
    monkeypatch.setattr(
        "sys.argv", ["toy", "--data", str(package), "--out", str(out / "2"), "--cluster", "here"]
    )
    monkeypatch.setattr(cell_runner, "open_cluster", workers.open_cluster)
    with pytest.raises(SystemExit, match="--cluster here: expected tcp://HOST:PORT"):
        benchmark.main()


def test_runner_names_a_folder_that_is_not_there(monkeypatch, tmp_path):
    benchmark = CellBenchmark("toy", "Toy", "", "mnist/", {"one": []}, lambda *_: [], lambda _: None)
    monkeypatch.setattr("sys.argv", ["toy", "--data", str(tmp_path / "no"), "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="is no folder; expected one with mnist/"):
        benchmark.main()
