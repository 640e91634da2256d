"""From left-out scores to probabilities: softmax(T x scores), with one number T for all classes.

The model's own T is that of Gaussian codes, of which class c has the density ∝ exp(-|code_c - s|²/(2 v)):
T = 1/v, v the variance of left-out codes. Where few rows are left out they may all be right, and no T is
too large for them; so log T has a prior about -log v.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from gpmodels.transfer.rows import FloatArray

if TYPE_CHECKING:
    from gpmodels.transfer.exact import LeftOut

PRIOR_DEVIATION = 0.35
"""Standard deviation of log T under its prior, chosen on simulated classes that no benchmark judges by."""

LOG_RANGE = 4.0
"""log T lies within this of the model's own."""


def fit_score_scale(left_out: LeftOut, codes: FloatArray, weight: FloatArray) -> float:
    """Return the T with which left-out scores are most probable, a posteriori.

    Args:
        left_out: What is predicted of each row by the others.
        codes: Codes of the rows, `[N, C]`, largest of their class.
        weight: How often each row counts, `[N]`.
    """
    own = -np.log(float(np.average(left_out.variance, weights=weight)))
    labels, rows = np.argmax(codes, axis=1), np.arange(len(codes))

    def loss(log_scale: float) -> float:
        logarithms = log_softmax(np.exp(log_scale) * left_out.mean, axis=1)[rows, labels]
        return float(-(weight @ logarithms) + 0.5 * ((log_scale - own) / PRIOR_DEVIATION) ** 2)

    bounds = (own - LOG_RANGE, own + LOG_RANGE)
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))
