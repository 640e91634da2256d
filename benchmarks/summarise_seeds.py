"""Mean and spread over seeds of the scores in several metrics.json, as a Markdown table.

    python benchmarks/summarise_seeds.py runs/*/evaluation/metrics.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

SCORES = ("accuracy", "f_measure", "iou", "nll", "brier", "ece", "auroc_predictive_entropy", "referral_accuracy_10")


def cell(values: list[float]) -> str:
    """Mean, and the standard deviation where there are several seeds."""
    mean = np.mean(values)
    return f"{mean:.4f}" if len(values) == 1 else f"{mean:.4f} ± {np.std(values, ddof=1):.4f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("metrics", type=Path, nargs="+")
    files = [json.loads(path.read_text(encoding="utf-8")) for path in parser.parse_args().metrics]
    titles = [files[0]["scores"][key]["title"] for key in SCORES]
    print(f"{len(files)} seeds\n\n| method | " + " | ".join(titles) + " |\n|" + "---|" * (len(titles) + 1))
    for method in files[0]["methods"]:
        cells = [cell([file["methods"][method]["scores"][key] for file in files]) for key in SCORES]
        print(f"| {method} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
