"""Measure the classifiers on small feature tables against what users of scikit-learn take instead.

    python -m benchmarks.small_tables --data FOLDER --out benchmarks/results/small_tables

Tables are four of scikit-learn (breast cancer, wine, iris, digits) and the files of FOLDER, as of
`benchmarks.tabular`, that are classification sets below 3000 rows. Each split draws a quarter of the rows to
judge by, at most 1000, and trains on the rest, at most 500. Every method gets the same rows, standardised by
the training part, and is fitted at its defaults or by an inner cross-validation. A split of one method is one
file in OUT/cells; a second run computes only what is missing.

Methods are compared by the mean negative log likelihood of the splits. Splits share rows, so that their
differences are not independent: the test is Nadeau and Bengio's corrected resampled t-test (Inference for the
generalization error, Machine Learning 52, 2003, section 5).
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.stats
from sklearn import datasets
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.common import host, write_results
from benchmarks.tabular.datasets import RefusedFileError, load_datasets
from data_prep.files.atomic import atomic_file

LARGEST = 3000
"""Rows from which a table is not small."""
MOST_TRAINING_ROWS = 500
MOST_TEST_ROWS = 1000
LEAST_PROBABILITY = 1e-15
"""A probability of 0 for the true class counts as this."""
CLEAR = 0.05
"""Largest p of a difference that is called clear."""

FloatArray = npt.NDArray[np.floating[Any]]
Rows = tuple[FloatArray, npt.NDArray[np.integer[Any]]]


class Cell(NamedTuple):
    """One split of one table by one method."""

    table: str
    method: str
    split: int

    @property
    def file(self) -> str:
        """Name of its record."""
        return f"{self.table}--{self.method}--{self.split}.json"


def _gp(name: str, seed: int, **settings: Any) -> Any:
    import gpmodels  # noqa: PLC0415 - imports TensorFlow, which the peers do not need

    return getattr(gpmodels, name)(random_state=seed, **settings)


def _logistic(seed: int, _: int) -> Any:
    penalties = np.logspace(-3.0, 3.0, 13)
    return LogisticRegressionCV(Cs=penalties, cv=5, scoring="neg_log_loss", max_iter=2000, random_state=seed)


def _svm(seed: int, num_features: int) -> Any:
    grid = {"C": np.logspace(-1.0, 4.0, 6), "gamma": np.logspace(-1.5, 1.0, 6) / num_features}
    return CalibratedClassifierCV(GridSearchCV(SVC(random_state=seed), grid, cv=3), cv=3, ensemble=False)


def _exact_gp(seed: int, num_features: int) -> Any:
    return GaussianProcessClassifier(1.0 * RBF(np.sqrt(num_features)), random_state=seed)


METHODS: dict[str, tuple[str, Callable[[int, int], Any]]] = {
    "hgp": ("HGPClassifier", lambda seed, _: _gp("HGPClassifier", seed)),
    "svgp": ("SVGPClassifier", lambda seed, _: _gp("SVGPClassifier", seed)),
    "free": (
        "HGPClassifier, free lengthscales, no temperature",
        lambda seed, _: _gp("HGPClassifier", seed, lengthscale_spread=None, temperature=1.0),
    ),
    "spread": (
        "HGPClassifier, no temperature",
        lambda seed, _: _gp("HGPClassifier", seed, temperature=1.0),
    ),
    "logistic": ("logistic regression, C by inner folds", _logistic),
    "gpc": ("GaussianProcessClassifier, RBF", _exact_gp),
    "svm": ("RBF-SVM, C and gamma by inner folds", _svm),
    "forest": ("random forest", lambda seed, _: RandomForestClassifier(500, random_state=seed)),
}
"""Title of each method, and how it is made of a seed and the number of columns."""
OURS = "hgp"
DEFAULT_METHODS = ("hgp", "free", "logistic", "gpc", "svm", "forest")


def main() -> None:
    """Compute what is missing and write the report of what there is."""
    arguments = _parse()
    if arguments.data is not None and not arguments.data.is_dir():
        raise SystemExit(f"{arguments.data} is no folder; expected one of .npz files.")
    tables = {name: (len(y), x.shape[1], len(np.unique(y))) for name, (x, y) in small_tables(arguments.data)}
    chosen = [name for name in tables if not arguments.tables or name in arguments.tables]
    if unknown := sorted(set(arguments.tables or ()) - set(tables)):
        raise SystemExit(f"There is no small table {unknown}; there are {sorted(tables)}.")
    splits = range(arguments.first, arguments.first + arguments.splits)
    cells = [
        Cell(table, method, split) for table in chosen for method in arguments.methods for split in splits
    ]
    folder = arguments.out / "cells"
    folder.mkdir(parents=True, exist_ok=True)
    missing = [cell for cell in cells if not (folder / cell.file).exists()]
    if missing:
        with ProcessPoolExecutor(arguments.jobs, get_context("spawn")) as pool:
            jobs = [pool.submit(compute, cell, arguments.data, folder) for cell in missing]
            for done, job in enumerate(jobs, start=1):
                print(f"{done} of {len(missing)}: {job.result()}", flush=True)
    records = [json.loads((folder / cell.file).read_text(encoding="utf-8")) for cell in cells]
    rows = report(records, {name: tables[name] for name in chosen}, arguments.methods)
    title = f"Small tables, {arguments.splits} splits from seed {arguments.first}"
    write_results(arguments.out / "small_tables", title=title, rows=rows, host=host("scikit-learn"))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.small_tables",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, help="folder of .npz files beside scikit-learn's tables")
    parser.add_argument("--out", type=Path, required=True, help="folder for cells and report")
    parser.add_argument("--tables", nargs="+", help="only these")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(DEFAULT_METHODS))
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="seed of the first split")
    parser.add_argument("--jobs", type=int, choices=(1, 2), default=1, help="processes")
    return parser.parse_args()


def small_tables(folder: Path | None) -> Iterable[tuple[str, Rows]]:
    """Yield name, inputs and class indices of each small table."""
    yield "breast_cancer", datasets.load_breast_cancer(return_X_y=True)
    yield "wine", datasets.load_wine(return_X_y=True)
    yield "iris", datasets.load_iris(return_X_y=True)
    yield "digits", datasets.load_digits(return_X_y=True)
    for path in sorted(folder.glob("*.npz")) if folder is not None else ():
        try:
            found = list(load_datasets(path))
        except RefusedFileError:
            continue  # no data set, as the tabular benchmark reports
        for dataset in found:
            if dataset.task == "classification" and len(dataset.targets) < LARGEST:
                yield dataset.name, (dataset.inputs, dataset.targets)


def split_rows(rows: Rows, split: int) -> tuple[Rows, Rows]:
    """Return the standardised training and test rows of a split, the same for every method."""
    x, y = rows
    train_x, test_x, train_y, test_y = train_test_split(x, y, test_size=0.25, stratify=y, random_state=split)
    kept = np.random.default_rng(split).permutation(len(train_y))[:MOST_TRAINING_ROWS]
    train_x, train_y = train_x[kept], train_y[kept]
    scaling = StandardScaler().fit(train_x)
    training = (scaling.transform(train_x), train_y)
    return training, (scaling.transform(test_x[:MOST_TEST_ROWS]), test_y[:MOST_TEST_ROWS])


def compute(cell: Cell, data: Path | None, folder: Path) -> str:
    """Fit and judge one cell, write its record, and return a line about it."""
    rows = dict(small_tables(data))[cell.table]
    (train_x, train_y), (test_x, test_y) = split_rows(rows, cell.split)
    model = METHODS[cell.method][1](cell.split, train_x.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (ConvergenceWarning, FutureWarning))
        started = time.perf_counter()
        model.fit(train_x, train_y)
        seconds = time.perf_counter() - started
    probability = model.predict_proba(test_x)
    record = cell._asdict() | measures(probability, np.searchsorted(model.classes_, test_y))
    record |= {"seconds": seconds, "num_train": len(train_y), "num_test": len(test_y)}
    with atomic_file(folder / cell.file) as temporary:
        temporary.write_text(json.dumps(record) + "\n", encoding="utf-8")
    return f"{cell.table} {cell.method} {cell.split}: NLL {record['nll']:.4f}, {seconds:.1f} s"


def measures(probability: FloatArray, label: npt.NDArray[np.integer[Any]]) -> dict[str, float]:
    """Return mean negative log likelihood and accuracy of probabilities `[N, C]` for class indices `[N]`."""
    own = np.maximum(probability[np.arange(len(label)), label], LEAST_PROBABILITY)
    return {
        "nll": float(-np.mean(np.log(own))),
        "accuracy": float(np.mean(np.argmax(probability, axis=1) == label)),
    }


def corrected_p(differences: FloatArray, test_share: float) -> float:
    """Return the two-sided p of a mean difference over splits that share rows.

    Args:
        differences: One for each split, `[splits]`.
        test_share: Test rows over training rows of a split.

    Source:
        Nadeau and Bengio (2003), section 5: t = mean / sqrt((1/J + n_test/n_train) variance), J - 1 degrees.
    """
    count = len(differences)
    variance = np.var(differences, ddof=1) if count > 1 else 0.0
    if variance == 0.0:
        return float(np.mean(differences) == 0.0) if count > 1 else 1.0
    t = np.mean(differences) / np.sqrt((1.0 / count + test_share) * variance)
    return float(2.0 * scipy.stats.t.sf(abs(t), count - 1))


def report(
    records: list[dict[str, Any]], tables: dict[str, tuple[int, int, int]], methods: list[str]
) -> list[dict[str, Any]]:
    """Return a row for each table and method: means over the splits, and ours against it."""
    rows = []
    for table, (size, features, classes) in tables.items():
        found = {
            method: [record for record in records if (record["table"], record["method"]) == (table, method)]
            for method in methods
        }
        for method in methods:
            own = found[method]
            row = {
                "table": f"{table} ({size} x {features}, {classes} classes)",
                "method": METHODS[method][0],
                "NLL": f"{np.mean([record['nll'] for record in own]):.4f}",
                "accuracy": f"{np.mean([record['accuracy'] for record in own]):.4f}",
                "seconds of a fit": f"{np.median([record['seconds'] for record in own]):.1f}",
                "HGP's NLL against it": "",
            }
            if OURS in methods and method != OURS:
                pairs = zip(found[OURS], own, strict=True)
                differences = np.array([ours["nll"] - theirs["nll"] for ours, theirs in pairs])
                p = corrected_p(differences, own[0]["num_test"] / own[0]["num_train"])
                word = ("lower" if differences.mean() < 0.0 else "higher") if p < CLEAR else "not clear"
                row["HGP's NLL against it"] = f"{differences.mean():+.4f}, p = {p:.2g}: {word}"
            rows.append(row)
    return rows


if __name__ == "__main__":
    main()
