"""Trained on one sequence and judged on every other: thresholds, divisions, the table, resuming."""

import csv
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from tensorflow.python.framework.config import disable_op_determinism

from data_prep.cells.manifest import CellsManifest
from data_prep.cells.prepare import prepare_cells
from data_prep.cells.settings import CellsPrepareSettings
from data_prep.errors import InputError
from data_prep.prepared.manifest import load_manifest
from data_prep.splits.divide import manifest_splits
from pipelines.cells import pairs as cells_pairs
from pipelines.cells.events import best_threshold, called_events
from pipelines.cells.pairs import divided_by_sequence, ordered_pairs
from pipelines.cells.scores import event_scores
from pipelines.cells.settings import PairsSettings
from tests.data_prep.cell_files import Frames, still_frames, write_folder

TINY = PairsSettings(
    heads=("linear",),
    pretraining_epochs=2,
    head_epochs=1,
    steps_per_epoch=15,
    batch_size=16,
    learning_rate=0.05,
    components=3,
    panel_images=0,
    selection_fraction=0.4,
)
EVENTS, OTHERS = range(1, 13, 2), range(2, 13, 2)


def appearing(frames: Frames, first: int, place: tuple[int, int], level: int) -> None:
    """A square that comes up in a frame and stays."""
    x, y = place
    for frame in frames[first:]:
        frame[y - 4 : y + 4, x - 4 : x + 4] = level


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Squares that light up are events, dark ones are not; `still` shows none, and `late` all in one frame.

    Those of `c` have a candidate less than events.
    """
    folder = tmp_path_factory.mktemp("pairs")
    rows = ["sequence,frame,x,y,kind", "still,,,,", "c,3,90,75,mitosis"]
    for seed, name in enumerate(("a", "b", "c", "late", "still")):
        frames = still_frames(13, seed=seed)
        places = [(10 + 15 * column, 10 + 14 * row) for row in range(2) for column in range(6)]
        for number, place in zip((*EVENTS, *OTHERS), places, strict=True):
            event = number in EVENTS
            if event and name == "still":
                continue
            first = 5 if event and name == "late" else number
            appearing(frames, first, place, 250 if event else 0)
            if event:
                rows.append(f"{name},{first},{place[0]},{place[1]},mitosis")
        write_folder(folder / "wells" / name, frames)
    (folder / "events.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    settings = CellsPrepareSettings(radius=6, group_pattern="^(late|still|.)")
    prepare_cells(folder / "wells", folder / "events.csv", folder / "prepared", settings)
    return folder / "prepared"


def some_of(prepared: Path, folder: Path, *names: str) -> Path:
    """The first sequence and the others of these names, prepared anew."""
    lists = {"train_list": folder / "train.txt", "test_list": folder / "test.txt"}
    lists["train_list"].write_text(names[0], encoding="utf-8")
    lists["test_list"].write_text("\n".join(names[1:]), encoding="utf-8")
    source = prepared.parent
    settings = CellsPrepareSettings.model_validate({"radius": 6, **lists})
    prepare_cells(source / "wells", source / "events.csv", folder / "prepared", settings)
    return folder / "prepared"


@pytest.fixture(scope="module")
def manifest(prepared: Path) -> CellsManifest:
    return load_manifest(prepared, CellsManifest)


def pairs(data: Path, out: Path, settings: PairsSettings = TINY, *, resume: bool = False) -> str:
    console = Console(record=True, width=200, quiet=False)
    try:
        cells_pairs.train(settings, data=data, out=out, resume=resume, console=console)
    finally:
        disable_op_determinism()  # other tests go on without
    return console.export_text()


def test_the_threshold_is_the_best_of_what_it_is_chosen_by() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 60)
    probability = np.round(rng.dirichlet(np.ones(3), 60), 1)  # many are alike
    probability[:, 0] = 1 - probability[:, 1:].sum(axis=1)
    chosen = best_threshold(labels, probability)

    def f1(threshold: float) -> float:
        return event_scores(labels, called_events(probability, threshold), 3, 0)["event_f1"]

    assert f1(chosen) == max(f1(threshold) for threshold in np.linspace(-0.05, 0.95, 11))
    assert best_threshold(np.array([1, 0]), np.array([[0.9, 0.1], [0.9, 0.1]])) == pytest.approx(0.05)


def test_parts_of_consecutive_frames_are_held_out(manifest: CellsManifest) -> None:
    splits = manifest_splits(divided_by_sequence(manifest, "b"), selection_fraction=0.4)
    assert {name[:2] for name in (*splits.train, *splits.selection)} == {"b/"}
    assert {name[:2] for name in splits.test} == {"a/", "c/", "la", "st"}
    frames = [{name.split("_")[0] for name in part} for part in (splits.train, splits.selection)]
    assert not frames[0] & frames[1]
    labels = {one.name: one.label for one in manifest.examples}
    assert [sum(labels[name] for name in part) for part in (splits.train, splits.selection)] == [4, 2]


def test_every_pair_of_sequences_of_different_groups(manifest: CellsManifest) -> None:
    found, unusable = ordered_pairs(manifest, 0.4)
    assert found == {"a": ("b", "c"), "b": ("a", "c"), "c": ("a", "b")}
    late, still = unusable
    assert "late has 6 events among 12 candidates, too few or too close in time" in late
    assert "still has no prepared candidate that is an event" in still
    update = {"a": "dish", "b": "dish", "c": "c", "late": "c", "still": "c"}
    examples = tuple(one.model_copy(update={"group": update[one.source]}) for one in manifest.examples)
    found, _ = ordered_pairs(manifest.model_copy(update={"examples": examples}), 0.4)
    assert found == {"a": ("c",), "b": ("c",), "c": ("a", "b")}


@pytest.mark.slow  # two trainings
def test_pairs_are_trained_judged_and_listed(prepared: Path, tmp_path: Path) -> None:
    data, out = some_of(prepared, tmp_path, "a", "c", "still"), tmp_path / "out"
    said = pairs(data, out)
    assert "Training on c, 2 of 2, with the seed 0" in said
    with (out / "pairs.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    linear = [row for row in rows if row["method"] == "Linear"]
    assert [row["train"] + row["test"] for row in linear] == ["ac", "ca"]
    assert {row["events"] for row in linear} == {"6"}
    # Dark and light squares are easily told apart.
    assert min(float(row["event_f1"]) for row in linear) > 0.9
    assert {row["method"] for row in rows} == {"Difference threshold", "Linear", "Linear + temperature"}
    of_c = next(row for row in linear if row["test"] == "c")
    assert float(of_c["event_recall_all"]) == pytest.approx(float(of_c["event_recall"]) * 6 / 7, rel=1e-3)
    report = (out / "report.md").read_text(encoding="utf-8")
    assert "2 ordered pairs of 2 sequences, seeds of training 0" in report
    assert "| Linear | 1.0000 ± 0.0000 |" in report
    assert "Left out: still has no prepared candidate" in report
    with pytest.raises(InputError, match="--resume"):
        pairs(data, out)
    states = sorted(out.glob("runs/*/heads/*/state.json"))
    before = [path.stat().st_mtime_ns for path in states]
    (out / "pairs.csv").unlink()
    assert "linear epoch 1:" not in pairs(data, out, resume=True)
    assert [path.stat().st_mtime_ns for path in states] == before
    with (out / "pairs.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.DictReader(file)) == rows
    with pytest.raises(InputError, match="components changed"):
        pairs(data, out, TINY.model_copy(update={"components": 2}), resume=True)
    assert "components: 3" in (out / "config.yaml").read_text(encoding="utf-8")


def test_one_sequence_with_events_has_no_pair(prepared: Path, tmp_path: Path) -> None:
    data = some_of(prepared, tmp_path, "a", "still")
    with pytest.raises(InputError, match=r"no two sequences that can train.*\n.*b has no prepared candidate"):
        pairs(data, tmp_path / "out")
    assert not (tmp_path / "out").exists()
