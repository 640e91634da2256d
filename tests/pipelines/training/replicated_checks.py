"""Checks of shared training steps, which need a process of their own: its devices are set once, at its start.

    python -m tests.pipelines.training.replicated_checks mirrored OUT
    TF_CONFIG=... python -m tests.pipelines.training.replicated_checks multi_worker OUT

Trains a stage of each head by the strategy and, in the process that writes, on one device from the same
start; writes `{head: results}` as JSON to OUT. The assertions are in `test_replicas.py`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from rich.console import Console

from gpmodels import DFGPHead, HGPHead, HybridModel, LinearHead, SVGPHead
from gpmodels.networks.batch_normalization import FusedBatchNormalization
from pipelines.command.strategies import StrategyName
from pipelines.training.replicas import Replicas, Replication
from pipelines.training.stages import StageData, StageSettings, make_deterministic, train_stage
from pipelines.training.strategies import training_context

# Five steps, the last one of fewer examples, of which the replicas have one and two.
EXAMPLES, PER_BATCH, SIDE, STEPS = 31, 7, 3, 5

_RANDOM = np.random.default_rng(0)
X = _RANDOM.normal(size=(EXAMPLES, SIDE, SIDE, 3)).astype(np.float32)
Y = (X[..., 0] * X[..., 1] > 0).astype(np.float32)
WEIGHTS = _RANDOM.uniform(0.0, 2.0, size=Y.shape).astype(np.float32)

HEADS = {
    "linear": lambda: LinearHead(name="linear"),
    "svgp": lambda: SVGPHead(num_inducing=5, name="svgp"),
    "hgp": lambda: HGPHead(num_experts=3, num_inducing=4, name="hgp"),
    "dfgp": lambda: DFGPHead(num_inducing=4, num_hidden_inducing=4, name="dfgp"),
}


def batches(epoch: int = 0) -> tf.data.Dataset:
    order = np.random.default_rng(epoch).permutation(EXAMPLES)
    return tf.data.Dataset.from_tensor_slices((X[order], Y[order], WEIGHTS[order])).batch(PER_BATCH)


def make_model(kind: str) -> HybridModel:
    """A network whose batch normalisation needs the global batch, and a head on some points of each image."""
    layers = [
        keras.layers.Conv2D(4, 1, use_bias=False, name="convolution"),
        FusedBatchNormalization(name="normalisation"),
        keras.layers.ReLU(),
    ]
    network = keras.Sequential(layers)
    model = HybridModel(network, HEADS[kind](), num_data=Y.size, points_per_example=6, seed=3)
    model.build((None, SIDE, SIDE, 3))
    return model


def started(kind: str) -> HybridModel:
    """Return the model after its start on all data; an expert of the HGP is moved where no point is."""
    keras.utils.set_random_seed(0)
    model = make_model(kind)
    model.initialize((X, Y))
    if kind == "hgp":
        inducing = model.head.experts.inducing_inputs
        moved = np.array(inducing)
        moved[2] += 50.0
        inducing.assign(moved)
    return model


def trained(kind: str, replicas: Replicas | None, folder: Path) -> tuple[HybridModel, dict[str, float]]:
    """Train for one epoch of five steps; return the model and the epoch's numbers."""
    model = started(kind)
    replication = None if replicas is None else Replication(replicas, lambda: make_model(kind))
    data = StageData(
        batches=batches, steps_per_epoch=STEPS, routing=batches().take(STEPS), selection=batches(1)
    )
    # Where gradients are tiny, Adam enlarges the rounding of single precision to some thousandths of what it
    # moves: 1.5e-5 after five steps at a rate of 1e-3 on a processor without AVX-512. A wrong factor would be
    # a tenth and more of what is moved.
    settings = StageSettings(epochs=1, learning_rate=4e-4, head_rate_factor=2.0, start_may_stay=False)
    state = train_stage(model, settings, data, folder=folder, replication=replication)
    return model, state.history[0]


def compared(kind: str, replicas: Replicas, folder: Path) -> dict[str, Any]:
    """Return what sharing the steps changes, and by how much they move the weights at all."""
    shared, shared_numbers = trained(kind, replicas, folder / kind / "shared")
    if not replicas.is_chief:
        return {}
    start = [np.asarray(weight) for weight in started(kind).weights]
    single, numbers = trained(kind, None, folder / kind / "single")

    def differences(one: list[Any], other: list[Any]) -> float:
        return max(
            float(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)).max(initial=0.0))
            for a, b in zip(one, other, strict=True)
        )

    return {
        "replicas": replicas.count,
        "weights": differences(single.weights, shared.weights),
        "optimizer": differences(single.optimizer.variables, shared.optimizer.variables),
        "moved": differences(
            single.trainable_weights, [w for w, v in zip(start, single.weights, strict=True) if v.trainable]
        ),
        "numbers": max(abs(numbers[key] - shared_numbers[key]) for key in numbers),
        "same_numbers": sorted(numbers) == sorted(shared_numbers),
        "experts": [[int(k) for k in model.head.active_experts] for model in (single, shared)],
        "occupancy": [list(model.head.expert_occupancy().values()) for model in (single, shared)],
    }


def main() -> None:
    strategy, out = StrategyName(sys.argv[1]), Path(sys.argv[2])
    if strategy is StrategyName.MIRRORED:
        half = tf.config.LogicalDeviceConfiguration()
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], [half, half])
    with (
        training_context(strategy, out=out, resume=False, console=Console(stderr=True)) as place,
        tempfile.TemporaryDirectory() as temporary,
    ):
        make_deterministic(0)
        replicas = place.replicas
        assert replicas is not None
        results = {kind: compared(kind, replicas, Path(temporary)) for kind in HEADS}
        if place.is_chief:
            out.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
