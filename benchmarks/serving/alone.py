"""Serve requests from a bundle by threads; run as a file by an interpreter that has TensorFlow and no more.

    python alone.py BUNDLE --batches 1 8 32 --requests 10000 --threads 8

It writes one JSON line: what the stored sample gives, and what each size of batch measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

DIFFERENT_INPUTS = 16
"""Batches that requests choose from; each is served once by itself first."""

SAMPLE_EVERY = 0.25
"""Seconds between two looks at the memory."""


def resident_memory() -> float:
    """Return the resident memory of this process, MiB."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024.0
    raise SystemExit("/proc/self/status does not tell the resident memory; this measurement needs Linux.")


def sample_differences(signatures: Any, sample: Any) -> dict[str, float]:
    """Return the largest difference to the stored outputs, by signature and output."""
    inputs = {
        "serving_default": {"images": tf.constant(sample["images"])},
        "serve_bytes": {"encoded": tf.constant([sample["encoded"].tobytes()])},
    }
    differences = {}
    for name, arguments in inputs.items():
        for output, value in signatures[name](**arguments).items():
            stored = sample[f"{name}/{output}"]
            difference = np.abs(value.numpy().astype(np.float64) - stored)
            differences[f"{name}/{output}"] = float(np.max(difference))
    return differences


def images_like(sample: np.ndarray, batch: int) -> list[tf.Tensor]:
    """Return batches of the stored image with noise, which all differ."""
    rng = np.random.default_rng(0)
    batches = []
    for _ in range(DIFFERENT_INPUTS):
        noise = rng.integers(-20, 21, (batch, *sample.shape[1:]))
        batches.append(tf.constant(np.clip(sample.astype(int) + noise, 0, 255).astype(np.uint8)))
    return batches


def slope(seconds: list[float], values: list[float]) -> tuple[float, float]:
    """Return the growth of values in a minute, by least squares, and its error; NaN of one or two."""
    if len(values) < 3:
        return float("nan"), float("nan")
    x = np.asarray(seconds) / 60.0
    design = np.stack([np.ones_like(x), x], axis=1)
    coefficients, *_ = np.linalg.lstsq(design, np.asarray(values), rcond=None)
    residual = np.asarray(values) - design @ coefficients
    variance = residual @ residual / max(len(x) - 2, 1) * np.linalg.inv(design.T @ design)[1, 1]
    return float(coefficients[1]), float(np.sqrt(variance))


def serve(function: Any, batches: list[tf.Tensor], requests: int, threads: int) -> dict[str, Any]:
    """Serve requests by threads; compare each answer with that of the same batch by itself."""
    alone = [{name: value.numpy() for name, value in function(images=batch).items()} for batch in batches]
    choice = np.random.default_rng(1).integers(0, len(batches), requests)
    stop, times, memory = threading.Event(), [], []

    def watch(started: float) -> None:
        while not stop.wait(SAMPLE_EVERY):
            times.append(time.perf_counter() - started)
            memory.append(resident_memory())

    def ask(number: int) -> float:
        outputs = function(images=batches[choice[number]])
        expected = alone[choice[number]]
        return max(
            float(np.max(np.abs(value.numpy().astype(np.float64) - expected[name])))
            for name, value in outputs.items()
        )

    started = time.perf_counter()
    watcher = threading.Thread(target=watch, args=[started])
    watcher.start()
    with ThreadPoolExecutor(threads) as pool:
        worst = max(pool.map(ask, range(requests)))
    seconds = time.perf_counter() - started
    stop.set()
    watcher.join()
    late = len(times) // 4  # the first requests fill caches
    growth, error = slope(times[late:], memory[late:])
    return {
        "requests_a_second": requests / seconds,
        "seconds": seconds,
        "largest_difference": worst,
        "memory": resident_memory(),
        "growth": growth,
        "growth_error": error,
    }


def main() -> None:
    """Measure every size of batch, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=8)
    arguments = parser.parse_args()
    signatures = tf.saved_model.load(str(arguments.bundle)).signatures
    sample = np.load(arguments.bundle / "sample.npz", allow_pickle=False)
    result = {
        "packages": sorted(
            {name.split(".")[0] for name in sys.modules} & {"gpmodels", "pipelines", "data_prep", "gpflow"}
        ),
        "sample": sample_differences(signatures, sample),
        "batches": {
            str(batch): serve(
                signatures["serving_default"],
                images_like(sample["images"], batch),
                arguments.requests,
                arguments.threads,
            )
            for batch in arguments.batches
        },
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
