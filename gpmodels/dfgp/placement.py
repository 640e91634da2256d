"""Where a DFGP starts (docs/theory.md; paper, section 5).

Hidden inducing inputs are random rows, other ones for each unit: that is what makes the units differ. Hidden
means follow the targets by ridge least squares. Inducing inputs of the output layer are k-means centres of
the hidden means.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.dfgp.units import HiddenUnits, OutputUnits
from gpmodels.units.placement import cluster_centres, column_scales, median_distance, place_global

FloatArray = npt.NDArray[np.floating[Any]]

RIDGE = 0.1
"""Noise variance of the least squares, for targets of unit variance; the inducing values have their prior."""

INITIAL_DEVIATION = 0.1
"""Of whitened hidden inducing values: at the prior's 1 the hidden layer would be noise, and stay so."""


def place_hidden(hidden: HiddenUnits, features: FloatArray, rng: np.random.Generator) -> None:
    """Place inducing inputs at random distinct rows, lengthscales at the median distance within the view.

    Args:
        hidden: The units.
        features: A sample of feature vectors, `[N, D]`.
        rng: Source of randomness.
    """
    blocks = hidden.blocks(tf.constant(features, tf.float64)).numpy()
    size = hidden.units.num_inducing
    inducing = np.zeros(hidden.units.inducing_inputs.shape)
    lengthscales = np.ones(inducing.shape[::2])
    if len(blocks) == 1:
        distinct = _Rows(blocks[0])
    for r, width in enumerate(hidden.view_sizes):
        if len(blocks) > 1 or hidden.num_hidden == 1:
            distinct = _Rows(blocks[r][:, :width])
        inducing[r, :, :width] = distinct.draw(size, rng)
        lengthscales[r, :width] = distinct.distance(rng)
    hidden.units.place(inducing, lengthscales)
    if not hidden.is_point:
        root = INITIAL_DEVIATION * np.eye(size)
        hidden.units.q_sqrt.assign(np.broadcast_to(root, hidden.units.q_sqrt.shape))


class _Rows:
    """Distinct rows of one view."""

    def __init__(self, points: FloatArray) -> None:
        self._points = points
        self._distinct = np.unique(points, axis=0)
        self._scale = column_scales(points)

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        if len(self._distinct) > size:
            return self._distinct[rng.choice(len(self._distinct), size, replace=False)]
        return cluster_centres(self._distinct / self._scale, size, rng) * self._scale

    def distance(self, rng: np.random.Generator) -> FloatArray:
        return median_distance(self._points / self._scale, rng) * self._scale


def fit_hidden_means(hidden: HiddenUnits, features: FloatArray, targets: FloatArray) -> None:
    """Set c_r by ridge least squares, so that unit r's mean follows its target.

    Args:
        hidden: The units, placed.
        features: `[N, D]`.
        targets: `[N, ν]`, of mean 0 and variance 1.
    """
    basis = hidden.basis(tf.constant(features, hidden.units.inducing_inputs.dtype)).numpy()
    basis = basis.astype(np.float64)  # [ν, N, M], whitened: c = L v, b = basis v
    gram = np.swapaxes(basis, 1, 2) @ basis + RIDGE * np.eye(basis.shape[2])
    side = np.einsum("rnm,nr->rm", basis, targets)
    hidden.units.q_mean.assign(np.linalg.solve(gram, side[..., None])[..., 0][:, None])


def random_targets(num_hidden: int, features: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return targets `[N, ν]` where there are no labels: random directions in the standardised features."""
    scaled = features / column_scales(features)
    directions = rng.standard_normal([features.shape[1], num_hidden])
    return standardised(scaled @ directions)


def label_targets(labels: FloatArray, num_hidden: int, num_classes: int | None) -> FloatArray:
    """Return targets `[N, ν]`: the real ones, or one class against the rest, units taking classes in turn.

    Args:
        labels: Real targets or class indices, `[N]`.
        num_hidden: ν.
        num_classes: C, None for real targets.

    Example:
        >>> label_targets(np.array([0.0, 1.0]), 1, 2).tolist()
        [[-1.0], [1.0]]
    """
    if num_classes is None:
        targets = np.repeat(np.asarray(labels, np.float64)[:, None], num_hidden, axis=1)
    else:
        classes = np.arange(num_hidden) % num_classes if num_classes > 2 else np.ones(num_hidden)
        targets = (np.asarray(labels)[:, None] == classes).astype(np.float64)
    return standardised(targets)


def standardised(columns: FloatArray) -> FloatArray:
    """Return the columns scaled to mean 0 and deviation 1; constant ones become 0."""
    deviation = columns.std(axis=0)
    return (columns - columns.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)


def place_outputs(outputs: OutputUnits, hidden_means: FloatArray, rng: np.random.Generator) -> None:
    """Place Z at k-means centres of the hidden means `[N, ν]`, lengthscales at their median distance."""
    if not np.any(np.ptp(hidden_means, axis=0)):
        return  # all in one place: nothing to go by
    inducing, lengthscales = place_global(hidden_means, outputs.num_inducing, rng)
    outputs.kernel.place(lengthscales[0])
    if not outputs.is_linear:
        outputs.inducing_inputs.assign(np.broadcast_to(inducing, outputs.inducing_inputs.shape))
