"""How the pools of the benchmark are made: the project's own `prepare` and its frozen trunk."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.labelling.pools import Pool
from benchmarks.scoreboard.data_sets import solar_cells, ultrasound
from benchmarks.sonar.data_sets import SETS
from data_prep.classify.manifest import ClassifyManifest
from data_prep.classify.prepare import prepare_classify
from data_prep.errors import InputError
from data_prep.files.tables import read_table
from data_prep.prepared.manifest import load_manifest
from data_prep.sonar.manifest import SonarManifest
from pipelines.labelled.data import open_images
from pipelines.trunks.application import loaded_trunk
from pipelines.trunks.features import TrunkFeatures, features_of_images
from pipelines.trunks.settings import TrunkSettings

NETWORK = "efficientnet_lite0"
SIDE = 160
"""Side in pixels of the images that the trunk sees."""


def make_pool(name: str, data: Path, cache: Path) -> Pool:
    """Return all images of a pool.

    Args:
        name: Name of the pool.
        data: Folder of the data sets.
        cache: Folder for what is needed meanwhile.
    """
    return _MAKERS[name](data, cache)


def _prepared(prepare: Callable[[Path, Path], Path], kind: str, name: str, data: Path, cache: Path) -> Pool:
    """Return what the project's own `prepare` makes of a folder, groups of near-duplicates included."""
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
    class Settings(TrunkSettings):
        """Settings of the trunk alone."""

        network: str = NETWORK
        seed: int = 0

    return loaded_trunk(Settings(), "imagenet", size)


def _classify(make: Callable[[Path, Path], tuple[Path, Path | None]], data: Path, work: Path) -> Path:
    images, table = make(data, work)
    prepare_classify(images, work / "prepared", table=table)
    return work / "prepared"


def _ultrasound(data: Path, work: Path) -> Path:
    return _classify(ultrasound, data, work)


def _solar_cells(data: Path, work: Path) -> Path:
    return _classify(solar_cells, data, work)


def _sonar(name: str, data: Path, work: Path) -> Path:
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
    """Return 1,400 handwritten digits, each in a group of its own; strategies may ask for about 1,000."""
    with np.load(data / "mnist" / "mnist.npz") as arrays:
        images, label = arrays["x_train"], arrays["y_train"]
    rows = np.random.default_rng(0).permutation(len(images))[:1400]
    large = [cv2.resize(images[row], (SIDE, SIDE), interpolation=cv2.INTER_CUBIC) for row in rows]
    return _of_arrays(np.repeat(np.stack(large)[..., None], 3, -1), label[rows], np.arange(len(rows)))


def _of_arrays(images: NDArray[np.uint8], label: NDArray[Any], group: NDArray[Any]) -> Pool:
    features = features_of_images(_trunk((SIDE, SIDE)), images, None)
    return Pool(features, label.astype(np.int64), group.astype(np.int64))


_MAKERS: dict[str, Callable[[Path, Path], Pool]] = {
    "BUSI": partial(_prepared, _ultrasound, "classify", "BUSI"),
    "side-scan": partial(_prepared, partial(_sonar, "side-scan"), "sonar", "side-scan"),
    "debris": partial(_prepared, partial(_sonar, "debris"), "sonar", "debris"),
    "tissue": _tissue,
    "MNIST": _digits,
    "elpv": partial(_prepared, _solar_cells, "classify", "elpv"),
}
"""How each pool is made."""
