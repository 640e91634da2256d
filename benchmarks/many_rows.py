"""Time and memory of one epoch of heads on millions of rows that are never in memory at once.

    python -m benchmarks.many_rows --out benchmarks/results/many_rows

The rows have 8 columns, as the flights of thesis 3.5.6 have, and a noisy real target. A pipeline of tf.data
simulates them batch by batch, the same rows in each epoch, and `HybridModel.fit` trains a head on them by
Adam without any network. "rows alone" reads the same batches and trains nothing. Each cell is a process of
its own with one thread. The clock starts after the head has been placed, so it includes tracing the graph,
which takes a few seconds. Goes on where an earlier call has stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import tensorflow as tf

from benchmarks.common import host, peak_memory, write_results
from gpmodels import HGPHead, HybridModel, SVGPHead
from gpmodels.heads.base import Head

COLUMNS, BATCH, MILLION = 8, 5000, 1_000_000
NUM_EXPERTS, NUM_INDUCING = 3, 100
NOISE = 0.5
"""Standard deviation of the targets' noise, below which no RMSE can fall."""

CELLS = [(head, millions) for millions in (1, 3, 10) for head in ("rows alone", "SVGP", "HGP")]
TITLE = f"One epoch on simulated rows: {COLUMNS} columns, batches of {BATCH}, one thread, float32"
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")


def simulated(rows: int, batch: int = BATCH) -> tf.data.Dataset:
    """Return batches of inputs `[batch, 8]` and targets `[batch]`, each made when it is read.

    Args:
        rows: Number of all rows, a multiple of `batch`.
        batch: Rows of a batch.
    """

    def made(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        x = tf.random.stateless_normal([batch, COLUMNS], seed=[number, 0])
        noise = NOISE * tf.random.stateless_normal([batch], seed=[number, 1])
        return x, tf.sin(2.0 * x[:, 0]) + x[:, 1] * x[:, 2] + noise

    return tf.data.Dataset.range(rows // batch).map(made).prefetch(2)


def head_of(name: str) -> Head:
    """Return a new head for real targets by its name in the table."""
    if name == "SVGP":
        return SVGPHead(num_inducing=NUM_INDUCING, likelihood="gaussian")
    return HGPHead(num_experts=NUM_EXPERTS, num_inducing=NUM_INDUCING, likelihood="gaussian")


def measured(name: str, rows: int, batch: int = BATCH) -> dict[str, Any]:
    """Train one epoch in this process and return its time, memory and RMSE.

    Args:
        name: Name of the head, or `"rows alone"`.
        rows: Number of rows.
        batch: Rows of a batch.
    """
    keras.utils.set_random_seed(0)
    data = simulated(rows, batch)
    model = (
        None if name == "rows alone" else HybridModel(keras.layers.Identity(), head_of(name), num_data=rows)
    )
    if model is not None:
        model.initialize(data)
        model.compile(keras.optimizers.Adam(1e-2))
    before, started, worked = peak_memory(), time.perf_counter(), time.process_time()
    if model is None:
        data.reduce(0.0, lambda total, row: total + tf.reduce_sum(row[0]) + tf.reduce_sum(row[1])).numpy()
    else:
        model.fit(data, shuffle=False, verbose=0)
    cell = {
        "head": name,
        "rows": rows,
        "seconds": time.perf_counter() - started,
        "processor_seconds": time.process_time() - worked,
        "mib_before": before,
        "mib_peak": peak_memory(),
    }
    return cell if model is None else {**cell, "rmse": rmse_of(model, rows, batch)}


def rmse_of(model: HybridModel, rows: int, batch: int) -> float:
    """Return the RMSE on 20 batches that follow the rows that were trained on."""
    new = simulated(rows + 20 * batch, batch).skip(rows // batch)
    return float(model.evaluate(new, verbose=0, return_dict=True)["rmse"])


def table(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that people read."""
    return [
        {
            "head": cell["head"],
            "million rows": cell["rows"] // MILLION,
            "processor seconds a million rows": round(cell["processor_seconds"] / cell["rows"] * MILLION, 1),
            "seconds a million rows": round(cell["seconds"] / cell["rows"] * MILLION, 1),
            "peak MiB before training": round(cell["mib_before"]),
            "peak MiB": round(cell["mib_peak"]),
            "RMSE on new rows": f"{cell['rmse']:.3f}" if "rmse" in cell else "",
        }
        for cell in cells
    ]


def main() -> None:
    """Measure what is missing, each cell in a process of its own, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/many_rows"))
    parser.add_argument("--millions", type=int, nargs="+", choices=(1, 3, 10), help="only so many rows")
    parser.add_argument("--cell", nargs=2, metavar=("HEAD", "MILLIONS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        print(json.dumps(measured(options.cell[0], int(options.cell[1]) * MILLION)))
        return
    kept = options.out.with_suffix(".json")
    cells = json.loads(kept.read_text(encoding="utf-8"))["cells"] if kept.exists() else []
    for head, millions in CELLS:
        known = any((cell["head"], cell["rows"]) == (head, millions * MILLION) for cell in cells)
        if known or millions not in (options.millions or [millions]):
            continue
        command = [sys.executable, "-m", "benchmarks.many_rows", "--cell", head, str(millions)]
        environment = os.environ | dict.fromkeys(_ONE_THREAD, "1")
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        cells.append(json.loads(done.stdout.splitlines()[-1]))
        write_results(options.out, title=TITLE, rows=table(cells), host=host(), cells=cells)


if __name__ == "__main__":
    main()
