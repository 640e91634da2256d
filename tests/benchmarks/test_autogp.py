"""The benchmark of AutoGP, and the runner of cells that it shares."""

import json
import shutil
from contextlib import nullcontext

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import cell_runner
from benchmarks.autogp import few, gprn, kernels, label_errors, problems
from benchmarks.autogp.mnist import curve_by_processor_time
from benchmarks.autogp.models import classifier, covariance
from benchmarks.autogp.plan import CELLS, fit_size, needs_package
from benchmarks.autogp.report import rows_of
from benchmarks.cell_runner import Cell, CellBenchmark
from benchmarks.peers.gprn import NetworkMarginals
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
        **dict.fromkeys(("milliseconds", "ratio", "lowest", "highest", "mebibytes", "value", "smse"), 1.0),
        "best_step": 3,
        "steps": 5,
    }
    cells = CELLS[part][:4]
    rows = rows_of(part, [cell._asdict() | record for cell in cells])
    assert len(rows) == len({(cell.method, cell.setting) for cell in cells})
    assert len({tuple(row) for row in rows}) == 1


def test_settings_of_digits_name_the_size_of_a_fit():
    sizes = {cell.setting: fit_size(cell.setting) for cell in CELLS["mnist"]}
    assert sizes["shared kernel"] == ("shared", 200, 6000)
    assert sizes["shared kernel, M = 10"] == ("shared", 10, 6000)
    assert sizes["kernel for each class, 500 steps"] == ("separate", 200, 500)


def test_error_over_time_is_shown_after_shares_of_the_planned_steps():
    nan = float("nan")
    looks = [(1, nan), (100, -0.5), (250, -0.4), (500, -0.3)]
    curve = curve_by_processor_time(looks, [(50, 1.0), (150, 3.0), (600, 12.0)])
    assert curve == [(100, 2.0, 0.5), (250, 5.0, 0.4), (500, 10.0, 0.3)]
    numbers = dict.fromkeys(("error", "nlp", "ece", "seconds", "validation_nll"), 0.1)
    record = Cell("mnist", "loo", "shared kernel, 1000 steps", 0)._asdict() | numbers
    (row,) = rows_of("mnist", [record | {"best_step": 500, "steps": 500, "curve": curve}])
    shown = [row[f"NLL at {share} (seconds)"] for share in ("10%", "25%", "50%", "100%")]
    assert shown == ["0.500 (2)", "0.400 (5)", "0.300 (10)", ""]  # it stopped halfway


def test_names_of_methods_say_components_and_kernels(tmp_path, monkeypatch):
    asked = []

    def refuse(name, _seed, **settings):
        asked.append((name, settings))
        raise InterruptedError

    monkeypatch.setattr(problems, "digits", toy_problem)
    for module, method in (
        (few, "AutoGP elbo, K = 4"),
        (few, "AutoGP elbo"),
        (kernels, "SVM, arc_cosine0 depth 6"),
        (kernels, "arc_cosine0 depth 3, M = 400"),
    ):
        monkeypatch.setattr(module, "classifier", refuse)
        with pytest.raises(InterruptedError):
            module.compute(Cell("few", method, "MNIST 40", 0), tmp_path)
    assert asked == [
        ("AutoGP elbo", {"num_components": 4}),
        ("AutoGP elbo", {}),
        ("arc-cosine SVM", {"kernel": "arc_cosine0", "kernel_depth": 6}),
        ("SVGP", {"kernel": "arc_cosine0", "kernel_depth": 3, "num_inducing": 400}),
    ]


def test_kernel_of_the_machine_is_the_papers():
    rng = np.random.default_rng(0)
    x, u = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    rows, others = (np.hstack([part / np.sqrt(3), np.ones((len(part), 1))]) for part in (x, u))
    lengths = np.outer(np.linalg.norm(rows, axis=1), np.linalg.norm(others, axis=1))
    angle = np.arccos(rows @ others.T / lengths)
    expected = lengths * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi
    np.testing.assert_allclose(covariance(x, u, name="arc_cosine1", depth=1), expected)
    # Of degree 0 each layer is the angle in units of π; two layers make it of the first one's values.
    first = 1.0 - angle / np.pi
    np.testing.assert_allclose(
        covariance(x, u, name="arc_cosine0", depth=2), 1.0 - np.arccos(first) / np.pi, atol=1e-9
    )


def test_machine_with_our_kernel_learns(tmp_path):
    problem = toy_problem(tmp_path, 0)
    model = classifier("arc-cosine SVM", 0, kernel="arc_cosine1", kernel_depth=2)
    model.fit(problem.x[50:], problem.y[50:])
    assert np.mean(model.predict(problem.test_x) == problem.test_y) > 0.9
    probability = model.predict_proba(problem.test_x)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)


def test_sampled_expectations_miss_by_the_root_of_the_draws():
    rng = np.random.default_rng(0)
    shapes = (60, 3, 2), (60, 3, 2), (60, 2), (60, 2)
    parts = [rng.normal(size=shape) for shape in shapes]
    y, noise = rng.normal(size=(60, 3)), np.array([0.5, 1.0, 2.0])
    known = NetworkMarginals(parts[0], np.zeros(shapes[1]), parts[2], np.zeros(shapes[3]))
    errors = gprn.sampling_errors(NetworkMarginals(*map(tf.constant, known)), y, noise, 0)
    assert errors["missed_by_10"] < 1e-12
    unsure = NetworkMarginals(parts[0], np.square(parts[1]), parts[2], np.square(parts[3]))
    errors = gprn.sampling_errors(NetworkMarginals(*map(tf.constant, unsure)), y, noise, 0)
    assert 5.0 < errors["missed_by_10"] / errors["missed_by_1000"] < 20.0  # √100


@pytest.fixture
def four_targets(monkeypatch):
    """Three targets without noise, linear in two inputs, and one that is half noise."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(80, 2))
    noisy = inputs[:, 0] + rng.normal(size=80)
    targets = np.column_stack([inputs[:, 0], inputs[:, 1], inputs.sum(axis=1), noisy])
    monkeypatch.setattr(gprn, "load", lambda _: {"X_train": np.hstack([inputs, targets])})


@pytest.mark.usefixtures("four_targets")
def test_several_targets_are_scored_by_their_mean(tmp_path):
    ridge = gprn.compute(Cell("gprn", "ridge", "toy", 0), tmp_path)
    assert 0.05 < ridge["smse"] < 0.25
    assert set(ridge) == {"smse", "seconds"}


@pytest.mark.slow
@pytest.mark.usefixtures("four_targets")
def test_a_network_and_processes_alone_are_scored_alike(tmp_path):
    alone = gprn.compute(Cell("gprn", "SVGP of each target", "toy", 0), tmp_path)
    assert 0.05 < alone["smse"] < 0.25
    network = gprn.compute(Cell("gprn", "GPRN, Q = 2", "toy", 0), tmp_path)
    assert network["smse"] < 0.4
    assert {"nlp", "expectation", "missed_by_1000"} <= set(network)


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
