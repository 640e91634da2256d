"""Table of the tissue part, the paper's beside it, and whether what is wanted was reached."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import host, write_results
from benchmarks.transfer.checks import Check, Record, is_clear, paired, values_of
from benchmarks.transfer.paper import TABLE_2, TABLE_2_COLUMNS
from benchmarks.transfer.plan import DIRECTIONS, LABELS

WITH, WITHOUT, POOLED = "atl", "ngp_t", "svm"
SCORES = {
    "auc": ("patch AUC", 1),
    "image_auc": ("image AUC", 1),
    "accuracy": ("accuracy", 1),
    "nll": ("NLL", 3),
    "ece": ("ECE", 3),
}
COMPARED = ("auc", "nll")
"""Scores whose differences from the exact limit are tested."""

FEWEST = (("patches", 5), ("patches", 10))
"""Where the gain has to be clear."""

MOST_BEHIND = 1.0


def write(out: Path, records: list[Record]) -> None:
    """Write a table of all cells, the paper's, and one of what is wanted.

    Args:
        out: Folder of the benchmark.
        records: Of all cells of the part.
    """
    if not records:
        return
    about = host("scikit-learn", "scipy")
    write_results(
        out / "tissue",
        title="Breast and colon: labelled patches or images of each class, mean (standard error) of 20 draws",
        rows=table(records),
        host=about,
        cells=records,
    )
    write_results(
        out / "tissue_paper",
        title="Table 2 of the paper: accuracy on patches, 5 labelled target ones a class, patients not apart",
        rows=[
            {"method": name, **dict(zip(TABLE_2_COLUMNS, values, strict=True))}
            for name, values in TABLE_2.items()
        ],
        host=about,
    )
    found = {(record["method"], record["problem"]): record for record in records}
    rows = [check.row() for check in checks(found)]
    write_results(out / "tissue_checks", title="Breast and colon: what is wanted", rows=rows, host=about)


def problems() -> list[str]:
    """Return all sixteen points."""
    return [f"{direction} {kind} {count}" for direction in DIRECTIONS for kind, count in LABELS]


def table(records: list[Record]) -> list[dict[str, Any]]:
    """Return a row for each point and method, compared over draws with the exact limit by AUC and NLL."""
    rows = []
    references = {record["problem"]: record for record in records if record["method"] == WITH}
    for problem in problems():
        for record in (one for one in records if one["problem"] == problem):
            direction, kind, count = problem.split(" ")
            row: dict[str, Any] = {
                "direction": direction.replace("-", " → "),
                "labelled": f"{count} {kind}",
                "method": record["title"],
            }
            for key, (title, digits) in SCORES.items():
                values = values_of(record, key)
                error = np.std(values, ddof=1) / np.sqrt(len(values))
                row[title] = f"{np.mean(values):.{digits}f} ({error:.{digits}f})"
            for key in COMPARED:
                title, digits = SCORES[key]
                column = f"{title} minus ATL's"
                row[column] = ""
                if problem in references and record["method"] != WITH:
                    test = paired(values_of(record, key), values_of(references[problem], key))
                    row[column] = f"{test.difference:+.{digits}f} (p {test.p_value:.1g})"
            rows.append(row)
    return rows


def checks(found: Mapping[tuple[str, str], Record]) -> list[Check]:
    """Return what is wanted of transfer between tissues by patch AUC, and what is reached.

    Draws of one direction share patients, so that their p-values flatter.
    """
    points = [one for one in problems() if all((method, one) in found for method in (WITH, WITHOUT, POOLED))]
    missing = [one for one in problems() if one not in points]
    whole = [Check("all 16 points", f"missing: {', '.join(missing)}", is_met=False)] if missing else []
    if not points:
        return whole
    gains = {
        point: paired(values_of(found[WITH, point], "auc"), values_of(found[WITHOUT, point], "auc"))
        for point in points
    }
    behind = {point: test for point, test in gains.items() if test.difference < 0.0}
    few = [point for point in points if (point.split(" ")[1], int(point.split(" ")[2])) in FEWEST]
    unclear = [point for point in few if not (gains[point].difference > 0.0 and is_clear(gains[point]))]
    pooled = {
        point: float(
            np.mean(values_of(found[POOLED, point], "auc")) - np.mean(values_of(found[WITH, point], "auc"))
        )
        for point in points
    }
    worst = max(pooled, key=lambda point: pooled[point])
    return [
        *whole,
        Check(
            "patch AUC with transfer at least that without, at each point",
            "; ".join(f"{point} {test.difference:+.2f}" for point, test in (behind or gains).items()),
            not behind,
        ),
        Check(
            "clearly, paired over draws, at 5 and 10 patches",
            "; ".join(
                f"{point} {gains[point].difference:+.2f} (p {gains[point].p_value:.1g})" for point in few
            ),
            not unclear,
        ),
        Check(
            f"pooled RBF-SVM never more than {MOST_BEHIND:.0f} point better",
            f"most at {worst}: {pooled[worst]:+.2f}",
            pooled[worst] <= MOST_BEHIND,
        ),
    ]
