"""Bayesian GPLVMs as files: one `.npz` of arrays and a JSON description, as the other estimators'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from gpmodels.estimators.fitting.monitoring import CurvePoint
from gpmodels.estimators.fitting.persistence import (
    Arrays,
    finite_array,
    restored_curve,
    unfitted,
)
from gpmodels.estimators.latent.checks import CHOICES
from gpmodels.gplvm.start import Scaling

Estimator = TypeVar("Estimator", bound=BaseEstimator)

POSITIVE = ("noise_variance", "kernel_variance", "kernel_lengthscales", "kernel_weights")
"""Weights of which every number must be positive."""


def stored_gplvm(estimator: BaseEstimator) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Return the arrays and the description that a file of a Bayesian GPLVM holds."""
    curve = np.array(estimator.learning_curve_, "float64").reshape(-1, len(CurvePoint._fields))
    arrays: dict[str, npt.NDArray[Any]] = {
        "column_mean": estimator.scaling_.mean,
        "column_deviation": estimator.scaling_.deviation,
        "embedding": estimator.embedding_,
        "embedding_std": estimator.embedding_std_,
        "relevance": estimator.relevance_,
        "variance_factor": estimator.variance_factor_,
        "learning_curve": curve,
        **{f"weight_{name}": value for name, value in estimator.weights_.items()},
    }
    arrays["weight_column_group"] = arrays["weight_column_group"].astype(np.int64)
    description = {
        # As fitted: the parameters may have been changed since.
        "fitted": {"kernel": _kernel_name(estimator.weights_), "posterior": _posterior_name(estimator)},
        "iterations": estimator.n_iter_,
    }
    return arrays, description


def _kernel_name(weights: Mapping[str, Any]) -> str:
    parts = [
        name for name, key in (("rbf", "kernel_lengthscales"), ("linear", "kernel_weights")) if key in weights
    ]
    return "+".join(parts)


def _posterior_name(estimator: BaseEstimator) -> str:
    return "gaussian" if estimator.weights_["start_variance"].any() else "map"


def restored_gplvm(cls: type[Estimator], description: Mapping[str, Any], arrays: Arrays) -> Estimator:
    """Return the Bayesian GPLVM of a file.

    Raises:
        ValueError: It is inconsistent.
    """
    parameters, fitted = description["parameters"], description.get("fitted")
    if not isinstance(fitted, dict):
        raise ValueError("its description lacks fitted.")
    for name in ("kernel", "posterior"):
        if fitted.get(name) not in CHOICES[name]:
            raise ValueError(f"its {name} must be one of {CHOICES[name]}, but is {fitted.get(name)!r}.")
    iterations = description.get("iterations")
    if not isinstance(iterations, int) or iterations < 1:
        raise ValueError(f"its number of iterations must be a positive integer, but is {iterations!r}.")
    estimator = unfitted(cls, parameters)
    weights = _weights(arrays, fitted)
    num_rows, num_dimensions = weights["start_mean"].shape
    num_columns = weights["inducing_mean"].shape[1]
    mean = finite_array(arrays, "column_mean", (num_columns,))
    deviation = finite_array(arrays, "column_deviation", (num_columns,))
    if not (deviation > 0).all():
        raise ValueError(f"column_deviation must hold {num_columns} positive numbers.")
    estimator.scaling_ = Scaling(mean, deviation)
    estimator.n_features_in_ = num_columns
    estimator.embedding_ = finite_array(arrays, "embedding", (num_rows, num_dimensions))
    estimator.embedding_std_ = finite_array(arrays, "embedding_std", (num_rows, num_dimensions))
    estimator.relevance_ = finite_array(arrays, "relevance", (num_dimensions,))
    estimator.variance_factor_ = finite_array(arrays, "variance_factor", (num_columns,))
    if not (estimator.variance_factor_ > 0).all():
        raise ValueError(f"variance_factor must hold {num_columns} positive numbers.")
    estimator.learning_curve_ = restored_curve(arrays)
    estimator.n_iter_ = iterations
    estimator.weights_ = weights
    return estimator


def _weights(arrays: Arrays, fitted: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """Return the weights of a file after a check of their shapes and values."""
    num_rows, num_dimensions = finite_array(arrays, "weight_start_mean", (None, None)).shape
    num_inducing = len(finite_array(arrays, "weight_inducing_inputs", (None, num_dimensions)))
    num_columns = finite_array(arrays, "weight_inducing_mean", (num_inducing, None)).shape[1]
    num_groups = len(finite_array(arrays, "weight_inducing_covariance", (None, num_inducing, num_inducing)))
    shapes: dict[str, tuple[int, ...]] = {
        "start_mean": (num_rows, num_dimensions),
        "start_variance": (num_rows, num_dimensions),
        "inducing_inputs": (num_inducing, num_dimensions),
        "inducing_mean": (num_inducing, num_columns),
        "inducing_covariance": (num_groups, num_inducing, num_inducing),
        "noise_variance": (),
    }
    if "rbf" in fitted["kernel"]:
        shapes |= {"kernel_variance": (), "kernel_lengthscales": (num_dimensions,)}
    if "linear" in fitted["kernel"]:
        shapes |= {"kernel_weights": (num_dimensions,)}
    weights = {name: finite_array(arrays, f"weight_{name}", shape) for name, shape in shapes.items()}
    for name in POSITIVE:
        if name in weights and not (weights[name] > 0).all():
            raise ValueError(f"the weight {name} must hold positive numbers.")
    variance = weights["start_variance"]
    if (variance < 0).any() or (fitted["posterior"] == "gaussian") != bool((variance > 0).all()):
        raise ValueError(
            "the weight start_variance must be positive for a Gaussian posterior and zero for map."
        )
    group = arrays.get("weight_column_group")
    if group is None or group.shape != (num_columns,) or group.dtype != np.int64:
        raise ValueError(f"the array weight_column_group must hold {num_columns} integers.")
    if group.min(initial=0) < 0 or group.max(initial=0) >= num_groups:
        raise ValueError(f"weight_column_group must lie between 0 and {num_groups - 1}.")
    return weights | {"column_group": group}
