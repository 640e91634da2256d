"""The benchmark of latent variables: what it draws, how it judges, and its tables."""

import numpy as np
import pytest

from benchmarks.latent_variables import missing_pixels, oil_flow, speed
from benchmarks.latent_variables.maps import accuracy_across_groups
from benchmarks.latent_variables.plan import PARTS, cells_of
from benchmarks.latent_variables.report import rows_of
from benchmarks.latent_variables.views import kernel_cca


def test_cells_have_files_of_their_own():
    cells = [cell for part in PARTS for cell in cells_of(part)]
    assert len({cell.file for cell in cells}) == len(cells)
    assert {cell.part for cell in cells} == set(PARTS)
    assert all(" " not in cell.file for cell in cells)


def test_leave_one_out_errors_are_of_nearest_others():
    position = np.array([[0.0], [0.1], [1.0], [1.2], [5.0]])
    assert oil_flow.leave_one_out_errors(position, np.array([0, 0, 1, 1, 0])) == 1
    assert oil_flow.neighbour_errors(position, np.array([0, 0, 1, 1, 0]), position + 0.01, np.ones(5)) == 3


def test_a_neighbour_is_of_another_group():
    position = np.array([[0.0], [0.1], [0.3], [5.0]])
    group, label = np.array([0, 0, 1, 2]), np.array([0, 1, 0, 0])
    assert accuracy_across_groups(position, label, group) == 0.5


def test_missing_pixels_are_judged_where_they_are_missing():
    test = np.array([[0.0, 1.0], [2.0, 3.0]])
    missing = np.array([[True, False], [False, True]])
    scores = missing_pixels.judged(test, missing, np.array([[1.0, 9.0], [9.0, 3.0]]), np.array([1.0, 1.0]))
    assert scores["rmse"] == pytest.approx(np.sqrt(0.5))
    assert scores["covered"] == 1.0
    assert scores["nll"] == pytest.approx(0.5 * np.log(2 * np.pi) + 0.25)


def test_probabilistic_pca_fills_by_the_conditional_gaussian():
    rng = np.random.default_rng(0)
    train = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 5)) + 0.1 * rng.normal(size=(400, 5))
    row = train[:1].copy()
    row[0, 3] = np.nan
    mean, deviation = missing_pixels.probabilistic_pca(train, row, 2)
    values, vectors = np.linalg.eigh(np.cov(train, rowvar=False, bias=True))
    noise = values[:3].mean()
    covariance = (vectors[:, 3:] * (values[3:] - noise)) @ vectors[:, 3:].T + noise * np.eye(5)
    seen = [0, 1, 2, 4]
    gain = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[seen, 3])
    centre = train.mean(axis=0)
    assert mean[0, 3] == pytest.approx(centre[3] + gain @ (row[0, seen] - centre[seen]))
    assert deviation[0, 3] ** 2 == pytest.approx(covariance[3, 3] - gain @ covariance[seen, 3])


def test_kernel_cca_predicts_what_two_views_share():
    """A circle seen by two views, of which the second turns twice as fast; no line predicts it."""
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 150)
    first, second = (np.column_stack([np.cos(k * angle), np.sin(k * angle)]) for k in (1, 2))
    predicted = kernel_cca(first[:120], second[:120], first[120:])
    errors = [np.sqrt(np.mean((each - second[120:]) ** 2)) for each in predicted]
    assert min(errors) < 0.1
    assert max(errors) < 1.0


def test_the_table_of_views_counts_what_is_shared_and_private():
    tissue = {
        "setting": "tissue",
        "seed": 0,
        "seconds": 1.0,
        "views": ["a", "b"],
        "users": [(0, 1), (0,), ()],
    }
    half = {"setting": "halves", "method": "ridge", "seconds": 1.0}
    rows = rows_of("views", [tissue, *({**half, "seed": s, "rmse": 0.1 + s} for s in range(2))])
    found = [(row["method"], row["dimensions used"], row["private"], row["shared with"]) for row in rows[:2]]
    assert found == [("seed 0: a", 2, 1, "b 1"), ("seed 0: b", 1, 0, "a 1")]
    assert rows[2]["RMSE"] == "0.6000 (0.1000, 1.1000)"


def test_tables_have_a_row_for_each_method():
    records = [
        {"method": "gaussian", "setting": "", "seed": seed, "errors_2": seed, "seconds": 1.0}
        for seed in range(3)
    ]
    (row,) = rows_of("oil_flow", records)
    assert row["errors, 2 dimensions"] == "1 (0, 1, 2)"
    odd = [{"setting": "tire, upside down", "aurocs": {"gplvm": value}} for value in (0.5, 0.9)]
    (row,) = rows_of("odd", odd)
    assert (row["AUROC"], row["lowest"], row["sets"]) == ("0.700", "0.500", 2)


@pytest.mark.slow
def test_a_bound_that_was_not_reached_is_said_not_to_be():
    x = np.random.default_rng(0).normal(size=(60, 12))
    assert not speed.own_time_to(np.inf, x, max_iterations=2)["ours_reached_it"]
    found = speed.own_time_to(-1e9, x, max_iterations=2)
    assert found["ours_reached_it"]
    assert found["ours_iterations"] == 1
