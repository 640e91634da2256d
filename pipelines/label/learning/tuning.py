"""Hyperparameters and temperature of the learner, by cross-validation over groups.

Labelled images are divided into folds of whole groups. The hyperparameters are those of a few candidates
whose posteriors give the other folds' labels the largest likelihood once a temperature T divides the logits;
T is that of the best. Near-duplicates never stand on both sides, so that neither number is flattered by them,
and no image that judges is looked at. The marginal likelihood would need the determinant of M C equations for
each candidate, which is slower than these fits, and says nothing of T.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.special
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold

from pipelines.label.learning.basis import KernelScales, PoolBasis
from pipelines.label.learning.softmax_laplace import fit_posterior, predicted_logits, variances

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

FIRST_SCALES = KernelScales(linear=3.0, smooth=3.0, length=1.5)
FIRST_TEMPERATURE = 0.7
CANDIDATES = (
    FIRST_SCALES,
    KernelScales(linear=1.0, smooth=1.0, length=1.5),
    KernelScales(linear=1.0, smooth=3.0, length=1.0),
    KernelScales(linear=6.0, smooth=3.0, length=1.5),
    KernelScales(linear=3.0, smooth=8.0, length=1.0),
)
FEWEST_LABELS = 20
"""Labelled training images from which on there is something to choose by."""

_FOLDS = 5
_TEMPERATURES = (0.15, 4.0)
_WORTH = 10.0
"""Labels that the first temperature counts as, so that twenty answers do not move it far."""


class Tuned(NamedTuple):
    """What was chosen.

    Attributes:
        scales: Hyperparameters of the kernel.
        temperature: T, what logits are divided by.
    """

    scales: KernelScales
    temperature: float


def tune(basis: PoolBasis, rows: IntArray, labels: IntArray, group: IntArray, num_classes: int) -> Tuned:
    """Return the hyperparameters and the temperature that labelled images speak for.

    Args:
        basis: Basis of the pool.
        rows: Rows of the labelled training images `[n]`.
        labels: Their classes `[n]`.
        group: Number of the group of each `[n]`.
        num_classes: C.
    """
    folds = min(_FOLDS, len(np.unique(group)))
    if len(rows) < FEWEST_LABELS or folds < 2 or len(np.unique(labels)) < 2:
        return Tuned(FIRST_SCALES, FIRST_TEMPERATURE)
    parts = list(GroupKFold(folds).split(rows, groups=group))
    best, least = Tuned(FIRST_SCALES, FIRST_TEMPERATURE), np.inf
    for scales in CANDIDATES:
        values = basis(scales)[rows]
        logits = np.zeros((len(rows), num_classes))
        for train, test in parts:
            posterior = fit_posterior(values[train], labels[train], num_classes)
            logits[test] = predicted_logits(
                values[test] @ posterior.weights, variances(values[test], posterior.covariance)
            )
        temperature, loss = fitted_temperature(logits, labels)
        if loss < least:
            best, least = Tuned(scales, temperature), loss
    return best


def fitted_temperature(logits: FloatArray, labels: IntArray) -> tuple[float, float]:
    """Return the temperature of least mean negative log likelihood, drawn to the first one, and that loss."""

    def loss(log_temperature: float) -> float:
        share = scipy.special.log_softmax(logits / np.exp(log_temperature), axis=1)
        return -float(np.mean(np.take_along_axis(share, labels[:, None], 1)))

    def drawn(log_temperature: float) -> float:
        return (
            loss(log_temperature) + _WORTH / len(labels) * (log_temperature - np.log(FIRST_TEMPERATURE)) ** 2
        )

    found = scipy.optimize.minimize_scalar(drawn, bounds=np.log(_TEMPERATURES), method="bounded")
    return float(np.exp(found.x)), loss(found.x)
