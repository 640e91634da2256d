"""Several targets: a regression network beside a GP of each target and ridge, and the error of sampling."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import numpy as np
import tensorflow as tf
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.autogp.plan import SAMPLES
from benchmarks.autogp.problems import FloatArray
from benchmarks.cell_runner import Cell
from benchmarks.latent_variables.oil_flow import load
from benchmarks.peers.gprn import GPRNRegressor, NetworkMarginals, NetworkPosterior, expected_log_density
from benchmarks.tabular.measures import regression_measures
from gpmodels import SVGPRegressor

TARGETS = 4
"""Columns of oil flow, the last ones, which the others predict."""


def compute(cell: Cell, data: Path) -> dict[str, Any]:
    """Return scores of half of the rows, means over the targets; of a network also the error of sampling."""
    columns = load(data)["X_train"]
    x, test_x, y, test_y = train_test_split(
        columns[:, :-TARGETS], columns[:, -TARGETS:], test_size=0.5, random_state=cell.seed
    )
    started = time.process_time()
    if cell.method == "ridge":
        model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-4, 4, 17))).fit(x, y)
        error = np.square(test_y - model.predict(test_x)).mean(axis=0) / test_y.var(axis=0)
        return {"smse": float(error.mean()), "seconds": time.process_time() - started}
    if cell.method == "SVGP of each target":
        alone = [SVGPRegressor(random_state=cell.seed).fit(x, target) for target in y.T]
        moments = [one.predict(test_x, return_std=True) for one in alone]
        return {"seconds": time.process_time() - started, **_mean_scores(y, test_y, moments)}
    network = GPRNRegressor(int(cell.method.rpartition(" ")[2]), random_state=cell.seed).fit(x, y)
    mean, deviation = network.predict(test_x, return_std=True)
    seconds = time.process_time() - started
    posterior = cast("NetworkPosterior", network.posterior_)
    marginals = posterior.marginals(network.input_scaler_.transform(x))
    targets = network.target_scaler_.transform(y)
    return {
        "seconds": seconds,
        **_mean_scores(y, test_y, zip(mean.T, deviation.T, strict=True)),
        **sampling_errors(marginals, targets, posterior.noise_variance, cell.seed),
    }


def _mean_scores(
    y: FloatArray, test_y: FloatArray, moments: Iterable[tuple[FloatArray, FloatArray]]
) -> dict[str, float]:
    """Return the means over targets of scores; `moments` are each target's means and deviations."""
    measured = [
        regression_measures(theirs, mean, np.square(deviation), own)
        for theirs, own, (mean, deviation) in zip(test_y.T, y.T, moments, strict=True)
    ]
    return {name: float(np.mean([one[name] for one in measured])) for name in ("smse", "nlp")}


def sampling_errors(
    marginals: NetworkMarginals, y: FloatArray, noise_variance: FloatArray, seed: int
) -> dict[str, float]:
    """Return by how much each row's sampled E[log p(y | w, f)] misses the closed form, nats.

    Args:
        marginals: Of N rows, P targets.
        y: Targets, `[N, P]`.
        noise_variance: `[P]`.
        seed: Of the draws.

    Returns:
        `expectation`, the mean over rows of the closed form, and `missed_by_S`, the root mean square over
        rows of its difference to the mean of S draws, for each number in `SAMPLES`.
    """
    rng = np.random.default_rng(seed)
    exact = expected_log_density(marginals, tf.constant(y), tf.constant(noise_variance)).numpy().sum(axis=1)
    w_mean, w_variance, f_mean, f_variance = (part.numpy() for part in marginals)
    errors = {"expectation": float(exact.mean())}
    for count in SAMPLES:
        total = np.zeros(len(y))
        for _ in range(count):
            w = w_mean + np.sqrt(w_variance) * rng.normal(size=w_mean.shape)
            f = f_mean + np.sqrt(f_variance) * rng.normal(size=f_mean.shape)
            squares = np.square(y - np.einsum("npq,nq->np", w, f)) / noise_variance
            total -= 0.5 * (np.log(2.0 * np.pi * noise_variance) + squares).sum(axis=1)
        errors[f"missed_by_{count}"] = float(np.sqrt(np.mean(np.square(total / count - exact))))
    return errors
