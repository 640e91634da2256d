"""How far filled-in values really are from what the model expects, by values that are hidden on purpose.

The model has one noise for all columns, and q(u) is held while rows are placed. Both make deviations of
filled values wrong by a factor for each column: too large where a column hardly varies, as the margin of
pictures, and too small elsewhere.
"""

import numpy as np

from gpmodels.gplvm.data import FloatArray
from gpmodels.gplvm.inference import Starts, completed_moments, infer
from gpmodels.gplvm.rows import HeldModel

MAX_ROWS = 500
"""Most rows whose values are hidden."""

MAX_VALUES = 400_000
"""Most values of these rows, of which there are at least 50."""

HIDDEN = 0.5
"""Share of their values that is hidden."""

PSEUDO_ROWS = 10.0
"""What the ratio of all columns counts in that of each, in hidden values."""


def variance_factors(
    model: HeldModel, starts: Starts, standardised: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return what the variance of a filled value of each column is to be multiplied by, `[D]`.

    Half of the values of at most 500 rows, fewer of many columns, are hidden, or one of several views of each
    row, and the rows filled. The factor is the ratio of squared errors to variances of a column, drawn
    towards that of all columns, or of those of its view, where little was hidden. Where all ratios together
    are below 1 they are raised to it: values hidden here and there are easier to fill than whole parts.

    Args:
        model: Fitted.
        starts: Positions of the training rows.
        standardised: The training rows, `[N, D]`; NaN where a value is missing.
        rng: Chooses rows and values.
    """
    most = min(MAX_ROWS, max(MAX_VALUES // standardised.shape[1], 50))
    chosen = np.sort(rng.permutation(len(standardised))[:most])
    rows = standardised[chosen]
    if model.view is None:
        chosen_values = rng.random(rows.shape) < HIDDEN
    else:
        chosen_values = model.view == rng.integers(len(model.inducing), size=(len(rows), 1))
    hidden = ~np.isnan(rows) & chosen_values
    hidden[np.isnan(np.where(hidden, np.nan, rows)).all(axis=1)] = False  # a row keeps something to see
    if not hidden.any():
        return np.ones(rows.shape[1])
    mean, variance = completed_moments(model, infer(model, starts, np.where(hidden, np.nan, rows)))
    squares = np.where(hidden, np.square(rows - mean), 0.0)
    variances = np.where(hidden, variance, 0.0)
    factors = np.ones(rows.shape[1])
    views = np.zeros(rows.shape[1], np.intp) if model.view is None else model.view
    for view in np.unique(views):
        of = views == view
        if not hidden[:, of].any():
            continue
        overall = squares[:, of].sum() / variances[:, of].sum()
        if overall == 0.0:  # of constant columns nothing can be wrong
            continue
        typical = variances[:, of].sum() / hidden[:, of].sum()
        if model.view is not None:
            # Columns that other views tell have far smaller variances than those that they do not.
            counts = hidden[:, of].sum(axis=0)
            typical = np.where(counts > 0, variances[:, of].sum(axis=0) / np.maximum(counts, 1), typical)
        added = PSEUDO_ROWS * typical
        found = (squares[:, of].sum(axis=0) + overall * added) / (variances[:, of].sum(axis=0) + added)
        factors[of] = found / min(overall, 1.0)
    return factors
