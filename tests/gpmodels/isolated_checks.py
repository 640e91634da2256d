"""Checks of heads that change a whole process: two logical devices, and bitwise determinism.

The fixture `isolated` runs them in one process for all heads; the assertions are in `layer_contract.py`.
"""

from __future__ import annotations

import functools
import gc
import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from gpmodels import HybridModel

FEATURES = 4
POINTS = 6


def batches(head: dict[str, Any], epoch: int) -> tf.data.Dataset:
    """Four batches of eight examples of six points each, a pure function of the epoch."""
    rng = np.random.default_rng(epoch)
    x = rng.normal(size=(32, POINTS, FEATURES)).astype("float32")
    y = x[..., 0] * x[..., 1]
    if head["config"].get("likelihood") != "gaussian":
        y = np.digitize(y, 0.5 * np.arange(head["config"].get("num_classes", 2) - 1)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(8)


def make_model(head: dict[str, Any], *, points_per_example: int | None = None) -> HybridModel:
    keras.utils.set_random_seed(0)
    network = keras.Sequential([keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(FEATURES)])
    model = HybridModel(
        network,
        keras.saving.deserialize_keras_object(head),
        num_data=32 * POINTS,
        points_per_example=points_per_example,
    )
    model.build((None, POINTS, FEATURES))
    return model


def change_this_process() -> None:
    """Give TensorFlow two devices and determinism, and run graphs as they are written, as other tests do."""
    half = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], [half, half])
    tf.config.experimental.enable_op_determinism()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


def deterministic_process() -> ProcessPoolExecutor:
    """A new process, changed so."""
    spawned = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, mp_context=spawned, initializer=change_this_process)


@functools.cache
def two_devices() -> tf.distribute.Strategy:
    """One strategy for all: a second one would use the collective operations' keys of the first again."""
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def check_replicas(head: dict[str, Any]) -> dict[str, Any]:
    """Five epochs of stochastic gradient descent on two devices and on one, from the same weights."""
    gc.collect()  # the models of the check before
    strategy = two_devices()
    single = make_model(head)
    single.initialize(batches(head, 0))
    rate = 0.1 * single.head.label_weight  # by which a step of HybridModel divides
    single.compile(optimizer=keras.optimizers.SGD(rate))
    single.fit(batches(head, 0), verbose=0, shuffle=False)  # away from q = prior, where some gradients vanish
    start = single.get_weights()
    with strategy.scope():
        mirrored = make_model(head)
        mirrored.compile(optimizer=keras.optimizers.SGD(rate))
        mirrored.set_weights(start)
    epochs = functools.reduce(tf.data.Dataset.concatenate, [batches(head, epoch) for epoch in range(1, 6)])
    for model in (single, mirrored):
        model.head.reset_assignments()
        model.fit(epochs, steps_per_epoch=4, epochs=5, verbose=0, shuffle=False)
    pairs = list(zip(single.trainable_weights, mirrored.trainable_weights, strict=True))
    return {
        "num_replicas": strategy.num_replicas_in_sync,
        "largest_difference": max(float(np.abs(a.numpy() - b.numpy()).max()) for a, b in pairs),
        # A DFGP has weights that never train: the variances of its hidden units, and Z of a linear kernel.
        "moved": min(
            float(np.abs(before - weight.numpy()).max())
            for before, weight in zip(start, single.weights, strict=True)
            if weight.trainable and before.ndim > 1
        ),
        "counts_equal": single.head.expert_occupancy() == mirrored.head.expert_occupancy(),
    }


def train(model: HybridModel, head: dict[str, Any], epochs: range) -> None:
    for epoch in epochs:
        model.fit(batches(head, epoch), verbose=0, shuffle=False)


def compiled(head: dict[str, Any]) -> HybridModel:
    model = make_model(head, points_per_example=3)
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    model.optimizer.build(model.trainable_variables)
    return model


def check_resume(head: dict[str, Any]) -> dict[str, Any]:
    """Three epochs, with checkpoints after the first one, against two more epochs from each checkpoint."""
    gc.collect()
    uninterrupted = compiled(head)
    uninterrupted.initialize(batches(head, 0))
    train(uninterrupted, head, range(1))
    after_one = uninterrupted.get_weights()
    with tempfile.TemporaryDirectory() as folder:
        uninterrupted.save_weights(Path(folder) / "checkpoint.weights.h5")
        uninterrupted.save(Path(folder) / "checkpoint.keras")
        train(uninterrupted, head, range(1, 3))

        resumed = keras.models.load_model(Path(folder) / "checkpoint.keras")
        train(resumed, head, range(1, 3))
        equal = {"keras": bitwise_equal(resumed, uninterrupted)}
        resumed.load_weights(Path(folder) / "checkpoint.weights.h5")  # back to the end of the first epoch
        train(resumed, head, range(1, 3))
        equal["weights"] = bitwise_equal(resumed, uninterrupted)
    pairs = zip(after_one, uninterrupted.get_weights(), strict=True)
    return {
        "resumed_equals_uninterrupted": equal,
        "interrupted_differs": any(np.any(before != after) for before, after in pairs),
    }


def bitwise_equal(first: HybridModel, second: HybridModel) -> bool:
    pairs = zip(
        [*first.weights, *first.optimizer.variables],
        [*second.weights, *second.optimizer.variables],
        strict=True,
    )
    return all(a.numpy().tobytes() == b.numpy().tobytes() for a, b in pairs)
