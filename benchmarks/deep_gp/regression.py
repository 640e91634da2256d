"""Tables with an official split: negative log density of the standardised target, and squared error."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from scipy.special import logsumexp

from benchmarks.deep_gp.plan import BATCH, DRAWS, INDUCING, STEPS, Cell
from gpmodels import DeepGPRegressor, DFGPRegressor, SVGPRegressor

FloatArray = npt.NDArray[np.float64]


def load(data: Path, name: str) -> dict[str, FloatArray]:
    """Return the parts of a set, standardised by its training part."""
    path = data / "tabular" / f"{name}.npz"
    if not path.exists():
        raise SystemExit(f"{path} is missing; expected a file with X_train, y_train, X_test and y_test.")
    with np.load(path) as file:
        parts = {key: file[key].astype(np.float64) for key in ("X_train", "y_train", "X_test", "y_test")}
    scaled = {}
    for kind in "Xy":
        mean, deviation = parts[f"{kind}_train"].mean(axis=0), parts[f"{kind}_train"].std(axis=0)
        deviation = np.where(deviation > 0.0, deviation, 1.0)
        scaled |= {
            f"{kind}_{part}": (parts[f"{kind}_{part}"] - mean) / deviation for part in ("train", "test")
        }
    return scaled


def judged(means: FloatArray, variances: FloatArray, target: FloatArray) -> dict[str, float]:
    """Return scores of equal mixtures of Gaussians `[S, N]`, whose density is no mean of logarithms."""
    log_densities = -0.5 * (np.log(2.0 * np.pi * variances) + (target - means) ** 2 / variances)
    log_density = logsumexp(log_densities, axis=0) - np.log(len(means))
    error = np.mean((target - means.mean(axis=0)) ** 2)
    return {"nlp": float(-log_density.mean()), "smse": float(error / target.var())}


def compute(cell: Cell, data: Path) -> dict[str, Any]:
    """Fit and judge one model."""
    return fit_and_judge(cell, load(data, cell.data))


def fit_and_judge(cell: Cell, parts: dict[str, FloatArray]) -> dict[str, Any]:
    """Fit one model to the training part, and judge it by the test part."""
    if cell.model == "gpytorch":
        return _gpytorch(cell, parts)
    # One thread, as the peer.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    model = _own(cell)
    started = time.process_time()
    model.fit(parts["X_train"], parts["y_train"])
    seconds = time.process_time() - started
    engine = model._trained_engine()
    x = (parts["X_test"] - model.input_mean_) / model.input_scale_
    means, variances = [], []
    noise = float(engine.head.likelihood.noise_variance[0])
    for block in np.array_split(x, -(-len(x) // 1000)):
        latent = engine.head.latent(tf.constant(block, engine.dtype))
        shape = [-1, len(block)]
        means.append(np.reshape(latent.mean.numpy().astype(np.float64), shape))
        variances.append(np.reshape(latent.variance.numpy().astype(np.float64), shape) + noise)
    joined = [np.concatenate(part, axis=1) for part in (means, variances)]
    bound = float(np.mean([point.bound_per_point for point in model.learning_curve_[-50:]]))
    return judged(*joined, parts["y_test"]) | {"seconds": seconds, "bound": bound, "noise": noise}


def _own(cell: Cell) -> Any:
    shared = {
        "optimizer": "adam",
        "max_iterations": STEPS,
        "batch_size": BATCH,
        "early_stopping": False,
        "random_state": cell.seed,
        "dtype": "float32",
    }
    if cell.model.startswith("svgp"):
        return SVGPRegressor(num_inducing=int(cell.model.split("_")[1]), **shared)
    if cell.model == "dfgp":
        return DFGPRegressor(num_hidden=8, num_inducing=INDUCING, **shared)
    return DeepGPRegressor(
        approximation="random_features" if cell.model == "random_features" else "sparse",
        num_layers=cell.layers,
        num_inducing=INDUCING,
        num_features=DRAWS,
        learning_rate=cell.learning_rate,
        inner_kernels="separate" if cell.model == "deep_gp_separate" else "shared",
        natural_gradient=0.0 if cell.model == "deep_gp_adam" else 0.1,
        **shared,
    )


def _gpytorch(cell: Cell, parts: dict[str, FloatArray]) -> dict[str, Any]:
    peer = gpytorch_peer(cell, parts)
    seconds = peer.fit(STEPS)
    return judged(*peer.predict(parts["X_test"]), parts["y_test"]) | {"seconds": seconds}


def gpytorch_peer(cell: Cell, parts: dict[str, FloatArray]) -> Any:
    """Return GPyTorch's model at its start."""
    from benchmarks.deep_gp.gpytorch_peer import DeepGPPeer  # noqa: PLC0415 - a peer

    return DeepGPPeer(
        parts["X_train"],
        parts["y_train"],
        num_layers=cell.layers,
        num_inducing=INDUCING,
        steps=STEPS,
        learning_rate=cell.learning_rate,
        batch_size=BATCH,
        seed=cell.seed,
    )
