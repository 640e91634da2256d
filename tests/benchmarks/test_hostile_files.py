"""Hostile files are of all kinds and always the same, and what is wrong with a command is noticed."""

import csv
import os
import stat

import numpy as np
import pytest

from benchmarks.reliability import hostile_files, ways
from benchmarks.reliability.hostile_files import KINDS, Tried, predict, try_tables, write_files
from benchmarks.reliability.hostile_images import IMAGES
from benchmarks.reliability.ways import Ended


def contents(folder):
    return {
        path.name: path.read_bytes() if stat.S_ISREG(path.lstat().st_mode) else None
        for path in folder.iterdir()
    }


def test_a_seed_gives_the_same_files(tmp_path):
    quick = {name: maker for name, maker in IMAGES.items() if name != "bomb"}
    first = write_files(tmp_path / "a", quick, 60, (3, 0))
    second = write_files(tmp_path / "b", quick, 60, (3, 0))
    assert [path.name for path in first] == [path.name for path in second]
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert len(first) == 60
    other = write_files(tmp_path / "c", quick, 60, (4, 0))
    assert list(other.values()) != list(first.values())


@pytest.mark.parametrize("application", KINDS)
def test_every_kind_writes_a_file(tmp_path, application):
    for number, (kind, maker) in enumerate(KINDS[application].items()):
        path = maker(tmp_path / f"{number:05d}", np.random.default_rng(number))
        assert os.path.lexists(path), kind


def ended(code: int = 0, said: str = "", errors: str = "", peak: float = 900.0) -> Ended:
    return Ended(code, said, errors, 1.0, peak)


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        (ended(), None),
        (ended(errors="Note: `classify predict` has no use for --data; it is ignored.\n"), None),
        (ended(code=1, errors="Error: no space"), "exit code 1"),
        (ended(code=-11), "exit code -11"),
        (ended(code=2), "exit code 2"),
        (ended(errors="[mjpeg @ 0x1] overread 8\n"), r"on the screen: [mjpeg @ 0x1] overread 8"),
        (ended(said="a.py:1: UserWarning: odd\n"), "on the screen: a.py:1: UserWarning"),
        (ended(peak=2100.0), "a peak of 2100 MiB"),
    ],
)
def test_what_is_wrong_with_a_command_is_noticed(tmp_path, monkeypatch, command, fault):
    files = {tmp_path / "new" / name: "good" for name in ("a.png", "b.png")}
    (tmp_path / "out").mkdir()
    for table, header, row in (
        ("predictions.csv", ["file", "status"], ["new/a.png", "ok"]),
        ("skipped.csv", ["file", "reason"], ["new/b.png", "new/b.png: unreadable"]),
    ):
        with (tmp_path / "out" / table).open("w", newline="") as file:
            csv.writer(file).writerows([header, row])
    monkeypatch.setattr(hostile_files, "start", lambda *_, **__: command)
    tried = predict("classify", tmp_path, files, out="out")[1]
    assert (tried.predicted, tried.named) == (1, 1)
    assert [fault in found for found in tried.faults] == ([True] if fault else [])


def test_a_file_that_is_passed_over_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(hostile_files, "start", lambda *_, **__: ended())
    tried = predict("classify", tmp_path, {tmp_path / "new" / "a.png": "pipe"}, out="out")[1]
    assert tried.faults == ["pipe 'a.png': neither predicted nor named"]


def test_tables_are_read_or_refused(tmp_path):
    tried = try_tables(tmp_path, 200, 1)
    assert not tried.faults
    assert tried.predicted > 20
    assert tried.named > 100


@pytest.mark.slow
def test_a_command_is_watched_from_outside(tmp_path):
    block = np.ones(60_000_000)  # 458 MiB that are not the command's
    version = ways.start("--version", folder=tmp_path)
    del block
    assert version.code == 0
    assert version.said.startswith("gpimaging ")
    assert not version.foreign_lines()
    assert 10 < version.peak < 400
    refused = ways.start("classify", "prepare", "--images", "no folder", "--out", "out", folder=tmp_path)
    assert refused.code == 2
    assert "no folder: does not exist" in refused.message
    killed = ways.start("--version", folder=tmp_path, kill_after=0.01)
    assert killed.code == -9


def test_a_row_counts_what_came_of_the_files():
    row = Tried("lane", 3, predicted=1, named=1, peak=1000.4, faults=["a", "b"]).row()
    assert row["with faults"] == 2
    assert row["peak memory, MiB"] == 1000


@pytest.mark.slow
def test_hostile_images_show_no_fault(tmp_path):
    rows = list(hostile_files.run(40, 5, tmp_path, applications=("classify",)))
    assert not [row["faults"] for row in rows if row["with faults"]]
    assert sum(row["files"] for row in rows) == 41  # and one of as many pixels as are accepted
