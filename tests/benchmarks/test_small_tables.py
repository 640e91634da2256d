"""The comparison on small tables: rows, scores and test, and that a second run computes what is missing."""

import json
import sys

import numpy as np
import pytest

from benchmarks import small_tables
from benchmarks.small_tables import Cell, corrected_p, measures, report, split_rows


def test_splits_are_stratified_small_and_standardised_by_the_training_part():
    rng = np.random.default_rng(0)
    x, y = rng.normal(3.0, 5.0, (2500, 2)), np.arange(2500) % 5 % 2
    (train_x, train_y), (test_x, test_y) = split_rows((x, y), 7)
    assert train_x.shape == (500, 2)
    assert train_y.shape == (500,)
    assert len(test_y) == 625
    np.testing.assert_allclose(train_x.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(train_x.std(axis=0), 1.0, rtol=1e-12)
    assert abs(test_x.mean()) > 1e-4
    assert abs(np.mean(test_y) - np.mean(y)) < 0.01
    again = split_rows((x, y), 7)
    np.testing.assert_array_equal(again[0][0], train_x)
    assert not np.array_equal(split_rows((x, y), 8)[0][0], train_x)


def test_measures_by_hand():
    found = measures(np.array([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]]), np.array([0, 1, 1]))
    assert found["nll"] == pytest.approx(-(np.log(0.5) + np.log(0.75) + np.log(1e-15)) / 3)
    assert found["accuracy"] == pytest.approx(2 / 3)


def test_the_corrected_test_is_more_careful_than_the_plain_one_and_right_where_splits_share_rows():
    """Means of overlapping halves of the same rows under no difference: plain t rejects far too often."""
    rng = np.random.default_rng(0)
    rejected = {"corrected": 0, "plain": 0}
    for _ in range(400):
        values = rng.normal(size=60)
        differences = np.array([values[rng.permutation(60)[:15]].mean() for _ in range(20)])
        rejected["corrected"] += corrected_p(differences, 15 / 45) < 0.05
        rejected["plain"] += corrected_p(differences, 0.0) < 0.05
    assert rejected["corrected"] / 400 < 0.08
    assert rejected["plain"] / 400 > 0.2


def test_equal_scores_are_no_difference():
    assert corrected_p(np.zeros(5), 0.3) == 1.0
    assert corrected_p(np.array([0.1]), 0.3) == 1.0


def test_the_report_compares_each_method_with_ours():
    records = [
        {**Cell("iris", method, split)._asdict(), "nll": nll + 0.01 * split, "accuracy": 0.9}
        | {"seconds": 1.0, "num_train": 75, "num_test": 25}
        for method, nll in (("hgp", 0.1), ("logistic", 0.2))
        for split in range(5)
    ]
    ours, theirs = report(records, {"iris": (100, 4, 3)}, ["hgp", "logistic"])
    assert ours["NLL"] == "0.1200"
    assert ours["HGP's NLL against it"] == ""
    assert theirs["HGP's NLL against it"].startswith("-0.1000")
    assert theirs["HGP's NLL against it"].endswith("lower")


@pytest.mark.slow
def test_a_second_run_computes_only_what_is_missing(monkeypatch, tmp_path):
    options = ["--out", str(tmp_path), "--tables", "iris", "--methods", "logistic", "--splits", "2"]
    monkeypatch.setattr(sys, "argv", ["small_tables", *options])
    small_tables.main()
    cells = sorted((tmp_path / "cells").glob("*.json"))
    assert [path.name for path in cells] == ["iris--logistic--0.json", "iris--logistic--1.json"]
    record = json.loads(cells[0].read_text()) | {"nll": 12.0}
    cells[0].write_text(json.dumps(record))
    cells[1].unlink()
    small_tables.main()
    assert json.loads(cells[0].read_text())["nll"] == 12.0
    assert cells[1].exists()
    assert "iris" in (tmp_path / "small_tables.md").read_text()


def test_a_folder_or_table_that_is_not_there_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["small_tables", "--out", str(tmp_path), "--data", str(tmp_path / "no")])
    with pytest.raises(SystemExit, match="is no folder"):
        small_tables.main()
    monkeypatch.setattr(sys, "argv", ["small_tables", "--out", str(tmp_path), "--tables", "irises"])
    with pytest.raises(SystemExit, match="irises"):
        small_tables.main()
