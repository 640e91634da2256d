"""A word where a fit predicts no better on its own rows than the classes' shares, or the mean."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from gpmodels.estimators.engine import FloatArray

LEAST_GAIN = 1e-3
"""Share of the entropy of the classes, or of the variance of the targets, that a fit must explain."""


def warn_if_nothing_learned(
    loss: float, without: float, x: FloatArray, targets: FloatArray, *, is_class: bool, name: str
) -> None:
    """Warn where a fit is no better on its own rows than a prediction that does not look at them.

    Args:
        loss: Of the fit on its rows: mean -log p in nats, or mean squared error.
        without: The same of the classes' shares, or of the mean.
        x: The rows' inputs, `[N, D]`.
        targets: Their classes or targets, `[N]`.
        is_class: Which of both.
        name: What the warning calls the model.
    """
    if not loss > (1.0 - LEAST_GAIN) * without:
        return
    what = "the shares of the classes" if is_class else "the mean of the targets"
    unit = "nats per row" if is_class else "mean squared error"
    warnings.warn(
        f"{name} has learned nothing: on its own {len(x)} rows it predicts no better than {what} "
        f"({loss:.4g} against {without:.4g}, {unit}). {likely_cause(x, targets)}",
        UserWarning,
        stacklevel=2,
    )


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
