"""Search the small networks for sonar snapshots, as thesis 6.3 did: two to six convolutions of 3 or 5 pixels.

    python -m benchmarks.sonar_networks --data FOLDER --out benchmarks/results/sonar_networks

FOLDER holds `marine_debris_fls`. The snapshots are those of the set "debris, few" of `benchmarks.sonar`, with
20 per class to train and select on. The widths are half of those of FE1 and FE2, and nothing is augmented.
Each network is trained with a linear head, for 35 epochs. For each seed the network is chosen that has the
lowest NLL on the selection snapshots, and its scores on the test half stand in the last row beside those of
every network. Consecutive files stay in the same part. Goes on where an earlier call has stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import numpy.typing as npt

from benchmarks.common import host, mean_and_spread, write_results
from benchmarks.sonar.data_sets import SETS
from data_prep.splits.divide import manifest_splits
from gpmodels import HybridModel, LinearHead
from gpmodels.networks.convolution_unit import ConvolutionUnit
from pipelines.sonar.application import SONAR

Part = tuple[npt.NDArray[np.float32], npt.NDArray[np.intp]]
"""Snapshots `[N, 32, 32, 3]` in 0..255 and their classes `[N]`."""

WIDTHS = (16, 32, 32)
CONVOLUTIONS, KERNELS = (2, 3, 4, 5, 6), (3, 5)
SHAPES = {(3, 3): ", the shape of FE1", (6, 3): ", the shape of FE2"}
"""What the table adds to convolutions and kernel."""

SCORES = {"selection_nll": "selection NLL", "test_accuracy": "accuracy", "test_nll": "NLL"}

BATCH, EPOCHS, RATE = 25, 35, 1e-3
TITLE = "Networks for sonar snapshots, 20 per class: mean ± standard deviation over seeds"


def network(convolutions: int, kernel: int) -> keras.Sequential:
    """Return three stages of convolutions and 2 x 2 max-pooling, or as many as there are convolutions.

    Args:
        convolutions: Convolutions of all stages together; the later stages get the remainder.
        kernel: Side of their kernels in pixels.
    """
    stages = min(len(WIDTHS), convolutions)
    counts = [convolutions // stages + (stages - number <= convolutions % stages) for number in range(stages)]
    layers: list[keras.layers.Layer] = [keras.layers.Rescaling(1.0 / 127.5, offset=-1.0)]
    for width, count in zip(WIDTHS, counts, strict=False):
        layers += [ConvolutionUnit((width,) * count, kernel, 0.9), keras.layers.MaxPooling2D(2)]
    return keras.Sequential([*layers, keras.layers.Flatten(), keras.layers.Dense(64, activation="relu")])


def load_parts(data: Path, seed: int) -> dict[str, Part]:
    """Return the snapshots and classes of `"train"`, `"selection"` and `"test"`."""
    with tempfile.TemporaryDirectory() as work:
        prepared = SONAR.inputs.open(SETS["debris, few"].prepare(data, seed, None, Path(work)))
        splits = manifest_splits(prepared.manifest)
        parts = {}
        for part in ("train", "selection", "test"):
            examples = SONAR.judge.examples(prepared, getattr(splits, part))
            pairs = [(example.image, example.truth) for example in examples]
            images = np.stack([image for image, _ in pairs]).astype("float32")
            parts[part] = (images, np.array([label for _, label in pairs]))
    return parts


def measured(
    parts: dict[str, Part], convolutions: int, kernel: int, seed: int, epochs: int = EPOCHS
) -> dict[str, Any]:
    """Train a network and return its accuracy and NLL on selection and test snapshots.

    Args:
        parts: From `load_parts`.
        convolutions: Number of convolutions.
        kernel: Side of their kernels.
        seed: Of weights and batches.
        epochs: To train for.
    """
    x, y = parts["train"]
    keras.utils.set_random_seed(seed)
    model = HybridModel(
        network(convolutions, kernel), LinearHead(num_classes=int(y.max()) + 1), num_data=len(y)
    )
    model.compile(keras.optimizers.Adam(RATE))
    model.fit(x, y, batch_size=BATCH, epochs=epochs, verbose=0)
    parameters = model.network.count_params()
    shape = {"convolutions": convolutions, "kernel": kernel, "parameters": parameters, "seed": seed}
    return {**shape, **_scores_of(model, parts)}


def _scores_of(model: HybridModel, parts: dict[str, Part]) -> dict[str, float]:
    scores = {}
    for part in ("selection", "test"):
        x, y = parts[part]
        probability = model.predict(x, batch_size=256, verbose=0)["probability"]
        own = probability[np.arange(len(y)), y]
        scores[f"{part}_accuracy"] = float(np.mean(probability.argmax(axis=1) == y))
        scores[f"{part}_nll"] = float(-np.log(np.maximum(own, 1e-12)).mean())
    return scores


def table(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each network, and last the one of the networks that are chosen seed by seed."""
    shapes = list(dict.fromkeys((cell["convolutions"], cell["kernel"]) for cell in cells))
    rows = []
    for shape in shapes:
        own = [cell for cell in cells if (cell["convolutions"], cell["kernel"]) == shape]
        name = f"{shape[0]} of {shape[1]} x {shape[1]}" + SHAPES.get(shape, "")
        rows.append({"convolutions": name, "parameters": own[0]["parameters"], **_scores(own)})
    picked = chosen(cells)
    return [*rows, {"convolutions": "chosen on selection snapshots", "parameters": "", **_scores(picked)}]


def chosen(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each seed the cell with the lowest NLL on selection snapshots."""
    groups: dict[int, list[dict[str, Any]]] = {}
    for cell in cells:
        groups.setdefault(cell["seed"], []).append(cell)
    return [min(group, key=lambda cell: cell["selection_nll"]) for group in groups.values()]


def _scores(cells: list[dict[str, Any]]) -> dict[str, str]:
    return {name: mean_and_spread([cell[key] for cell in cells]) for key, name in SCORES.items()}


def main() -> None:
    """Measure what is missing and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/sonar_networks"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    kept = options.out.with_suffix(".json")
    cells = json.loads(kept.read_text(encoding="utf-8"))["cells"] if kept.exists() else []
    for seed in options.seeds:
        parts = load_parts(options.data, seed)
        for convolutions in CONVOLUTIONS:
            for kernel in KERNELS:
                names = ("convolutions", "kernel", "seed")
                if (convolutions, kernel, seed) in {tuple(cell[name] for name in names) for cell in cells}:
                    continue
                keras.backend.clear_session()
                cells.append(measured(parts, convolutions, kernel, seed))
                write_results(options.out, title=TITLE, rows=table(cells), host=host(), cells=cells)


if __name__ == "__main__":
    main()
