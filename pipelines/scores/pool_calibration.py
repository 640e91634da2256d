"""Calibration where it is judged: the temperature of pools, whose probabilities are means over examples.

A mean over examples is too even: where a head is right about an image, some of its patches still disagree. A
temperature that is fitted to examples does not see that. So pools have their own, applied to the mean:
p_c^(1/T) / Σ p^(1/T) of its probabilities p. It is fitted as that of examples is, with the same prior around
1, on held-out pools.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special
from numpy.typing import NDArray

from pipelines.scores.calibration import LOG_ODDS_DEVIATION, fit_temperature
from pipelines.scores.definitions import AnyFloatArray, FloatArray


def pool_logits(probability: AnyFloatArray) -> FloatArray:
    """Return log p_c of the probabilities of pools `[..., C]`, finite at 0 too.

    Example:
        >>> bool(np.isfinite(pool_logits(np.array([1.0, 0.0], np.float32))).all())
        True
    """
    least = np.finfo(probability.dtype).eps
    return np.log(np.maximum(probability.astype(np.float64), least))


def fit_pool_temperature(
    probability: AnyFloatArray, labels: NDArray[Any], effective_fraction: float = 1.0
) -> float:
    """Return the temperature of pools, with the prior 1/T ~ N(1, `LOG_ODDS_DEVIATION`²).

    Args:
        probability: Mean probabilities of held-out pools `[P, C]`.
        labels: Their classes `[P]`, from 0 to C - 1.
        effective_fraction: N_eff / P, as pools of one group repeat each other: with few of them the prior
            decides.

    Example:
        >>> even, labels = np.full((400, 2), [0.3, 0.7]), np.arange(400) % 20 > 0  # says 0.7, right in 0.95
        >>> fit_pool_temperature(even, labels) < 0.4 < 0.9 < fit_pool_temperature(even[:1], labels[1:2])
        True
    """
    weights = np.full(len(labels), effective_fraction)
    return fit_temperature(pool_logits(probability), labels, weights, prior_deviation=LOG_ODDS_DEVIATION)


def at_temperature(probability: AnyFloatArray, temperature: float) -> AnyFloatArray:
    """Return probabilities `[..., C]` at a temperature, in their own type; unchanged at 1.

    Example:
        >>> at_temperature(np.array([0.75, 0.25]), 0.5).round(2).tolist()
        [0.9, 0.1]
    """
    if temperature == 1.0:
        return probability
    changed = scipy.special.softmax(pool_logits(probability) / temperature, axis=-1)
    return changed.astype(probability.dtype)


def entropies(probability: AnyFloatArray) -> FloatArray:
    """Return the entropy of predictions `[..., C]` in nats, `[...]`.

    Example:
        >>> entropies(np.array([[1.0, 0.0], [0.5, 0.5]])).round(3).tolist()
        [0.0, 0.693]
    """
    return np.asarray(scipy.special.entr(probability.astype(np.float64)).sum(axis=-1))
