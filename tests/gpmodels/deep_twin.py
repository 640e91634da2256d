"""Random DFGP heads, and a slow NumPy twin that knows nothing of Ψ statistics: it integrates over b."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from scipy import special, stats

from gpmodels import DFGPHead

from . import reference
from .random_units import as_reference, randomize_mean

ORDER = 40
"""Gauss-Hermite nodes in each dimension of b."""


def random_dfgp(num_features: int = 3, seed: int = 0, **settings: Any) -> DFGPHead:
    """A built head in float64, without a linear mean unless told otherwise, at random values of order one."""
    sizes = {"num_hidden": 2, "num_inducing": 4, "num_hidden_inducing": 3}
    settings = sizes | {"dtype": "float64", "mean": "none"} | settings
    if settings.get("views") is not None:
        settings.pop("num_hidden")
    head = DFGPHead(**settings)
    head.build((None, num_features))
    rng = np.random.default_rng(seed)
    units, outputs = head.hidden.units, head.outputs
    units.inducing_inputs.assign(rng.normal(size=units.inducing_inputs.shape))
    units.lengthscales.assign(rng.uniform(0.8, 2.0, units.lengthscales.shape))
    units.q_mean.assign(rng.normal(size=units.q_mean.shape))
    if not head.hidden.is_point:
        units.q_sqrt.assign(_triangular(rng, units.q_sqrt.shape))
    if not outputs.is_linear:
        outputs.inducing_inputs.assign(rng.normal(size=outputs.inducing_inputs.shape))
    kernel = outputs.kernel
    for name in ("variance", "weights", "lengthscale"):
        if hasattr(kernel, name):
            parameter = getattr(kernel, name)
            parameter.assign(rng.uniform(0.6, 1.6, parameter.shape))
    if hasattr(kernel, "inverse_root"):
        kernel.inverse_root.assign(_triangular(rng, kernel.inverse_root.shape))
    outputs.q_mean.assign(rng.normal(size=outputs.q_mean.shape))
    outputs.q_sqrt.assign(_triangular(rng, outputs.q_sqrt.shape))
    noise = head.likelihood.noise_variance
    noise.assign(rng.uniform(0.2, 1.0, noise.shape))
    if head.linear_mean is not None:
        randomize_mean(head.linear_mean, rng)
    return head


def _triangular(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.tril(0.4 * rng.normal(size=shape)) + 0.6 * np.eye(shape[-1])


def hidden_twin(head: DFGPHead, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of b at one point, `[ν]` each."""
    moments = []
    for r, unit in enumerate(as_reference(head.hidden.units)):
        columns = slice(None) if head.views is None else list(head.views[r])
        # A column of zeros is what fills up a short view.
        seen = np.zeros(head.hidden.width)
        seen[: len(x[columns])] = x[columns]
        moments.append(reference.global_marginal(unit, seen))
    return tuple(np.array(moments).T)


def output_covariance(head: DFGPHead, p: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """κ(a_i, b_j) of output function p, `[..., i, j]`."""
    kernel = head.outputs.kernel
    j = p if kernel.num_kernels > 1 else 0
    if head.output_kernel == "linear":
        return (a * kernel.weights.numpy()[j]) @ np.swapaxes(b, -1, -2)
    if head.output_kernel == "full":
        root = kernel.inverse_root.numpy()[j]
    else:
        root = np.diag(1.0 / np.broadcast_to(kernel.lengthscale.numpy()[j], a.shape[-1:]))
    difference = (a[..., :, None, :] - b[..., None, :, :]) @ root.T
    return kernel.variance.numpy()[j] * np.exp(-0.5 * (difference**2).sum(axis=-1))


def output_posterior(head: DFGPHead, p: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Z, K_ZZ and the moments m, S of u itself, not whitened."""
    inducing = head.outputs.inducing_inputs.numpy()[p]
    covariance = output_covariance(head, p, inducing, inducing) + head.outputs.jitter * np.eye(len(inducing))
    root = np.linalg.cholesky(covariance)
    spread = root @ head.outputs.q_sqrt.numpy()[p]
    return inducing, covariance, root @ head.outputs.q_mean.numpy()[p], spread @ spread.T


def latent_twin(head: DFGPHead, x: np.ndarray, p: int = 0) -> tuple[float, float]:
    """μ and v of output function p at one point, by quadrature over b."""
    mean, variance = hidden_twin(head, x)
    inducing, covariance, m, s = output_posterior(head, p)
    nodes, weights = np.polynomial.hermite_e.hermegauss(ORDER)
    grid = np.array(list(itertools.product(range(ORDER), repeat=len(mean))))
    weight = (weights / weights.sum())[grid].prod(axis=1)
    b = mean + np.sqrt(variance) * nodes[grid]
    k = output_covariance(head, p, b, inducing)
    a = np.linalg.solve(covariance, k.T).T
    own = output_covariance(head, p, b[:, None], b[:, None])[:, 0, 0]
    f = a @ m
    first = weight @ f
    second = weight @ (f**2 + own - (a * k).sum(axis=1) + np.einsum("bi,ij,bj->b", a, s, a))
    return first, second - first**2


def output_kl(head: DFGPHead, p: int) -> float:
    """KL(N(m, S) ‖ N(0, K_ZZ))."""
    _, covariance, m, s = output_posterior(head, p)
    trace = np.trace(np.linalg.solve(covariance, s)) + m @ np.linalg.solve(covariance, m)
    return 0.5 * (trace - len(m) + np.linalg.slogdet(covariance)[1] - np.linalg.slogdet(s)[1])


def hidden_divergence(head: DFGPHead) -> float:
    """Σ KL(q(a_r) ‖ p(a_r)), or -Σ log N(c_r | 0, K_r)."""
    units = as_reference(head.hidden.units)
    if not head.hidden.is_point:
        return sum(unit.kl() for unit in units)
    total = 0.0
    for unit in units:
        prior = stats.multivariate_normal(np.zeros(len(unit.q_mean)), unit.inducing_covariance)
        total -= prior.logpdf(unit.posterior()[0])
    return total


def sampled_log_evidence(
    head: DFGPHead, x: np.ndarray, y: np.ndarray, rng: np.random.Generator, draws: int, *, given_hidden: bool
) -> tuple[float, float]:
    """log p(y), or log p(y | A = C), by sampling b (and f for classes); with its standard error."""
    size = len(x)
    columns = []
    for unit in as_reference(head.hidden.units):
        mean, covariance = np.zeros(size), unit.covariance(x, x)
        if given_hidden:
            cross = unit.covariance(x, unit.inducing)
            gain = np.linalg.solve(unit.inducing_covariance, cross.T).T
            mean, covariance = gain @ unit.posterior()[0], covariance - gain @ cross.T
        columns.append(rng.multivariate_normal(mean, covariance, draws, method="eigh"))
    b = np.stack(columns, axis=-1)  # [draws, N, ν]
    noise = float(head.likelihood.noise_variance.numpy()[0])
    covariance = output_covariance(head, 0, b, b)
    if head.is_classifier:
        root = np.linalg.cholesky(covariance + 1e-10 * np.eye(size))
        z = (2 * y - 1)[:, None] * (root @ rng.normal(size=(draws, size, 20))) / math.sqrt(1.0 + noise)
        densities = special.ndtr(z).prod(axis=1).mean(axis=1)
    else:
        root = np.linalg.cholesky(covariance + noise * np.eye(size))
        solved = np.linalg.solve(root, np.broadcast_to(y[:, None], (draws, size, 1)))[..., 0]
        log_det = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        densities = np.exp(-0.5 * (solved**2).sum(axis=1) - log_det - 0.5 * size * math.log(2 * math.pi))
    return math.log(densities.mean()), float(densities.std() / densities.mean() / math.sqrt(draws))
