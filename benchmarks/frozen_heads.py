"""Heads on frozen features of a run's pretrained network: what each choice does to the selection images.

    python -m benchmarks.frozen_heads --data out/walkable/train --model out/walkable/seed_0

The network is never moved, so that only the head differs; each head is trained for the same Adam steps on the
same sample of training pixels. Judged on the selection images, by which the choices are made; the judged
split is not touched. `--experts 3 6 9 12 15` compares numbers of experts instead, as thesis Table 5.3 does.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from rich.console import Console

from benchmarks.common import host, write_results
from data_prep.lane.dataset import lane_dataset
from data_prep.lane.manifest import LaneManifest
from data_prep.prepared.manifest import load_manifest
from data_prep.splits.divide import manifest_splits
from gpmodels import HGPHead, HybridModel, LinearHead, SVGPHead
from gpmodels.heads.base import Head
from pipelines.lane.application import LANE
from pipelines.runs.description import PRETRAINING
from pipelines.runs.job import trained_job
from pipelines.runs.models import load_model
from pipelines.scores.calibration import fit_temperature
from pipelines.scores.classification import (
    CLASSIFICATION_SCORES,
    classification_record,
    classification_statistics,
)
from pipelines.scores.results import score_values

PIXELS_PER_IMAGE = 400
SCORES = ("accuracy", "nll", "brier", "ece", "auroc_predictive_entropy")


def variants() -> dict[str, tuple[Callable[[], Head], dict[str, float]]]:
    """Head factories, and changes of the start: factors of lengthscales, variances, and N."""
    return {
        "linear": (LinearHead, {}),
        "SVGP": (SVGPHead, {}),
        "SVGP, lengthscales x 3": (SVGPHead, {"lengthscales": 3.0}),
        "HGP": (HGPHead, {}),
        "HGP, T = 3": (lambda: HGPHead(num_experts=3), {}),
        "HGP, variance as in the thesis": (lambda: HGPHead(expert_variance="thesis"), {}),
        "HGP, w = 0.2": (lambda: HGPHead(global_weight=0.2), {}),
        "HGP, w = 5": (lambda: HGPHead(global_weight=5.0), {}),
        "HGP, lengthscales x 3": (HGPHead, {"lengthscales": 3.0}),
        "HGP, expert variance 0.05": (
            HGPHead,
            {"lengthscales": 3.0, "variance": 10.0, "expert_variance": 0.05},
        ),
        "HGP, N / 60": (HGPHead, {"lengthscales": 3.0, "num_data": 1 / 60}),
        "HGP, N / 600": (HGPHead, {"lengthscales": 3.0, "num_data": 1 / 600}),
    }


def numbers_of_experts(numbers: Sequence[int]) -> dict[str, tuple[Callable[[], Head], dict[str, float]]]:
    """Head factories, without changes of the start: an SVGP, and an HGP for each number of experts."""
    return {
        "SVGP": (SVGPHead, {}),
        **{f"HGP, T = {number}": (partial(HGPHead, num_experts=number), {}) for number in numbers},
    }


def features_of(model: HybridModel, dataset: tf.data.Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features `[N, D]`, labels `[N]` and image numbers `[N]` of random labelled pixels."""
    rng = np.random.default_rng(0)
    features, labels, images = [], [], []
    for number, (image, label, weight) in enumerate(dataset):
        chosen = rng.permutation(np.flatnonzero(weight.numpy()))[:PIXELS_PER_IMAGE]
        maps = model.network(image, training=False).numpy()
        features.append(maps.reshape(-1, maps.shape[-1])[chosen])
        labels.append(label.numpy().ravel()[chosen])
        images.append(np.full(len(chosen), number))
    return np.concatenate(features), np.concatenate(labels), np.concatenate(images)


def change_start(head: Head, changes: dict[str, float]) -> None:
    """Multiply lengthscales, set variances."""
    units = [getattr(head, name) for name in ("global_unit", "experts") if hasattr(head, name)]
    for unit in units:
        unit.lengthscales.assign(unit.lengthscales * changes.get("lengthscales", 1.0))
    if "variance" in changes:
        units[0].variance.assign(np.full(1, changes["variance"]))
    if "expert_variance" in changes:
        units[1].variance.assign(np.full(units[1].num_units, changes["expert_variance"]))


def fit(
    head: Head, changes: dict[str, float], x: np.ndarray, y: np.ndarray, num_data: int, steps: int
) -> HybridModel:
    """A head trained alone on features."""
    model = HybridModel(
        keras.layers.Identity(), head, num_data=max(1, round(num_data * changes.get("num_data", 1.0)))
    )
    model.build((None, x.shape[1]))
    head.initialize(x[np.random.default_rng(0).permutation(len(x))[:20_000]].astype(float))
    change_start(head, changes)
    model.compile(optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(1e-2, steps)))
    points = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x), seed=0).repeat().batch(2048)
    model.fit(points, steps_per_epoch=steps, shuffle=False, verbose=0)
    return model


def scores(
    probability: np.ndarray, entropy: np.ndarray, labels: np.ndarray, images: np.ndarray
) -> dict[str, float]:
    """The scores of pixels, by the pipelines' own definitions."""
    records = [
        classification_record(
            str(k),
            labels[images == k].astype(np.int64),
            probability[images == k],
            {"predictive_entropy": entropy[images == k]},
        )
        for k in np.unique(images)
    ]
    return score_values(CLASSIFICATION_SCORES, classification_statistics(records))


def main() -> None:
    """Fit every variant and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/frozen_heads"))
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--experts", type=int, nargs="+", help="numbers of experts to compare instead")
    arguments = parser.parse_args()

    job = trained_job(LANE, arguments.model, Console())
    run, settings = job.run, job.settings
    manifest = load_manifest(arguments.data, LaneManifest)
    splits = manifest_splits(manifest, selection_fraction=settings.selection_fraction)
    pretrained = load_model(job, PRETRAINING)
    x, y, _ = features_of(pretrained, lane_dataset(arguments.data, manifest, splits.train, batch_size=1))
    held_x, held_y, held_images = features_of(
        pretrained, lane_dataset(arguments.data, manifest, splits.selection, batch_size=1)
    )
    rows = []
    compared = numbers_of_experts(arguments.experts) if arguments.experts else variants()
    for name, (make_head, changes) in compared.items():
        keras.utils.set_random_seed(0)
        started = time.perf_counter()
        model = fit(make_head(), changes, x, y, run.num_data, arguments.steps)
        seconds = time.perf_counter() - started
        model.drop_unused_experts(tf.data.Dataset.from_tensor_slices((x, y)).batch(16_384))
        outputs = model.predict(held_x, batch_size=16_384, verbose=0)
        values = scores(outputs["probability"], outputs["predictive_entropy"], held_y, held_images)
        occupancy = sorted(model.head.expert_occupancy().values(), reverse=True)
        rows.append(
            {
                "head": name,
                **{key: round(values[key], 4) for key in SCORES},
                "temperature": round(fit_temperature(outputs["latent_mean"], held_y), 3)
                if name == "linear"
                else "",
                "smallest expert": f"{occupancy[-1]:.0%}" if occupancy else "",
                "experts left": len(occupancy) or "",
                "seconds": round(seconds),
            }
        )
        write_results(
            arguments.out, title="Heads on frozen features, selection images", rows=rows, host=host()
        )


if __name__ == "__main__":
    main()
