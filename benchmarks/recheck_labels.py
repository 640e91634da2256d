"""How many labels `gpimaging recheck` needs until it says whether a guarantee is kept, and how often it errs.

    python -m benchmarks.recheck_labels --out benchmarks/results/recheck_labels

Labels of kept images are right or wrong at random, at a rate that is known, and are looked at after each one.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import host, write_results
from pipelines.watch.bounded_means import mean_test

CASES = (
    *((0.02, rate) for rate in (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3)),
    *((0.1, rate) for rate in (0.0, 0.05, 0.1, 0.2, 0.4)),
)
LONGEST = 3000


def first_answer(losses: np.ndarray[Any, np.dtype[np.float64]], limit: float) -> tuple[str, int]:
    """Return the first answer and after how many labels it comes; an answer stays, so it is searched for."""
    unknown, known = 0, losses.size
    if (answer := mean_test(losses, limit).verdict) == "not known yet":
        return answer, losses.size
    while known - unknown > 1:
        middle = (unknown + known) // 2
        found = mean_test(losses[:middle], limit).verdict
        unknown, known = (middle, known) if found == "not known yet" else (unknown, middle)
    return mean_test(losses[:known], limit).verdict, known


def main() -> None:
    """Run the simulations."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--streams", type=int, default=400)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    rows = []
    for limit, rate in CASES:
        found = [
            first_answer((rng.random(LONGEST) < rate).astype(np.float64), limit) for _ in range(given.streams)
        ]
        number = [count for _, count in found]
        row: dict[str, Any] = {"guaranteed": limit, "truly wrong": rate, "streams": given.streams}
        for answer in ("kept", "broken"):
            row[answer] = f"{np.mean([said == answer for said, _ in found]):.1%}"
        rows.append(
            {**row, "labels, median": f"{np.median(number):.0f}", "90 %": f"{np.quantile(number, 0.9):.0f}"}
        )
    title = f"Labels of kept images until recheck answers, of {LONGEST} at most, confidence .95"
    write_results(given.out, title=title, rows=rows, host=host())


if __name__ == "__main__":
    main()
