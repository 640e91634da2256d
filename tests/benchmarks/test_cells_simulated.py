"""The comparison on simulated cell events: what is trained on, how it is scored, and its table."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import cells_simulated
from benchmarks.cells_simulated import (
    DIFFERENCE,
    NONE_PER_EVENT,
    Candidates,
    choose,
    chooses,
    f1_scores,
    judge,
    mean_difference,
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


def test_a_difference_is_measured_from_no_change() -> None:
    histogram = np.zeros((2, 26), np.float32)
    histogram[0, 12] = 1  # levels 119 to 127: no change
    histogram[1, 25] = 1  # 247 to 255: as bright as can be
    still, bright = mean_difference(histogram)
    assert still < 10
    assert bright == pytest.approx(2 * (25.5 * 256 / 26 - 127))


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


def test_what_is_judged_is_judged_again_only_where_it_is_of_something_else(tmp_path: Path) -> None:
    sequences = {"a": candidates(80, 4), "b": candidates(60, 4, seed=1)}
    method = "Linear + temperature"
    linear = {method: {"setting": {"components": 4, "C": 0.1}, "threshold": 0.5}}
    path = tmp_path / "a.json"
    first = judge(sequences, "a", linear, 0, path)
    assert set(first) == {method, DIFFERENCE}
    assert len(first[DIFFERENCE]["f1"]) == 1  # b
    assert judge(sequences, "a", linear, 0, path) == first  # its seconds too
    other = judge(sequences, "a", {method: linear[method] | {"threshold": -1.0}}, 0, path)
    assert other[method]["f1"] == [pytest.approx(2 * 4 / (60 + 4))]  # all are called events
    assert other[DIFFERENCE] == first[DIFFERENCE]
    sequences["b"] = candidates(30, 2, seed=2)
    others = judge(sequences, "a", {method: linear[method] | {"threshold": -1.0}}, 0, path)
    assert others[method]["f1"] == [pytest.approx(2 * 2 / (30 + 2))]
    assert others[DIFFERENCE]["average_precision"] != first[DIFFERENCE]["average_precision"]


@pytest.mark.slow
def test_settings_are_chosen_again_from_another_grid_or_other_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = "Linear + temperature"
    sequences = {"a": candidates(80, 4), "b": candidates(60, 4, seed=1)}
    monkeypatch.setattr(cells_simulated, "GRIDS", {method: {"components": (2,), "C": (0.1,)}})
    first = choose(sequences, tmp_path)
    calls: list[str] = []
    predict = cells_simulated.predicted
    monkeypatch.setattr(
        cells_simulated, "predicted", lambda *inputs: (calls.append(inputs[0]), predict(*inputs))[1]
    )
    assert (choose(sequences, tmp_path), calls) == (first, [])
    monkeypatch.setattr(cells_simulated, "GRIDS", {method: {"components": (3,), "C": (0.1,)}})
    assert choose(sequences, tmp_path)[method]["setting"]["components"] == 3
    choose(sequences | {"b": candidates(60, 4, seed=2)}, tmp_path)
    assert len(calls) == 2 * 2  # once for each of two sequences


def test_scores_are_of_each_sequence() -> None:
    events = np.array([True, True, False, False])
    one = Candidates({}, events)
    probability = np.array([0.9, 0.3, 0.5, 0.1])
    assert f1_scores(events, probability)[0] == pytest.approx(2 / 3)  # all are called events
    result = scores([one, one], [probability, np.array([0.9, 0.8, 0.1, 0.1])], 0.4)
    assert result["f1"] == [pytest.approx(0.5), 1.0]
    assert result["average_precision"] == [pytest.approx((1 + 2 / 3) / 2), 1.0]


@pytest.mark.slow
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
