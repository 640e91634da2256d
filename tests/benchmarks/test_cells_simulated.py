"""The comparison on simulated cell events: what is trained on, how it is scored, and its table."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.cells_simulated import (
    DIFFERENCE,
    NONE_PER_EVENT,
    Candidates,
    chooses,
    difference_score,
    f1_scores,
    judge,
    projected,
    scores,
    summarise,
    training_rows,
)


def candidates(number: int, events: int, *, seed: int = 0) -> Candidates:
    rng = np.random.default_rng(seed)
    labels = np.arange(number) < events
    views = {
        "current_lbp": rng.normal(size=(number, 6)).astype(np.float32),
        "current_difference_histogram": rng.dirichlet(np.ones(26), number).astype(np.float32),
    }
    return Candidates(views, labels)


def test_tiles_that_choose_settings_are_not_judged() -> None:
    names = [f"tile_{row}{column}" for row in range(3) for column in range(3)]
    assert [name for name in names if chooses(name)] == ["tile_02", "tile_12", "tile_22"]


def test_all_events_and_some_of_the_others_are_trained_on() -> None:
    train = candidates(500, 3)
    rows = training_rows(train, seed=0)
    assert train.events[rows].sum() == 3
    assert len(rows) == len(set(rows.tolist())) == 3 * (1 + NONE_PER_EVENT)
    assert rows.tolist() == training_rows(train, seed=0).tolist() != training_rows(train, seed=1).tolist()
    assert len(training_rows(candidates(10, 3), seed=0)) == 10  # there are no more


def test_views_are_projected_as_the_training_rows_say() -> None:
    train, other = candidates(60, 5), candidates(30, 5, seed=1)
    rows = np.arange(40)
    x, (test,), columns = projected(train, rows, [other], components=4)
    assert (x.shape, test.shape, columns) == ((40, 8), (30, 8), [slice(0, 4), slice(4, 8)])
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-6)
    _, (same,), _ = projected(train, rows, [train], components=4)
    np.testing.assert_allclose(same[:40], x, atol=1e-6)


def test_a_difference_is_measured_from_no_change() -> None:
    histogram = np.zeros((2, 26), np.float32)
    histogram[0, 12] = 1  # levels 119 to 127: no change
    histogram[1, 25] = 1  # 247 to 255: as bright as can be
    still, bright = difference_score(
        Candidates({"current_difference_histogram": histogram}, np.ones(2, bool))
    )
    assert still < 10
    assert bright == pytest.approx(2 * (25.5 * 256 / 26 - 127))


def test_what_is_judged_is_not_judged_again(tmp_path: Path) -> None:
    sequences = {"a": candidates(80, 4), "b": candidates(60, 4, seed=1)}
    linear = {"Linear + temperature": {"setting": {"components": 4, "C": 0.1}, "threshold": 0.5}}
    path = tmp_path / "a.json"
    first = judge(sequences, "a", linear, 0, path)
    assert set(first) == {"Linear + temperature", DIFFERENCE}
    assert len(first[DIFFERENCE]["f1"]) == 1  # b
    other = {"Linear + temperature": linear["Linear + temperature"] | {"threshold": 2.0}}
    assert judge(sequences, "a", other, 0, path) == first


def test_scores_are_of_each_sequence() -> None:
    events = np.array([True, True, False, False])
    one = Candidates({}, events)
    probability = np.array([0.9, 0.3, 0.5, 0.1])
    assert f1_scores(events, probability)[0] == pytest.approx(2 / 3)  # all are called events
    result = scores([one, one], [probability, np.array([0.9, 0.8, 0.1, 0.1])], 0.4)
    assert result["f1"] == [pytest.approx(0.5), 1.0]
    assert result["average_precision"] == [pytest.approx((1 + 2 / 3) / 2), 1.0]


def test_the_table_tests_means_of_training_sequences() -> None:
    chosen = {method: {"setting": {"components": 5}, "threshold": 0.5} for method in ("DFGP-MKL", "BEMKL")}
    rng = np.random.default_rng(0)
    cells = [
        {
            method: {"f1": [value, value + noise], "average_precision": [0.5, 0.7], "seconds": 1.0}
            for method, value in (*zip(chosen, (0.8, 0.7), strict=True), (DIFFERENCE, 0.3))
        }
        for noise in rng.uniform(0, 0.1, 12)
    ]
    first, second, third = summarise(cells, chosen)
    assert (first["method"], second["method"], third["method"]) == ("DFGP-MKL", "BEMKL", DIFFERENCE)
    assert second["F1 of DFGP-MKL less this"] == "+0.100"
    assert float(second["p"]) < 0.01
    assert (first["p"], first["paper's F1 (other data)"], third["chosen"]) == ("", 0.8, "")
