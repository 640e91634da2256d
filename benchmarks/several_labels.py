"""Several yes/no labels an image: our heads against linear + temperature and a random forest.

    python -m benchmarks.several_labels --data FOLDER --out benchmarks/results/several_labels
    python -m benchmarks.several_labels --data FOLDER --out benchmarks/results/several_labels --unknown 0.5

FOLDER is mhsma_sperm: 1000 human sperm heads to learn from and 240 to judge by, four labels each. Every
method sees the features of a frozen EfficientNet-Lite0. Seeds draw starts and orders of the training, the
forest's trees, and which labels of the training images are hidden (`--unknown`); the judged images and the
selection part are the same for all. The forest has 500 trees for each label, and learns from the selection
part, too.
"""

import argparse
import csv
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.ensemble import RandomForestClassifier

from benchmarks.common import host, write_results
from data_prep.classify.prepare import prepare_classify
from data_prep.classify.settings import ClassifyPrepareSettings
from data_prep.splits.divide import manifest_splits
from pipelines.classify.application import CLASSIFY, MULTILABEL
from pipelines.classify.settings import EvaluateSettings, TrainSettings
from pipelines.evaluation.evaluate import evaluate
from pipelines.runs.train import train
from pipelines.scores.labels import LabelRecord, label_result
from pipelines.scores.results import MethodResult

TREES = 500
SCORES = ("nll", "ap", "auroc", "ece")


def write_table(folder: Path, table: Path, hidden: float, seed: int) -> None:
    """Write one table of both parts, with a share of the training labels empty."""
    rng = np.random.default_rng(seed)
    rows: list[list[str]] = []
    for part, split in (("train", "train"), ("valid", "test")):
        with (folder / f"{part}.csv").open(encoding="utf-8") as file:
            header, *found = csv.reader(file)
        for image, *labels in found:
            is_hidden = rng.random(len(labels)) < (hidden if split == "train" else 0.0)
            cells = ["" if hide else label for hide, label in zip(is_hidden, labels, strict=True)]
            rows.append([image, *cells, split])
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([[*header, "split"], *rows])


def forest(data: Any, seed: int) -> MethodResult:
    """Return a random forest for each label on the features of a folder."""
    splits = manifest_splits(data.manifest, selection_fraction=0.15)
    known, judged = data.part((*splits.train, *splits.selection)), data.part(splits.test)
    found = np.zeros(judged.labels.shape)
    for place, column in enumerate(known.labels.T):
        rows = np.isfinite(column)
        trees = RandomForestClassifier(TREES, random_state=seed)
        found[:, place] = trees.fit(known.features[rows], column[rows]).predict_proba(judged.features)[:, 1]
    names = data.manifest.label_names
    rows_of = zip(splits.test, judged.labels, found, strict=True)
    return label_result("Random forest", [LabelRecord(one, names, truth, p) for one, truth, p in rows_of])


def judged_seed(folder: Path, seed: int, hidden: float) -> list[dict[str, Any]]:
    """Return the scores of every method, each label by itself and on average."""
    console = Console(quiet=True)
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        write_table(folder, work / "table.csv", hidden, seed)
        size = ClassifyPrepareSettings(size=(64, 64))
        prepare_classify(folder, work / "prepared", size, table=work / "table.csv")
        settings = TrainSettings(seed=seed, heads=("linear", "ridge_linear", "svgp", "hgp"))
        options: dict[str, Any] = {"data": work / "prepared", "console": console}
        train(CLASSIFY, settings, out=work / "run", resume=False, **options)
        found = evaluate(CLASSIFY, EvaluateSettings(), model=work / "run", out=work / "judged", **options)
        opened = MULTILABEL.inputs.open(work / "prepared")
        data = MULTILABEL.inputs.encoded(opened, settings, work / "run", console)
        results = [*found.results, forest(data, seed)]
    named = {one.name: one for one in results} | {"Chosen head": found.main}
    labels = ("", *(f"/{name}" for name in data.manifest.label_names))
    return [
        {
            "seed": seed,
            "method": name,
            "label": label.removeprefix("/") or "mean",
            **{key: one.scores[f"{key}{label}"] for key in SCORES},
        }
        for name, one in named.items()
        for label in labels
    ]


def summed(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return mean and deviation over the seeds of every method and label."""
    of_row: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for cell in cells:
        of_row[cell["label"], cell["method"]].append(cell)
    return [
        {
            "label": label,
            "method": method,
            **{
                key: f"{np.mean(values):.4f} ± {np.std(values, ddof=1) if len(values) > 1 else 0.0:.4f}"
                for key in SCORES
                for values in [[cell[key] for cell in found]]
            },
        }
        for (label, method), found in of_row.items()
    ]


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--unknown", type=float, default=0.0, help="Share of the training labels to hide.")
    given = parser.parse_args()
    cells = [cell for seed in range(given.seeds) for cell in judged_seed(given.data, seed, given.unknown)]
    title = f"Several labels of mhsma_sperm, {given.seeds} seeds, {given.unknown:.0%} of the labels unknown"
    stem = given.out / f"unknown_{round(100 * given.unknown)}"
    write_results(stem, title=title, rows=summed(cells), host=host("scikit-learn"), cells=cells)


if __name__ == "__main__":
    main()
