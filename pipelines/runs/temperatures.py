"""The temperature of a trained head, fitted on the examples that choose its best epoch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipelines.runs.observations import worth
from pipelines.runs.selection import SelectedPoints
from pipelines.scores.calibration import LOG_ODDS_DEVIATION, fit_temperature


def selection_temperature(points: SelectedPoints, *, groups: Sequence[str] | None = None) -> float:
    """Return the temperature of a head with the least NLL of the selection points (Guo et al., 2017).

    `fit_temperature` has the prior that decides where these are few and nearly all right. Points of one group
    repeat each other, so that with groups they count as the observations that they are worth: of two
    patients the prior decides too, however many patches they have.

    Args:
        points: Predictions of the head for them.
        groups: Group of each example; None counts every point.
    """
    weights = points.weights
    if groups is not None:
        numbers = np.unique(groups, return_inverse=True)[1].astype(np.int32)
        weights = weights * worth(points.logits, points.labels, weights, numbers[points.examples])
    return fit_temperature(points.logits, points.labels, weights, prior_deviation=LOG_ODDS_DEVIATION)
