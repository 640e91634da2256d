"""Time one training step of the heads against GPflow's own SVGP, forward and backward, as ratios in one run.

    python benchmarks/head_speed.py --out benchmarks/results/head_speed

Rounds of all methods are interleaved and the medians compared, so that a machine that slows down slows all of
them. The gradient is with respect to the weights, as GPflow's; `--features` adds the one with respect to the
features, which training a network below the head needs. Writes JSON and a Markdown table.
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
from common import host, median_and_spread, write_results

from gpmodels import HGPHead, SVGPHead
from gpmodels.head import Head

NUM_DATA = 1_000_000


def gpflow_step(x: tf.Tensor, y: tf.Tensor, num_inducing: int, dtype: str) -> Callable[[], object]:
    """Loss and gradient of GPflow's SVGP with a Bernoulli (probit) likelihood."""
    with gpflow.config.as_context(gpflow.config.Config(float=getattr(np, dtype))):
        kernel = gpflow.kernels.SquaredExponential(lengthscales=np.full(x.shape[1], 8.0, dtype))
        model = gpflow.models.SVGP(
            kernel, gpflow.likelihoods.Bernoulli(), x[:num_inducing].numpy(), num_data=NUM_DATA, whiten=True
        )
        variables = model.trainable_variables

        @tf.function
        def step() -> object:
            with tf.GradientTape() as tape:
                loss = -model.elbo((x, y[:, None]))
            return tape.gradient(loss, variables)

        step()
    return step


def head_step(head: Head, x: tf.Tensor, y: tf.Tensor, *, features: bool) -> Callable[[], object]:
    """Loss and gradient of a head on the same points, for its weights and, if asked, for the features."""
    head.build(tuple(x.shape))
    head.initialize(x.numpy()[:5000])

    @tf.function
    def step() -> object:
        with tf.GradientTape() as tape:
            if features:
                tape.watch(x)
            loss = tf.reduce_sum(head.prior_kl()) / NUM_DATA - tf.reduce_mean(
                head.expected_log_likelihood(head.latent(x), y)
            )
        sources = [v.value for v in head.trainable_variables]
        return tape.gradient(loss, [*sources, x] if features else sources)

    step()
    return step


def measure(steps: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each step in each round, the methods taking turns."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            started = time.perf_counter()
            tf.nest.map_structure(lambda value: value.numpy() if tf.is_tensor(value) else value, step()[-1:])
            seconds[name].append(time.perf_counter() - started)
    return seconds


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/head_speed"))
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--features", action="store_true")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    arguments = parser.parse_args()

    rows = []
    for batch, features, inducing in ((5000, 64, 50), (1024, 16, 50), (20000, 16, 100)):
        rng = np.random.default_rng(0)
        x = tf.constant(rng.standard_normal((batch, features)), arguments.dtype)
        y = tf.constant(rng.integers(0, 2, batch), arguments.dtype)
        steps = {"GPflow SVGP": gpflow_step(x, y, inducing, arguments.dtype)}
        steps["SVGPHead"] = head_step(
            SVGPHead(num_inducing=inducing, dtype=arguments.dtype), x, y, features=arguments.features
        )
        for experts in (3, 9, 30):
            head = HGPHead(num_experts=experts, num_inducing=inducing, dtype=arguments.dtype)
            steps[f"HGPHead T={experts}"] = head_step(head, x, y, features=arguments.features)
        seconds = measure(steps, arguments.rounds)
        reference = np.median(seconds["GPflow SVGP"])
        for name, values in seconds.items():
            middle, spread = median_and_spread(values)
            rows.append(
                {
                    "B, D, M": f"{batch}, {features}, {inducing}",
                    "method": name,
                    "milliseconds": round(1e3 * middle, 2),
                    "interquartile range": round(1e3 * spread, 2),
                    "over GPflow SVGP": round(middle / reference, 2),
                }
            )
    write_results(arguments.out, title=f"Training step, {arguments.dtype}", rows=rows, host=host())


if __name__ == "__main__":
    main()
