"""Classifiers and regressors of sparse GPs as files: what `save` writes and `load` reads.

The archive around it is `gpmodels.estimators.fitting.persistence`.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, is_classifier

from gpmodels.estimators.fitting.persistence import (
    BEFORE,
    Arrays,
    as_json_value,
    curve_array,
    restored_curve,
    unfitted,
    with_tuples,
)

Estimator = TypeVar("Estimator", bound=BaseEstimator)

SIZES = (
    *("num_classes", "num_inducing", "num_hidden", "num_hidden_inducing", "num_expert_inducing"),
    *("num_experts", "num_layers", "num_components"),
)
"""Settings of a head of which it has at least so many weights."""

NUMBERS = (
    *("effective_observations", "temperature", "num_rows", "rows_digest", "weights_digest"),
    "linear_share",
)
"""Numbers that a fit finds, and that earlier files lack."""

OF_INTERVALS = ("interval_scores", "interval_groups")
"""Arrays that a regressor has whose intervals are calibrated."""


def stored_sparse(estimator: BaseEstimator) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Return the arrays and the description that a file of a sparse GP holds."""
    weights = estimator.weights_
    arrays: dict[str, npt.NDArray[Any]] = {
        "input_mean": estimator.input_mean_,
        "input_scale": estimator.input_scale_,
        "learning_curve": curve_array(estimator.learning_curve_),
        **{name.rstrip("_"): getattr(estimator, name) for name in estimator._learned_arrays},
        **{f"weight_{i}": weight for i, weight in enumerate(weights)},
    }
    description = {
        "head_settings": {name: as_json_value(value) for name, value in estimator.head_settings_.items()},
        "weight_names": [weight.name for weight in estimator._engine(estimator.n_features_in_).head.weights],
        "iterations": estimator.n_iter_,
        "kept_iteration": getattr(estimator, "kept_iteration_", None),
        **{name: getattr(estimator, f"{name}_", None) for name in NUMBERS},
        **{name.rstrip("_"): bool(getattr(estimator, name)) for name in estimator._learned_flags},
    }
    if not is_classifier(estimator):
        arrays |= {
            name: vars(estimator)[f"{name}_"] for name in OF_INTERVALS if f"{name}_" in vars(estimator)
        }
        arrays["target_moments"] = np.array([estimator.target_mean_, estimator.target_scale_])
    return arrays, description


def restored_sparse(cls: type[Estimator], description: Mapping[str, Any], arrays: Arrays) -> Estimator:
    """Return the sparse GP of a file."""
    estimator = unfitted(cls, description, arrays)
    estimator.input_mean_, estimator.input_scale_ = arrays["input_mean"], arrays["input_scale"]
    estimator.n_features_in_ = len(estimator.input_mean_)
    if not is_classifier(estimator):
        estimator.target_mean_, estimator.target_scale_ = arrays["target_moments"].tolist()
        for name in OF_INTERVALS:
            if name in arrays:
                setattr(estimator, f"{name}_", arrays[name])
    estimator.n_iter_ = description["iterations"]
    if description.get("kept_iteration") is not None:  # earlier files have none
        estimator.kept_iteration_ = description["kept_iteration"]
    for name in NUMBERS:
        if (value := description.get(name)) is not None:
            setattr(estimator, f"{name}_", float(value))
    estimator.learning_curve_ = restored_curve(arrays)
    for name in estimator._learned_arrays:
        setattr(estimator, name, arrays[name.rstrip("_")])
    for name in estimator._learned_flags:
        setattr(estimator, name, description.get(name.rstrip("_")))
    _restore_head(estimator, description, arrays)
    return estimator


def _restore_head(estimator: BaseEstimator, description: Mapping[str, Any], arrays: Arrays) -> None:
    of_before = {name: value for name, value in BEFORE.items() if name in estimator._head_settings()}
    settings: dict[str, Any] = {**of_before, **description["head_settings"]}
    names = description["weight_names"]
    weights = [arrays[f"weight_{i}"] for i in range(len(names))]
    num_values = sum(weight.size for weight in weights)
    if max(settings.get(name) or 0 for name in SIZES) > num_values:
        raise ValueError(f"its head_settings ask for more weights than the {num_values} that it holds.")
    estimator.head_settings_ = {name: with_tuples(value) for name, value in settings.items()}
    engine = estimator._engine(estimator.n_features_in_)
    expected_names = [weight.name for weight in engine.head.weights]
    if names != expected_names:
        raise ValueError(f"holds the weights {names}, but this model has {expected_names}.")
    engine.set_weights(weights)
    estimator.weights_ = weights
    estimator.n_experts_ = len(engine.head.active_experts)
