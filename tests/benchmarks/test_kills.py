"""A killed command is given again, and what it leaves is compared with an undisturbed run."""

import pytest

from benchmarks.reliability import kills
from benchmarks.reliability.kills import Kill, rows_of
from benchmarks.reliability.ways import go


def test_rows_count_kills_of_each_step():
    found = [
        Kill(2, 0, "lane", "train", 0.3, True, ()),
        Kill(2, 1, "classify", "train", 0.99, False, ("best.weights.h5 differs",)),
        Kill(2, 2, "lane", "prepare", 0.3, True, ()),
    ]
    prepare, train = rows_of(found)
    assert (prepare["step"], prepare["kills"], prepare["with faults"]) == ("prepare", 1, 0)
    assert train["applications"] == "lane, classify"
    assert (train["kills"], train["ended before"], train["with faults"]) == (2, 1, 1)
    assert train["faults"] == "2-1, classify: best.weights.h5 differs"


@pytest.mark.slow
def test_a_killed_prepare_shows_no_fault(tmp_path):
    for number, share in enumerate((0.5, 0.9)):
        way = tmp_path / str(number)
        way.mkdir()
        undisturbed = go("classify", way, ("prepare",))["prepare"]
        _, faults = kills.kill("classify", "prepare", share, way=way, seconds=undisturbed.seconds)
        assert not faults
