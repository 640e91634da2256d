"""Pictures of a Bayesian GPLVM, drawn on Matplotlib axes; nothing is shown or written.

Not imported by `gpmodels`, which needs no pictures: `from gpmodels.estimators.latent import plots`.
"""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from sklearn.utils.validation import check_is_fitted

from gpmodels.estimators.latent.estimator import BayesianGPLVM

MAX_LABELS = 20
"""Most labels that a legend lists."""


def plot_map(
    estimator: BayesianGPLVM,
    *,
    label: Any = None,
    dimensions: Sequence[int] = (0, 1),
    ax: Axes | None = None,
) -> Axes:
    """Draw the training rows on two dimensions: a dot and an ellipse of one deviation for each.

    Args:
        estimator: Fitted.
        label: Class of each row, `[N]`, for the colours; None draws all alike.
        dimensions: The two dimensions; by default the most relevant.
        ax: Axes to draw on; new ones if None.

    Returns:
        The axes.

    Raises:
        ValueError: The estimator lacks a dimension, or there is not one label for each row.
    """
    check_is_fitted(estimator)
    count = estimator.embedding_.shape[1]
    if len(dimensions) != 2 or not all(q in range(count) for q in dimensions):
        raise ValueError(f"dimensions must be two of 0 to {count - 1}, but are {dimensions}.")
    position, deviation = (
        part[:, list(dimensions)] for part in (estimator.embedding_, estimator.embedding_std_)
    )
    labels = np.zeros(len(position), int) if label is None else np.asarray(label)
    if labels.shape != (len(position),):
        raise ValueError(f"label has shape {list(labels.shape)}, but the map has {len(position)} rows.")
    ax = plt.subplots()[1] if ax is None else ax
    colours = plt.get_cmap("tab20" if len(np.unique(labels)) > 10 else "tab10")
    for number, value in enumerate(np.unique(labels)):
        chosen = labels == value
        colour = colours(number % colours.N)
        ax.scatter(position[chosen, 0], position[chosen, 1], s=6, color=colour, label=str(value))
        width, height = 2.0 * deviation[chosen].T
        ax.add_collection(
            EllipseCollection(
                width,
                height,
                np.zeros(len(width)),
                units="xy",
                offsets=position[chosen],
                transOffset=ax.transData,
                facecolors=[(*colour[:3], 0.08)],
                edgecolors="none",
            )
        )
    for axis, q in zip((ax.xaxis, ax.yaxis), dimensions, strict=True):
        axis.set_label_text(f"dimension {q} ({estimator.relevance_[q]:.0%} of the relevance)")
    if label is not None and len(np.unique(labels)) <= MAX_LABELS:
        ax.legend(fontsize="small")
    return ax


def plot_dimension_relevance(estimator: BayesianGPLVM, ax: Axes | None = None) -> Axes:
    """Draw the relevance of each dimension, the largest first.

    Args:
        estimator: Fitted.
        ax: Axes to draw on; new ones if None.

    Returns:
        The axes.
    """
    check_is_fitted(estimator)
    ax = plt.subplots()[1] if ax is None else ax
    ax.bar(np.arange(len(estimator.relevance_)), estimator.relevance_, color="tab:blue")
    ax.set_xlabel("dimension")
    ax.set_ylabel("relevance")
    return ax
