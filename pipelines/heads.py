"""The heads that every run compares: how they are made from settings, and what they are called."""

from __future__ import annotations

import numpy as np

from gpmodels import HGPHead, LinearHead, SVGPHead
from gpmodels.head import Head
from pipelines.head_settings import HeadName, HeadTrainSettings

TITLES: dict[HeadName, str] = {"linear": "Linear", "svgp": "SVGP", "hgp": "HGP"}
"""In tables."""

TEMPERED = "Linear + temperature"

DESCRIPTIONS: dict[HeadName, str] = {
    "linear": "linear",
    "svgp": "sparse variational Gaussian process",
    "hgp": "hierarchical Gaussian process",
}
"""In bundles."""


def make_head(
    name: HeadName, settings: HeadTrainSettings, *, num_classes: int = 2, likelihood: str | None = None
) -> Head:
    """An untrained head.

    Args:
        name: Which.
        settings: Of the run.
        num_classes: C.
        likelihood: Of a GP head; None takes the head's own choice by the number of classes.
    """
    if name == "linear":
        return LinearHead(num_classes=num_classes, name="linear")
    if name == "svgp":
        return SVGPHead(
            num_inducing=settings.num_inducing,
            kernel=settings.kernel,
            num_classes=num_classes,
            likelihood=likelihood,
            name="svgp",
        )
    return HGPHead(
        num_experts=settings.num_experts,
        num_inducing=settings.num_inducing,
        kernel=settings.kernel,
        global_weight=settings.global_weight,
        expert_variance=settings.expert_variance,
        num_classes=num_classes,
        likelihood=likelihood,
        name="hgp",
    )


def momentum_for(steps_per_epoch: int) -> float:
    """Batch-normalisation momentum whose averages look back over a fifth of an epoch, 0.9 to 0.99.

    Keras' 0.99 lags by epochs where an epoch has tens of steps, and validation then judges a network that
    never was.
    """
    return float(np.clip(1.0 - 5.0 / max(steps_per_epoch, 1), 0.9, 0.99))
