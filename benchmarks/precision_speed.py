"""What `network_precision=bfloat16` and frozen graphs save: seconds of a prediction and of a training step.

    python -m benchmarks.precision_speed --out benchmarks/results/precision_speed

Networks with an HGP head on random images, weights equal. Frozen: variables turned into constants. Rounds are
interleaved. What bfloat16 does to accuracy says `benchmarks.lane_methods --set network_precision=bfloat16`.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from benchmarks.common import host, median_and_spread, write_results
from gpmodels import HGPHead, HybridModel
from pipelines.lane.application import lane_network
from pipelines.lane.settings import LaneRun, TrainSettings
from pipelines.runs.precision import Precision, network_arithmetic

NETWORKS = ("C3K3", "C4K5", "segnet_basic")

Action = Callable[[], Any]


def model_of(network: str, precision: Precision, image: np.ndarray) -> HybridModel:
    """Return a network with an HGP head of nine experts, placed on features of the image."""
    keras.utils.set_random_seed(0)
    size = (image.shape[1], image.shape[2])
    run = LaneRun(
        application="lane", size=size, num_data=1, batch_norm_momentum=0.9, counts={}, manifest_sha256=""
    )
    with network_arithmetic(precision):
        made = lane_network(TrainSettings(network=network), run)
    model = HybridModel(made, HGPHead(num_experts=9), num_data=1_000_000)
    model.build(image.shape)
    model.initialize(image, max_points=5000)
    model.compile(optimizer=keras.optimizers.Adam(1e-3))
    return model


def prediction(model: HybridModel, image: np.ndarray, *, is_frozen: bool = False) -> Action:
    """Return a call of the folded model, as a bundle predicts."""
    spec = tf.TensorSpec(image.shape, tf.float32)
    infer = model.inference_function()
    function = tf.function(lambda x: infer(x)["probability"], autograph=False).get_concrete_function(spec)
    if is_frozen:
        function = convert_variables_to_constants_v2(function)
    inputs = tf.constant(image)
    return lambda: [part.numpy() for part in tf.nest.flatten(function(inputs))]


def training_step(model: HybridModel, image: np.ndarray) -> Action:
    """Return a step of Adam on two copies of the image with random labels."""
    x = np.concatenate([image, image])
    y = (np.random.default_rng(1).uniform(size=x.shape[:3]) > 0.5).astype(np.float32)
    return lambda: model.train_on_batch(x, y)


def rows_of(what: str, network: str, ways: Mapping[str, Action], rounds: int) -> list[dict[str, Any]]:
    """Time each way, in turn, after a first call that traces it."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, action in ways.items():
            started = time.perf_counter()
            action()
            if number:
                seconds[name].append(time.perf_counter() - started)
    base = np.median(seconds["float32"])
    rows = []
    for name, values in seconds.items():
        middle, spread = median_and_spread(values)
        rows.append(
            {
                "network": network,
                "what": what,
                "arithmetic": name,
                "seconds": round(middle, 4),
                "interquartile range": round(spread, 4),
                "over float32": round(middle / base, 2),
            }
        )
    return rows


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/precision_speed"))
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS))
    parser.add_argument("--size", type=int, nargs=2, default=[96, 128], help="height and width")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    image = np.random.default_rng(0).uniform(0, 255, (1, *arguments.size, 3)).astype(np.float32)
    rows: list[dict[str, Any]] = []
    for network in arguments.networks:
        models = {precision: model_of(network, precision, image) for precision in get_args(Precision)}
        predictions = {name: prediction(model, image) for name, model in models.items()}
        predictions["float32, frozen"] = prediction(models["float32"], image, is_frozen=True)
        steps = {name: training_step(model, image) for name, model in models.items()}
        rows += rows_of("prediction of an image", network, predictions, arguments.rounds)
        rows += rows_of("training step of two images", network, steps, arguments.rounds)
    title = f"Arithmetic of the network, {arguments.size[0]} x {arguments.size[1]}"
    write_results(arguments.out, title=title, rows=rows, host=host())


if __name__ == "__main__":
    main()
