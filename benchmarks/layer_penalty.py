"""How the penalty of the layer under a GP head is best chosen: by held-out rows alone, or with a prior.

    python -m benchmarks.layer_penalty --data FOLDER --work out/layer_penalty

The layer by itself, a logistic regression with one factor of its logits, on small tables and on features of
the pretrained trunk: mean NLL of the judged rows over splits of four seeds. No seed is one of
`benchmarks.scoreboard`. See "The penalty" in docs/theory.md.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import numpy.typing as npt
from sklearn.preprocessing import StandardScaler

from benchmarks.common import host, write_results
from benchmarks.linear_mean import ON_TRUNK, trunk_parts
from benchmarks.small_tables import small_tables, split_rows
from gpmodels.heads.cross_folds import cross_folds
from gpmodels.heads.linear_layer import (
    LinearRows,
    effective_share,
    fit_linear_layer,
    log_loss,
)

SEEDS = (14, 15, 16, 17)
FEW = 60
"""Rows of each table that are learned from, beside all."""

TRUNK = (*ON_TRUNK, "colon, trunk, 2 groups", "breast, trunk, 2 groups", "colon, trunk, half")

_DEVIATION = "gpmodels.heads.linear_layer.PENALTY_DEVIATION"
_SHARE = "gpmodels.heads.linear_layer.effective_share"
VARIANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "held-out rows alone": lambda: mock.patch(_DEVIATION, 1e9),
    "always 1": lambda: mock.patch(_DEVIATION, 1e-3),
    "prior, each row counts": lambda: mock.patch(_SHARE, return_value=1.0),
    "prior, groups count (today)": nullcontext,
    "layers fitted with N_eff rows": nullcontext,
}
"""What chooses the penalty; the last one counts N_eff rows in the layer and its factor, too."""

COUNTED = "layers fitted with N_eff rows"


class Split(NamedTuple):
    """Standardised training rows with their groups, and test rows."""

    train: LinearRows
    groups: npt.NDArray[np.intp]
    test: LinearRows


def layer_nll(split: Split, *, counted: bool) -> float:
    """Return the NLL of the judged rows, nats, by the layer of the others.

    Args:
        split: The rows.
        counted: Whether the weights of the rows sum to N_eff.
    """
    train, groups, test = split
    num_classes = int(train.y.max()) + 1
    fold = cross_folds(train.x, train.y, groups, np.random.default_rng(0), is_class=True)
    likelihood = "logistic" if num_classes == 2 else "softmax"
    layer = fit_linear_layer(train, fold, likelihood, num_classes, groups=groups)
    if counted:
        share = effective_share(layer.logits, train, groups)
        train = train._replace(weight=share * train.weight)
        layer = fit_linear_layer(train, fold, likelihood, num_classes, share=1.0)
    return log_loss(test.x @ layer.kernel + layer.bias, test.y, test.weight)


def table_splits(folder: Path) -> Iterator[tuple[str, list[Split]]]:
    """Yield the splits of each table, with all rows to learn from and with few."""
    for name, (x, y) in small_tables(folder):
        rows = x, np.unique(y, return_inverse=True)[1]
        for size, shown in ((None, "all"), (FEW, str(FEW))):
            splits = []
            for seed in SEEDS:
                train, test = split_rows(rows, seed)
                kept = np.random.default_rng(seed).permutation(len(train[1]))[:size]
                if len(np.unique(train[1][kept])) == len(np.unique(train[1])):
                    scaler = StandardScaler().fit(train[0][kept])
                    parts = [
                        LinearRows(scaler.transform(x), y.astype(np.float64), np.ones(len(y)))
                        for x, y in ((train[0][kept], train[1][kept]), test)
                    ]
                    splits.append(Split(parts[0], np.arange(len(kept)), parts[1]))
            if splits:
                yield f"table {name}, {shown} rows", splits


def trunk_splits(name: str, data: Path, work: Path) -> list[Split]:
    """Return the splits of the pretrained network's features of a data set."""
    splits = []
    for seed in SEEDS:
        parts = trunk_parts(name, seed, data, work)
        train, test = (
            LinearRows(
                points.features.astype(np.float64),
                points.labels.astype(np.float64),
                points.weights.astype(np.float64),
            )
            for points in (parts.train.points, parts.test.points)
        )
        splits.append(Split(train, parts.train.groups.astype(np.intp), test))
    return splits


def row_of(name: str, splits: Sequence[Split]) -> dict[str, str]:
    """Return the mean NLL of each variant."""
    row = {"data": name}
    for variant, context in VARIANTS.items():
        with context():
            nlls = [layer_nll(split, counted=variant == COUNTED) for split in splits]
            row[variant] = f"{np.mean(nlls):.4f}"
    return row


def main() -> None:
    """Measure all and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--work", type=Path, default=Path("out/layer_penalty"), help="for prepared data")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/layer_penalty"))
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    rows = [row_of(*found) for found in table_splits(arguments.data / "tabular")]
    for name in TRUNK:
        rows.append(row_of(name, trunk_splits(name, arguments.data, arguments.work)))
        print(rows[-1], flush=True)
    first, *others = VARIANTS
    last = {"data": f"NLL relative to {first!r}, geometric mean", first: "1"}
    for variant in others:
        ratios = [float(row[variant]) / float(row[first]) for row in rows]
        last[variant] = f"{np.exp(np.mean(np.log(ratios))):.3f}"
    title = "NLL of the layer under a GP head, for each way to choose its penalty"
    write_results(arguments.out, title=title, rows=[*rows, last], host=host(), cells=rows)


if __name__ == "__main__":
    main()
