"""Cells of the tissue part: all methods on twenty draws of one direction, kind and number of labels."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.transfer.methods import METHODS, PATIENT_METHODS
from benchmarks.transfer.plan import DIRECTIONS, LABELS, NUM_SPLITS, Cell
from benchmarks.transfer.tissue import TissueSplit, draw, load_tissue, tissue_measures

COMPARED = (
    *("atl", "atl_layers", "atl_patients", "atl_layers_patients", "ngp_t", "ngp_s"),
    *("svm", "svm_t", "icm", "fmtl", "mmdt", "gfk_svm", "kbtl", "stl"),
)
"""Keys of `TISSUE_METHODS`."""

DIGITS = 5
"""Of the scores that are kept: the report keeps those of all draws."""

TISSUE_METHODS = METHODS | PATIENT_METHODS


def methods() -> list[str]:
    """Return the keys of the methods that are installed."""
    return [key for key in COMPARED if TISSUE_METHODS[key].is_available]


def cells_of(methods: list[str]) -> list[Cell]:
    """Return a cell for each method, direction, kind and number of labels."""
    return [
        Cell("tissue", method, f"{direction} {kind} {count}")
        for kind, count in LABELS
        for direction in DIRECTIONS
        for method in methods
    ]


def compute(cell: Cell, data: Path, out: Path) -> dict[str, Any]:
    """Return scores of each draw."""
    direction, kind, count = cell.problem.split(" ")
    method = TISSUE_METHODS[cell.method]
    splits, groups = [], []
    for seed in range(NUM_SPLITS):
        drawn = _drawn(data, out, direction, kind, int(count), seed)
        scores = tissue_measures(drawn, method.probability(drawn.split, seed))
        splits.append({key: round(value, DIGITS) for key, value in scores.items()})
        groups.append(drawn.num_groups)
    return {"title": method.title, "is_own": method.is_own, "splits": splits, "groups": groups}


@lru_cache(maxsize=NUM_SPLITS)
def _drawn(data: Path, out: Path, direction: str, kind: str, count: int, seed: int) -> TissueSplit:
    source, target = (load_tissue(data, out, organ) for organ in direction.split("-"))
    return draw(source, target, kind, count, seed)
