"""A word where a fit predicts no better on its own rows than the classes' shares, or the mean."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.estimators.fitting.engine import LOG_PROBABILITY, FloatArray
from gpmodels.hybrid.targets import lone_targets
from gpmodels.units.linear_mean import LinearMean

LEAST_GAIN = 1e-3
"""Share of the entropy of the classes, or of the variance of the targets, that a fit must explain."""


def warn_if_nothing_learned(
    outputs: Mapping[str, npt.NDArray[Any]],
    x: FloatArray,
    targets: FloatArray,
    weight: FloatArray,
    *,
    is_class: bool,
    name: str,
) -> None:
    """Warn where a fit is no better on its own rows than a prediction that does not look at their inputs.

    Args:
        outputs: What the head says of the rows, with `LOG_PROBABILITY` for classes and `mean` for targets.
        x: The rows' inputs, `[N, D]`.
        targets: Their class indices, or targets in the head's units, `[N]`.
        weight: How often each row counts, `[N]`.
        is_class: Which of both.
        name: What the warning calls the model.
    """
    if is_class:
        classes = targets.astype(np.intp)
        logs = outputs[LOG_PROBABILITY][np.arange(len(classes)), classes]
        loss, without = -float(np.average(logs, weights=weight)), shares_loss(classes, weight)
    else:
        loss = float(np.average((targets - outputs["mean"]) ** 2, weights=weight))
        centre = np.average(targets, weights=weight)
        without = float(np.average((targets - centre) ** 2, weights=weight))
    if loss < (1.0 - LEAST_GAIN) * without:
        return
    what = "the shares of the classes" if is_class else "the mean of the targets"
    unit = "nats per row" if is_class else "mean squared error"
    warnings.warn(
        f"{name} has learned nothing: on its own {len(x)} different rows it predicts no better than {what} "
        f"({loss:.4g} against {without:.4g}, {unit}). {likely_cause(x, targets)}",
        UserWarning,
        stacklevel=2,
    )


def warn_of_lone_targets(targets: FloatArray) -> None:
    """Warn of targets, `[N]`, so far off that all others look alike beside them."""
    if sentence := lone_targets(targets):
        warnings.warn(sentence, UserWarning, stacklevel=3)


def linear_share(
    mean: LinearMean | None, x: tf.Tensor, outputs: Mapping[str, npt.NDArray[Any]]
) -> float | None:
    """Return how much of the latent functions' variance over rows is the linear mean's, None without one.

    Args:
        mean: The linear mean.
        x: Standardised rows, `[N, D]`.
        outputs: What the head says of them.
    """
    if mean is None:
        return None
    total = outputs["latent_mean" if "latent_mean" in outputs else "mean"]
    linear = np.reshape(mean(x).numpy(), total.shape)
    own, rest = (float(np.sum(np.var(part, axis=0))) for part in (linear, total - linear))
    return max(own, 1e-12) / max(own + rest, 1e-12)


def likely_cause(x: FloatArray, targets: FloatArray) -> str:
    """Return a sentence about why a model may have learned nothing from rows."""
    constant = int(np.sum(np.ptp(x, axis=0) == 0.0))
    rows, columns = x.shape
    if len(np.unique(targets)) < 2:
        return "All targets are alike."
    if constant == columns:
        return "All columns are constant."
    if len(np.unique(x, axis=0)) <= max(2, rows // 10):
        return "Most rows have the same inputs."
    if columns > rows:
        return (
            f"There are more columns ({columns}) than rows ({rows}): select columns or reduce them first, or "
            "leave mean at 'linear', whose penalty is chosen for such tables."
        )
    return (
        "The inputs may tell nothing of the targets; else leave mean at 'linear', try "
        "lengthscale_spread=None, or give more rows."
    )


def shares_loss(classes: npt.NDArray[np.intp], weight: FloatArray) -> float:
    """Return the mean -log p of the classes' own shares, nats.

    Example:
        >>> round(shares_loss(np.array([0, 1]), np.ones(2)), 4)
        0.6931
    """
    shares = np.bincount(classes, weights=weight) / weight.sum()
    used = shares[shares > 0]
    return float(-np.sum(used * np.log(used)))
