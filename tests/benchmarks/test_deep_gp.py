"""The benchmark of deep GPs: its cells, how it judges mixtures, and its tables."""

import numpy as np
import pytest
import scipy.stats

from benchmarks.deep_gp.pictures import aligned, toy_rows
from benchmarks.deep_gp.plan import CELLS, METHODS, Cell
from benchmarks.deep_gp.rates import _without_test_part
from benchmarks.deep_gp.regression import judged, load
from benchmarks.deep_gp.report import TITLES, rows_of


def test_cells_have_files_of_their_own():
    cells = [cell for own in CELLS.values() for cell in own]
    assert len({cell.file for cell in cells}) == len(cells)
    assert all(cell.part == part for part, own in CELLS.items() for cell in own)
    assert {cell.model for own in CELLS.values() for cell in own} == set(TITLES)
    assert {method.partition("@")[0] for method, _ in METHODS} == set(TITLES)


def test_a_method_may_name_its_learning_rate():
    plain, other = (Cell("regression", "kin40k", method, 2, 0) for method in ("gpytorch", "gpytorch@0.03"))
    assert (plain.model, plain.learning_rate) == ("gpytorch", 0.01)
    assert (other.model, other.learning_rate) == ("gpytorch", 0.03)


def test_learning_rates_are_judged_by_rows_of_the_training_part():
    x = np.arange(2400.0)[:, None]
    parts = {"X_train": x, "y_train": x[:, 0], "X_test": x + 1e6, "y_test": x[:, 0] + 1e6}
    divided = _without_test_part(parts)
    assert (len(divided["X_train"]), len(divided["X_test"])) == (1400, 1000)
    found = np.concatenate([divided["y_train"], divided["y_test"]])
    np.testing.assert_array_equal(np.sort(found), x[:, 0])
    np.testing.assert_array_equal(divided["X_test"][:, 0], divided["y_test"])


def test_density_of_a_mixture_is_the_mean_of_densities():
    means, variances = np.array([[0.0, 1.0], [2.0, 1.0]]), np.array([[1.0, 0.5], [4.0, 0.5]])
    target = np.array([0.5, 2.0])
    densities = scipy.stats.norm.pdf(target, means, np.sqrt(variances)).mean(axis=0)
    scores = judged(means, variances, target)
    assert scores["nlp"] == pytest.approx(-np.log(densities).mean())
    assert scores["smse"] == pytest.approx(np.mean([0.25, 1.0]) / target.var())


def test_data_are_standardised_by_their_training_part(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "tabular").mkdir()
    parts = {"X_train": rng.normal(3.0, 2.0, (50, 2)), "y_train": rng.normal(5.0, 1.0, 50)}
    tests = {"X_test": parts["X_train"][:5], "y_test": parts["y_train"][:5]}
    np.savez(tmp_path / "tabular" / "toy.npz", **parts, **tests)
    scaled = load(tmp_path, "toy")
    np.testing.assert_allclose(scaled["X_train"].mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(scaled["y_train"].std(), 1.0)
    np.testing.assert_allclose(scaled["X_test"], scaled["X_train"][:5])
    with pytest.raises(SystemExit, match=r"other\.npz is missing"):
        load(tmp_path, "other")


def test_tables_have_a_row_for_each_method_and_size():
    record = {"data": "kin40k", "seed": 0, "nlp": 0.25, "smse": 0.1, "seconds": 3.0}
    records = [record | {"method": "deep_gp", "layers": layers} for layers in (2, 1)]
    records.append(record | {"method": "deep_gp", "layers": 2, "seed": 1, "nlp": 0.35})
    rows = rows_of("regression", records)
    assert [row["layers"] for row in rows] == [1, 2]
    assert rows[1]["NLP"] == "0.300 (0.250, 0.350)"
    faster = rows_of("rates", [*records, record | {"method": "deep_gp@0.03", "layers": 2}])
    assert [row["method"].removeprefix(TITLES["deep_gp"]) for row in faster] == [
        "",
        "",
        ", learning rate 0.03",
    ]
    times = [
        {"method": name, "milliseconds": value, "spread": 1.0}
        for name, value in (("deep_gp", 20.0), ("gpytorch", 40.0))
    ]
    assert rows_of("speed", times)[0]["over GPyTorch's"] == "0.50"


def test_repetitions_are_counted_against_the_gp_of_the_same_data():
    rmse = {"GP": [0.2, 0.3, 0.1], "deep GP": [0.1, 0.4, 0.05]}
    scores = {name: [{"rmse": value} for value in values] for name, values in rmse.items()}
    gp, deep = toy_rows(scores)
    assert (gp["RMSE"], gp["RMSE below the GP's"]) == ("0.200 ± 0.100", "")
    assert deep["RMSE below the GP's"] == "2 of 3"


def test_what_was_found_is_compared_up_to_an_affine_map():
    truth = np.random.default_rng(0).normal(size=(20, 2))
    found = truth @ [[2.0, 1.0], [0.0, -3.0]] + 5.0
    np.testing.assert_allclose(aligned(found, truth), truth)
    assert np.abs(aligned(found[:, :1], truth) - truth).max() > 0.1
