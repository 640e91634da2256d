"""Time the prediction of a million points by the folded HGP head against GPflow's `posterior().predict_f`.

    python -m benchmarks.predict_speed --out benchmarks/results/predict_speed

Latent marginals, D = 16, M = 100, T = 9, float32, in batches that bound the memory; the methods take turns
and medians are compared. Folding and GPflow's caching happen once, before. Writes JSON and a Markdown table.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import gpflow
import numpy as np
import tensorflow as tf

from benchmarks.common import host, median_and_spread, peak_memory, write_results
from gpmodels import HGPHead, SVGPHead

NUM_FEATURES, NUM_INDUCING, NUM_EXPERTS, DTYPE = 16, 100, 9, "float32"
PLACING_POINTS = 10_000
GPFLOW = "GPflow posterior().predict_f"

Marginal = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


def gpflow_marginal(rng: np.random.Generator) -> Marginal:
    """Mean and variance by GPflow's cached posterior."""
    with gpflow.config.as_context(gpflow.config.Config(float=np.float32)):
        model = gpflow.models.SVGP(
            gpflow.kernels.SquaredExponential(lengthscales=np.full(NUM_FEATURES, 4.0, DTYPE)),
            gpflow.likelihoods.Bernoulli(),
            rng.standard_normal((NUM_INDUCING, NUM_FEATURES)).astype(DTYPE),
            whiten=True,
        )
        model.q_mu.assign(rng.standard_normal((NUM_INDUCING, 1)).astype(DTYPE))
        posterior = model.posterior()
    return posterior.predict_f


def head_marginal(head: SVGPHead, rng: np.random.Generator) -> Marginal:
    """Mean and variance by a head folded for inference."""
    head.build((None, NUM_FEATURES))
    head.initialize(rng.standard_normal((PLACING_POINTS, NUM_FEATURES)))
    for units in [head.global_unit, *([head.experts] if isinstance(head, HGPHead) else [])]:
        # Away from the prior, whose rows the folding leaves out altogether.
        units.q_mean.assign(rng.standard_normal(units.q_mean.shape))
        roots = np.tril(0.05 * rng.standard_normal(units.q_sqrt.shape)) + 0.5 * np.eye(NUM_INDUCING)
        units.q_sqrt.assign(roots)
    latent = head.for_inference()
    return lambda points: latent(points)[:2]


def compiled(marginal: Marginal) -> Marginal:
    """One graph for batches of any length."""
    signature = [tf.TensorSpec([None, NUM_FEATURES], DTYPE)]
    return tf.function(marginal, input_signature=signature, autograph=False)


def predict_all(marginal: Marginal, points: np.ndarray, batch: int) -> np.ndarray:
    """Mean and variance of every point, `[2, N]`."""
    outputs = np.empty([2, len(points)], DTYPE)
    for start in range(0, len(points), batch):
        part = slice(start, start + batch)
        for row, value in zip(outputs, marginal(tf.constant(points[part])), strict=True):
            row[part] = value.numpy()[:, 0]
    return outputs


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/predict_speed"))
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, nargs="+", default=[5000, 20_000])
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()

    rng = np.random.default_rng(0)
    experts, inducing = NUM_EXPERTS, NUM_INDUCING
    methods = {
        GPFLOW: gpflow_marginal(rng),
        "SVGPHead, folded": head_marginal(SVGPHead(num_inducing=inducing, dtype=DTYPE), rng),
        f"HGPHead T={experts}, folded": head_marginal(
            HGPHead(num_experts=experts, num_inducing=inducing, dtype=DTYPE), rng
        ),
    }
    graphs = {name: compiled(marginal) for name, marginal in methods.items()}
    points = rng.standard_normal((arguments.points, NUM_FEATURES), DTYPE)
    rows = []
    for batch in arguments.batches:
        for graph in graphs.values():
            predict_all(graph, points[: 2 * batch], batch)
        before = peak_memory()
        seconds: dict[str, list[float]] = {name: [] for name in graphs}
        for _ in range(arguments.rounds):
            for name, graph in graphs.items():
                started = time.perf_counter()
                predict_all(graph, points, batch)
                seconds[name].append(time.perf_counter() - started)
        reference = np.median(seconds[GPFLOW])
        for name, values in seconds.items():
            middle, spread = median_and_spread(values)
            rows.append(
                {
                    "batch": batch,
                    "method": name,
                    "seconds": round(middle, 3),
                    "interquartile range": round(spread, 3),
                    "over GPflow": round(middle / reference, 2),
                    "MiB more than for two batches": round(peak_memory() - before),
                }
            )
    sizes = f"D = {NUM_FEATURES}, M = {NUM_INDUCING}, {DTYPE}"
    write_results(
        arguments.out, title=f"Prediction of {arguments.points} points, {sizes}", rows=rows, host=host()
    )


if __name__ == "__main__":
    main()
