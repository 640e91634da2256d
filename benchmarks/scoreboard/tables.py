"""A cell of a feature table: logistic regression against the classifiers at their defaults."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.scoreboard.plan import Cell
from benchmarks.scoreboard.record import Record, least, record_of
from benchmarks.small_tables import METHODS, Rows, small_tables, split_rows
from pipelines.scores.classification import classification_record
from pipelines.scores.results import MethodResult, classification_result
from pipelines.scores.uncertainty import PREDICTIVE_ENTROPY

README = "readme"
FOLDS = 3
"""Of the training rows, to name a method by."""

LINEAR, RIDGE = "logistic regression", "logistic regression, C by inner folds"
OURS = ("svgp", "hgp")
"""Methods of `benchmarks.small_tables`, the cheapest first."""

FloatArray = npt.NDArray[np.floating[Any]]
Make = Callable[[int, int], Any]


def _scaled(model: Any) -> Any:
    return make_pipeline(StandardScaler(), model)


def makers() -> dict[str, Make]:
    """Return how each method is made of a seed and the number of columns, the cheapest first."""
    found: dict[str, Make] = {
        LINEAR: lambda _seed, _columns: _scaled(LogisticRegression(max_iter=2000)),
        RIDGE: lambda seed, columns: _scaled(METHODS["logistic"][1](seed, columns)),
    }
    return found | {METHODS[name][0]: METHODS[name][1] for name in OURS}


def run_cell(cell: Cell, data: Path | None, _shared: Path) -> Record:
    """Fit and judge every method on one split.

    Args:
        cell: Which table and which split.
        data: Folder of the data sets; None for scikit-learn's tables.
    """
    train, test, names = table_split(cell.setting.source, cell.seed, data)
    made = makers()
    held_out, results, seconds = {}, [], {}
    for title, make in made.items():
        if title != RIDGE:
            held_out[title] = cross_validated_nll(make, train, cell.seed)
        started = time.perf_counter()
        model = fitted(make, train, cell.seed)
        seconds[title] = round(time.perf_counter() - started, 1)
        results.append(result_of(title, model, test, names))
    ours = [METHODS[name][0] for name in OURS]
    roles = {
        "named": least(held_out, [LINEAR, *ours]),
        "gp": least(held_out, ours),
        "linear": LINEAR,
        "ridge": RIDGE,
    }
    counts = {"train": len(train[1]), "test": len(test[1])}
    groups = {name: name for name in names}
    return record_of(results, roles, groups, held_out=held_out, counts=counts, seconds=seconds)


def table_split(name: str, seed: int, data: Path | None) -> tuple[Rows, Rows, list[str]]:
    """Return training rows, test rows and their names; `readme` is the first program of docs/estimators.md.

    Args:
        name: The table.
        seed: Of the split.
        data: Folder of the data sets; None for scikit-learn's tables.
    """
    if name == README:
        x, y = datasets.load_breast_cancer(return_X_y=True)
        train_x, test_x, train_y, test_y = train_test_split(x, y, random_state=seed)
        train, test = (train_x, train_y), (test_x, test_y)
    else:
        folder = None if data is None else data / "tabular"
        x, y = dict(small_tables(folder))[name]
        train, test = split_rows((x, y), seed)
    return train, test, row_names(test)


def row_names(rows: Rows) -> list[str]:
    """Return a name for each row; rows that are alike tell nothing new, but count as rows of their own."""
    return [f"row {number}" for number in range(len(rows[1]))]


def fitted(make: Make, rows: Rows, seed: int) -> Any:
    """Return a method trained on rows."""
    x, y = rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (ConvergenceWarning, FutureWarning))
        return make(seed, x.shape[1]).fit(x, y)


def cross_validated_nll(make: Make, rows: Rows, seed: int) -> float:
    """Return the mean negative log likelihood of training rows that a fit has not seen."""
    x, y = rows
    total = 0.0
    for kept, left in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(x, y):
        model = fitted(make, (x[kept], y[kept]), seed)
        probability = model.predict_proba(x[left])
        own = probability[np.arange(len(left)), np.searchsorted(model.classes_, y[left])]
        total -= float(np.log(np.maximum(own, np.finfo(np.float32).eps)).sum())
    return total / len(y)


def result_of(title: str, model: Any, rows: Rows, names: Sequence[str]) -> MethodResult:
    """Return the scores of a trained method on rows."""
    x, y = rows
    probability = np.asarray(model.predict_proba(x), np.float64)
    probability /= probability.sum(axis=1, keepdims=True)
    label = np.searchsorted(model.classes_, y)
    logs = np.log(probability, where=probability > 0.0, out=np.zeros_like(probability))
    entropy = np.maximum(-(probability * logs).sum(axis=1), 0.0)
    records = [
        classification_record(name, label[[row]], probability[[row]], {PREDICTIVE_ENTROPY: entropy[[row]]})
        for row, name in enumerate(names)
    ]
    return classification_result(title, records)
