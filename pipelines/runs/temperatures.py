"""The temperature of a trained head, fitted on the examples that choose its best epoch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from gpmodels import HybridModel
from pipelines.runs.observations import worth
from pipelines.scores.calibration import LOG_ODDS_DEVIATION, fit_temperature


def selection_temperature(
    model: HybridModel, batches: tf.data.Dataset, *, groups: Sequence[str] | None = None
) -> float:
    """Return the temperature of a head with the least NLL of the selection points (Guo et al., 2017).

    `fit_temperature` has the prior that decides where these are few and nearly all right. Points of one group
    repeat each other, so that with groups they count as the observations that they are worth: of two
    patients the prior decides too, however many patches they have.

    Args:
        model: Model that predicts at the temperature 1.
        batches: Of inputs, labels and, where points may be ignored, weights.
        groups: Group of each example in the order of the batches; None counts every point.
    """
    logits, labels, weights, examples = [], [], [], []
    for inputs, label, *weight in batches:
        logit = model.logits(model(inputs, training=False)).numpy()
        flat_label = label.numpy().ravel()
        labels.append(flat_label)
        logits.append(logit.reshape(flat_label.size, *logit.shape[label.shape.rank :]))
        weights.append(weight[0].numpy().ravel() if weight else np.ones(flat_label.size, np.float32))
        examples += [flat_label.size // label.shape[0]] * label.shape[0]
    logits, labels, weights = (np.concatenate(parts) for parts in (logits, labels, weights))
    if groups is not None:
        numbers = np.unique(groups, return_inverse=True)[1].astype(np.int32)
        weights = weights * worth(logits, labels, weights, np.repeat(numbers, examples))
    return fit_temperature(logits, labels, weights, prior_deviation=LOG_ODDS_DEVIATION)
