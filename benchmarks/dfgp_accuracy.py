"""Compare the DFGP with one sparse GP, with its linear kernel (DFGP-WP) and with a Student-t process.

    python -m benchmarks.dfgp_accuracy --data FOLDER --out benchmarks/results/dfgp_accuracy

FOLDER has ctg.npz and wfrn.npz (classes), kin40k.npz and pole_telecom.npz (real targets). As the paper does
for its set (section 5.1), 2000 rows are drawn at random and divided into equal halves, 20 times, and the
differences are tested by the paired t-test. Inputs are standardised by each estimator; all else are its
defaults but for the numbers of inducing points in the titles. SVGP comes twice: with the DFGP's 20 points and
with 100, for the DFGP has 20 in each of its units. The Student-t process is for regression only, and exact;
it learns its degrees of freedom, where the paper takes the number of hidden units, and its NLL is that of a
normal density with its mean and deviation, as of all (at 1000 rows the two are alike).
One file for each set and split in OUT/cells; a second call computes what is missing, or was made of other
data or by estimators with other settings.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
from sklearn.model_selection import train_test_split

from benchmarks.common import fingerprint
from benchmarks.peers.fitc import FITCRegressor
from benchmarks.peers.student_t import StudentTRegressor
from benchmarks.tabular.datasets import Dataset, load_dataset
from benchmarks.tabular.measures import SMALLEST_PROBABILITY
from data_prep.files.atomic import atomic_file
from gpmodels import DFGPClassifier, DFGPRegressor, SVGPClassifier, SVGPRegressor

NUM_ROWS, NUM_SPLITS = 2000, 20
CLASSIFICATION, REGRESSION = ("ctg", "wfrn"), ("kin40k", "pole_telecom")
OURS = "DFGP, M = 20"

Estimator = Callable[[int], Any]
Scores = dict[str, dict[str, float]]
"""Of each method, by its title."""

CLASSIFIERS: dict[str, Estimator] = {
    OURS: lambda seed: DFGPClassifier(num_inducing=20, random_state=seed),
    "DFGP-WP, M = 20": lambda seed: DFGPClassifier(
        num_inducing=20, output_kernel="linear", random_state=seed
    ),
    "SVGP, M = 20": lambda seed: SVGPClassifier(num_inducing=20, random_state=seed),
    "SVGP, M = 100": lambda seed: SVGPClassifier(num_inducing=100, random_state=seed),
}
REGRESSORS: dict[str, Estimator] = {
    OURS: lambda seed: DFGPRegressor(num_inducing=20, random_state=seed),
    "DFGP-WP, M = 20": lambda seed: DFGPRegressor(num_inducing=20, output_kernel="linear", random_state=seed),
    "SVGP, M = 20": lambda seed: SVGPRegressor(num_inducing=20, random_state=seed),
    "SVGP, M = 100": lambda seed: SVGPRegressor(num_inducing=100, random_state=seed),
    "FITC, M = 100": lambda seed: FITCRegressor(num_inducing=100, random_state=seed),
    "Student-t process": lambda seed: StudentTRegressor(random_state=seed),
}
SCORES = {"error": "error", "nmse": "NMSE", "nll": "NLL", "seconds": "seconds"}


def main() -> None:
    """Run what is missing, then write the report."""
    arguments = _parse()
    datasets = {name: load_dataset(arguments.data, name) for name in arguments.datasets}
    cells: dict[str, list[Scores]] = {name: [] for name in datasets}
    for split in range(arguments.splits):
        for name, dataset in datasets.items():
            cells[name].append(scores_of(dataset, split, arguments.out / "cells" / f"{name}-{split}.json"))
    write_report(arguments.out, cells)


def scores_of(dataset: Dataset, split: int, path: Path) -> Scores:
    """Scores of a split from its file, if it was made of the same, or computed and kept there."""
    methods = {title: make(split) for title, make in _methods(dataset).items()}
    settings = {title: [type(model).__name__, model.get_params()] for title, model in methods.items()}
    made_of = fingerprint(dataset.sha256, NUM_ROWS, split, settings)
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept.get("made_of") == made_of:
            return dict(kept["scores"])
    scores = run_split(dataset, split)
    _keep(path, {"made_of": made_of, "scores": scores})
    print(path.stem, {title: round(values["nll"], 3) for title, values in scores.items()}, flush=True)
    return scores


def run_split(dataset: Dataset, split: int) -> Scores:
    """Scores of every method on one random division of a random part of the rows."""
    labels = dataset.targets if dataset.num_classes else None
    rows = np.arange(len(dataset.targets))
    # wfrn and ctg have a few thousand rows, of which 2000 are drawn like of the larger sets.
    rows, _ = train_test_split(rows, train_size=NUM_ROWS, random_state=split, stratify=labels)
    chosen = None if labels is None else labels[rows]
    train, test = train_test_split(rows, train_size=0.5, random_state=split, stratify=chosen)
    return {title: _scores(make(split), dataset, train, test) for title, make in _methods(dataset).items()}


def _methods(dataset: Dataset) -> Mapping[str, Estimator]:
    return CLASSIFIERS if dataset.num_classes else REGRESSORS


def _scores(
    model: Any, dataset: Dataset, train: np.ndarray[Any, Any], test: np.ndarray[Any, Any]
) -> dict[str, float]:
    started = time.perf_counter()
    model.fit(dataset.inputs[train], dataset.targets[train])
    seconds = time.perf_counter() - started
    y = dataset.targets[test]
    if dataset.num_classes:
        probability = model.predict_proba(dataset.inputs[test])
        of_truth = probability[np.arange(len(y)), np.searchsorted(model.classes_, y)]
        return {
            "error": float(np.mean(model.classes_[probability.argmax(axis=1)] != y)),
            "nll": float(-np.mean(np.log(np.maximum(of_truth, SMALLEST_PROBABILITY)))),
            "seconds": seconds,
        }
    mean, deviation = model.predict(dataset.inputs[test], return_std=True)
    return {
        "nmse": float(np.mean((y - mean) ** 2) / np.var(y)),
        "nll": float(-np.mean(scipy.stats.norm.logpdf(y, mean, deviation))),
        "seconds": seconds,
    }


def write_report(out: Path, cells: Mapping[str, Sequence[Scores]]) -> None:
    """Write `report.md`, a table for each set from the scores of its splits."""
    heading = (
        "Mean ± standard deviation over splits; p of the paired t-test against the DFGP, two-sided. Splits "
        "share rows, so the test takes them for more independent than they are."
    )
    parts = ["# DFGP against other models on 2000 rows, half to train on", heading]
    for name, splits in cells.items():
        if splits:
            parts += [f"## {name}, {len(splits)} splits", _table(splits)]
    with atomic_file(out / "report.md") as temporary:
        temporary.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print("\n\n".join(parts))


def _table(cells: Sequence[Scores]) -> str:
    scores = [key for key in SCORES if key in cells[0][OURS]]
    tested = [key for key in scores if key != "seconds"]
    header = [*(SCORES[key] for key in scores), *(f"p, {SCORES[key]}" for key in tested)]
    lines = ["| method | " + " | ".join(header) + " |", "|" + "---|" * (len(header) + 1)]
    for title in cells[0]:
        values = {key: np.array([cell[title][key] for cell in cells]) for key in scores}
        row = [f"{v.mean():.3f} ± {v.std(ddof=min(1, len(v) - 1)):.3f}" for v in values.values()]
        for key in tested:
            difference = values[key] - [cell[OURS][key] for cell in cells]
            enough = len(cells) > 1 and np.ptp(difference) > 0
            row.append(f"{scipy.stats.ttest_1samp(difference, 0.0).pvalue:.2g}" if enough else "")
        lines.append(f"| {title} | {' | '.join(row)} |")
    return "\n".join(lines)


def _keep(path: Path, record: Mapping[str, Any]) -> None:
    with atomic_file(path) as temporary:
        temporary.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of .npz files")
    parser.add_argument("--out", type=Path, required=True, help="folder for cells and report")
    parser.add_argument("--datasets", nargs="+", default=[*CLASSIFICATION, *REGRESSION])
    parser.add_argument("--splits", type=int, default=NUM_SPLITS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
