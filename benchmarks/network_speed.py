"""What the HGP head adds to a network's prediction, against the linear head: C4K5, 306 x 306, T = 9, M = 50.

    python -m benchmarks.network_speed --out benchmarks/results/network_speed

Both run as exported: the head folded, one image at a time, all outputs computed. Rounds are interleaved.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from benchmarks.common import host, median_and_spread, write_results
from gpmodels import HGPHead, HybridModel, LinearHead, SVGPHead
from gpmodels.heads.base import Head
from gpmodels.networks.encoder_decoder import encoder_decoder


def prediction(network_name: str, head: Head, image: tf.Tensor) -> Callable[[], object]:
    """Prediction of one image by a network with a head placed on its features."""
    model = HybridModel(encoder_decoder(network_name), head, num_data=1_000_000)
    model.build(tuple(image.shape))
    model.initialize(image.numpy(), max_points=5000)
    predict = tf.function(model.inference_function(), autograph=False)
    predict(image)
    return lambda: {name: values.numpy() for name, values in predict(image).items()}


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/network_speed"))
    parser.add_argument("--network", default="C4K5")
    parser.add_argument("--size", type=int, default=306)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()

    image = tf.constant(
        np.random.default_rng(0).uniform(0, 255, (1, arguments.size, arguments.size, 3)), tf.float32
    )
    heads = {"linear": LinearHead(), "SVGP": SVGPHead(), "HGP, T = 9": HGPHead(num_experts=9)}
    predictions = {name: prediction(arguments.network, head, image) for name, head in heads.items()}
    seconds: dict[str, list[float]] = {name: [] for name in predictions}
    for _ in range(arguments.rounds):
        for name, predict in predictions.items():
            started = time.perf_counter()
            predict()
            seconds[name].append(time.perf_counter() - started)
    reference = np.median(seconds["linear"])
    rows = []
    for name, values in seconds.items():
        middle, spread = median_and_spread(values)
        rows.append(
            {
                "head": name,
                "seconds per image": round(middle, 4),
                "interquartile range": round(spread, 4),
                "over linear": round(middle / reference, 3),
            }
        )
    title = f"Prediction of one {arguments.size} x {arguments.size} image with {arguments.network}"
    write_results(arguments.out, title=title, rows=rows, host=host())


if __name__ == "__main__":
    main()
