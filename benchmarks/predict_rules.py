"""What costs, guarantees, prediction sets and familiarity add to the time of `predict`.

    python -m benchmarks.predict_rules --model BUNDLE --images FOLDER --costs costs.csv \
        --max-error malignant=0.2 --coverage 0.8 --out benchmarks/results/predict_rules

The images are predicted in turns, as the command does it: without any rule, where `predict` writes what the
network computes, and with all of them. The model is loaded before. Times are of the processor.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import gpimaging
from benchmarks.common import host, median_and_spread, write_results

PLAIN: dict[str, Any] = {"keep_unfamiliar": True}


def seconds(bundle: gpimaging.Bundle, images: Path, rules: dict[str, Any]) -> float:
    """Predict all images and return the seconds of the processor."""
    started = time.process_time()
    bundle.predict(images, **rules)
    return time.process_time() - started


def main() -> None:
    """Take turns and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="a bundle of classified images")
    parser.add_argument("--images", type=Path, required=True, help="folder")
    parser.add_argument("--costs", type=Path, required=True, help="table of costs")
    parser.add_argument("--max-error", nargs="+", required=True, metavar="CLASS=SHARE")
    parser.add_argument("--coverage", type=float, required=True)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path, required=True, help="result files without suffix")
    arguments = parser.parse_args()
    rules = {name: getattr(arguments, name) for name in ("costs", "max_error", "coverage")}
    bundle = gpimaging.load(arguments.model)
    found: dict[str, list[float]] = {"without rules": [], "with all": []}
    for _ in range(arguments.repeats + 1):
        for name, options in zip(found, (PLAIN, rules), strict=True):
            found[name].append(seconds(bundle, arguments.images, options))
    plain, ruled = (values[1:] for values in found.values())  # the first turn traces
    more = statistics.median(b / a - 1 for a, b in zip(plain, ruled, strict=True))
    rows = []
    for name, values in (("without rules", plain), ("with all", ruled)):
        middle, spread = median_and_spread(values)
        rows.append({"predict": name, "processor, s": f"{middle:.3f}", "quartiles apart, s": f"{spread:.3f}"})
    rows.append(
        {"quartiles apart, s": "", "predict": "with all, relative", "processor, s": f"{100 * more:+.1f} %"}
    )
    title = f"predict of {len(list(arguments.images.rglob('*.*')))} images, {arguments.repeats} turns"
    write_results(arguments.out, title=title, rows=rows, host=host())


if __name__ == "__main__":
    main()
