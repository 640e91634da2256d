"""Several views: what those of tissue share, and the lower half of silhouettes from the upper one."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh
from scipy.spatial.distance import cdist
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import KNeighborsRegressor

from benchmarks.cell_runner import Cell
from benchmarks.latent_variables.maps import tissue
from benchmarks.latent_variables.missing_pixels import SILHOUETTE, TEST_PEOPLE, silhouettes
from benchmarks.latent_variables.plan import TISSUE
from data_prep.histopathology.features import VIEWS

FloatArray = npt.NDArray[np.float64]

TRAINING, TEST = 300, 300
DIMENSIONS, INDUCING, ITERATIONS = 10, 40, 300
PENALTIES = np.logspace(-4, 4, 17)
SHRINKAGES = (0.01, 0.03, 0.1, 0.3)
"""Of the number of rows, added to the diagonals by kernel CCA."""
VARIATES = (2, 5, 10, 20, 40)
NEIGHBOURS = (1, 3, 5, 8, 12, 20)


def halves(data: Path, seed: int) -> tuple[FloatArray, FloatArray, int]:
    """Return training rows, test rows of other people, and the pixels of the upper half."""
    frames, person = silhouettes(data)
    judged = person % TEST_PEOPLE == 0
    rng = np.random.default_rng(seed)
    train, test = frames[~judged], frames[judged]
    train = train[rng.permutation(len(train))[:TRAINING]]
    return train, test[rng.permutation(len(test))[:TEST]], SILHOUETTE[0] // 2 * SILHOUETTE[1]


def compute(cell: Cell, data: Path) -> dict[str, Any]:
    """Fit one model and return what it found."""
    if cell.setting == TISSUE:
        return _shared_by_tissue(tissue(data)[0], cell.seed)
    train, test, upper = halves(data, cell.seed)
    started = time.process_time()
    record: dict[str, Any]
    if cell.method.startswith("gplvm"):
        record = _own(train, test, upper, cell.seed, has_views=cell.method == "gplvm, views")
    else:
        seen, wanted, new = train[:, :upper], train[:, upper:], test[:, :upper]
        tried: list[npt.NDArray[Any]]
        if cell.method == "mean":
            tried = [np.broadcast_to(wanted.mean(axis=0), (len(new), wanted.shape[1]))]
        elif cell.method == "ridge":
            tried = [RidgeCV(PENALTIES).fit(seen, wanted).predict(new)]
        elif cell.method == "knn":
            tried = [KNeighborsRegressor(k).fit(seen, wanted).predict(new) for k in NEIGHBOURS]
        else:
            tried = kernel_cca(seen, wanted, new)
        record = {"rmse": min(_rmse(predicted, test[:, upper:]) for predicted in tried)}
    return record | {"seconds": time.process_time() - started}


def _rmse(predicted: npt.NDArray[Any], truth: FloatArray) -> float:
    return float(np.sqrt(np.mean((predicted - truth) ** 2)))


def kernel_cca(first: FloatArray, second: FloatArray, new: FloatArray) -> list[npt.NDArray[Any]]:
    """Return the second view of new rows by ridge regression on canonical variates of the first.

    Squared-exponential kernels with the median distance as lengthscale, centred; variates of the regularised
    problem (Hardoon, Szedmak and Shawe-Taylor, 2004), one prediction for each shrinkage and number of them.

    Args:
        first: First view of the training rows, `[N, D_1]`.
        second: Second view of the training rows, `[N, D_2]`.
        new: First view of new rows.
    """
    size = len(first)
    centring = np.eye(size) - 1.0 / size
    kernels = []
    for rows in (first, second):
        squares = cdist(rows, rows, "sqeuclidean")
        kernels.append((np.exp(-0.5 * squares / np.median(squares)), float(np.median(squares))))
    (k, median), (other, _) = kernels
    cross = np.exp(-0.5 * cdist(new, first, "sqeuclidean") / median)
    cross = (cross - k.mean(axis=0)) @ centring
    k, other = centring @ k @ centring, centring @ other @ centring
    found = []
    for shrinkage in SHRINKAGES:
        added = shrinkage * size * np.eye(size)
        # Maximise aᵀ K L (L + δ)⁻² L K a given aᵀ (K + δ)² a = 1.
        share = np.linalg.solve(other + added, other)
        left = k @ share @ share.T @ k
        values, vectors = eigh(0.5 * (left + left.T), (k + added) @ (k + added))
        order = np.argsort(-values)
        for count in VARIATES:
            directions = vectors[:, order[:count]]
            variates = k @ directions
            scale = variates.std(axis=0)
            ridge = RidgeCV(PENALTIES).fit(variates / scale, second)
            found.append(ridge.predict(cross @ directions / scale))
    return found


def _own(train: FloatArray, test: FloatArray, upper: int, seed: int, *, has_views: bool) -> dict[str, Any]:
    from gpmodels import BayesianGPLVM  # noqa: PLC0415 - imports TensorFlow

    model = BayesianGPLVM(
        num_dimensions=DIMENSIONS,
        num_inducing=INDUCING,
        max_iterations=ITERATIONS,
        views=[range(upper), range(upper, train.shape[1])] if has_views else None,
        random_state=seed,
    ).fit(train)
    hidden = np.where(np.arange(train.shape[1]) < upper, test, np.nan)
    filled, deviation = model.complete(hidden, return_std=True)
    error = (filled - test)[:, upper:]
    record = {
        "rmse": _rmse(filled[:, upper:], test[:, upper:]),
        "covered": float(np.mean(np.abs(error) < 1.96 * deviation[:, upper:])),
        "bound": model.learning_curve_[-1].bound_per_point,
    }
    return record | ({"halves": model.dimension_views()} if has_views else {})


def _shared_by_tissue(patches: FloatArray, seed: int) -> dict[str, Any]:
    from gpmodels import BayesianGPLVM  # noqa: PLC0415 - imports TensorFlow

    started = time.process_time()
    ends = np.cumsum([0, *VIEWS.values()])
    model = BayesianGPLVM(
        num_dimensions=DIMENSIONS,
        num_inducing=INDUCING,
        scale="columns",
        max_iterations=ITERATIONS,
        views=[range(start, end) for start, end in pairwise(ends)],
        random_state=seed,
    ).fit(patches)
    return {
        "views": list(VIEWS),
        "rows": len(patches),
        "users": model.dimension_views(),
        "shares": model.view_relevance_.round(4).tolist(),
        "bound": model.learning_curve_[-1].bound_per_point,
        "seconds": time.process_time() - started,
    }
