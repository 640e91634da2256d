"""The heads that every run compares: how they are made from settings, and what they are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpmodels import DFGPHead, HGPHead, LinearHead, SVGPHead
from gpmodels.head import Head
from pipelines.head_settings import HeadName, HeadTrainSettings

TITLES: dict[HeadName, str] = {
    "linear": "Linear",
    "svgp": "SVGP",
    "hgp": "HGP",
    "dfgp": "DFGP",
    "dfgp_mkl": "DFGP-MKL",
}
"""In tables."""

TEMPERED = "Linear + temperature"

DESCRIPTIONS: dict[HeadName, str] = {
    "linear": "linear",
    "svgp": "sparse variational Gaussian process",
    "hgp": "hierarchical Gaussian process",
    "dfgp": "deep feed-forward Gaussian process",
    "dfgp_mkl": "deep feed-forward Gaussian process with a unit for each view",
}
"""In bundles."""


def make_head(
    name: HeadName,
    settings: HeadTrainSettings,
    *,
    num_classes: int = 2,
    likelihood: str | None = None,
    views: Sequence[slice] | None = None,
) -> Head:
    """An untrained head.

    Args:
        name: Which.
        settings: Of the run.
        num_classes: C.
        likelihood: Of an SVGP or HGP head; None takes the head's own choice by the number of classes.
        views: Columns of each view of the features, where these come in views.

    Raises:
        ValueError: The head needs views, and there are none.
    """
    if name == "linear":
        return LinearHead(num_classes=num_classes, name=name)
    if name in {"dfgp", "dfgp_mkl"}:
        if name == "dfgp_mkl" and views is None:
            raise ValueError(
                "the head dfgp_mkl weighs views of the features, but these come in one piece; choose dfgp"
            )
        return DFGPHead(
            num_inducing=settings.num_inducing,
            kernel=settings.kernel,
            views=views if name == "dfgp_mkl" else None,
            output_kernel=settings.output_kernel,
            hidden_posterior=settings.hidden_posterior,
            hidden_lengthscales=settings.hidden_lengthscales,
            hidden_kl_weight=settings.hidden_kl_weight,
            num_classes=num_classes,
            name=name,
        )
    shared: dict[str, Any] = {
        "num_inducing": settings.num_inducing,
        "kernel": settings.kernel,
        "num_classes": num_classes,
        "likelihood": likelihood,
        "name": name,
    }
    if name == "svgp":
        return SVGPHead(**shared)
    return HGPHead(
        num_experts=settings.num_experts,
        global_weight=settings.global_weight,
        expert_variance=settings.expert_variance,
        **shared,
    )


def has_single_latent(name: HeadName, num_classes: int, likelihood: str | None) -> bool:
    """Whether one latent function of a head decides between two classes, as it does but for a softmax.

    Args:
        name: Which head.
        num_classes: C.
        likelihood: As :func:`make_head` takes it.
    """
    return num_classes == 2 and (name not in {"svgp", "hgp"} or likelihood in {None, "bernoulli"})


def view_text(weights: Mapping[str, float]) -> str:
    """Weights of views in words, the largest first.

    Example:
        >>> view_text({"lbp": 0.25, "sift": 0.75})
        'sift 75%, lbp 25%'
    """
    by_weight = sorted(weights.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {weight:.0%}" for name, weight in by_weight)


def momentum_for(steps_per_epoch: int) -> float:
    """Batch-normalisation momentum whose averages look back over a fifth of an epoch, 0.9 to 0.99.

    Keras' 0.99 lags by epochs where an epoch has tens of steps, and validation then judges a network that
    never was.
    """
    return float(np.clip(1.0 - 5.0 / max(steps_per_epoch, 1), 0.9, 0.99))
