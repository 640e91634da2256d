"""Splits of the tissue benchmark: another for each seed, nobody on both sides, both classes to choose by."""

import hashlib
from pathlib import Path

import pytest

from benchmarks.histopathology import has_groups_to_choose_by, num_groups, split_again
from data_prep.histopathology_manifest import HistopathologyExample, HistopathologyManifest
from data_prep.histopathology_settings import PatchSettings
from data_prep.manifest import MANIFEST_NAME, load_manifest
from data_prep.splits import manifest_splits

PATCHES = (31, 17, 23, 12, 40, 8, 27, 19)
"""Of each patient: all differ, as in real data. Each has two images of each class."""


def example(patient: int, number: int) -> HistopathologyExample:
    source = f"{patient}/{number % 4}"
    return HistopathologyExample(
        name=f"{source}/{number:02d}",
        shard="s",
        offset=0,
        length=1,
        height=10,
        width=10,
        split="train",
        group=str(patient),
        label=number % 2,
        source=source,
        row=0,
        column=number,
        patient=str(patient),
    )


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    examples = [example(patient, number) for patient, size in enumerate(PATCHES) for number in range(size)]
    folder = tmp_path / "prepared"
    folder.mkdir()
    for name in ("s", "features.npz"):
        (folder / name).touch()
    manifest = HistopathologyManifest(
        class_names=("benign", "malignant"),
        size=(8, 8),
        settings={},
        num_examples=len(examples),
        num_skipped=0,
        examples=tuple(sorted(examples, key=lambda one: one.name)),
        sha256=dict.fromkeys(("s", "features.npz"), hashlib.sha256(b"").hexdigest()),
        views={"lbp": 1},
        extractor="none",
        patches=PatchSettings(),
    )
    (folder / MANIFEST_NAME).write_text(manifest.model_dump_json())
    return folder


@pytest.mark.parametrize("share", [0.5, 0.25])
def test_each_seed_is_another_split_and_nobody_is_on_both_sides(
    prepared: Path, tmp_path: Path, share: float
) -> None:
    tested = set()
    for seed in range(10):
        folder = split_again(prepared, tmp_path / f"{seed}", share, seed)
        split = load_manifest(folder, HistopathologyManifest)
        sides = {side: {e.patient for e in split.examples if e.split == side} for side in ("train", "test")}
        assert sides["train"].isdisjoint(sides["test"])
        tested.add(frozenset(sides["test"]))
        trained = sum(example.split == "train" for example in split.examples)
        assert trained / sum(PATCHES) == pytest.approx(share, abs=0.2)
        parts = manifest_splits(split, selection_fraction=0.15)
        for names in (parts.train, parts.selection):
            assert {example.label for example in split.select(names)} == {0, 1}
        assert (folder / "s").resolve() == (prepared / "s").resolve()
    assert len(tested) >= 6


def test_few_training_groups_leave_the_choice_to_images(prepared: Path, tmp_path: Path) -> None:
    before = load_manifest(prepared, HistopathologyManifest)
    half, quarter = (
        load_manifest(split_again(prepared, tmp_path / f"{share}", share, 0), HistopathologyManifest)
        for share in (0.5, 0.25)
    )
    assert num_groups(half, before)["kept together"] == num_groups(half, before)["train"] >= 3
    counts = num_groups(quarter, before)
    assert counts["train"] < 3
    assert counts["kept together"] == 4 * counts["train"]
    assert has_groups_to_choose_by(half)
    assert {e.group for e in quarter.examples if e.split == "test"} == {
        e.patient for e in quarter.examples if e.split == "test"
    }
