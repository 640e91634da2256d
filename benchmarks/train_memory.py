"""Peak memory of training steps of the networks for lanes, each in a process of its own.

    python -m benchmarks.train_memory --out benchmarks/results/train_memory

Two steps on random images with an HGP head on all pixels but a random choice of 4096 of each image, as
`points_per_image` makes it. The peak is of the whole process, TensorFlow included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np

from benchmarks.common import host, write_results
from gpmodels import HGPHead, HybridModel
from pipelines.lane.application import lane_network
from pipelines.lane.settings import LaneRun, TrainSettings
from pipelines.scores.results import peak_memory_bytes

NETWORKS = ("C4K5", "segnet_basic", "segnet")
_POINTS = 4096
_STEPS = 2


def measured(network: str, dropout: float, size: tuple[int, int], batch: int) -> dict[str, object]:
    """Train two steps and return the peak memory of this process and the seconds of the second step."""
    run = LaneRun(
        application="lane", size=size, num_data=1, batch_norm_momentum=0.9, counts={}, manifest_sha256=""
    )
    settings = TrainSettings(network=network, network_dropout=dropout)
    head = HGPHead(num_experts=9, num_inducing=50)
    model = HybridModel(lane_network(settings, run), head, num_data=10**6, points_per_example=_POINTS)
    rng = np.random.default_rng(0)
    images = rng.uniform(0, 255, (batch, *size, 3)).astype(np.float32)
    labels = (images[..., 0] > 127).astype(np.float32)
    model.initialize((images[:1, :64, :64], labels[:1, :64, :64]))
    model.compile(keras.optimizers.Adam(1e-3))
    for _ in range(_STEPS):
        started = time.perf_counter()
        model.train_on_batch(images, labels)
    return {
        "network": network,
        "dropout": dropout,
        "size": f"{size[0]} x {size[1]}",
        "images a step": batch,
        "peak GiB": round(peak_memory_bytes() / 2**30, 2),
        "seconds a step": round(time.perf_counter() - started, 1),
    }


def main() -> None:
    """Measure each network in a process of its own and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="result files without suffix")
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--size", type=int, nargs=2, default=[306, 306])
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--one", nargs=2, metavar=("NETWORK", "DROPOUT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    size = (arguments.size[0], arguments.size[1])
    if arguments.one:
        network, dropout = arguments.one
        sys.stdout.write(json.dumps(measured(network, float(dropout), size, arguments.batch)) + "\n")
        return
    if arguments.out is None:
        parser.error("--out is needed")
    rows = []
    for network in arguments.networks:
        for dropout in (0.0, 0.5) if network != "C4K5" else (0.0,):
            command = [sys.executable, "-m", "benchmarks.train_memory", "--one", network, str(dropout)]
            command += ["--size", *map(str, size), "--batch", str(arguments.batch)]
            done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=True)
            rows.append(json.loads(done.stdout.strip().splitlines()[-1]))
    write_results(arguments.out, title="Peak memory of training", rows=rows, host=host())


if __name__ == "__main__":
    main()
