"""Random parameters for the tests of units and heads, and their description for the NumPy twins."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np

from gpmodels import HGPHead
from gpmodels.heads.gp import GPHead
from gpmodels.likelihoods.gaussian import GaussianLikelihood
from gpmodels.units.linear_mean import LinearMean
from gpmodels.units.sparse import SparseUnits

from . import reference


def randomize(units: SparseUnits, rng: np.random.Generator) -> None:
    """Draw every parameter anew, kernels and posteriors for each latent function; q is well off the prior."""
    count, size, features = units.inducing_inputs.shape
    units.place(
        rng.normal(size=(count, size, features)) + 1.5 * rng.normal(size=(count, 1, features)),
        np.ones((count, features)),
    )
    units.lengthscales.assign(rng.uniform(0.7, 2.0, size=units.lengthscales.shape))
    units.variance.assign(rng.uniform(0.5, 2.0, size=units.variance.shape))
    units.q_mean.assign(rng.normal(size=units.q_mean.shape))
    units.q_sqrt.assign(np.tril(0.4 * rng.normal(size=units.q_sqrt.shape)) + 0.6 * np.eye(size))


def latent_twins(units: SparseUnits, kernel: str = "squared_exponential") -> list[list[reference.Unit]]:
    """NumPy twins `[K][P]`: one for each latent function of each unit, with the kernel it uses."""
    inducing, lengthscales, variance, means, roots = (
        np.asarray(parameter.numpy(), "float64") for parameter in parameters(units)
    )

    def twin(k: int, p: int) -> reference.Unit:
        j = p if lengthscales.shape[1] > 1 else 0
        return reference.Unit(
            kernel, inducing[k], lengthscales[k, j], variance[k, j], means[k, p], roots[k, p], units.jitter
        )

    return [[twin(k, p) for p in range(means.shape[1])] for k in range(len(inducing))]


def as_reference(units: SparseUnits, kernel: str = "squared_exponential") -> list[reference.Unit]:
    """One NumPy twin for each unit, where units have a single latent function."""
    return [twin for (twin,) in latent_twins(units, kernel)]


def random_head(
    num_experts: int,
    *,
    head_class: type[GPHead] = HGPHead,
    num_features: int = 2,
    seed: int = 0,
    **settings: Any,
) -> Any:
    """A built head in float64, without a linear mean unless told otherwise, at random parameters."""
    settings = {"num_inducing": 4, "dtype": "float64", "mean": "none"} | settings
    if head_class is HGPHead:
        settings = {"num_expert_inducing": 3} | settings
    head = head_class(num_experts=num_experts, **settings)
    head.build((None, num_features))
    randomize_head(head, seed)
    return head


def randomize_head(head: GPHead, seed: int = 0) -> None:
    """Draw all parameters of a built head."""
    for units in units_of(head):
        randomize(units, np.random.default_rng([seed, units.num_units, units.num_inducing]))
    if isinstance(head.likelihood, GaussianLikelihood):
        noise = head.likelihood.noise_variance
        noise.assign(np.random.default_rng(seed).uniform(0.1, 0.5, noise.shape))
    if head.linear_mean is not None:
        randomize_mean(head.linear_mean, np.random.default_rng([seed, 2]))


def randomize_mean(mean: LinearMean, rng: np.random.Generator) -> None:
    """Draw W, b and c; a is neither 0 nor 1."""
    mean.start_from(rng.normal(size=mean.kernel.shape), rng.normal(size=mean.bias.shape), scale=0.7)
    mean.offset.assign(rng.normal(size=mean.offset.shape))


def mean_twin(mean: LinearMean, x: np.ndarray) -> np.ndarray:
    """m at points `[N, D]` by loops, `[N, P]`."""
    kernel, bias, scale, offset = (part.numpy() for part in (mean.kernel, mean.bias, mean.scale, mean.offset))
    found = np.empty((len(x), len(bias)))
    for n, point in enumerate(x):
        for p in range(len(bias)):
            logit = sum(point[d] * kernel[d, p] for d in range(len(point))) + bias[p]
            found[n, p] = scale * logit + offset[p]
    return found


def without_mean(head: GPHead) -> Any:
    """A head that is the same but for its linear mean, of which it has none."""
    config = {**head.get_config(), "mean": "none"}
    copy = type(head).from_config(config)
    copy.build_from_config(head.get_build_config())
    values = {weight.name: weight for weight in head.weights}
    assert len(values) == len(head.weights)
    for weight in copy.weights:
        weight.assign(values[weight.name])
    return copy


def units_of(head: Any) -> list[SparseUnits]:
    """The global unit and the experts, whichever the head has."""
    found = [getattr(head, "global_unit", None), getattr(head, "experts", None)]
    return [units for units in found if units is not None]


def parameters(units: SparseUnits) -> list[gpflow.Parameter]:
    """All parameters of units; each has the units as its first axis."""
    return [units.inducing_inputs, units.lengthscales, units.variance, units.q_mean, units.q_sqrt]
