"""The sonar data sets of the benchmark: how each is prepared, and split without near-duplicates across."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from data_prep.prepared.manifest import load_manifest
from data_prep.sonar.manifest import SonarManifest
from data_prep.sonar.prepare import prepare_sonar
from data_prep.sonar.settings import SonarPrepareSettings

FEW = 20
"""Training snapshots of each class in the set of few."""

TILE_WINDOW = (64, 64)
"""Pixels of a side-scan tile that a snapshot shows; the median longer side of a target's box is 42."""


@dataclass(frozen=True)
class SonarSet:
    """A data set of the benchmark.

    Attributes:
        name: In tables.
        description: In the report.
        classes: Those to leave out in turn; none where that makes no sense.
        prepare: From the folder of the data, a seed, a class to leave out or None, and a work folder, to a
            prepared folder.
    """

    name: str
    description: str
    classes: tuple[str, ...]
    prepare: Callable[[Path, int, str | None, Path], Path]


def class_folders(data: Path, left_out: str | None, work: Path) -> Path:
    """A folder of snapshots by class, without one of the classes."""
    if left_out is None:
        return data
    kept = work / "images"
    for folder in sorted(path for path in data.iterdir() if path.is_dir() and path.name != left_out):
        shutil.copytree(folder, kept / folder.name)
    return kept


def prepare_debris(data: Path, seed: int, left_out: str | None, work: Path) -> Path:
    """Water-tank crops of the forward-looking sonar; 20 files that follow each other stay together."""
    images = class_folders(debris_images(data), left_out, work)
    settings = SonarPrepareSettings(consecutive=20, seed=seed)
    prepare_sonar(images, work / "prepared", settings)
    return work / "prepared"


def class_files(data: Path, name: str, class_name: str) -> list[Path]:
    """All files of a class, to be met by a network that never saw one of them."""
    folder = data / "sonar_sidescan_classes" if name == "side-scan" else debris_images(data)
    return sorted(path for path in (folder / class_name).iterdir() if path.is_file())


def debris_images(data: Path) -> Path:
    """Class folders of the forward-looking sonar."""
    return data / "marine_debris_fls" / "watertank_cropped"


def prepare_few_debris(data: Path, seed: int, left_out: str | None, work: Path) -> Path:
    """The same split, but of the training half only a few snapshots of each class."""
    whole = prepare_debris(data, seed, left_out, work)
    manifest = load_manifest(whole, SonarManifest)
    rng = np.random.default_rng([seed, 20])
    train: list[str] = []
    for label in range(len(manifest.class_names)):
        candidates = [e.name for e in manifest.examples if e.label == label and e.split == "train"]
        train += rng.choice(sorted(candidates), min(FEW, len(candidates)), replace=False).tolist()
    test = [e.name for e in manifest.examples if e.split == "test"]
    lists = {"train": work / "train.txt", "test": work / "test.txt"}
    lists["train"].write_text("\n".join(train) + "\n")
    lists["test"].write_text("\n".join(test) + "\n")
    settings = SonarPrepareSettings(
        consecutive=20, train_list=lists["train"], test_list=lists["test"], seed=seed
    )
    images = class_folders(debris_images(data), left_out, work / "few")
    prepare_sonar(images, work / "prepared_few", settings)
    return work / "prepared_few"


def prepare_sidescan(data: Path, seed: int, left_out: str | None, work: Path) -> Path:
    """Side-scan images of ships, planes, humans and the sea floor; groups of near-duplicates as given."""
    folder = data / "sonar_sidescan_classes"
    settings = SonarPrepareSettings(group_list=folder / "near_duplicate_groups.csv", seed=seed)
    prepare_sonar(class_folders(folder, left_out, work), work / "prepared", settings)
    return work / "prepared"


def tile_folders(data: Path) -> tuple[Path, Path]:
    """Images of all side-scan tiles, and masks of those with a target."""
    folder = data / "sdvd_sidescan_seg"
    return folder / "ExtendedSDVD" / "train" / "images", folder / "CleanedSDVD" / "train" / "masks"


def prepare_tiles(data: Path, seed: int, left_out: str | None, work: Path) -> Path:  # noqa: ARG001 - all sets take it
    """Target, clutter and bottom, cut from tiles that hold a target; tiles of one minute stay together."""
    images, masks = tiles_with_target(data, work)
    prepare_sonar(images, work / "prepared", tile_settings(seed), annotations=masks)
    return work / "prepared"


def tiles_with_target(data: Path, work: Path) -> tuple[Path, Path]:
    """Return a new folder of the tiles that hold a target, and the folder of their masks.

    The tiles without a target were JPEG files once, so a network could tell them by their compression; none
    is trained on.
    """
    images, masks = tile_folders(data)
    kept = work / "images"
    kept.mkdir(parents=True)
    for mask in masks.iterdir():
        shutil.copyfile(images / mask.name, kept / mask.name)
    return kept, masks


def tile_settings(seed: int) -> SonarPrepareSettings:
    """Return how snapshots are cut: as many of clutter as of targets, and twice as many of bottom."""
    return SonarPrepareSettings(
        window=TILE_WINDOW,
        background_ratio=2,
        clutter_ratio=1,
        background_name="bottom",
        group_pattern=r"_(\d{12})",
        seed=seed,
    )


_DEBRIS = (
    *("bottle", "can", "chain", "drink-carton", "hook"),
    *("propeller", "shampoo-bottle", "standing-bottle", "tire", "valve"),
)

SETS = {
    data_set.name: data_set
    for data_set in (
        SonarSet("debris", "forward-looking sonar, ten classes, half to train on", _DEBRIS, prepare_debris),
        SonarSet("debris, few", f"the same, {FEW} snapshots a class", (), prepare_few_debris),
        SonarSet(
            "side-scan",
            "side-scan sonar, human, plane, sea floor, ship",
            ("human", "plane", "seafloor", "ship"),
            prepare_sidescan,
        ),
        SonarSet("tiles", "side-scan sonar, target, clutter, bottom", (), prepare_tiles),
    )
}
