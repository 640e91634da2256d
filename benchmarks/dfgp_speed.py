"""Time the fit and the prediction of a DFGP at the size that its paper gives times for.

    python -m benchmarks.dfgp_speed --out benchmarks/results/dfgp_speed

1800 x 50 training values, 12 hidden units, 10 inducing points everywhere, 100 iterations; 4800 points are
predicted. The paper (section 5.2) has 161 s and 0.06 s, on a machine of its time that it does not name. The
first fit of a process also compiles its functions, which later fits and predictions of the same configuration
find ready. Writes JSON and a Markdown table.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import host, median_and_spread, write_results
from gpmodels import DFGPClassifier, DFGPRegressor

TRAINING_ROWS, TEST_ROWS, NUM_FEATURES = 1800, 4800, 50
PAPER_SECONDS = {"fit": 161.0, "prediction": 0.06}
SETTINGS: dict[str, Any] = {
    "num_hidden": 12,
    "num_inducing": 10,
    "max_iterations": 100,
    "tolerance": 0.0,
    "random_state": 0,
}


def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training inputs, a smooth target of three directions with noise, and test inputs."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((TRAINING_ROWS + TEST_ROWS, NUM_FEATURES))
    first, second, third = (x @ rng.standard_normal((NUM_FEATURES, 3)) / np.sqrt(NUM_FEATURES)).T
    y = np.sin(first) + second * np.tanh(third) + 0.1 * rng.standard_normal(len(x))
    return x[:TRAINING_ROWS], y[:TRAINING_ROWS], x[TRAINING_ROWS:]


def seconds_of(action: Any) -> float:
    """Wall-clock time of a call."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/dfgp_speed"))
    parser.add_argument("--fits", type=int, default=3)
    parser.add_argument("--predictions", type=int, default=40)
    arguments = parser.parse_args()
    x, y, new = problem()
    rows = []
    for dtype in ("float64", "float32"):
        for model, target in ((DFGPRegressor, y), (DFGPClassifier, y > 0.0)):
            estimator = model(dtype=dtype, **SETTINGS)
            fits = [seconds_of(lambda e=estimator, t=target: e.fit(x, t)) for _ in range(arguments.fits)]
            estimator.predict(new)
            predictions, of_one = (
                [seconds_of(lambda e=estimator, p=points: e.predict(p)) for _ in range(arguments.predictions)]
                for points in (new, new[:1])
            )
            fit, prediction = median_and_spread(fits)[0], median_and_spread(predictions)[0]
            rows.append(
                {
                    "model": model.__name__,
                    "dtype": dtype,
                    "first fit, s": round(fits[0], 2),
                    "fit, s": round(fit, 2),
                    "prediction, s": round(prediction, 4),
                    "fastest prediction, s": round(min(predictions), 4),
                    "prediction of one point, s": round(median_and_spread(of_one)[0], 4),
                    "fit, paper over ours": round(PAPER_SECONDS["fit"] / fit, 1),
                    "prediction, paper over ours": round(PAPER_SECONDS["prediction"] / prediction, 1),
                }
            )
    write_results(arguments.out, title="DFGP: fit and prediction", rows=rows, host=host())


if __name__ == "__main__":
    main()
