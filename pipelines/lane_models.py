"""The lane models: an encoder-decoder network with one of the heads, built from a run's settings."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpmodels import HGPHead, HybridModel, LinearHead, SVGPHead
from gpmodels.head import Head
from gpmodels.networks.encoder_decoder import encoder_decoder
from pipelines.lane_settings import HeadName, LaneRun, TrainSettings
from pipelines.runs import head_folder
from pipelines.training import BEST, load_checkpoint


def make_head(name: HeadName, settings: TrainSettings) -> Head:
    """An untrained head."""
    if name == "linear":
        return LinearHead(name="linear")
    if name == "svgp":
        return SVGPHead(num_inducing=settings.num_inducing, kernel=settings.kernel, name="svgp")
    return HGPHead(
        num_experts=settings.num_experts,
        num_inducing=settings.num_inducing,
        kernel=settings.kernel,
        global_weight=settings.global_weight,
        expert_variance=settings.expert_variance,
        name="hgp",
    )


def make_model(name: HeadName, settings: TrainSettings, run: LaneRun) -> HybridModel:
    """An untrained, built model with a head."""
    network = encoder_decoder(settings.network, batch_norm_momentum=run.batch_norm_momentum)
    model = HybridModel(
        network,
        make_head(name, settings),
        num_data=run.num_data,
        # The linear head costs nothing per pixel, and a subset would only add noise.
        points_per_example=None if name == "linear" else settings.points_per_image,
        seed=settings.seed,
    )
    model.build((None, *run.size, 3))
    return model


def load_model(run_folder: Path, name: HeadName, settings: TrainSettings, run: LaneRun) -> HybridModel:
    """A trained model with the weights of its best epoch.

    Raises:
        InputError: They are missing, damaged, or of another model.
    """
    model = make_model(name, settings, run)
    load_checkpoint(model, head_folder(run_folder, name) / BEST)
    return model


def momentum_for(steps_per_epoch: int) -> float:
    """Batch-normalisation momentum whose averages look back over a fifth of an epoch, 0.9 to 0.99.

    Keras' 0.99 lags by epochs where an epoch has tens of steps, and validation then judges a network that
    never was.
    """
    return float(np.clip(1.0 - 5.0 / max(steps_per_epoch, 1), 0.9, 0.99))
