"""How each data set of the study is prepared and divided: few to train on, other groups to judge by.

Groups (patients, cores, near-duplicates, frames that follow each other) never lie on both sides.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np

from benchmarks.histopathology import prepared_once
from benchmarks.honesty.plan import Cell
from benchmarks.sonar.data_sets import class_folders, debris_images
from data_prep.files.images import write_picture
from data_prep.histopathology.manifest import HistopathologyManifest
from data_prep.lane.prepare import prepare_lane
from data_prep.lane.scene_materials import bundled_photograph
from data_prep.lane.settings import LanePrepareSettings
from data_prep.prepared.manifest import MANIFEST_NAME, Manifest, load_manifest
from data_prep.sonar.manifest import SonarManifest
from data_prep.sonar.prepare import prepare_sonar
from data_prep.sonar.settings import SonarPrepareSettings
from data_prep.splits.divide import group_names

WALKABLE_SIZE = (48, 64)
"""Height and width of the street scenes; larger ones would take days on two cores."""

MOMENT = r"(\w+_f?\d{3})\d*"
"""What frames of CamVid that lie a few seconds apart, and look alike, have in common."""

PHOTOGRAPHS = ("astronaut", "brick", "camera", "cat", "coffee", "coins", "grass", "gravel", "hubble", "ihc")
"""Photographs of scikit-image that are cut into pieces nobody has seen in training."""

_PIECES = 8


def divided(cell: Cell, data: Path, out: Path, work: Path) -> Path:
    """Return the prepared folder of a cell, with what it is trained on and judged by.

    Args:
        cell: Which run.
        data: Folder of the data sets.
        out: Folder of the study, for what several cells share.
        work: Folder of the cell.
    """
    return _DIVIDE[cell.subject](cell, data, out, work)


def share(cells: Collection[Cell], data: Path, out: Path) -> None:
    """Write what several cells share, before they run beside each other."""
    for subject, network in {(cell.subject, cell.network) for cell in cells}:
        if _DIVIDE[subject] is _tissue:
            prepared_once(data, out, subject, network)
    photographs(out)


def unknown_images(cell: Cell, data: Path, out: Path) -> Path | None:
    """Return a folder of images of the class that was left out, else of photographs of other subjects.

    None where a run learns from features that no folder of images gives.
    """
    if cell.network == "handmade":
        return None
    return photographs(out) if cell.left_out is None else _sonar_images(cell, data) / cell.left_out


def photographs(out: Path) -> Path:
    """Return a folder with square pieces of photographs, written once."""
    folder = out / "photographs"
    if folder.exists():
        return folder
    rng = np.random.default_rng(0)
    temporary = folder.with_name("photographs.part")
    shutil.rmtree(temporary, ignore_errors=True)
    for name in PHOTOGRAPHS:
        picture = bundled_photograph(name)
        for number in range(_PIECES):
            side = int(rng.integers(min(picture.shape[:2]) // 3, min(picture.shape[:2])))
            top, left = (int(rng.integers(0, length - side + 1)) for length in picture.shape[:2])
            piece = picture[top : top + side, left : left + side]
            write_picture(temporary / f"{name}_{number}.png", piece)
    temporary.rename(folder)
    return folder


def _tissue(cell: Cell, data: Path, out: Path, work: Path) -> Path:
    """So many patients or cores to train on, drawn at random with both classes on both sides."""
    prepared = prepared_once(data, out, cell.subject, cell.network)
    manifest = load_manifest(prepared, HistopathologyManifest)
    group_of = {example.name: example.group for example in manifest.examples}
    labels: dict[str, set[int]] = {}
    for example in manifest.examples:
        labels.setdefault(example.group, set()).add(example.label)
    train = _groups_with_both(labels, cell)
    parts = {name: "train" if group in train else "test" for name, group in group_of.items()}
    return resplit(prepared, work / "prepared", manifest, parts)


def _groups_with_both(labels: dict[str, set[int]], cell: Cell) -> set[str]:
    """Return groups drawn at random: each class is on both sides, and one can be held out of the training."""
    rng = np.random.default_rng([cell.seed, cell.size])
    groups, every = sorted(labels), set().union(*labels.values())
    for _ in range(10_000):
        drawn = set(rng.choice(groups, cell.size, replace=False).tolist())
        sides = (drawn, set(groups) - drawn)
        of_class = Counter(label for group in drawn for label in labels[group])
        both = all(set().union(*(labels[group] for group in side)) == every for side in sides)
        if both and max(of_class.values()) > 1:
            return drawn
    raise ValueError(
        f"{cell.name}: no draw of {cell.size} of {len(groups)} groups has each class on both sides. "
        "Ask for another size."
    )


def resplit(prepared: Path, folder: Path, manifest: Manifest, parts: dict[str, str]) -> Path:
    """Return the same prepared examples under another division."""
    examples = [e.model_copy(update={"split": parts[e.name], "fold": None}) for e in manifest.examples]
    folder.mkdir(parents=True)
    for name in manifest.sha256:
        (folder / name).symlink_to((prepared / name).resolve())
    changed = manifest.model_copy(update={"examples": tuple(examples), "num_folds": None})
    (folder / MANIFEST_NAME).write_text(changed.model_dump_json())
    return folder


def _sonar_images(cell: Cell, data: Path) -> Path:
    return debris_images(data) if cell.subject == "debris" else data / "sonar_sidescan_classes"


def _sonar(cell: Cell, data: Path, out: Path, work: Path) -> Path:  # noqa: ARG001 - all subjects take it
    """So many snapshots of each class of the training half; the other half is judged."""
    images = class_folders(_sonar_images(cell, data), cell.left_out, work / "whole")
    settings = {"seed": cell.seed, **_sonar_groups(cell, data)}
    prepare_sonar(images, work / "prepared_whole", SonarPrepareSettings.model_validate(settings))
    manifest = load_manifest(work / "prepared_whole", SonarManifest)
    rng = np.random.default_rng([cell.seed, cell.size])
    train: list[str] = []
    for label in range(len(manifest.class_names)):
        candidates = [e.name for e in manifest.examples if e.label == label and e.split == "train"]
        train += rng.choice(sorted(candidates), min(cell.size, len(candidates)), replace=False).tolist()
    lists = {
        "train_list": _name_list(work / "train.txt", train),
        "test_list": _name_list(work / "test.txt", [e.name for e in manifest.examples if e.split == "test"]),
    }
    prepare_sonar(images, work / "prepared", SonarPrepareSettings.model_validate({**settings, **lists}))
    return work / "prepared"


def _sonar_groups(cell: Cell, data: Path) -> dict[str, object]:
    """Return the settings that say which snapshots are alike."""
    if cell.subject == "debris":
        return {"consecutive": 20}
    return {"group_list": data / "sonar_sidescan_classes" / "near_duplicate_groups.csv"}


def _name_list(path: Path, names: Collection[str]) -> Path:
    path.write_text("\n".join(names) + "\n", encoding="utf-8")
    return path


def _walkable(cell: Cell, data: Path, out: Path, work: Path) -> Path:  # noqa: ARG001 - all subjects take it
    return prepare_street_scenes(data, work, (3, 4), count=cell.size, seed=cell.seed)


def prepare_street_scenes(
    data: Path, work: Path, lane_values: tuple[int, ...], *, count: int, seed: int
) -> Path:
    """So many street scenes of the official training part; the official validation part is judged.

    A drive goes from one part into the other: frames of a moment that has judged ones train nothing.

    Args:
        data: Folder of the data sets.
        work: Folder to prepare in.
        lane_values: Classes that are lane.
        count: How many scenes train.
        seed: Draws them.
    """
    source = data / "camvid_segnet"
    rng = np.random.default_rng([seed, count])
    judged = sorted(path.name for path in (source / "valannot").iterdir())
    names = sorted(path.name for path in (source / "trainannot").iterdir())
    judged_moments = set(group_names(judged, MOMENT).values())
    others = [name for name, moment in group_names(names, MOMENT).items() if moment not in judged_moments]
    chosen = rng.choice(others, count, replace=False).tolist()
    for folder, pairs in (("images", ("train", "val")), ("masks", ("trainannot", "valannot"))):
        (work / folder).mkdir(parents=True)
        for origin, kept in zip(pairs, (chosen, judged), strict=True):
            for path in (source / origin).iterdir():
                if path.with_suffix(".png").name in kept:
                    (work / folder / path.name).symlink_to(path.resolve())
    settings = LanePrepareSettings(
        size=WALKABLE_SIZE,
        lane_values=lane_values,
        ignore_values=(11,),
        group_pattern=MOMENT,
        test_list=_name_list(work / "test.txt", [Path(name).stem for name in judged]),
    )
    prepare_lane(work / "images", work / "masks", work / "prepared", settings)
    return work / "prepared"


_DIVIDE: dict[str, Callable[[Cell, Path, Path, Path], Path]] = {
    "colon": _tissue,
    "breast": _tissue,
    "debris": _sonar,
    "side-scan": _sonar,
    "walkable": _walkable,
}
