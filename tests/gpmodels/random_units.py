"""Random parameters for the tests of units and heads, and their description for the NumPy twins."""

from __future__ import annotations

import numpy as np

from gpmodels import HGPHead, SVGPHead
from gpmodels.sparse_units import SparseUnits

from . import reference


def randomize(units: SparseUnits, rng: np.random.Generator) -> None:
    """Draw every parameter anew; q is well away from the prior."""
    count, size, features = units.inducing_inputs.shape
    units.place(
        rng.normal(size=(count, size, features)) + 1.5 * rng.normal(size=(count, 1, features)),
        rng.uniform(0.7, 2.0, size=(count, features)),
    )
    units.variance.assign(rng.uniform(0.5, 2.0, size=count))
    units.q_mean.assign(rng.normal(size=(count, size)))
    units.q_sqrt.assign(np.tril(0.4 * rng.normal(size=(count, size, size))) + 0.6 * np.eye(size))


def as_reference(units: SparseUnits, kernel: str = "squared_exponential") -> list[reference.Unit]:
    """One NumPy twin for each unit."""
    parameters = (units.inducing_inputs, units.lengthscales, units.variance, units.q_mean, units.q_sqrt)
    return [
        reference.Unit(kernel, inducing, lengthscales, float(variance), mean, root, units.jitter)
        for inducing, lengthscales, variance, mean, root in zip(
            *(np.asarray(parameter.numpy(), "float64") for parameter in parameters), strict=True
        )
    ]


def random_head(num_experts: int, *, num_features: int = 2, seed: int = 0, **settings: object) -> HGPHead:
    """A built HGP head in float64 (unless told otherwise) with random parameters."""
    settings = {"num_inducing": 4, "num_expert_inducing": 3, "dtype": "float64"} | settings
    head = HGPHead(num_experts=num_experts, **settings)
    head.build((None, num_features))
    for units in units_of(head):
        randomize(units, np.random.default_rng([seed, units.num_units, units.num_inducing]))
    return head


def units_of(head: SVGPHead) -> list[SparseUnits]:
    return [head.global_unit, *([head.experts] if getattr(head, "num_experts", 0) else [])]
