"""The pools that simulated annotators label: features of the frozen trunk, classes and groups, computed once."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from data_prep.errors import InputError
from data_prep.files.atomic import atomic_file
from data_prep.files.tables import read_table

NETWORK = "efficientnet_lite0"
SIDE = 160
"""Side in pixels of the images that the trunk sees, as `gpimaging label` shows them to it."""

LARGEST = 1800
"""Images of a pool at most: a random part of a larger one, whole groups."""


@dataclass(frozen=True)
class Pool:
    """Images of known classes.

    Attributes:
        features: Features of the trunk `[N, D]`.
        label: Class of each image `[N]`.
        group: Number of the group of each image `[N]`: patient, near-duplicates, frames in a row.
    """

    features: NDArray[np.float32]
    label: NDArray[np.int64]
    group: NDArray[np.int64]


def pool(name: str, data: Path, cache: Path) -> Pool:
    """Return a pool, whose features a file keeps.

    Args:
        name: Name of the pool, a key of `POOLS`.
        data: Folder of the data sets.
        cache: Folder of the files.
    """
    file = cache / f"{name}.safetensors"
    if not file.exists():
        found = POOLS[name](data, cache)
        kept = _part(found.group)
        content = {
            "features": found.features[kept],
            "label": found.label[kept],
            "group": np.unique(found.group[kept], return_inverse=True)[1].astype(np.int64),
        }
        with atomic_file(file) as temporary:
            temporary.write_bytes(save({key: np.ascontiguousarray(rows) for key, rows in content.items()}))
    return Pool(**load(file.read_bytes()))


def _part(group: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return rows of whole groups, in a random order of groups, at most `LARGEST` of them."""
    order = np.random.default_rng(0).permutation(np.unique(group))
    sizes = np.array([np.sum(group == number) for number in order])
    return np.flatnonzero(np.isin(group, order[np.cumsum(sizes) <= LARGEST]))


def _prepared(prepare: Callable[[Path, Path], Path], kind: str, name: str, data: Path, cache: Path) -> Pool:
    """Return what the project's own `prepare` makes of a folder, groups of near-duplicates included."""
    from rich.console import Console

    from data_prep.classify.manifest import ClassifyManifest
    from data_prep.prepared.manifest import load_manifest
    from data_prep.sonar.manifest import SonarManifest
    from pipelines.labelled.data import open_images
    from pipelines.trunks.features import TrunkFeatures

    work = cache / f"{name}.work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    folder = prepare(data, work)
    manifest = load_manifest(folder, SonarManifest if kind == "sonar" else ClassifyManifest)
    opened = open_images(folder, type(manifest))
    encoded = TrunkFeatures(opened.folder, manifest, _trunk(manifest.size), Console(quiet=True))
    features = encoded.features
    shutil.rmtree(work)
    examples = manifest.examples
    group = np.unique([example.group for example in examples], return_inverse=True)[1]
    return Pool(features, np.array([example.label for example in examples]), group)


def _trunk(size: tuple[int, int]) -> Any:
    from pipelines.trunks.application import loaded_trunk
    from pipelines.trunks.settings import TrunkSettings

    class Settings(TrunkSettings):
        """Settings of the trunk alone."""

        network: str = NETWORK
        seed: int = 0

    return loaded_trunk(Settings(), "imagenet", size)


def _classify(make: Callable[[Path, Path], tuple[Path, Path | None]], data: Path, work: Path) -> Path:
    from data_prep.classify.prepare import prepare_classify

    images, table = make(data, work)
    prepare_classify(images, work / "prepared", table=table)
    return work / "prepared"


def _ultrasound(data: Path, work: Path) -> Path:
    from benchmarks.scoreboard.data_sets import ultrasound

    return _classify(ultrasound, data, work)


def _solar_cells(data: Path, work: Path) -> Path:
    from benchmarks.scoreboard.data_sets import solar_cells

    return _classify(solar_cells, data, work)


def _sonar(name: str, data: Path, work: Path) -> Path:
    from benchmarks.sonar.data_sets import SETS

    return SETS[name].prepare(data, 0, None, work)


def _tissue(data: Path, _cache: Path) -> Pool:
    """Six patches of each image of colon tissue, benign or malignant as the image is; groups are patients."""
    folder = data / "glas_colon_histology"
    rows = read_table(folder / "labels.csv", ("name", "patient_id", "y_malignant")).values()
    images, label, group = [], [], []
    for row in rows:
        path = folder / "images" / f"{row['name']}.jpg"
        if not path.exists():
            continue
        image = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)
        height, width = image.shape[0] // 2, image.shape[1] // 3
        side = min(height, width)
        for number in range(6):
            top, left = number // 3 * height, number % 3 * width
            patch = image[top : top + side, left : left + side]
            images.append(cv2.resize(patch, (SIDE, SIDE), interpolation=cv2.INTER_AREA))
            label.append(int(row["y_malignant"]))
            group.append(int(row["patient_id"]))
    if not images:
        raise InputError(f"{folder}: found none of the images that labels.csv names.")
    return _of_arrays(np.stack(images), np.array(label), np.array(group))


def _digits(data: Path, _cache: Path) -> Pool:
    """1,400 handwritten digits, about 1,000 of which may be asked for; each is a group of its own."""
    with np.load(data / "mnist" / "mnist.npz") as arrays:
        images, label = arrays["x_train"], arrays["y_train"]
    rows = np.random.default_rng(0).permutation(len(images))[:1400]
    large = [cv2.resize(images[row], (SIDE, SIDE), interpolation=cv2.INTER_CUBIC) for row in rows]
    return _of_arrays(np.repeat(np.stack(large)[..., None], 3, -1), label[rows], np.arange(len(rows)))


def _of_arrays(images: NDArray[np.uint8], label: NDArray[Any], group: NDArray[Any]) -> Pool:
    from pipelines.trunks.features import features_of_images

    features = features_of_images(_trunk((SIDE, SIDE)), images, None)
    return Pool(features, label.astype(np.int64), group.astype(np.int64))


POOLS: dict[str, Callable[[Path, Path], Pool]] = {
    "BUSI": partial(_prepared, _ultrasound, "classify", "BUSI"),
    "side-scan": partial(_prepared, partial(_sonar, "side-scan"), "sonar", "side-scan"),
    "debris": partial(_prepared, partial(_sonar, "debris"), "sonar", "debris"),
    "tissue": _tissue,
    "MNIST": _digits,
    "elpv": partial(_prepared, _solar_cells, "classify", "elpv"),
}
"""How each pool is made."""
