"""Cells of the office part: one method on the splits of one pair under one protocol."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks.transfer.methods import METHODS, measures
from benchmarks.transfer.office import load_split
from benchmarks.transfer.plan import NUM_SPLITS, PAIRS, PROTOCOLS, Cell


def cells_of(methods: list[str]) -> list[Cell]:
    """Return the cells of the given methods, the paper's protocol first."""
    return [
        Cell("office", method, f"{protocol} {pair}")
        for protocol in PROTOCOLS
        for pair in PAIRS
        for method in methods
        if protocol == "transductive" or not METHODS[method].all_sources
    ]


def compute(cell: Cell, data: Path, out: Path) -> dict[str, Any]:  # noqa: ARG001 - as of all parts
    """Return scores of each split, and processor seconds of a split, fit and prediction together."""
    method = METHODS[cell.method]
    protocol, pair = cell.problem.split(" ")
    splits: list[dict[str, float]] = []
    for number in range(NUM_SPLITS):
        split = load_split(data, pair, number, protocol, all_sources=method.all_sources)
        started = time.process_time()
        probability = method.probability(split, number)
        seconds = time.process_time() - started
        splits.append({**measures(split.test_label, probability), "seconds": seconds})
    return {"title": method.title, "is_own": method.is_own, "splits": splits}


def methods() -> list[str]:
    """Return the keys of all methods whose packages are installed."""
    return [key for key, method in METHODS.items() if method.is_available]
