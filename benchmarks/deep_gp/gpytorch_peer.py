"""GPyTorch's deep GP from the start that ours has: inducing inputs, lengthscales, mean functions and noise.

Its tutorial starts from random inducing points and covariances, from which 5000 steps lead to worse models;
here only model and training differ. Its linear means are trained, as in the tutorial, from the identity. Adam
moves everything, with the cosine schedule of ours.
"""

from __future__ import annotations

import time
from typing import Any

import gpytorch
import numpy as np
import numpy.typing as npt
import torch
from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

from gpmodels.deep_gp.head import INNER_ROOT
from gpmodels.estimators.deep.deep_gp import START_NOISE_VARIANCE
from gpmodels.units.placement import place_global

FloatArray = npt.NDArray[np.float64]

PREDICTION_SAMPLES = 16


class _Layer(DeepGPLayer):
    """W functions of D inputs, or one function of the last layer, whose inducing inputs are each its own."""

    def __init__(self, inducing: FloatArray, lengthscales: FloatArray, width: int | None) -> None:
        shape = torch.Size([] if width is None else [width])
        start = torch.tensor(inducing, dtype=torch.float32).expand(*shape, *inducing.shape).clone()
        distribution = CholeskyVariationalDistribution(len(inducing), batch_shape=shape, mean_init_std=0.0)
        strategy = VariationalStrategy(self, start, distribution, learn_inducing_locations=True)
        super().__init__(strategy, inducing.shape[1], width)
        with torch.no_grad():
            root = 1.0 if width is None else INNER_ROOT
            distribution.chol_variational_covar.copy_(root * torch.eye(len(inducing)).expand(*shape, -1, -1))
            strategy.variational_params_initialized.fill_(1)
        if width is None:
            self.mean_module: Any = gpytorch.means.ConstantMean(batch_shape=shape)
        else:
            self.mean_module = gpytorch.means.LinearMean(inducing.shape[1], batch_shape=shape, bias=True)
            with torch.no_grad():
                self.mean_module.weights.copy_(torch.eye(inducing.shape[1])[:width, :, None])
                self.mean_module.bias.zero_()
        kernel = gpytorch.kernels.RBFKernel(batch_shape=shape, ard_num_dims=inducing.shape[1])
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel, batch_shape=shape)
        kernel.lengthscale = torch.tensor(lengthscales, dtype=torch.float32).expand(*shape, 1, -1)
        self.covar_module.outputscale = 1.0

    def forward(self, x: torch.Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class _DeepGP(DeepGP):
    """L layers of as many functions as there are columns, and one on top."""

    def __init__(self, x: FloatArray, num_layers: int, num_inducing: int, seed: int) -> None:
        super().__init__()
        centres, lengthscales = place_global(x, num_inducing, np.random.default_rng(seed))
        width = x.shape[1]
        inner = [_Layer(centres[0], lengthscales[0], width) for _ in range(num_layers - 1)]
        self.inner = torch.nn.ModuleList(inner)
        self.last = _Layer(centres[0], lengthscales[0], None)
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()
        self.likelihood.noise = START_NOISE_VARIANCE

    def forward(self, x: torch.Tensor) -> Any:
        for layer in self.inner:
            x = layer(x)
        return self.last(x)


class DeepGPPeer:
    """A model and its training.

    Args:
        x: Standardised inputs, `[N, D]`.
        y: Standardised targets, `[N]`.
        num_layers: L.
        num_inducing: M.
        steps: Steps of the schedule.
        learning_rate: Of Adam, at the start.
        batch_size: Rows of a step.
        seed: Of centres, noise and batches.
    """

    def __init__(
        self,
        x: FloatArray,
        y: FloatArray,
        *,
        num_layers: int,
        num_inducing: int,
        steps: int,
        learning_rate: float,
        batch_size: int,
        seed: int,
    ) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self._model = _DeepGP(x, num_layers, num_inducing, seed)
        self._x = torch.tensor(x, dtype=torch.float32)
        self._y = torch.tensor(y, dtype=torch.float32)
        self._batch_size = batch_size
        bound = gpytorch.mlls.VariationalELBO(self._model.likelihood, self._model, num_data=len(y))
        self._bound = gpytorch.mlls.DeepApproximateMLL(bound)
        self._optimizer = torch.optim.Adam(self._model.parameters(), lr=learning_rate)
        self._schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self._optimizer, steps)

    def step(self) -> float:
        """Take one step on random rows; return minus the bound per point."""
        rows = torch.randint(len(self._y), (self._batch_size,))
        self._optimizer.zero_grad()
        with gpytorch.settings.num_likelihood_samples(1), gpytorch.settings.cholesky_jitter(1e-5, 1e-6):
            loss = -self._bound(self._model(self._x[rows]), self._y[rows])
            loss.backward()
        self._optimizer.step()
        self._schedule.step()
        return float(loss.detach())

    def fit(self, steps: int) -> float:
        """Train; return the seconds of it."""
        started = time.process_time()
        for _ in range(steps):
            self.step()
        return time.process_time() - started

    def predict(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of the noisy target at each sample, `[S, N]` each."""
        self._model.eval()
        means, variances = [], []
        for block in torch.tensor(x, dtype=torch.float32).split(1000):
            with torch.no_grad(), gpytorch.settings.num_likelihood_samples(PREDICTION_SAMPLES):
                output = self._model.likelihood(self._model(block))
                means.append(output.mean.numpy())
                variances.append(output.variance.numpy())
        self._model.train()
        return tuple(np.concatenate(part, axis=-1).astype(np.float64) for part in (means, variances))
