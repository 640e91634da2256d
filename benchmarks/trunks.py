"""Which trunk is the better default: heads on the frozen features of each, at two sizes of the images.

    python -m benchmarks.trunks --data FOLDER --work out/trunks

FOLDER holds the data sets side-scan and ultrasound (BUSI), see the README; the solar cells come with the
package elpv-dataset. Whole groups (near-duplicates, neighbours) are divided:
half train, a tenth ends the training and chooses temperatures, the others are judged, with as many seeds as
asked for. The heads see 64 principal components: logistic regression whose penalty is chosen by inner
groups, with a temperature, and an SVGP as runs have it.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import scipy.optimize
from rich.console import Console
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedGroupKFold

from benchmarks.common import host, write_results
from benchmarks.scoreboard.data_sets import image_table, solar_cells, ultrasound
from data_prep.classify.manifest import ClassifyManifest
from data_prep.classify.prepare import prepare_classify
from data_prep.classify.settings import ClassifyPrepareSettings
from data_prep.prepared.manifest import MANIFEST_NAME, load_manifest
from data_prep.splits.stratified import stratified_parts
from gpmodels import HybridModel, SVGPHead
from gpmodels.heads.alone import AloneSchedule, HeadPoints
from gpmodels.networks.trunks import OWN
from gpmodels.networks.view_projection import ViewProjection
from pipelines.runs.head_start import FeaturePoints, start_head
from pipelines.runs.models import MOST_WIDE_FEATURES, SOFTMAX_VARIANCE_BESIDE_MEAN
from pipelines.trunks.features import LoadedTrunk, TrunkFeatures, frozen_features
from pipelines.trunks.settings import TrunkFacts
from pipelines.trunks.weights import arrays_sha256, load_trunk, packaged_file

SIZES = (160, 224)
SHARES = (0.5, 0.1, 0.4)
COMPONENTS = 64
SMALLEST_SIDE = 128
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Images:
    """Features `[N, D]`, labels and groups `[N]`."""

    features: Array
    label: Array
    group: Array


def side_scan(data: Path, besides: Path) -> tuple[Path, Path]:
    """Side-scan snapshots with the groups of near-duplicates that the data set names."""
    folder = data / "sonar_sidescan_classes"
    with (folder / "near_duplicate_groups.csv").open(encoding="utf-8", newline="") as file:
        rows = [(f"{row['class']}/{row['file']}", row["class"], row["group"]) for row in csv.DictReader(file)]
    table = image_table(besides / "side_scan.csv", [])
    table.write_text("image,class,group\n" + "".join(",".join(row) + "\n" for row in rows), encoding="utf-8")
    return folder, table


SETS: dict[str, Callable[[Path, Path], tuple[Path, Path | None]]] = {
    "side-scan": side_scan,
    "ultrasound": ultrasound,
    "solar cells": solar_cells,
}


def described(name: str, trunk_name: str, size: int, data: Path, work: Path) -> Images:
    """Return the features of a data set by a trunk at a size; computed once."""
    folder = work / f"{name.replace(' ', '_')}_{size}"
    if not (folder / MANIFEST_NAME).exists():
        work.mkdir(parents=True, exist_ok=True)
        images, table = SETS[name](data, work)
        prepare_classify(images, folder, ClassifyPrepareSettings(size=(size, size)), table=table)
    manifest = load_manifest(folder, ClassifyManifest)
    kept = folder / f"{trunk_name}.npz"
    if not kept.exists():
        network = load_trunk(trunk_name, "imagenet", smallest_side=SMALLEST_SIDE)
        facts = TrunkFacts(
            name=trunk_name,
            sha256=arrays_sha256(network.arrays()),
            size=(size, size),
            smallest_side=SMALLEST_SIDE,
            num_features=network.num_features,
            unfrozen_blocks=0,
        )
        trunk = LoadedTrunk(network=network, facts=facts, weights="imagenet")
        found = frozen_features(
            TrunkFeatures(folder=folder, manifest=manifest, trunk=trunk, console=Console(quiet=True))
        )
        np.savez(kept, features=found)
    with np.load(kept) as arrays:
        features = arrays["features"]
    label = np.array([example.label for example in manifest.examples])
    group = np.unique([example.group for example in manifest.examples], return_inverse=True)[1]
    return Images(features, label, group)


def tempered(log_probability: Array, label: Array, log_t: float) -> float:
    """Return the mean negative log-likelihood at the temperature exp(log_t), nats."""
    scores = log_softmax(log_probability / np.exp(log_t), axis=1)
    return float(-scores[np.arange(len(label)), label].mean())


def judged(logs: tuple[Array, Array], labels: tuple[Array, Array]) -> tuple[float, float]:
    """Return NLL and accuracy of judged images, with the temperature that chosen ones ask for."""
    best = scipy.optimize.minimize_scalar(
        lambda log_t: tempered(logs[0], labels[0], log_t), bounds=(-2.0, 2.0), method="bounded"
    ).x
    return tempered(logs[1], labels[1], best), float((logs[1].argmax(axis=1) == labels[1]).mean())


def linear(x: list[Array], y: list[Array], group: Array, seed: int) -> tuple[Array, Array]:
    """Return log-probabilities of chosen and judged images by regularised logistic regression."""
    folds = list(StratifiedGroupKFold(4, shuffle=True, random_state=seed).split(x[0], y[0], group))
    model = LogisticRegressionCV(
        Cs=np.logspace(-4, 2, 13), cv=folds, scoring="neg_log_loss", max_iter=2000
    ).fit(x[0], y[0])
    return model.predict_log_proba(x[1]), model.predict_log_proba(x[2])


def svgp(x: list[Array], y: list[Array], groups: list[Array], seed: int) -> tuple[Array, Array]:
    """Return log-probabilities of chosen and judged images by the SVGP that runs have."""
    train, chosen = (
        FeaturePoints(HeadPoints(x[part], y[part].astype(np.float32), np.ones(len(y[part]), np.float32)), of)
        for part, of in enumerate(groups[:2])
    )
    head = SVGPHead(
        num_classes=int(max(part.max() for part in y)) + 1,
        likelihood="softmax",
        mean="linear",
        kernel_variance=SOFTMAX_VARIANCE_BESIDE_MEAN,
        mean_posterior=MOST_WIDE_FEATURES,
    )
    model = HybridModel(keras.layers.Identity(), head, num_data=len(y[0]))
    model.build((None, x[0].shape[1]))
    start_head(model, None, train, chosen, AloneSchedule(1000, 1e-2), seed=seed)
    chosen_log, judged_log = (
        np.log(np.maximum(model.predict(part, batch_size=1024, verbose=0)["probability"], 1e-9))
        for part in x[1:]
    )
    return chosen_log, judged_log


def scores(images: Images, seed: int) -> dict[str, tuple[float, float]]:
    """Return NLL and accuracy of both heads with one division."""
    keras.utils.set_random_seed(seed)
    names = {str(number): str(of) for number, of in enumerate(images.group)}
    labels = {str(number): int(of) for number, of in enumerate(images.label)}
    parts = stratified_parts(names, labels, SHARES, seed)
    part = np.array([parts[str(number)] for number in range(len(images.label))])
    of_part = [images.features[part == number] for number in range(3)]
    projection = ViewProjection([images.features.shape[1]], components=COMPONENTS)
    projection.build((None, images.features.shape[1]))
    projection.adapt(of_part[0])
    x = [np.asarray(projection(features)) for features in of_part]
    y = [images.label[part == number] for number in range(3)]
    groups = [images.group[part == number] for number in range(3)]
    truth = (y[1], y[2])
    return {
        "linear + T": judged(linear(x, y, groups[0], seed), truth),
        "SVGP + T": judged(svgp(x, y, groups, seed), truth),
    }


def main() -> None:
    """Judge every trunk on every set, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/trunks"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=list(SETS), choices=list(SETS))
    arguments = parser.parse_args()
    missing = [name for name in OWN if packaged_file(name) is None]
    if missing:
        raise SystemExit(f"The weights of {', '.join(missing)} are not installed: see docs/pretrained.md.")
    rows: list[dict[str, Any]] = []
    cells: list[dict[str, Any]] = []
    for name in arguments.only:
        for size in SIZES:
            for trunk in OWN:
                images = described(name, trunk, size, arguments.data, arguments.work)
                found = [scores(images, 8000 + seed) for seed in range(arguments.seeds)]
                row: dict[str, Any] = {
                    "data": name,
                    "images": len(images.label),
                    "size": size,
                    "trunk": trunk,
                }
                for head in found[0]:
                    values = np.array([of[head] for of in found])
                    cells.append(
                        {**row, "head": head, "nll": values[:, 0].tolist(), "accuracy": values[:, 1].tolist()}
                    )
                    mean, spread = values.mean(axis=0), values.std(axis=0, ddof=1)
                    row[f"NLL, {head}"] = f"{mean[0]:.3f} ± {spread[0]:.3f}"
                    row[f"accuracy, {head}"] = f"{mean[1]:.3f}"
                rows.append(row)
                write_results(
                    arguments.out,
                    title=f"Heads on the frozen features of trunks, {arguments.seeds} divisions",
                    rows=rows,
                    host=host(),
                    cells=cells,
                )


if __name__ == "__main__":
    main()
