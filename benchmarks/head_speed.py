"""Time one training step of the heads against the SVGP of GPflow and of GPyTorch, as ratios in one run.

    python -m benchmarks.head_speed --out benchmarks/results/head_speed

A step is the loss and its gradient, for two classes. Rounds of all methods are interleaved and the medians
compared, so that a machine that slows down slows all of them. The gradient is with respect to the weights, as
GPflow's; `--features` adds the one with respect to the features, which training a network below the head
needs. GPyTorch (extra `peers`) is left out where it is not installed. Writes JSON and a Markdown table.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# PyTorch's threads would otherwise wait for work by spinning, and take the processor from the next method.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from benchmarks.common import host, median_and_spread, write_results
from gpmodels import HGPHead, SVGPHead
from gpmodels.heads.base import Head

NUM_DATA = 1_000_000
SIZES = ((1024, 16, 50), (5000, 64, 50), (1024, 64, 200), (20000, 16, 100))
EXPERTS = (3, 9, 30)
PLACING_POINTS = 10_000
GPFLOW, GPYTORCH = "GPflow SVGP", "GPyTorch SVGP"


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


def gpytorch_step(x: tf.Tensor, y: tf.Tensor, num_inducing: int) -> Callable[[], object]:
    """Loss and gradient of GPyTorch's SVGP with a Bernoulli (probit) likelihood."""
    import gpytorch  # noqa: PLC0415 - may be absent
    import torch  # noqa: PLC0415 - may be absent

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self, inducing: torch.Tensor) -> None:
            distribution = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
            super().__init__(gpytorch.variational.VariationalStrategy(self, inducing, distribution))
            self.mean_module = gpytorch.means.ZeroMean()
            kernel = gpytorch.kernels.RBFKernel(ard_num_dims=inducing.shape[1])
            self.covar_module = gpytorch.kernels.ScaleKernel(kernel)
            kernel.lengthscale = 8.0

        def forward(self, points: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
            mean, covariance = self.mean_module(points), self.covar_module(points)
            return gpytorch.distributions.MultivariateNormal(mean, covariance)

    inputs, labels = torch.tensor(x.numpy()), torch.tensor(y.numpy())
    model = Model(inputs[:num_inducing].clone()).to(inputs.dtype)
    likelihood = gpytorch.likelihoods.BernoulliLikelihood()
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=NUM_DATA)
    parameters = list(model.parameters())

    def step() -> object:
        model.zero_grad()
        (-objective(model(inputs), labels)).backward()
        return [parameter.grad for parameter in parameters]

    step()
    return step


def head_step(head: Head, x: tf.Tensor, y: tf.Tensor, *, features: bool) -> Callable[[], object]:
    """Loss and gradient of a head on the same points, for its weights and, if asked, for the features."""
    head.build(tuple(x.shape))
    rng = np.random.default_rng(1)
    head.initialize(rng.standard_normal((PLACING_POINTS, x.shape[1])))

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
    """Seconds of each step in each round, the methods taking turns.

    The step before the timed one brings back the caches that another method has filled.
    """
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            step()
            started = time.perf_counter()
            tf.nest.map_structure(lambda value: value.numpy() if tf.is_tensor(value) else value, step()[-1:])
            seconds[name].append(time.perf_counter() - started)
    return seconds


def make_steps(
    size: tuple[int, int, int], dtype: str, *, features: bool, with_gpytorch: bool
) -> dict[str, Callable[[], object]]:
    """Every method's step at a size (B, D, M)."""
    batch, num_features, inducing = size
    rng = np.random.default_rng(0)
    x = tf.constant(rng.standard_normal((batch, num_features)), dtype)
    y = tf.constant(rng.integers(0, 2, batch), dtype)
    steps = {GPFLOW: gpflow_step(x, y, inducing, dtype)}
    if with_gpytorch:
        steps[GPYTORCH] = gpytorch_step(x, y, inducing)
    for suffix, mean in (("", "linear"), (" without a mean", "none")):
        options: dict[str, Any] = {"num_inducing": inducing, "mean": mean, "dtype": dtype}
        steps[f"SVGPHead{suffix}"] = head_step(SVGPHead(**options), x, y, features=features)
        for experts in EXPERTS if mean == "linear" else (9,):
            head = HGPHead(num_experts=experts, **options)
            steps[f"HGPHead T={experts}{suffix}"] = head_step(head, x, y, features=features)
    return steps


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/head_speed"))
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--features", action="store_true")
    parser.add_argument("--dtypes", nargs="+", choices=("float32", "float64"), default=["float32", "float64"])
    arguments = parser.parse_args()

    with_gpytorch = importlib.util.find_spec("gpytorch") is not None
    rows = []
    for dtype in arguments.dtypes:
        for size in SIZES:
            steps = make_steps(size, dtype, features=arguments.features, with_gpytorch=with_gpytorch)
            seconds = measure(steps, arguments.rounds)
            for name, values in seconds.items():
                middle, spread = median_and_spread(values)
                row = {
                    "dtype": dtype,
                    "B, D, M": ", ".join(map(str, size)),
                    "method": name,
                    "milliseconds": round(1e3 * middle, 2),
                    "interquartile range": round(1e3 * spread, 2),
                    "over GPflow SVGP": round(middle / np.median(seconds[GPFLOW]), 2),
                }
                if with_gpytorch:
                    row["over GPyTorch SVGP"] = round(middle / np.median(seconds[GPYTORCH]), 2)
                rows.append(row)
    title = "Training step" + ("" if with_gpytorch else " (GPyTorch is not installed)")
    write_results(arguments.out, title=title, rows=rows, host=host("torch", "gpytorch"))


if __name__ == "__main__":
    main()
