"""`prepare_cells` from sequences and annotations to a prepared folder, with good and with bad input."""

import csv
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from data_prep.cells.manifest import CellsManifest
from data_prep.cells.plan import survey_file, whole_frames
from data_prep.cells.prepare import prepare_cells
from data_prep.cells.sequences import find_sequences
from data_prep.cells.settings import CandidateSettings, CellsPrepareSettings
from data_prep.cells.views import EXTRACTOR, VIEWS, candidates_of
from data_prep.errors import InputError
from data_prep.labelled.dataset import labelled_records
from data_prep.labelled.views import read_views
from data_prep.prepared.manifest import load_manifest
from data_prep.prepared.workers import Cluster
from tests.data_prep.cell_files import still_frames, with_spots, write_folder, write_stack

SETTINGS = CellsPrepareSettings()
SPOTS = [(1, 20, 30), (2, 70, 40), (4, 40, 60)]


@pytest.fixture
def wells(tmp_path: Path) -> Path:
    """Three sequences of six frames: two folders and a stack of 16 bits."""
    folder = tmp_path / "wells"
    for number, name in enumerate(("a", "b")):
        write_folder(folder / name, with_spots(still_frames(6, seed=number), SPOTS))
    deep = [frame.astype(np.uint16) * 100 for frame in with_spots(still_frames(6, seed=2), SPOTS)]
    write_stack(folder / "c.tif", deep)
    return folder


@pytest.fixture
def annotations(tmp_path: Path) -> Path:
    """Of each sequence a mitosis and an apoptosis, and in one of them an event that nobody can see."""
    path = tmp_path / "events.csv"
    rows = ["sequence,frame,x,y,kind"]
    for name in "abc":
        rows += [f"{name},1,21,28,mitosis", f"{name},4,40,61,apoptosis"]
    path.write_text("\n".join([*rows, "b,5,80,20,mitosis"]) + "\n", encoding="utf-8")
    return path


def changed(**settings: object) -> CellsPrepareSettings:
    return CellsPrepareSettings.model_validate(settings)


def reasons(out: Path) -> list[str]:
    with (out / "skipped.csv").open(newline="", encoding="utf-8") as file:
        return [row["reason"] for row in csv.DictReader(file)]


def test_what_nobody_could_tell_is_no_example(wells: Path, annotations: Path, tmp_path: Path) -> None:
    with annotations.open("a", encoding="utf-8") as file:
        file.write("a,2,70,40,\n")
    settings = CellsPrepareSettings(leave_out_unknown=True)
    manifest = prepare_cells(wells, annotations, tmp_path / "out", settings).manifest
    assert [example.name for example in manifest.examples[:3]] == [
        "a/00001_0000",
        "a/00004_0000",
        "b/00001_0000",
    ]
    assert (manifest.sequences[0].annotations, manifest.sequences[0].left_out) == (2, 1)
    assert "line 9: no kind in frame 2 (from 0) of a at x 70, y 40" in "".join(reasons(tmp_path / "out"))


def test_sequences_become_candidates(wells: Path, annotations: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = prepare_cells(wells, annotations, out, changed(train_list=None, first_frame=0))
    manifest = load_manifest(out, CellsManifest)
    assert manifest == result.manifest
    assert manifest.kinds == ("grey",)
    assert (manifest.class_names, manifest.size) == (("none", "apoptosis", "mitosis"), (52, 156))
    assert (manifest.views, manifest.extractor) == (VIEWS, EXTRACTOR)
    assert manifest.candidate_settings == CandidateSettings()
    assert [example.name for example in manifest.examples[:3]] == [
        "a/00001_0000",
        "a/00002_0000",
        "a/00004_0000",
    ]
    labels = [manifest.class_names[example.label] for example in manifest.examples]
    assert labels == ["mitosis", "none", "apoptosis"] * 3
    example = manifest.examples[0]
    assert (example.source, example.group, example.frame, example.area) == ("a", "a", 1, 64)
    assert (example.x, example.y, example.column, example.row) == (19.5, 29.5, -6, 4)
    facts = [(s.name, s.candidates, s.annotations, s.matched, s.left_out) for s in manifest.sequences]
    assert facts == [("a", 3, 2, 2, 0), ("b", 3, 3, 2, 0), ("c", 3, 2, 2, 0)]
    (unreachable,) = reasons(out)
    assert "line 8: no candidate near the mitosis of b in frame 5" in unreachable
    views = read_views(out, manifest)
    sequences, _ = find_sequences(wells)
    surveyed = survey_file(sequences[2], SETTINGS)
    described = list(candidates_of(surveyed, SETTINGS))
    for number, (_, image, label) in enumerate(
        labelled_records(out, manifest, [f"c/0000{i}_0000" for i in (1, 2, 4)])
    ):
        np.testing.assert_array_equal(image, described[number].image)
        assert label == (2, 0, 1)[number]
        for name in VIEWS:
            np.testing.assert_array_equal(views[name][6 + number], described[number].views[name])


def test_the_paper_has_one_class_of_events(wells: Path, annotations: Path, tmp_path: Path) -> None:
    manifest = prepare_cells(wells, annotations, tmp_path / "out", changed(one_kind="event")).manifest
    assert manifest.class_names == ("none", "event")


def test_a_sequence_stays_on_one_side(wells: Path, annotations: Path, tmp_path: Path) -> None:
    manifest = prepare_cells(wells, annotations, tmp_path / "folds", changed(folds=3)).manifest
    folds = {name: {e.fold for e in manifest.examples if e.source == name} for name in "abc"}
    assert sorted(folds.values(), key=str) == [{0}, {1}, {2}]
    listed = tmp_path / "test.txt"
    for line in ("b", "b.tif", "wells/b.avi"):
        listed.write_text(f"{line}\n", encoding="utf-8")
        settings = changed(test_list=listed)
        manifest = prepare_cells(wells, annotations, tmp_path / "list", settings, overwrite=True).manifest
        assert {e.source for e in manifest.examples if e.split == "test"} == {"b"}
    pattern = changed(group_pattern="^[ab]|^c", folds=2)
    groups = {
        e.source: e.group
        for e in prepare_cells(wells, annotations, tmp_path / "p", pattern).manifest.examples
    }
    assert groups == {"a": "a", "b": "b", "c": "c"}


def test_jobs_change_nothing(wells: Path, annotations: Path, tmp_path: Path) -> None:
    one = prepare_cells(wells, annotations, tmp_path / "one", jobs=1).manifest
    assert prepare_cells(wells, annotations, tmp_path / "two", jobs=2).manifest == one


def test_a_cluster_prepares_the_same_folder(
    wells: Path, annotations: Path, tmp_path: Path, cluster: Cluster
) -> None:
    (wells / "c.tif").write_bytes(b"no image")
    results = [
        prepare_cells(wells, annotations, tmp_path / name, jobs=jobs)
        for name, jobs in (("one", 1), ("cluster", cluster))
    ]
    assert results[0] == results[1]
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "cluster" / path.name).read_bytes()


def test_what_cannot_be_used_is_left_out(wells: Path, annotations: Path, tmp_path: Path) -> None:
    (wells / "b" / "frame3.png").write_bytes(b"no image")
    (wells / "c.tif").write_bytes(b"no image")
    write_folder(wells / "d", with_spots(still_frames(6), SPOTS))
    out = tmp_path / "out"
    manifest = prepare_cells(wells, annotations, out).manifest
    assert [one.name for one in manifest.sequences] == ["a", "b"]
    told = "\n".join(reasons(out))
    assert "frame3.png" in told
    assert "'c', which is not there" in told
    assert "no row of the sequence 'd'" in told


def test_useless_input_is_explained(wells: Path, annotations: Path, tmp_path: Path) -> None:
    far = tmp_path / "far.csv"
    far.write_text("sequence,frame,x,y,kind\na,5,90,5,mitosis\n", encoding="utf-8")
    with pytest.raises(InputError, match="no event has a candidate"):
        prepare_cells(wells, far, tmp_path / "out")
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("sequence,time,x,y,kind\n", encoding="utf-8")
    with pytest.raises(InputError, match="no column frame"):
        prepare_cells(wells, wrong, tmp_path / "out")
    with pytest.raises(InputError, match="holds the input folder"):
        prepare_cells(wells, annotations, tmp_path, overwrite=True)
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValidationError, match="the same"):
        changed(one_kind="none")


def test_pieces_are_of_whole_frames() -> None:
    assert whole_frames([], 3) == []
    assert whole_frames([1, 1, 1, 1], 3) == [slice(0, 4)]
    rng = np.random.default_rng(0)
    frames = sorted(rng.integers(0, 30, 100).tolist())
    found = whole_frames(frames, 12)
    assert [i for piece in found for i in range(100)[piece]] == list(range(100))
    assert all(piece.stop - piece.start <= 12 for piece in found)
    of_piece = [set(frames[piece]) for piece in found]
    assert sum(map(len, of_piece)) == len(set(frames))
