"""How much of the variance of the weights of a linear mean should count: none, all, or what is chosen.

    python -m benchmarks.uncertain_weights --out benchmarks/results/uncertain_weights

`SVGPClassifier` with its defaults on few rows of tables that a linear layer tells apart, and of others: mean
NLL of up to 600 other rows over splits of three seeds. See "Uncertain weights" in docs/theory.md.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import logging
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split

from benchmarks.common import host, write_results
from gpmodels import SVGPClassifier

SEEDS = (0, 1, 2)
MOST_JUDGED = 600

SHARES = "gpmodels.heads.linear_layer.VARIANCE_SHARES"
VARIANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "none (certain weights)": lambda: mock.patch(SHARES, (0.0,)),
    "all": lambda: mock.patch(SHARES, (1.0,)),
    "what held-out rows choose": nullcontext,
}
"""What of v counts, by the choices that held-out rows have."""


class Table(NamedTuple):
    """Rows of a table, and how many of them are learned from."""

    name: str
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.intp]
    size: int


def tables() -> list[Table]:
    """Return the tables, those of few rows first."""
    digits, cancer = load_digits(), load_breast_cancer()

    def two(first: int, second: int, size: int) -> Table:
        chosen = np.isin(digits.target, (first, second))
        return Table(
            f"digits {first} and {second}", digits.data[chosen], digits.target[chosen] == first, size
        )

    return [
        two(4, 9, 30),
        two(0, 1, 60),
        two(4, 9, 200),
        Table("breast cancer", cancer.data, cancer.target, 30),
        Table("breast cancer", cancer.data, cancer.target, 426),
        Table("iris", *load_iris(return_X_y=True), 112),
        Table("wine", *load_wine(return_X_y=True), 133),
        Table("digits", digits.data, digits.target, 500),
    ]


def nll(table: Table, seed: int) -> float:
    """Return the mean NLL of rows that were not learned from, nats."""
    train, test = train_test_split(
        np.arange(len(table.y)), train_size=table.size, random_state=seed, stratify=table.y
    )
    test = test[:MOST_JUDGED]
    model = SVGPClassifier(random_state=0).fit(table.x[train], table.y[train])
    own = np.searchsorted(model.classes_, table.y[test])
    return float(
        -np.log(np.maximum(model.predict_proba(table.x[test])[np.arange(len(own)), own], 1e-12)).mean()
    )


def main() -> None:
    """Measure all and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/uncertain_weights"))
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    rows = []
    for table in tables():
        row = {"table": table.name, "rows": f"{table.size}"}
        for name, context in VARIANTS.items():
            with context():
                row[name] = f"{np.mean([nll(table, seed) for seed in SEEDS]):.4f}"
        print(row, flush=True)
        rows.append(row)
    title = "NLL by how much the variance of the linear mean's weights counts"
    write_results(arguments.out, title=title, rows=rows, host=host(), cells=rows)


if __name__ == "__main__":
    main()
