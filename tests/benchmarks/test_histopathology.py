"""Splits of the tissue benchmark: another for each seed, nobody on both sides, both classes to choose by."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.histopathology import (
    SCORES,
    distinct_seeds,
    has_groups_to_choose_by,
    judge,
    num_groups,
    split_again,
)
from data_prep.histopathology.manifest import HistopathologyExample, HistopathologyManifest
from data_prep.histopathology.settings import PatchSettings
from data_prep.labelled.dataset import record_features
from data_prep.prepared.manifest import MANIFEST_NAME, file_sha256, load_manifest
from data_prep.prepared.shards import Position, write_shards
from data_prep.splits.divide import manifest_splits
from pipelines.histopathology.application import tissue_application
from pipelines.runs.predictors import Predictor

PATCHES = (31, 17, 23, 12, 40, 8, 27, 19)
"""Of each patient: all differ, as in real data. Each has two images of each class."""


def example(patient: int, number: int, position: Position) -> HistopathologyExample:
    source = f"{patient}/{number % 4}"
    return HistopathologyExample(
        **asdict(position),
        name=f"{source}/{number:02d}",
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
    folder = tmp_path / "prepared"
    folder.mkdir()
    record = record_features("every patch", np.zeros([8, 8, 3], np.uint8), 0)
    ((_, position),) = write_shards(folder, [("every patch", record)], examples_per_shard=1)
    examples = [
        example(patient, number, position) for patient, size in enumerate(PATCHES) for number in range(size)
    ]
    (folder / "features.npz").touch()
    manifest = HistopathologyManifest(
        class_names=("benign", "malignant"),
        size=(8, 8),
        settings={},
        num_examples=len(examples),
        num_skipped=0,
        examples=tuple(sorted(examples, key=lambda one: one.name)),
        sha256={name: file_sha256(folder / name) for name in (position.shard, "features.npz")},
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
    name = "half" if share == 0.5 else "quarter"
    for seed in distinct_seeds(load_manifest(prepared, HistopathologyManifest), name, 10):
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
        shard = split.examples[0].shard
        assert (folder / shard).resolve() == (prepared / shard).resolve()
    assert len(tested) == 10


def test_no_more_splits_are_given_than_there_are(prepared: Path) -> None:
    with pytest.raises(ValueError, match=r"50 draws of 8 groups gave .* different divisions, but 300 were"):
        distinct_seeds(load_manifest(prepared, HistopathologyManifest), "half", 300)


@pytest.mark.parametrize("by", ["patch", "image", "patient"])
def test_pools_are_judged_by_the_mean_of_their_patches(prepared: Path, tmp_path: Path, by: str) -> None:
    """As the application judges them pool by pool, though each patch is predicted once for all."""
    manifest = load_manifest(prepared, HistopathologyManifest)
    features = np.random.default_rng(0).normal(size=(manifest.num_examples, 1)).astype(np.float32)
    np.savez(prepared / "features.npz", lbp=features)
    sha256 = dict(manifest.sha256) | {"features.npz": file_sha256(prepared / "features.npz")}
    of_one_class = tuple(e.model_copy(update={"label": int(e.patient) % 2}) for e in manifest.examples)
    changed = manifest.model_copy(update={"sha256": sha256, "examples": of_one_class})
    (prepared / MANIFEST_NAME).write_text(changed.model_dump_json())
    split = split_again(prepared, tmp_path / "split", 0.5, 0)

    def predict(inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        positive = tf.sigmoid(inputs[:, 0])
        probability = tf.stack([1.0 - positive, positive], axis=1)
        return {"probability": probability, "mutual_information": 0.1 * positive}

    stub = Predictor("stub", predict, {})
    patches = tissue_application("handmade", "patch")
    data = patches.inputs.open(split)
    found = judge(patches, [by], data, lambda _: [stub])[by]["stub"]
    application = tissue_application("handmade", by)
    records = [
        application.judge.record(one, application.judge.outputs(stub, one))
        for one in application.judge.examples(data, manifest_splits(data.manifest).test)
    ]
    expected = application.judge.result("stub", records).scores
    assert found == pytest.approx({key: expected[key] for key in found}, rel=1e-6)
    assert set(found) == set(SCORES)


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
