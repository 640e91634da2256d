"""Data sets of hostile files are what their commands take, and what is wrong with a command is noticed."""

import csv
import json
from pathlib import Path

import pytest

from benchmarks.reliability import hostile_folders
from benchmarks.reliability.hostile_folders import FOLDERS, Folder, row_of, try_folder
from benchmarks.reliability.hostile_images import IMAGES
from benchmarks.reliability.ways import Ended


@pytest.fixture
def commands(monkeypatch):
    """Record commands instead of running them; they end with exit code 2."""
    given = []

    def start(*arguments: object, folder: Path) -> Ended:
        given.append((arguments, folder))
        return Ended(2, "", "Error: nothing can be used.\n", 1.0, 700.0)

    monkeypatch.setattr(hostile_folders, "start", start)
    return given


@pytest.mark.parametrize("name", FOLDERS)
def test_every_data_set_has_what_its_command_is_given(tmp_path, commands, name):
    tried = try_folder(name, tmp_path / "try", 8, 0)
    ((arguments, folder),) = commands
    assert tried.files == 8
    # Files that are not altered were among them, or not.
    assert all("refused, though there are good files: nothing can be used" in fault for fault in tried.faults)
    for argument in arguments[: arguments.index("--out")]:
        if argument in {"data", "masks", "boxes.csv", "labels.csv"}:
            assert (folder / argument).exists()
    assert len(list((folder / "data").rglob("0*"))) > 0


def test_files_that_are_passed_over_and_bad_ends_are_noticed(tmp_path, monkeypatch):
    quick = {"noise": IMAGES["noise"], "empty": IMAGES["empty"]}
    monkeypatch.setattr(hostile_folders, "FOLDERS", {"a step": Folder(("a", "step"), quick, classes=("a",))})

    def start(*_: object, folder: Path) -> Ended:
        used, named, *_others = sorted((folder / "data" / "a").iterdir())
        (folder / "out").mkdir()
        examples = [{"name": f"a/{used.stem}/clip_0001"}]
        (folder / "out" / "manifest.json").write_text(json.dumps({"examples": examples}))
        text = str(named.relative_to(folder))
        with (folder / "out" / "skipped.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["file", "reason"], [text, f"{text}: unreadable"]])
        return Ended(0, "", "x.py:1: UserWarning: odd\n", 1.0, 3000.0)

    monkeypatch.setattr(hostile_folders, "start", start)
    row = row_of(try_folder("a step", tmp_path / "try", 3, 0))
    assert (row["command"], row["files"], row["used"], row["left out with a reason"]) == ("a step", 3, 1, 1)
    assert row["with faults"] == 3
    for part in ("neither used nor named", "on the screen: x.py:1: UserWarning", "a peak of 3000 MiB"):
        assert part in row["faults"]


@pytest.mark.parametrize(("kind", "faults"), [("good", 1), ("noise", 0)])
def test_a_data_set_with_good_files_may_not_be_refused(tmp_path, monkeypatch, commands, kind, faults):
    folder = Folder(("a", "step"), {kind: IMAGES[kind]}, classes=("a",))
    monkeypatch.setattr(hostile_folders, "FOLDERS", {"a step": folder})
    tried = try_folder("a step", tmp_path / "try", 3, 0)
    assert len(commands) == 1
    assert len(tried.faults) == faults


@pytest.mark.slow
def test_prepare_shows_no_fault(tmp_path):
    tried = try_folder("classify prepare", tmp_path / "try", 40, 3)
    assert tried.faults == []
    assert tried.predicted
    assert tried.named
