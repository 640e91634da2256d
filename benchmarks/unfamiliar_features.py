"""How well an SVGP head on a trunk's features recognises what it never saw, with three linear means.

    python -m benchmarks.unfamiliar_features --images FOLDER --foreign FOLDER [--groups FILE.csv] --seeds 3 \
        --out benchmarks/results/unfamiliar_features/NAME

FOLDER has a folder of images for each class. Each class is left out in turn: two fifths of the groups of the
others train, a tenth ends the training and chooses the temperature, and half are judged. The table has the
NLL of these before and after the temperature, and the AUROC with which entropy, mutual information and latent
variance tell them from images of the class that was left out, and from those of the foreign folder. Means are
none, a linear layer with certain weights, and one whose weights have a posterior, as runs have it. FILE.csv
has the columns class, file and group of images that belong together; without it each image is a group.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import csv
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import scipy.optimize
from scipy.special import log_softmax
from sklearn.metrics import roc_auc_score

import gpimaging
from benchmarks.common import host, write_results
from gpmodels import HybridModel, SVGPHead
from gpmodels.heads.alone import AloneSchedule, HeadPoints
from pipelines.runs.head_start import FeaturePoints, start_head
from pipelines.runs.models import MOST_WIDE_FEATURES, SOFTMAX_VARIANCE, SOFTMAX_VARIANCE_BESIDE_MEAN

LINEAR = {"mean": "linear", "kernel_variance": SOFTMAX_VARIANCE_BESIDE_MEAN}
MEANS: dict[str, dict[str, Any]] = {
    "none": {"mean": "none", "kernel_variance": SOFTMAX_VARIANCE},
    "linear, certain weights": LINEAR,
    "linear, uncertain weights": {**LINEAR, "mean_posterior": MOST_WIDE_FEATURES},
}
UNCERTAINTIES = ("predictive_entropy", "mutual_information", "latent_variance")
SHARES = (0.4, 0.5)  # up to which of the groups train, and choose
STEPS, RATE = 1000, 1e-2
Outputs = dict[str, np.ndarray[Any, Any]]


class Images(NamedTuple):
    """Features `[N, D]` of images, their class and their group, each `[N]`."""

    features: np.ndarray[Any, Any]
    label: np.ndarray[Any, Any]
    group: np.ndarray[Any, Any]


def read_images(folder: Path, groups: Path | None) -> Images:
    """Describe the images of each class by the trunk."""
    named: dict[tuple[str, str], str] = {}
    if groups is not None:
        with groups.open(encoding="utf-8", newline="") as file:
            named = {(row["class"], row["file"]): row["group"] for row in csv.DictReader(file)}
    files = sorted(path for path in folder.glob("*/*") if path.suffix.lower() in {".jpg", ".png"})
    label = np.unique([path.parent.name for path in files], return_inverse=True)[1]
    group = [named.get((path.parent.name, path.name), str(path)) for path in files]
    return Images(gpimaging.features(files), label, np.unique(group, return_inverse=True)[1])


def tempered_nll(log_probability: np.ndarray[Any, Any], label: np.ndarray[Any, Any], log_t: float) -> float:
    """Return the mean negative log-likelihood at the temperature exp(log_t), nats."""
    tempered = log_softmax(log_probability / np.exp(log_t), axis=1)
    return float(-tempered[np.arange(len(label)), label].mean())


def judge(
    images: Images, foreign: np.ndarray[Any, Any], left_out: int, mean: dict[str, Any], seed: int
) -> list[float]:
    """Train a head without a class, and return NLLs and AUROCs."""
    keras.utils.set_random_seed(seed)
    draw = np.random.default_rng(seed).random(images.group.max() + 1)
    part = np.searchsorted(SHARES, draw)[images.group]
    known = images.label != left_out
    label = np.unique(images.label[known], return_inverse=True)[1]
    of_part = [images.features[known & (part == number)] for number in range(3)]
    labels = [label[part[known] == number] for number in range(3)]
    groups = [images.group[known & (part == number)] for number in range(3)]
    train, chosen = (
        FeaturePoints(HeadPoints(x, y.astype(np.float32), np.ones(len(y), np.float32)), group)
        for x, y, group in list(zip(of_part, labels, groups, strict=True))[:2]
    )
    head = SVGPHead(num_classes=label.max() + 1, likelihood="softmax", **mean)
    model = HybridModel(keras.layers.Identity(), head, num_data=len(labels[0]))
    model.build((None, images.features.shape[1]))
    start_head(model, None, train, chosen, AloneSchedule(STEPS, RATE), seed=seed)

    def outputs(x: np.ndarray[Any, Any]) -> Outputs:
        found = dict(model.predict(x, batch_size=1024, verbose=0))
        found["latent_variance"] = found["latent_variance"].reshape(len(x), -1).mean(axis=1)
        return found

    selection, judged, new, other = map(outputs, (of_part[1], of_part[2], images.features[~known], foreign))
    logs = [np.log(np.maximum(part["probability"], 1e-9)) for part in (selection, judged)]
    best = scipy.optimize.minimize_scalar(
        lambda log_t: tempered_nll(logs[0], labels[1], log_t), bounds=(-2.0, 2.0), method="bounded"
    ).x
    return [
        *(tempered_nll(logs[1], labels[2], log_t) for log_t in (0.0, best)),
        *(auroc(judged[name], strange[name]) for strange in (new, other) for name in UNCERTAINTIES),
    ]


def auroc(known: np.ndarray[Any, Any], unknown: np.ndarray[Any, Any]) -> float:
    """Return how often an unknown image is the more uncertain one."""
    truth = np.repeat([0, 1], [len(known), len(unknown)])
    return float(roc_auc_score(truth, np.concatenate([known, unknown])))


def main() -> None:
    """Leave each class out with each mean and seed, and write the means over both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=Path, required=True, help="folder of class folders")
    parser.add_argument("--foreign", type=Path, required=True, help="likewise, of another subject")
    parser.add_argument("--groups", type=Path, help="table of what belongs together")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True, help="result files without suffix")
    arguments = parser.parse_args()
    images, foreign = read_images(arguments.images, arguments.groups), read_images(arguments.foreign, None)
    found: dict[str, list[list[float]]] = {name: [] for name in MEANS}
    for seed in range(arguments.seeds):
        for left_out in range(images.label.max() + 1):
            for name, mean in MEANS.items():
                found[name].append(judge(images, foreign.features, left_out, mean, seed))
                print(seed, left_out, name, np.round(found[name][-1], 3), flush=True)
    aurocs = [f"{kind}: {name}" for kind in ("left out", "foreign") for name in UNCERTAINTIES]
    columns = ["NLL", "NLL + T", *aurocs]
    rows = []
    for name, values in found.items():
        means = (f"{value:.3f}" for value in np.mean(values, axis=0))
        rows.append({"mean": name, "runs": len(values), **dict(zip(columns, means, strict=True))})
    title = f"Heads on a trunk's features of {arguments.images.name}: what they never saw"
    write_results(arguments.out, title=title, rows=rows, host=host())


if __name__ == "__main__":
    main()
