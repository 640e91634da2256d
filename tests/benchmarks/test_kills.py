"""What a killed command leaves otherwise than an undisturbed one is noticed."""

import json

import h5py
import numpy as np
import pytest

from benchmarks.reliability import kills
from benchmarks.reliability.kills import Kill, compared, differences, rows_of


def write_output(folder, *, seconds: float = 1.0, loss: float = 0.5, weight: float = 0.0) -> None:
    folder.mkdir()
    (folder / "state.json").write_text(json.dumps({"seconds": seconds, "history": [{"loss": loss}]}))
    (folder / "predictions.csv").write_text(f"file,seconds\na.png,{seconds}\n")
    np.savez(folder / "sample.npz", images=np.zeros(3))
    (folder / "tensorboard").mkdir()
    (folder / "tensorboard" / f"events.{seconds}").touch()
    with h5py.File(folder / "best.weights.h5", "w") as file:
        file.create_dataset("layers/0", data=np.full(2, weight))


def test_times_are_not_compared_and_all_else_is(tmp_path):
    write_output(tmp_path / "a")
    write_output(tmp_path / "b", seconds=2.0)
    assert not list(differences(compared(tmp_path / "a"), compared(tmp_path / "b")))
    write_output(tmp_path / "c", loss=0.6, weight=1.0)
    (tmp_path / "c" / "sample.npz").unlink()
    (tmp_path / "c" / ".partial-0123abcd-x").touch()
    assert list(differences(compared(tmp_path / "a"), compared(tmp_path / "c"))) == [
        ".partial-0123abcd-x was not there undisturbed",
        "best.weights.h5 differs",
        "sample.npz is missing",
        "state.json differs",
    ]


def test_rows_count_kills_of_each_step():
    found = [
        Kill(0, "lane", "train", 0.3, True, ()),
        Kill(1, "classify", "train", 0.99, False, ("best.weights.h5 differs",)),
        Kill(2, "lane", "prepare", 0.3, True, ()),
    ]
    prepare, train = rows_of(found)
    assert (prepare["step"], prepare["kills"], prepare["with faults"]) == ("prepare", 1, 0)
    assert train["applications"] == "lane, classify"
    assert (train["kills"], train["ended before"], train["with faults"]) == (2, 1, 1)
    assert train["faults"] == "1, classify: best.weights.h5 differs"


@pytest.mark.slow
def test_a_killed_prepare_shows_no_fault(tmp_path):
    for number, share in enumerate((0.5, 0.9)):
        way = tmp_path / str(number)
        way.mkdir()
        undisturbed = kills.go("classify", way, ("prepare",))["prepare"]
        found = kills.kill(number, "classify", "prepare", share, way=way, seconds=undisturbed.seconds)
        assert not found.faults
