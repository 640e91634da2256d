"""DenseNet-40 with a linear, an SVGP and an HGP head on handwritten digits (thesis Table 4.5).

    python -m benchmarks.densenet_digits --data FOLDER/mnist/mnist.npz --work FOLDER

The thesis has CIFAR-10, 300 epochs of DenseNet-40 with growth 12 and a linear layer, then more epochs with
each head; a linear layer that gets these epochs too is the fair comparison. Here digits that train and digits
that judge are drawn from MNIST's own parts, written as images into folders of classes, and go the way of
`gpimaging classify` with its defaults (50 inducing points, 3 experts) and batches of 32 images (thesis: 80
points, 10 experts, 64 images). Every head, the linear one included, has a temperature fitted on selection
images. Goes on where an earlier call has stopped.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import cv2
import numpy as np

import gpimaging
from benchmarks.common import host, write_results
from pipelines.command.folders import METRICS

SETTINGS: dict[str, Any] = {
    "network": "DenseNet-40",
    "heads": ["linear", "svgp", "hgp"],
    "batch_size": 32,
    "pretraining_epochs": 4,
    "head_epochs": 2,
    "patience": 0,
    "augmentation": None,
    "panel_images": 0,
}
"""Of the training: epochs of 100 steps, four with the linear head and two more with each head."""

THESIS = {"Linear": "7.00 (300 epochs), 7.12 (500)", "SVGP": "6.67", "HGP": "6.51"}
"""Errors on CIFAR-10 in per cent."""


def write_digits(file: Path, folder: Path, count: int, seed: int) -> Path:
    """Write digits into a folder for each class, as many of MNIST's training part as of its test part.

    Args:
        file: MNIST as one `.npz` file of `x_train`, `y_train`, `x_test`, `y_test`.
        folder: Gets `images/CLASS/PART_NUMBER.png` and the list of those that judge, `test.txt`.
        count: Number of digits that are drawn from each part.
        seed: Of the draw.

    Returns:
        The list.
    """
    rng = np.random.default_rng(seed)
    listed = folder / "test.txt"
    names = []
    with np.load(file, allow_pickle=False) as arrays:
        for part in ("train", "test"):
            images, labels = arrays[f"x_{part}"], arrays[f"y_{part}"]
            for number in rng.choice(len(labels), count, replace=False):
                name = f"{labels[number]}/{part}_{number}.png"
                path = folder / "images" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                cv2.imwrite(str(path), images[number])
                if part == "test":
                    names.append(name)
    listed.write_text("\n".join(names) + "\n", encoding="utf-8")
    return listed


def scores_of(data: Path, work: Path, count: int, seed: int) -> dict[str, dict[str, float]]:
    """Train and judge once, and return the scores of each method by its title.

    Args:
        data: MNIST's file.
        work: Gets the images, the prepared data and the run.
        count: Number of training digits, and of test digits.
        seed: Of the digits and of the training.
    """
    listed = write_digits(data, work, count, seed)
    prepared, run = work / "prepared", work / "run"
    steps = gpimaging.classify
    if not prepared.exists():
        # Digits of one class look alike, and some like mirrored ones: none is a duplicate.
        steps.prepare(
            images=work / "images",
            out=prepared,
            size=(28, 28),
            test_list=listed,
            duplicate_distance=-1,
            quiet=True,
        )
    steps.train(data=prepared, out=run, seed=seed, resume=run.exists(), quiet=True, **SETTINGS)
    with tempfile.TemporaryDirectory() as folder:
        evaluation = Path(folder) / "evaluation"
        steps.evaluate(data=prepared, model=run, out=evaluation, quiet=True)
        metrics = json.loads((evaluation / METRICS).read_text(encoding="utf-8"))
    return {name: method["scores"] for name, method in metrics["methods"].items()}


def table(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that people read: means over seeds."""
    rows = []
    for method in cells[0]["methods"]:
        found = [cell["methods"][method] for cell in cells]
        means = {key: float(np.mean([one[key] for one in found])) for key in ("accuracy", "nll", "ece")}
        rows.append(
            {
                "method": method,
                "seeds": len(cells),
                "error, %": f"{100.0 * (1.0 - means['accuracy']):.2f}",
                "NLL": f"{means['nll']:.4f}",
                "ECE": f"{means['ece']:.4f}",
                "thesis, CIFAR-10: error, %": THESIS.get(method, ""),
            }
        )
    return rows


def main() -> None:
    """Compute the seeds that are missing, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="mnist.npz")
    parser.add_argument("--work", type=Path, required=True, help="folder for images and runs")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/densenet_digits"))
    parser.add_argument(
        "--digits", type=int, default=3000, help="number of training digits, and of test digits"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments = parser.parse_args()
    path = arguments.out.with_suffix(".json")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"] if path.exists() else []
    digits = arguments.digits
    title = f"DenseNet-40 on {digits} digits, judged by as many of the test part"
    for seed in arguments.seeds:
        if all((cell["seed"], cell["digits"]) != (seed, digits) for cell in cells):
            work = arguments.work / f"{digits}_digits_seed_{seed}"
            methods = scores_of(arguments.data, work, digits, seed)
            cells.append({"seed": seed, "digits": digits, "methods": methods})
        rows = table([cell for cell in cells if cell["digits"] == digits])
        write_results(arguments.out, title=title, rows=rows, host=host(), cells=cells)


if __name__ == "__main__":
    main()
