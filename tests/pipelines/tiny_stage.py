"""Six tiny images and models for them, for the tests of the training loop."""

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HGPHead, HybridModel, LinearHead
from pipelines.training.stages import EpochReport, StageData, StageSettings, train_stage

IMAGES, PER_BATCH, SIDE = 6, 2, 4
NUM_DATA = IMAGES * SIDE * SIDE

_RANDOM = np.random.default_rng(0)
X = _RANDOM.normal(size=(IMAGES, SIDE, SIDE, 3)).astype(np.float32)
Y = (X.sum(axis=-1) > 0).astype(np.float32)


def batches(epoch: int) -> tf.data.Dataset:
    """Another order each epoch, a pure function of its number."""
    order = np.random.default_rng(epoch).permutation(IMAGES)
    return tf.data.Dataset.from_tensor_slices((X[order], Y[order])).batch(PER_BATCH)


def stage_data(**changes: object) -> StageData:
    still = tf.data.Dataset.from_tensor_slices((X, Y)).batch(PER_BATCH)
    values = {"batches": batches, "steps_per_epoch": 3, "routing": still, "selection": still}
    return StageData(**{**values, **changes})


def make_model(kind: str = "linear", **head: object) -> HybridModel:
    """A network with batch normalisation, whose averages are state too; some points of each image."""
    keras.utils.set_random_seed(0)
    layers = [
        keras.layers.Conv2D(4, 1, name="convolution"),
        keras.layers.BatchNormalization(name="normalisation"),
        keras.layers.ReLU(),
    ]
    network = keras.Sequential(layers)
    heads = {
        "linear": lambda: LinearHead(name="linear"),
        "hgp": lambda: HGPHead(**{"num_experts": 2, "num_inducing": 3, "name": "hgp", **head}),
    }
    model = HybridModel(network, heads[kind](), num_data=NUM_DATA, points_per_example=10, seed=3)
    model.build((None, SIDE, SIDE, 3))
    model.initialize((X, Y))
    return model


def train_first_epoch(model: HybridModel, settings: StageSettings, folder: Path) -> None:
    def stop(_: EpochReport) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_stage(model, settings, stage_data(), folder=folder, hooks=[stop])
