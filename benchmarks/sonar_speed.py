"""Time a training step of FE1 with each head, and a whole training of the thesis' size.

    python -m benchmarks.sonar_speed --out benchmarks/results/sonar_speed

The step is what `fit` does for 50 snapshots of 32 x 32: forward, backward, Adam, metrics, for three
classes, 50 inducing points and 3 experts; rounds of all heads are interleaved. The training is the one of
thesis 6.3: 199 snapshots (less those that choose the epoch), three classes, 4000 steps of which the HGP takes
part in the second half, with a checkpoint and scores after each epoch as `gpimaging sonar train` has them.
The snapshots are noise: no time depends on what they show.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import cv2
import keras
import numpy as np
import tensorflow as tf
from rich.console import Console

from benchmarks.common import host, median_and_spread, write_results
from data_prep.prepared.shards import prefetched
from data_prep.sonar.prepare import prepare_sonar
from data_prep.sonar.settings import SonarPrepareSettings
from gpmodels import HGPHead, HybridModel, LinearHead, SVGPHead
from gpmodels.heads.base import Head
from gpmodels.networks.sonar_features import sonar_features
from pipelines.runs.train import train
from pipelines.sonar.application import SONAR
from pipelines.sonar.settings import TrainSettings

CLASSES, BATCH, STEPS = 3, 50, 40
THESIS_SNAPSHOTS = 397
"""Half of them, 199, are trained on."""


def made_model(network: str, head: Head, images: np.ndarray, labels: np.ndarray) -> HybridModel:
    """A compiled model whose head is placed on its features."""
    model = HybridModel(sonar_features(network), head, num_data=len(images))
    model.build((None, *images.shape[1:]))
    if not isinstance(head, LinearHead):
        model.initialize((images, labels))
    model.compile(keras.optimizers.Adam(1e-3))
    return model


def step_rows(network: str, rounds: int) -> list[dict[str, Any]]:
    """Milliseconds of a training step by head."""
    rng = np.random.default_rng(0)
    images = rng.uniform(0, 255, (STEPS * BATCH, 32, 32, 3)).astype(np.float32)
    labels = rng.integers(0, CLASSES, len(images))
    batches = prefetched(tf.data.Dataset.from_tensor_slices((images, labels)).batch(BATCH))
    heads: dict[str, Head] = {
        "linear": LinearHead(num_classes=CLASSES),
        "SVGP": SVGPHead(num_inducing=50, num_classes=CLASSES),
        "HGP": HGPHead(num_experts=3, num_inducing=50, num_classes=CLASSES),
    }
    models = {name: made_model(network, head, images, labels) for name, head in heads.items()}
    for model in models.values():
        model.fit(batches, verbose=0)  # traces the graph
    times: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(rounds):
        for name, model in models.items():
            started = time.perf_counter()
            model.fit(batches, verbose=0)
            times[name].append(1e3 * (time.perf_counter() - started) / STEPS)
    reference = np.median(times["linear"])
    rows = []
    for name, values in times.items():
        middle, spread = median_and_spread(values)
        rows.append(
            {
                "what": f"training step, {network}, {name}",
                "median": f"{middle:.1f} ms",
                "interquartile range": f"{spread:.1f} ms",
                "over linear": f"{middle / reference:.2f}",
            }
        )
    return rows


def training_row(network: str) -> dict[str, Any]:
    """Seconds of a training of the thesis' size."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for number in range(THESIS_SNAPSHOTS):
            path = work / "images" / f"class_{number % CLASSES}" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(path), rng.integers(0, 256, (40, 40), np.uint8))
        prepare_sonar(work / "images", work / "prepared", SonarPrepareSettings(duplicate_distance=-1))
        started = time.perf_counter()
        settings = TrainSettings(heads=("hgp",), network=network, patience=0)
        console = Console(quiet=True)
        train(SONAR, settings, data=work / "prepared", out=work / "run", resume=False, console=console)
        seconds = time.perf_counter() - started
    return {"what": f"training of the thesis' size, {network}, HGP", "median": f"{seconds:.0f} s"}


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/sonar_speed"))
    parser.add_argument("--network", default="FE1")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    rows = [*step_rows(arguments.network, arguments.rounds), training_row(arguments.network)]
    rows = [{column: row.get(column, "") for column in rows[0]} for row in rows]
    write_results(arguments.out, title="Training on sonar snapshots", rows=rows, host=host())


if __name__ == "__main__":
    main()
