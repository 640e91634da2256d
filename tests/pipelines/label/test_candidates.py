"""Candidates of cells are labelled, and `cells prepare` takes what is answered."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_prep.cells.prepare import prepare_cells
from data_prep.cells.settings import CellsPrepareSettings
from data_prep.errors import InputError
from data_prep.files.tables import read_table, write_table
from pipelines.command.config import load_settings
from pipelines.label import steps
from pipelines.label.answers import Answers
from pipelines.label.session import Session
from pipelines.label.settings import LabelSettings
from tests.data_prep.cell_files import still_frames, with_spots, write_folder
from tests.pipelines.label.answering import answer, next_command

KINDS = ("none", "death", "mitosis")
SPOTS = [(1, 20, 30), (2, 70, 40), (4, 40, 60)]


@pytest.fixture
def wells(tmp_path):
    """Three sequences: of two, three spots light up, and one is still."""
    for name in "ab":
        write_folder(tmp_path / "wells" / name, with_spots(still_frames(6), SPOTS))
    write_folder(tmp_path / "wells" / "still", still_frames(6))
    return tmp_path / "wells"


@pytest.fixture
def events(tmp_path, wells):
    """Predictions, counted from frame 1, of which those of one sequence were referred."""
    predictions = tmp_path / "predictions"
    names = [f"probability of {name}" for name in KINDS]
    columns = ("sequence", "frame", "x", "y", "kind", "predictive_entropy", "referred", *names)
    rows = [
        (name, frame + 1, x - 0.5, y - 0.5, "mitosis", entropy, str(name == "a").lower(), 0.1, 0.2, 0.7)
        for name in "ab"
        for (frame, x, y), entropy in zip(SPOTS, (0.3, 0.5, 0.4), strict=True)
    ]
    write_table(predictions / "events.csv", columns, [*rows, ("still", *[""] * 9)])
    lines = [(wells / name, name, "ok") for name in ("a", "b", "still")]
    write_table(predictions / "predictions.csv", ("file", "sequence", "status"), lines)
    (predictions / "predict_run.json").write_text(json.dumps({"settings": {"first_frame": 1}}))
    return predictions


def test_referred_events_become_annotations_that_prepare_takes(events, wells, tmp_path, out):
    pool = steps.open_pool(LabelSettings(), None, out, source=events)
    said = {"a/00003": "none", "a/00005": "", "a/00002": "death"}
    asked = answer(pool, out, lambda name: said[name.partition("_")[0]])
    assert [name.partition("_")[0] for name in asked] == list(said)
    command = next_command(pool, out)
    assert command[1:] == [
        *("cells", "prepare", "--sequences", str(wells), "--set", "first_frame=1"),
        *("--set", "leave_out_unknown=true"),
        *("--annotations", str(out / "annotations.csv"), "--out", str(out / "prepared")),
    ]
    table = read_table(out / "annotations.csv", ("sequence", "frame", "kind")).values()
    assert {(row["sequence"], row["frame"], row["kind"]) for row in table} == {
        ("a", "2", "death"),
        ("a", "5", ""),
        *(("b", frame, "mitosis") for frame in "235"),
        ("still", "", ""),
    }
    settings = CellsPrepareSettings(first_frame=1, radius=10, test_fraction=0.0, leave_out_unknown=True)
    manifest = prepare_cells(wells, out / "annotations.csv", tmp_path / "prepared", settings).manifest
    found = [(one.source, one.frame, manifest.class_names[one.label]) for one in manifest.examples]
    assert found[:2] == [("a", 2, "death"), ("a", 3, "none")]
    assert [kind for source, _, kind in found if source == "b"] == ["mitosis"] * 3


def test_a_candidate_is_shown_before_and_after(events, out):
    pool = steps.open_pool(LabelSettings(), None, out, source=events)
    picture = np.asarray(Image.open(pool.images[0].path).convert("L"), int)
    assert picture.shape == (448, 896)
    assert picture[215:232, 664:680].mean() > 240
    assert picture[215:232, 216:232].mean() < 170
    assert abs(picture[100:340, 370:440] - 200).max() < 12  # right of the frame


def test_labels_of_prepared_candidates_are_reviewed(wells, tmp_path, out):
    annotations = tmp_path / "annotations.csv"
    rows = [(name, 1, 20, 30, "mitosis") for name in "ab"]
    write_table(annotations, ("sequence", "frame", "x", "y", "kind"), [*rows, ("still", *[""] * 4)])
    settings = CellsPrepareSettings(radius=10, test_fraction=0.5)
    old = prepare_cells(wells, annotations, tmp_path / "prepared", settings).manifest
    pool = steps.open_pool(LabelSettings(), wells, out, source=tmp_path / "prepared", is_review=True)
    assert [image.label for image in pool.images] == ["mitosis", "none", "none"] * 2
    session = Session(pool, pool.classes, Answers(out))
    session.answer([1], "class", class_name="mitosis", tab="1", mode="review")
    session.close()
    command = next_command(pool, out)
    settings = load_settings(CellsPrepareSettings, config=Path(command[command.index("--config") + 1]))
    assert settings.leave_out_unknown
    new = prepare_cells(wells, out / "annotations.csv", tmp_path / "new", settings).manifest
    assert [one.label for one in old.examples] == [1, 0, 0, 1, 0, 0]
    assert [one.label for one in new.examples] == [1, 1, 0, 1, 0, 0]
    assert [one.split for one in new.examples] == [one.split for one in old.examples]


def test_pictures_of_other_crops_are_not_taken_and_none_gets_among_the_frames(events, wells, tmp_path, out):
    for folder in (None, wells):
        with pytest.raises(InputError, match="is the folder of the images"):
            steps.open_pool(LabelSettings(), folder, wells, source=events)
    assert {one.name for one in wells.iterdir()} == {"a", "b", "still"}
    annotations = tmp_path / "annotations.csv"
    rows = [(name, 1, 20, 30, "mitosis") for name in "ab"]
    write_table(annotations, ("sequence", "frame", "x", "y", "kind"), [*rows, ("still", *[""] * 4)])
    for patch in (52, 40):
        settings = CellsPrepareSettings(radius=10, patch=patch)
        prepare_cells(wells, annotations, tmp_path / str(patch), settings)
    for _ in range(2):
        steps.open_pool(LabelSettings(), wells, out, source=tmp_path / "52", is_review=True)
    with pytest.raises(InputError, match=r"'patch': 40.*Give another --out"):
        steps.open_pool(LabelSettings(), wells, out, source=tmp_path / "40", is_review=True)


def test_what_cannot_be_labelled_is_refused(events, wells, tmp_path, out):
    with pytest.raises(InputError, match="Leave one of them out"):
        steps.open_pool(LabelSettings(), None, out, source=events, is_review=True)
    with pytest.raises(InputError, match="--table has nothing to say"):
        steps.open_pool(LabelSettings(), None, out, source=events, table=tmp_path / "table.csv")
    with pytest.raises(InputError, match=r"has no sequence 'b', only a\."):
        steps.open_pool(LabelSettings(), wells / "a", tmp_path / "other", source=events)
    table = events / "events.csv"
    table.write_text(table.read_text().replace("true", "false"))
    with pytest.raises(InputError, match="refers no event"):
        steps.open_pool(LabelSettings(), None, out, source=events)
