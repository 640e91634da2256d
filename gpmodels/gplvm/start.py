"""Where training starts: scaling that keeps quiet columns quiet, and whitened principal components."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpmodels.gplvm.data import FloatArray, IntArray, columns_of_views

START_VARIANCE = 0.5
"""s of every q(x_n) at the start."""

FILLING_ROUNDS = 10
"""Rounds in which missing values are filled by the principal components of the last round."""

SMALL = 1e-6
"""Singular values below this share of the largest are rounding: roots of eigenvalues of 1e-16."""


class Scaling(NamedTuple):
    """Centre and deviation of each column, `[D]`."""

    mean: FloatArray
    deviation: FloatArray

    def standardised(self, x: npt.NDArray[Any]) -> FloatArray:
        """Return rows in the model's units, NaN staying NaN."""
        return (x - self.mean) / self.deviation

    def restored(self, values: FloatArray) -> FloatArray:
        """Return values of the model in the data's units."""
        return values * self.deviation + self.mean


def scaling_of(x: npt.NDArray[Any], scale: str | None, view: IntArray | None = None) -> Scaling:
    """Return the scaling of rows in which NaN means missing.

    Args:
        x: Rows, `[N, D]`; no column is all NaN.
        scale: `"common"` for one deviation of all columns of a view, which leaves columns that hardly vary
            (the black margin of a picture) as small as they are; `"columns"` for a deviation of each column;
            None to centre only.
        view: View of each column, `[D]`; None where there is one.

    Example:
        >>> scaling_of(np.array([[0.0, 5.0], [2.0, 5.0]]), "columns").deviation.tolist()
        [1.0, 1.0]
    """
    mean = np.nanmean(x, axis=0)
    squares = (x - mean) ** 2
    if scale == "columns":
        deviation = np.sqrt(np.nanmean(squares, axis=0))
    elif scale == "common":
        deviation = np.empty(x.shape[1])
        for columns in columns_of_views(view):
            deviation[columns] = np.sqrt(np.nanmean(squares[:, columns]))
    else:
        deviation = np.ones(x.shape[1])
    # The deviation of a constant column is rounding of its mean at most, in whatever unit.
    constant = deviation <= 1e-12 * np.abs(mean)
    return Scaling(mean, np.where(constant, 1.0, deviation))


def principal_scores(
    standardised: FloatArray, num_dimensions: int, rng: np.random.Generator, view: IntArray | None = None
) -> FloatArray:
    """Return whitened scores of the rows on their principal components, `[N, Q]`.

    Missing values are filled by the components themselves, in a few rounds from the columns' means. Where the
    rows have fewer than Q components, small random numbers take the place of the others.

    Args:
        standardised: Rows `[N, D]`, centred; NaN where a value is missing.
        num_dimensions: Q.
        rng: Source of those random numbers.
        view: View of each column, `[D]`; views are brought to one sum of squares, and scores rotated until
            dimensions of one view are apart from those of others. None where there is one.
    """
    if view is not None:
        squares = np.bincount(view, np.nansum(standardised**2, axis=0))
        standardised = standardised / np.sqrt(np.maximum(squares, 1e-300))[view]
    is_seen = ~np.isnan(standardised)
    complete = bool(is_seen.all())
    filled = np.where(is_seen, standardised, 0.0)
    scores = np.zeros((len(filled), num_dimensions))
    for _ in range(1 if complete else FILLING_ROUNDS):
        components, values = _components(filled, num_dimensions)
        scores = filled @ components
        if not complete:
            # Shrunk as probabilistic PCA shrinks: what the other components hold counts as noise.
            rest = max((filled**2).sum() - (values**2).sum(), 0.0) / max(filled.shape[1] - len(values), 1)
            shrunk = scores * np.maximum(values**2 - rest, 0.0) / np.maximum(values**2, 1e-300)
            filled = np.where(is_seen, standardised, shrunk @ components.T)
    deviation = np.sqrt(np.mean(scores**2, axis=0))
    found = values > SMALL * max(values[0], 1e-300)
    whitened = np.where(found, scores / np.where(found, deviation, 1.0), 0.0)
    start = 0.1 * rng.standard_normal((len(filled), num_dimensions))
    start[:, : whitened.shape[1]] = np.where(found, whitened, start[:, : whitened.shape[1]])
    return start if view is None else start @ _rotation(start, filled, view)


def _rotation(scores: FloatArray, values: FloatArray, view: IntArray) -> FloatArray:
    """Return the rotation of scores that sets dimensions of some views apart from those of others, `[Q, Q]`.

    Eigenvectors of a contrast of what each view holds of each direction: of two views, one minus the other,
    which is 0 where both hold as much. Weights of several are powers of 2, no two sums of which are equal.
    """
    slopes = scores.T @ values
    weights = 2.0 ** np.arange(view.max() + 1)
    contrast = np.zeros([len(slopes)] * 2)
    for weight, columns in zip(weights - weights.mean(), columns_of_views(view), strict=True):
        held = slopes[:, columns] @ slopes[:, columns].T
        contrast += weight * held / max(np.trace(held), 1e-300)
    return np.asarray(np.linalg.eigh(contrast)[1])


def _components(filled: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return the first components `[D, q]`, largest entry positive, and their singular values `[q]`."""
    if len(filled) >= filled.shape[1]:
        squares, vectors = np.linalg.eigh(filled.T @ filled)
        order = np.argsort(-squares, kind="stable")[:count]
        values, components = np.sqrt(np.maximum(squares[order], 0.0)), vectors[:, order]
    else:
        _, values, rows = np.linalg.svd(filled, full_matrices=False)
        values, components = values[:count], rows[:count].T
    largest = components[np.argmax(np.abs(components), axis=0), np.arange(components.shape[1])]
    return components * np.where(largest < 0.0, -1.0, 1.0), values
