"""GPyTorch's SVGP with Adam: its learning rate is chosen on held-out training data.

Same kernel, whitening and k-means start as GPflow's. Full batch up to 5000 points, else mini-batches of 1024.
The trials of the learning rate count as training time; a time-accuracy curve leaves
them out.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import gpytorch
import numpy as np
import torch

from benchmarks.tabular.problem import (
    RECORDING_INTERVAL,
    FloatArray,
    Predict,
    Problem,
    kmeans_centres,
    split_off,
)

LEARNING_RATES = (0.01, 0.03, 0.1)
HELD_OUT = 0.2
STEPS, TRIAL_STEPS = 2000, 200
FULL_BATCH, MINI_BATCH = 5000, 1024


class _SVGP(gpytorch.models.ApproximateGP):
    """C latent functions with a shared SE-ARD kernel and zero mean."""

    def __init__(self, inducing: torch.Tensor, num_latent: int) -> None:
        num_inducing, num_features = inducing.shape
        shape = torch.Size([num_latent]) if num_latent > 1 else torch.Size()
        strategy: Any = gpytorch.variational.VariationalStrategy(
            self,
            inducing.expand(*shape, num_inducing, num_features).clone(),
            gpytorch.variational.CholeskyVariationalDistribution(num_inducing, batch_shape=shape),
        )
        if num_latent > 1:
            strategy = gpytorch.variational.IndependentMultitaskVariationalStrategy(strategy, num_latent)
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ZeroMean(batch_shape=shape)
        self.covar_module = gpytorch.kernels.ScaleKernel(
            gpytorch.kernels.RBFKernel(ard_num_dims=num_features)
        )
        self.covar_module.base_kernel.lengthscale = num_features**0.5
        self.covar_module.outputscale = 1.0

    def forward(self, inputs: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(inputs), self.covar_module(inputs))


class _Training:
    """A model, its likelihood, and the steps of Adam on given rows."""

    def __init__(self, problem: Problem, centres: FloatArray, rows: Any, learning_rate: float) -> None:
        torch.manual_seed(problem.seed)
        self.num_classes = problem.num_classes
        self.model = _SVGP(
            torch.tensor(centres), problem.num_classes if problem.num_classes > 2 else 1
        ).double()
        self.likelihood = _likelihood(problem.num_classes).double()
        self.inputs = torch.tensor(problem.inputs[rows])
        labels = torch.tensor(problem.targets[rows])
        self.labels = labels if problem.num_classes > 2 else labels.double()
        self.objective = gpytorch.mlls.VariationalELBO(self.likelihood, self.model, num_data=len(rows))
        self.optimizer = torch.optim.Adam(
            [*self.model.parameters(), *self.likelihood.parameters()], lr=learning_rate
        )

    def step(self) -> float:
        """One step of Adam; its loss, nats per point."""
        self.model.train()
        self.likelihood.train()
        inputs, labels = self.inputs, self.labels
        if len(labels) > FULL_BATCH:
            chosen = torch.randint(len(labels), (MINI_BATCH,))
            inputs, labels = inputs[chosen], labels[chosen]
        self.optimizer.zero_grad()
        loss = -self.objective(self.model(inputs), labels)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def predict(self, points: FloatArray) -> FloatArray:
        """Probabilities `[N, C]`, or mean and variance `[N, 2]`."""
        self.model.eval()
        self.likelihood.eval()
        with torch.no_grad(), gpytorch.settings.num_likelihood_samples(500):
            blocks = np.array_split(points, -(-len(points) // 5000))
            return np.concatenate([self._predict(torch.tensor(block)) for block in blocks])

    def _predict(self, block: torch.Tensor) -> FloatArray:
        marginal = self.likelihood(self.model(block))
        if self.num_classes == 0:
            return torch.stack([marginal.mean, marginal.variance], dim=1).numpy()
        if self.num_classes == 2:
            return torch.stack([1.0 - marginal.mean, marginal.mean], dim=1).numpy()
        return marginal.probs.mean(dim=0).numpy()  # over samples of the latent functions


def fit_gpytorch_svgp(problem: Problem) -> Predict:
    """Choose the learning rate, then train on everything; the rate falls along a cosine."""
    steps = problem.max_iterations or STEPS
    centres = kmeans_centres(problem)
    with gpytorch.settings.cholesky_jitter(double_value=1e-6):
        with problem.clock.paused() if problem.record is not None else nullcontext():
            losses = {
                rate: _trial(problem, centres, rate, min(steps, TRIAL_STEPS)) for rate in LEARNING_RATES
            }
        rate = min(losses, key=lambda key: losses[key])
        training = _Training(problem, centres, np.arange(len(problem.targets)), rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(training.optimizer, steps)
        if problem.record is not None:
            problem.record(0, training.predict)
        for step in range(1, steps + 1):
            training.step()
            schedule.step()
            if problem.record is not None and step % RECORDING_INTERVAL == 0:
                problem.record(step, training.predict)
    problem.notes.update(
        iterations=steps,
        learning_rate=rate,
        batch="full" if len(problem.targets) <= FULL_BATCH else MINI_BATCH,
    )
    return training.predict


def _trial(problem: Problem, centres: FloatArray, rate: float, steps: int) -> float:
    """Loss of held-out training points after a short run; infinite where the run broke down."""
    rows, held = split_off(problem, HELD_OUT)
    training = _Training(problem, centres, rows, rate)
    try:
        for _ in range(steps):
            training.step()
        outputs = training.predict(problem.inputs[held])
    except (ValueError, RuntimeError, ArithmeticError):  # NaN, or a covariance that cannot be factorised
        return float("inf")
    truth = problem.targets[held]
    if problem.num_classes:
        of_truth = np.take_along_axis(outputs, truth[:, None].astype(np.intp), axis=1)
        loss = -np.log(np.maximum(of_truth, 1e-15)).mean()
    else:
        mean, variance = outputs.T
        loss = (np.log(variance) + (truth - mean) ** 2 / variance).mean()
    return float(loss) if np.isfinite(loss) else float("inf")


def _likelihood(num_classes: int) -> Any:
    if num_classes == 0:
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        likelihood.noise = 0.1
        return likelihood
    if num_classes == 2:
        return gpytorch.likelihoods.BernoulliLikelihood()
    return gpytorch.likelihoods.SoftmaxLikelihood(
        num_features=num_classes, num_classes=num_classes, mixing_weights=False
    )
