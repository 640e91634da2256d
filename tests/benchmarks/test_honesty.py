"""The tables of the study of honesty: which way a test says, and what is guaranteed."""

import numpy as np
import pytest

from benchmarks.honesty.data_sets import _groups_with_both
from benchmarks.honesty.plan import Cell
from benchmarks.honesty.report import BASELINE, differences_table, group_differences, guarantee_table


def record(baseline: list[float], ours: list[float], seed: int = 0, **row: object) -> dict[str, object]:
    """A cell with two methods, each judged on one group for each NLL."""

    def method(values: list[float]) -> dict[str, object]:
        of_groups = {str(number): value for number, value in enumerate(values)}
        guarantees = [{"max_error": 0.05, "threshold": 0.2, "violated": False, **row}]
        return {"scores": {"nll": np.mean(values)}, "nll_of_groups": of_groups, "guarantees": guarantees}

    cell = {"subject": "colon", "network": "handmade", "size": 2, "seed": seed, "left_out": None}
    return {"cell": cell, "methods": {BASELINE: method(baseline), "HGP": method(ours)}}


def last_row(table: str) -> list[str]:
    return [cell.strip() for cell in table.splitlines()[-1].strip("|").split("|")]


def test_groups_are_compared_by_their_means_over_seeds():
    records = [record([0.5, 0.6], [0.4, 0.6]), record([0.5, 0.6], [0.2, 0.7], seed=1)]
    np.testing.assert_allclose(group_differences(records, "HGP"), [-0.2, 0.05])


@pytest.mark.parametrize(
    ("ours", "counts"),
    [
        ([0.4] * 20, "1 / 1 / 0"),
        ([0.6] * 20, "0 / 0 / 1"),
        # One group far below turns the mean; the test says the opposite of most.
        ([0.52] * 19 + [-1.5], "1 / 0 / 0"),
    ],
)
def test_a_difference_is_clear_where_mean_and_test_agree(ours, counts):
    assert last_row(differences_table([record([0.5] * 20, ours)]))[1] == counts


def test_a_guarantee_that_nothing_judges_is_not_called_kept():
    made = [record([0.5], [0.5], violated=violated) for violated in (False, True, None)]
    assert last_row(guarantee_table(made))[-4:] == ["3", "3", "1", "1"]


def test_patients_are_drawn_so_that_one_can_be_held_out():
    labels = {"a": {0}, "b": {0}, "c": {1}, "d": {1}, "e": {0, 1}}
    for seed in range(20):
        drawn = _groups_with_both(labels, Cell("colon", "handmade", 2, seed))
        assert "e" in drawn  # two patients have both classes, and one of them twice
