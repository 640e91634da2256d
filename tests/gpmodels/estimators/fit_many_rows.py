"""Fits an estimator to many rows and prints by how much memory grew; run by `test_memory.py`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import psutil

from gpmodels import HGPClassifier

BATCH = 1024


def main(num_rows: int, num_features: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_rows, num_features))
    y = (np.sin(3 * x[:, 0]) + x[:, 1] > 0).astype(int)
    # TensorFlow, its threads and the compiled functions first: what is measured is what the rows cost.
    settings = {"num_inducing": 50, "num_experts": 4, "batch_size": BATCH, "random_state": 0}
    HGPClassifier(**settings, optimizer="adam", max_iterations=3).fit(x[:5000], y[:5000])
    before = psutil.Process().memory_info().rss
    estimator = HGPClassifier(**settings, max_iterations=20).fit(x, y)
    predicted = estimator.predict(x)
    # Not getrusage: a process inherits the peak of the one that started it, which may be a large test run.
    peak = 1024 * int(re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[0])
    result = {
        "growth": peak - before,
        "data": x.nbytes + y.nbytes,
        "iterations": estimator.n_iter_,
        "rows": len(predicted),
    }
    sys.stdout.write("\n" + json.dumps(result) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
