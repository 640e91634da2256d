"""Mean and spread over seeds of the scores in several metrics.json, as a Markdown table.

python -m benchmarks.summarise_seeds runs/*/evaluation/metrics.json
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from pipelines.scores.bootstrap import SeedSummary, summarise_seeds

SCORES = (
    "accuracy",
    "f_measure",
    "iou",
    "nll",
    "brier",
    "ece",
    "auroc_predictive_entropy",
    "referral_accuracy_10",
)


def cell(summary: SeedSummary) -> str:
    """Mean, and the standard deviation where there are several seeds."""
    spread = "" if summary.runs == 1 else f" ± {summary.standard_deviation:.4f}"
    return f"{summary.mean:.4f}{spread}"


def scores_of(metrics: dict[str, Any], method: str) -> dict[str, float]:
    """A method's scores; null in the file, where a score is undefined, is NaN."""
    scores = metrics["methods"][method]["scores"]
    return {key: math.nan if scores[key] is None else scores[key] for key in SCORES}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("metrics", type=Path, nargs="+")
    files = [json.loads(path.read_text(encoding="utf-8")) for path in parser.parse_args().metrics]
    titles = [files[0]["scores"][key]["title"] for key in SCORES]
    print(f"{len(files)} seeds\n\n| method | " + " | ".join(titles) + " |\n|" + "---|" * (len(titles) + 1))
    for method in files[0]["methods"]:
        runs = [scores_of(file, method) for file in files]
        print(f"| {method} | " + " | ".join(map(cell, summarise_seeds(runs).values())) + " |")


if __name__ == "__main__":
    main()
