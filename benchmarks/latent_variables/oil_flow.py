"""Oil flow: how many of the rows have a nearest neighbour of another class on the map."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from benchmarks.cell_runner import Cell

FloatArray = npt.NDArray[np.float64]

DIMENSIONS, INDUCING, ITERATIONS = 10, 50, 1000


def load(data: Path) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of the file."""
    with np.load(data / "tabular" / "oil_flow.npz") as file:
        return {name: file[name] for name in file.files}


def leave_one_out_errors(position: FloatArray, label: npt.NDArray[Any]) -> int:
    """Return how many rows have a nearest other row of another class."""
    distance = cdist(position, position)
    np.fill_diagonal(distance, np.inf)
    return int(np.sum(label[distance.argmin(axis=1)] != label))


def neighbour_errors(
    position: FloatArray, label: npt.NDArray[Any], other: FloatArray, other_label: npt.NDArray[Any]
) -> int:
    """Return how many other rows have a nearest row of another class."""
    return int(np.sum(label[cdist(other, position).argmin(axis=1)] != other_label))


def compute(cell: Cell, data: Path) -> dict[str, Any]:
    """Fit and judge one model."""
    oil = load(data)
    x, label = oil["X_train"], oil["y_train"]
    if cell.method == "pca":
        mean = x.mean(axis=0)
        components = np.linalg.svd(x - mean, full_matrices=False)[2].T
        return _judged((x - mean) @ components, oil, lambda rows: (rows - mean) @ components)
    if cell.method == "gpy":
        return _gpy(x, label, cell.seed)
    from gpmodels import BayesianGPLVM  # noqa: PLC0415 - imports TensorFlow, which PCA and GPy do not need

    started = time.process_time()
    model = BayesianGPLVM(
        num_dimensions=DIMENSIONS,
        num_inducing=INDUCING,
        posterior=cell.method,
        max_iterations=ITERATIONS,
        random_state=cell.seed,
    ).fit(x)
    seconds = time.process_time() - started
    record = _judged(model.embedding_, oil, model.transform)
    return record | {
        "seconds": seconds,
        "bound": model.learning_curve_[-1].bound_per_point * len(x),
        "iterations": model.n_iter_,
        "relevance": model.relevance_.tolist(),
    }


def _judged(position: FloatArray, oil: dict[str, npt.NDArray[Any]], transform: Any) -> dict[str, Any]:
    label = oil["y_train"]
    record: dict[str, Any] = {f"errors_{q}": leave_one_out_errors(position[:, :q], label) for q in (2, 3, 10)}
    for part in ("test", "valid"):
        other = transform(oil[f"X_{part}"])
        for q in (2, 3):
            record[f"{part}_errors_{q}"] = neighbour_errors(
                position[:, :q], label, other[:, :q], oil[f"y_{part}"]
            )
    return record


def standardised(x: FloatArray) -> FloatArray:
    """Return centred rows divided by one deviation of all values, as the estimator divides them."""
    centred = x - x.mean(axis=0)
    return centred / np.sqrt(np.mean(centred**2))


def gpy_model(x: FloatArray, seed: int) -> Any:
    """Return GPy's model at its own start."""
    import GPy  # noqa: PLC0415 - a peer

    np.random.seed(seed)  # noqa: NPY002 - GPy draws from it
    kernel = GPy.kern.RBF(DIMENSIONS, ARD=True)
    model = GPy.models.BayesianGPLVM(x, DIMENSIONS, num_inducing=INDUCING, kernel=kernel)
    model.likelihood.variance = 0.01  # of the values' variance, which is 1
    return model


def _gpy(x: FloatArray, label: npt.NDArray[Any], seed: int) -> dict[str, Any]:
    """GPy: its bound after 1000 iterations, and the time it takes; the noise held for the first 100."""
    model = gpy_model(standardised(x), seed)
    started = time.process_time()
    model.likelihood.variance.fix()
    model.optimize("lbfgs", max_iters=100)
    model.likelihood.variance.unfix()
    model.likelihood.variance.constrain_positive()
    model.optimize("lbfgs", max_iters=ITERATIONS - 100)
    seconds = time.process_time() - started
    position = model.X.mean.values
    share = np.var(position, axis=0) / model.kern.lengthscale.values**2
    position = position[:, np.argsort(-share, kind="stable")]
    record: dict[str, Any] = {f"errors_{q}": leave_one_out_errors(position[:, :q], label) for q in (2, 3, 10)}
    return record | {
        "seconds": seconds,
        "bound": float(np.ravel(model.log_likelihood())[0]),
        "iterations": ITERATIONS,
    }
