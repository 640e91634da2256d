"""What a prediction that averages over thirty samples of a network costs, in passes without dropout.

    python -m benchmarks.sampling_speed --out benchmarks/results/sampling_speed

One image, the folded head of a bundle, the least of three calls after the first, which traces the graph.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.common import host, write_results
from gpmodels import HGPHead, HybridModel, LinearHead
from gpmodels.heads.base import Head
from pipelines.lane.application import lane_network
from pipelines.lane.settings import LaneRun, TrainSettings

NETWORKS = ("segnet_basic", "C3K3", "efficientnet_lite0")
_SAMPLES = 30
_CALLS = 3


def seconds(network: str, dropout: float, head: Head, size: tuple[int, int]) -> float:
    """Return the least time of a prediction of one image, in seconds."""
    run = LaneRun(
        application="lane", size=size, num_data=1, batch_norm_momentum=0.9, counts={}, manifest_sha256=""
    )
    settings = TrainSettings(network=network, network_dropout=dropout, network_samples=_SAMPLES)
    model = HybridModel(lane_network(settings, run), head, num_data=1000)
    image = np.random.default_rng(0).uniform(0, 255, (1, *size, 3)).astype(np.float32)
    model.initialize(image[:, :32, :32])
    predict = tf.function(model.inference_function(), autograph=False)
    predict(tf.constant(image))
    found = []
    for _ in range(_CALLS):
        started = time.perf_counter()
        predict(tf.constant(image))["probability"].numpy()
        found.append(time.perf_counter() - started)
    return min(found)


def main() -> None:
    """Measure each network with a linear and an HGP head and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="result files without suffix")
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--size", type=int, nargs=2, default=[96, 128], help="height and width")
    arguments = parser.parse_args()
    size = (arguments.size[0], arguments.size[1])
    rows: list[dict[str, Any]] = []
    for network, name in product(arguments.networks, ("linear", "hgp")):
        one, thirty = (
            seconds(
                network,
                dropout,
                LinearHead() if name == "linear" else HGPHead(num_experts=4, num_inducing=30),
                size,
            )
            for dropout in (0.0, 0.5)
        )
        rows.append(
            {
                "network": network,
                "head": name,
                "size": f"{size[0]} x {size[1]}",
                "one pass, s": round(one, 4),
                f"{_SAMPLES} samples, s": round(thirty, 3),
                "passes": round(thirty / one, 1),
            }
        )
    write_results(arguments.out, title="Cost of thirty samples", rows=rows, host=host())


if __name__ == "__main__":
    main()
