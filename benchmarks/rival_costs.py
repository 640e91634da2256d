"""Time what each head costs with a network before it: a training step, the pass after training, a prediction.

    python -m benchmarks.rival_costs --out benchmarks/results/rival_costs

The heads of a run, the Gaussian processes and what people would take instead, on the network FE1 and images
of 32 x 32 pixels. Rounds of all methods are interleaved, so that a machine that slows down slows all of them.
An ensemble costs as many networks as it has members. Writes JSON and a Markdown table.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.common import host, median_and_spread, write_results
from gpmodels import HybridModel
from gpmodels.hgp.settings import HGPSettings
from gpmodels.networks.sonar_features import sonar_features
from gpmodels.registry import HeadTask, head_family

HEADS = ("linear", "ridge_linear", "laplace", "dropout", "sngp", "svgp", "hgp")
SIZE, BATCH, TRAINING_IMAGES, MEMBERS = 32, 50, 1000, 5
ENSEMBLE = f"Ensemble of {MEMBERS}"


def made(name: str, num_classes: int, images: np.ndarray, labels: np.ndarray) -> HybridModel:
    """Return the network with an untrained head where its features lie."""
    family = head_family(name)
    flat = HGPSettings(num_experts=3)  # of the oldest families, as in runs on images with one class each
    settings = flat if family.flat_keys else (family.settings or HGPSettings)()
    model = HybridModel(
        sonar_features("FE1"), family.make(settings, HeadTask(num_classes)), num_data=TRAINING_IMAGES
    )
    model.build((None, SIZE, SIZE, 3))
    model.compile(optimizer=keras.optimizers.Adam(1e-4))
    model.initialize((images, labels))
    return model


def training_step(model: HybridModel, batch: tuple[tf.Tensor, tf.Tensor]) -> Callable[[], Any]:
    """Return a compiled training step of network and head."""
    step = tf.function(lambda: model.train_step(batch)["loss"], autograph=False)
    step()
    return lambda: [step()]


def prediction(models: list[HybridModel], images: tf.Tensor) -> Callable[[], Any]:
    """Return a compiled prediction of all models, one after the other."""
    functions = [model.inference_function() for model in models]
    step = tf.function(lambda: [function(images)["probability"] for function in functions], autograph=False)
    step()
    return step


def completion_seconds(model: HybridModel, data: tuple[np.ndarray, np.ndarray], rounds: int) -> float | None:
    """Return the seconds of the pass over all training images after training; None for a head without one."""
    family = head_family(model.head.name)
    if family.fitted_on is None and not family.is_completed:
        return None
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        model.fit_to(data, groups=np.arange(TRAINING_IMAGES) // 20)
        seconds.append(time.perf_counter() - started)
    return float(np.median(seconds))


def interleaved(steps: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each step in each round, the methods taking turns."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            started = time.perf_counter()
            step()[-1].numpy()
            seconds[name].append(time.perf_counter() - started)
    return seconds


def rows_for(num_classes: int, rounds: int) -> list[dict[str, Any]]:
    """Return the rows of the table for a number of classes."""
    rng = np.random.default_rng(0)
    images = rng.uniform(0.0, 255.0, (TRAINING_IMAGES, SIZE, SIZE, 3)).astype("float32")
    labels = rng.integers(0, num_classes, TRAINING_IMAGES).astype("float32")
    batch = (tf.constant(images[:BATCH]), tf.constant(labels[:BATCH]))
    models = {name: made(name, num_classes, images, labels) for name in HEADS}
    training = {
        name: training_step(model, batch)
        for name, model in models.items()
        if head_family(name).fitted_on is None
    }
    predicting = {name: prediction([model], batch[0]) for name, model in models.items()}
    members = [made("linear", num_classes, images, labels) for _ in range(MEMBERS)]
    predicting[ENSEMBLE] = prediction(members, batch[0])
    trained, predicted = interleaved(training, rounds), interleaved(predicting, rounds)
    linear = np.median(predicted["linear"])
    rows = []
    for name in predicting:
        step = (
            MEMBERS * np.median(trained["linear"])
            if name == ENSEMBLE
            else np.median(trained.get(name, [0.0]))
        )
        completed = None if name == ENSEMBLE else completion_seconds(models[name], (images, labels), 3)
        middle, spread = median_and_spread(predicted[name])
        rows.append(
            {
                "classes": num_classes,
                "method": name if name == ENSEMBLE else head_family(name).title,
                "training step, ms": round(1e3 * step, 1) if step else "none of its own",
                "pass after training, s": "" if completed is None else round(completed, 2),
                f"prediction of {BATCH}, ms": round(1e3 * middle, 1),
                "interquartile range": round(1e3 * spread, 1),
                "over linear": round(middle / linear, 2),
            }
        )
    return rows


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/rival_costs"))
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 10])
    arguments = parser.parse_args()
    rows = [row for count in arguments.classes for row in rows_for(count, arguments.rounds)]
    title = f"Costs of heads on FE1: batches of {BATCH}, {TRAINING_IMAGES} training images of {SIZE} x {SIZE}"
    write_results(arguments.out, title=title, rows=rows, host=host())


if __name__ == "__main__":
    main()
