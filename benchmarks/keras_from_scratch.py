"""Compare GP heads with a dense layer on small networks that are trained from scratch, in 20 settings.

    python -m benchmarks.keras_from_scratch --out benchmarks/results/keras_from_scratch

Each setting is a small convolutional network on synthetic images, trained by `fit` alone, without
`initialize`: Adam or SGD at learning rates between 1e-4 and 1e-2, with and without batch normalisation,
classes and targets, 200 to 5000 images. `LinearHead` is the dense layer. A head is worse in a setting if it
is worse by more than noise: two standard errors of the difference between held-out images and, since that
knows nothing of how much a training's own chance does, of the difference between five seeds of network and
images, which are trained where the first one is worse.
Goes on where an earlier call has stopped; writes JSON and a Markdown table.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import itertools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from benchmarks.common import host, write_results
from gpmodels import HGPHead, HybridModel, LinearHead, SVGPHead

SIDE, HELD_OUT, BATCH = 12, 1000, 32
MIN_EPOCHS, MIN_STEPS = 4, 250
"""Epochs of a setting: as many as give so many steps, but at least the least."""

MORE_SEEDS = 4
"""Seeds that are trained where the first one finds a head worse."""

RATES = (("adam", 1e-4), ("adam", 3e-3), ("adam", 1e-2), ("sgd", 1e-3), ("sgd", 1e-2))
SIZES = (200, 400, 1000, 2000, 5000)

TITLE = "Networks trained from scratch: accuracy or RMSE on held-out images, by the head of the same network"

HEADS: dict[str, Callable[..., Any]] = {"linear": LinearHead, "svgp": SVGPHead, "hgp": HGPHead}


@dataclass(frozen=True)
class Setting:
    """How a network is trained.

    Attributes:
        targets: Whether labels are real targets, as against two classes.
        optimizer: `"adam"` or `"sgd"`, the latter with momentum.
        rate: Its learning rate.
        normalised: Whether the network has batch normalisation.
        images: Training images.
    """

    targets: bool
    optimizer: str
    rate: float
    normalised: bool
    images: int

    @property
    def name(self) -> str:
        """What it is, in a line."""
        kind = "targets" if self.targets else "classes"
        normalised = ", batch normalisation" if self.normalised else ""
        return f"{kind}, {self.optimizer} {self.rate:g}, {self.images} images{normalised}"


def all_settings() -> list[Setting]:
    """Return the 20 settings: all rates with all kinds, and each number of images with each kind."""
    kinds = list(itertools.product((False, True), (False, True)))
    return [
        Setting(targets, *rate, normalised, SIZES[(place + 2 * number) % len(SIZES)])
        for number, (targets, normalised) in enumerate(kinds)
        for place, rate in enumerate(RATES)
    ]


def images_and_labels(count: int, seed: int, *, targets: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return images of a noisy stripe, and its direction: two classes, or a target that it determines.

    Args:
        count: Number of images.
        seed: Seed.
        targets: Whether labels are real: the direction's sine and the stripe's width, at a mean of 40.
    """
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0.0, np.pi, count)
    width = rng.uniform(1.0, 3.0, count)
    offset = rng.uniform(-2.0, 2.0, count)
    axis = np.arange(SIDE) - (SIDE - 1) / 2.0
    across = axis[:, None] * np.cos(angle)[:, None, None] + axis[None, :] * np.sin(angle)[:, None, None]
    stripe = np.exp(-0.5 * np.square((across - offset[:, None, None]) / width[:, None, None]))
    x = (stripe + 0.3 * rng.standard_normal(stripe.shape)).astype("float32")[..., None]
    if targets:
        return x, (40.0 + 5.0 * np.cos(2.0 * angle) + 2.0 * width).astype("float32")
    return x, (np.cos(2.0 * angle) > 0.0).astype("float32")


def network(*, normalised: bool) -> keras.Model:
    """Return an ordinary small network that ends in 16 features."""
    layers: list[keras.layers.Layer] = []
    for filters in (8, 16):
        layers.append(keras.layers.Conv2D(filters, 3, padding="same"))
        if normalised:
            layers.append(keras.layers.BatchNormalization())
        layers += [keras.layers.Activation("relu"), keras.layers.MaxPooling2D()]
    return keras.Sequential([*layers, keras.layers.Flatten(), keras.layers.Dense(16, activation="relu")])


def errors(
    head: str, setting: Setting, *, seed: int = 0, held_out: int = HELD_OUT, min_steps: int = MIN_STEPS
) -> np.ndarray:
    """Train as a newcomer does, and return each held-out image's error: 0 or 1, or the squared residual.

    Args:
        head: Name of the head.
        setting: The setting.
        seed: Seed of network and images.
        held_out: Held-out images.
        min_steps: Steps to train for, if they are more than the least epochs have.
    """
    keras.utils.set_random_seed(seed)
    x, y = images_and_labels(setting.images, seed, targets=setting.targets)
    new, truth = images_and_labels(held_out, seed + 1_000, targets=setting.targets)
    likelihood = {"likelihood": "gaussian"} if setting.targets else {}
    model = HybridModel(network(normalised=setting.normalised), HEADS[head](**likelihood), num_data=len(x))
    optimizer = (
        keras.optimizers.Adam(setting.rate)
        if setting.optimizer == "adam"
        else keras.optimizers.SGD(setting.rate, momentum=0.9)
    )
    model.compile(optimizer=optimizer)
    epochs = max(MIN_EPOCHS, -(-min_steps // -(-len(x) // BATCH)))
    model.fit(x, y, batch_size=BATCH, epochs=epochs, verbose=0)
    outputs = model.predict(new, batch_size=500, verbose=0)
    if setting.targets:
        return np.square(outputs["mean"] - truth)
    return (outputs["label"] != truth).astype(float)


def is_worse(own: np.ndarray, dense: np.ndarray) -> bool:
    """Whether a head's errors are larger than the dense layer's by more than two standard errors."""
    difference = own - dense
    return bool(difference.mean() > 2.0 * difference.std() / np.sqrt(len(difference)) + 1e-12)


def is_worse_again(head: str, setting: Setting, first: float, seeds: Sequence[int], **options: Any) -> bool:
    """Whether a head that one seed found worse is so by more than two standard errors between seeds.

    Args:
        head: Its name.
        setting: The setting.
        first: What its mean error is more than the dense layer's with the first seed.
        seeds: Further ones.
        **options: As for `errors`.
    """
    more = [
        errors(head, setting, seed=seed, **options).mean()
        - errors("linear", setting, seed=seed, **options).mean()
        for seed in seeds
    ]
    differences = np.array([first, *more])
    return bool(differences.mean() > 2.0 * differences.std(ddof=1) / np.sqrt(len(differences)))


def number(setting: Setting, values: np.ndarray) -> float:
    """Return the accuracy, or the RMSE, of a setting's errors."""
    return float(np.sqrt(values.mean()) if setting.targets else 1.0 - values.mean())


def table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that people read, the last with the number of settings in which a head is not worse."""
    read = [
        {
            "setting": row["setting"],
            "measure": row["measure"],
            **{head: f"{row[head]:.3f}" + (", worse" if row.get(f"{head}_worse") else "") for head in HEADS},
        }
        for row in rows
    ]
    fine = {head: sum(not row[f"{head}_worse"] for row in rows) for head in HEADS if head != "linear"}
    counts = {head: f"{count} of {len(rows)}" for head, count in fine.items()}
    return [*read, {"setting": "not worse than Dense", "measure": "", "linear": "", **counts}]


def main() -> None:
    """Run what is missing, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/keras_from_scratch"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", action="store_true", help="forget earlier results")
    options = parser.parse_args()
    path = options.out.with_suffix(".json")
    known = [] if options.again or not path.exists() else json.loads(path.read_text("utf-8"))["cells"]
    rows = {row["setting"]: row for row in known}
    for setting in all_settings():
        if setting.name in rows:
            continue
        row: dict[str, Any] = {"setting": setting.name, "measure": "RMSE" if setting.targets else "accuracy"}
        dense = np.zeros(0)
        for head in HEADS:
            start = time.perf_counter()
            own = errors(head, setting, seed=options.seed)
            row[head], row[f"{head}_seconds"] = number(setting, own), time.perf_counter() - start
            if head == "linear":
                dense = own
            else:
                worse = is_worse(own, dense)
                more = range(options.seed + 1, options.seed + MORE_SEEDS + 1)
                first = float(own.mean() - dense.mean())
                row[f"{head}_worse"] = worse and is_worse_again(head, setting, first, more)
        rows[setting.name] = row
        print(json.dumps(row), flush=True)
        ordered = [rows[known.name] for known in all_settings() if known.name in rows]
        write_results(options.out, title=TITLE, rows=table(ordered), host=host(), cells=ordered)


if __name__ == "__main__":
    main()
