"""How each data set of the scoreboard is prepared: once for all seeds, then divided anew by each.

Groups (patients, near-duplicates, frames that follow each other) never lie on both sides of a division.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import histopathology
from benchmarks.cells import simulator
from benchmarks.cells_simulated import PREPARING, SIMULATION, tiles
from benchmarks.honesty import data_sets
from benchmarks.honesty.data_sets import prepare_street_scenes, resplit
from benchmarks.honesty.plan import Cell as FewGroups
from benchmarks.scoreboard.plan import Cell
from benchmarks.sonar.data_sets import SETS
from benchmarks.video_heads import TRUNK, prepared
from data_prep.cells.manifest import CellsManifest
from data_prep.cells.prepare import prepare_cells
from data_prep.classify.manifest import ClassifyManifest
from data_prep.classify.prepare import prepare_classify
from data_prep.files.tables import read_table
from data_prep.histopathology.manifest import HistopathologyManifest
from data_prep.lane.manifest import LaneManifest
from data_prep.prepared.manifest import MANIFEST_NAME, LabelledManifest, load_manifest
from data_prep.sonar.manifest import SonarManifest
from data_prep.splits.stratified import stratified_parts
from pipelines.lane import demo
from pipelines.runs.train import train as train_run
from pipelines.video.application import VIDEO
from pipelines.video.features import cache_features
from pipelines.video.settings import FeaturesSettings, TrainSettings

JUDGED_SHARE = {"debris": 0.5, "side-scan": 0.5, "tiles": 0.5}
"""Share of each class that is judged; a fifth where nothing stands."""

STREET_SCENES = 300
"""Street scenes to train on."""

LANE_VALUES = {"CamVid walkable": (3, 4), "CamVid pavement": (4,)}


@dataclass(frozen=True)
class Divided:
    """What a cell trains on and is judged by.

    Attributes:
        folder: Prepared folder.
        groups: Group of each example, and of each image that examples were cut from.
        is_drawn_anew: Whether a seed has data of its own, so that groups of two seeds are never the same.
        training: Settings of the training that belong to the data.
    """

    folder: Path
    groups: Mapping[str, str]
    is_drawn_anew: bool = False
    training: Mapping[str, Any] = field(default_factory=dict)


def divided(cell: Cell, data: Path, shared: Path, work: Path) -> Divided:
    """Return the prepared folder of a cell.

    Args:
        cell: Which data and which seed.
        data: Folder of the data sets.
        shared: Folder for what several cells share.
        work: Folder of the cell, empty.
    """
    return _DIVIDE[cell.setting.source](cell, data, shared, work)


def _groups_of(folder: Path, kind: type[LabelledManifest]) -> dict[str, str]:
    examples = load_manifest(folder, kind).examples
    groups = {example.name: example.group for example in examples}
    sources = {getattr(example, "source", example.name): example.group for example in examples}
    return sources | groups


def _prepared_once(folder: Path, prepare: Callable[[Path, Path], object]) -> Path:
    """Return a prepared folder, made where it is not there.

    Args:
        folder: Where it is.
        prepare: Prepares into its first argument; the second is a folder for what it needs besides.
    """
    if not (folder / MANIFEST_NAME).exists():
        besides = folder.with_name(f"{folder.name}.besides")
        for old in (folder, besides):
            shutil.rmtree(old, ignore_errors=True)
        besides.mkdir(parents=True)
        prepare(folder, besides)
        shutil.rmtree(besides)
    return folder


def _divided_again(cell: Cell, prepared: Path, kind: type[LabelledManifest], work: Path) -> Divided:
    """Divide prepared examples by the seed of a cell."""
    manifest = load_manifest(prepared, kind)
    groups = {example.name: example.group for example in manifest.examples}
    labels = {example.name: example.label for example in manifest.examples}
    judged = JUDGED_SHARE.get(cell.setting.source, 0.2)
    parts = stratified_parts(groups, labels, (1.0 - judged, judged), cell.seed)
    sides = {name: ("train", "test")[part] for name, part in parts.items()}
    folder = resplit(prepared, work / "prepared", manifest, sides)
    return Divided(folder, _groups_of(prepared, kind))


def _sonar(name: str, cell: Cell, data: Path, shared: Path, work: Path) -> Divided:

    def prepare(folder: Path, besides: Path) -> None:
        SETS[name].prepare(data, 0, None, besides).rename(folder)

    prepared = _prepared_once(shared / name, prepare)
    return _divided_again(cell, prepared, SonarManifest, work)


def _classify(
    make: Callable[[Path, Path], tuple[Path, Path | None]], cell: Cell, data: Path, shared: Path, work: Path
) -> Divided:

    def prepare(folder: Path, besides: Path) -> None:
        images, table = make(data, besides)
        prepare_classify(images, folder, table=table)

    prepared = _prepared_once(shared / cell.setting.source.replace(" ", "_"), prepare)
    return _divided_again(cell, prepared, ClassifyManifest, work)


def ultrasound(data: Path, _besides: Path) -> tuple[Path, None]:
    """Class folders of breast ultrasound; near-duplicates stay together, patients are not known."""
    return data / "busi_breast_ultrasound", None


def sperm_heads(data: Path, besides: Path) -> tuple[Path, Path]:
    """Sperm heads, normal or abnormal, both official parts together."""
    folder = data / "mhsma_sperm"
    rows = [
        (row["image"], "abnormal" if row["head"] == "1" else "normal")
        for part in ("train", "valid")
        for row in read_table(folder / f"{part}.csv", ("image", "head")).values()
    ]
    return folder, image_table(besides / "table.csv", rows)


def solar_cells(_data: Path, besides: Path) -> tuple[Path, Path]:
    """Cells of solar modules in electroluminescence: defective where experts say so of half or more.

    Raises:
        FileNotFoundError: The package with the images is not installed.
    """
    spec = importlib.util.find_spec("elpv_dataset")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("elpv: the images come with `pip install elpv-dataset`.")
    folder = Path(spec.origin).parent / "data"
    lines = [line.split() for line in (folder / "labels.csv").read_text(encoding="utf-8").splitlines()]
    rows = [(line[0], "defective" if float(line[1]) >= 0.5 else "functional") for line in lines if line]
    return folder, image_table(besides / "table.csv", rows)


def image_table(path: Path, rows: list[tuple[str, str]]) -> Path:
    """Write a table of images and classes."""
    path.write_text("image,class\n" + "".join(f"{image},{name}\n" for image, name in rows), encoding="utf-8")
    return path


def _tissue(name: str, cell: Cell, data: Path, shared: Path, work: Path) -> Divided:

    features = cell.setting.changes.get("network", "handmade")
    prepared = histopathology.prepared_once(data, shared, name, features)
    if cell.setting.size is None:
        share = histopathology.SHARES["half"]
        folder = histopathology.split_again(prepared, work / "prepared", share, cell.seed)
    else:
        few = FewGroups(name, features, cell.setting.size, cell.seed)
        folder = data_sets.divided(few, data, shared, work)
    return Divided(folder, _groups_of(prepared, HistopathologyManifest))


def _demo(cell: Cell, _data: Path, _shared: Path, work: Path) -> Divided:

    plan, console = demo.Plan(), Console(quiet=True)
    scenes = demo.render(work, plan, seed=cell.seed, console=console)
    demo.prepare(scenes, work, plan, console)
    examples = load_manifest(work / "prepared", LaneManifest).examples
    groups = {example.name: example.group for example in examples}
    training = plan.settings(cell.seed).model_dump(exclude_unset=True)
    return Divided(work / "prepared", groups, is_drawn_anew=True, training=training)


def _street_scenes(cell: Cell, data: Path, _shared: Path, work: Path) -> Divided:

    values = LANE_VALUES[cell.setting.source]
    folder = prepare_street_scenes(data, work, values, count=STREET_SCENES, seed=cell.seed)
    examples = load_manifest(folder, LaneManifest).examples
    return Divided(folder, {example.name: example.group for example in examples})


def _silhouettes(cell: Cell, data: Path, shared: Path, work: Path) -> Divided:
    """Features of a network that learned without one person, who is judged; the seeds take turns."""
    clips, manifest = prepared(data / "weizmann_silhouettes", shared / "silhouettes")
    fold, console = cell.seed % (manifest.num_folds or 1), Console(quiet=True)
    trunk, features = work / "trunk", work / "features"
    settings = TrainSettings.model_validate({**TRUNK, "seed": cell.seed, "fold": fold})
    train_run(VIDEO, settings, data=clips, out=trunk, resume=False, console=console)
    cache_features(
        FeaturesSettings(), data=clips, weights=None, model=trunk, out=features, resume=False, console=console
    )
    groups = {example.video: example.group for example in manifest.examples}
    return Divided(features, groups, training={"fold": fold})


def _cells(cell: Cell, data: Path, _shared: Path, work: Path) -> Divided:
    """Simulate events in nine parts of a real sequence; four or five of the parts are judged."""
    simulated = {
        name: simulator.simulate_events(tile, SIMULATION, seed=100 * cell.seed + number)
        for number, (name, tile) in enumerate(tiles(data / "usiigaci_t98g_phase" / "frames"))
    }
    folder = work / "simulated"
    simulator.write_simulated(folder, simulated)
    prepare_cells(
        folder / simulator.SEQUENCES_NAME,
        folder / simulator.EVENTS_NAME,
        work / "prepared",
        PREPARING.model_copy(update={"seed": cell.seed}),
    )
    return Divided(work / "prepared", _groups_of(work / "prepared", CellsManifest))


_DIVIDE: dict[str, Callable[[Cell, Path, Path, Path], Divided]] = {
    **{name: partial(_sonar, name) for name in ("debris", "side-scan", "tiles")},
    **{name: partial(_tissue, name) for name in ("breast", "colon")},
    "BUSI": partial(_classify, ultrasound),
    "MHSMA head": partial(_classify, sperm_heads),
    "elpv": partial(_classify, solar_cells),
    "demo": _demo,
    **dict.fromkeys(LANE_VALUES, _street_scenes),
    "silhouettes": _silhouettes,
    "cells": _cells,
}
