"""How much the coverage of intervals varies from split to split where few images are held out.

    python -m benchmarks.few_held_out --data FOLDER --out benchmarks/results/measure/few_held_out

Of the red-cell counts of `benchmarks.measure` a third is judged, by a ridge regression on the features of the
frozen EfficientNet-Lite0. Intervals of 90 % are as wide as held-out images take (conformal prediction): the
sixth of the others that trains nothing, as with `measure train --set out_of_fold=false`, or all of these,
each predicted without its fifth, as `measure train` does by itself. All is repeated with 200 random splits,
with all images and without those whose count is 0, in which no red cell was annotated.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpimaging
from benchmarks.common import host, write_results
from benchmarks.measure import Known, blood, held_out_predictions, linear, standardised
from pipelines.scores.numbers import HeldOutNumbers

SPLITS, JUDGED, SELECTED, PENALTY, COVERAGE = 200, 0.3, 0.15, 1e4, 0.9


def half_width(mean: NDArray[Any], truth: NDArray[Any]) -> float:
    """Return half of the width of intervals by held-out images."""
    return HeldOutNumbers(mean, np.ones(len(mean)), truth, np.arange(len(mean))).factor(COVERAGE)


def covered(data: Known, seed: int) -> dict[str, tuple[int, float, float]]:
    """Return for each way to hold out its number of images, the share within, and the width."""
    order = np.random.default_rng(seed).permutation(len(data.labels))
    judged, known = np.split(order, [round(JUDGED * len(order))])
    selected, trained = np.split(known, [round(SELECTED * len(known))])
    predict, part = standardised(partial(linear, PENALTY), data.rows(trained)), data.rows(known)
    error = np.abs(data.labels[judged] - predict(data.features[judged])[0])
    folds, _ = held_out_predictions(part, partial(linear, PENALTY))
    halves = {
        "a sixth": half_width(predict(data.features[selected])[0], data.labels[selected]),
        "all, by folds": half_width(folds, part.labels),
    }
    numbers = {"a sixth": len(selected), "all, by folds": len(known)}
    return {name: (numbers[name], float(np.mean(error <= half)), 2.0 * half) for name, half in halves.items()}


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    images, counts, _ = zip(*blood(given.data), strict=True)
    features, truth = gpimaging.features([given.data / image for image in images]), np.array(counts)
    rows: list[dict[str, Any]] = []
    for title, used in (("all", truth >= 0.0), ("without 0", truth > 0.0)):
        data = Known(features[used], truth[used], np.flatnonzero(used))
        found = [covered(data, seed) for seed in range(SPLITS)]
        for name in found[0]:
            number, within, width = np.array([one[name] for one in found]).T
            low, high = np.quantile(within, [0.05, 0.95])
            rows.append(
                {
                    "images": f"{title} ({len(data.labels)})",
                    "held out": f"{name} ({number[0]:.0f})",
                    "within 90 %, mean": round(float(within.mean()), 3),
                    "deviation of splits": round(float(within.std()), 3),
                    "in 90 % of the splits": f"{low:.3f} to {high:.3f}",
                    "width": round(float(width.mean()), 2),
                }
            )
    write_results(given.out, title=f"Red-cell counts, {SPLITS} splits", rows=rows, host=host())


if __name__ == "__main__":
    main()
