"""A step that runs again and differs is noticed, and by how much it may."""

import json
import os

import pytest

from benchmarks.reliability import same_again
from benchmarks.reliability.same_again import Again, again, rows_of
from benchmarks.reliability.ways import Ended


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return what the next command writes as its loss, and the exit code it has."""
    state = {"loss": 0.5, "code": 0}
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "state.json").write_text(json.dumps({"loss": 0.5}))

    def start(*arguments, folder):
        state["threads"] = os.environ.get("OPENBLAS_NUM_THREADS"), arguments[arguments.index("--jobs") + 1]
        (folder / "train").mkdir()
        (folder / "train" / "state.json").write_text(json.dumps({"loss": state["loss"]}))
        return Ended(state["code"], "", "Error: broken\n" if state["code"] else "", 1.0, 0.0)

    monkeypatch.setattr(same_again, "start", start)
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    return state


def test_what_differs_on_one_thread_and_on_two(tmp_path, written):
    assert again("lane", "train", tmp_path, threads=1) == ()
    assert written["threads"] == ("1", 1)
    written["loss"] = 0.5 + 1e-9
    assert again("lane", "train", tmp_path, threads=1) == ("state.json differs",)
    assert again("lane", "train", tmp_path, threads=2) == ()
    assert written["threads"] == ("2", 2)
    written["loss"] = 0.503
    assert again("lane", "train", tmp_path, threads=2) == ("state.json differs by 0.002",)
    assert "OPENBLAS_NUM_THREADS" not in os.environ


def test_a_step_that_fails_is_noticed(tmp_path, written):
    written["code"] = 1
    assert again("lane", "train", tmp_path, threads=1) == ("exit code 1: Error: broken",)


def test_rows_count_steps_that_are_equal():
    (row,) = rows_of([Again("lane", "train", (), ()), Again("video", "train", (), ("a differs by 0.1",))])
    assert (row["step"], row["applications"]) == ("train", "lane, video")
    assert (row["equal to the bit on one thread"], row["equal to 1e-05 on two"]) == (2, 1)
    assert row["faults"] == "video on two: a differs by 0.1"
