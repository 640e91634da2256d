"""Classifiers and regressors of sparse GPs as files: what `save` writes, and the checks of what `load` reads.

The archive around it is `gpmodels.estimators.fitting.persistence`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from gpmodels.estimators.fitting.monitoring import CurvePoint
from gpmodels.estimators.fitting.persistence import (
    BEFORE,
    Arrays,
    as_json_value,
    finite_array,
    read_estimator,
    restored_classes,
    restored_curve,
    unfitted,
    with_tuples,
    write_estimator,
)

Estimator = TypeVar("Estimator", bound=BaseEstimator)

LISTS = ("views", "widths")
"""Settings of a head that are lists."""

NUMBERS = (
    *("effective_observations", "temperature", "num_rows", "rows_digest", "weights_digest"),
    "linear_share",
)
"""Positive numbers that a fit finds, and that earlier files lack."""


def save_estimator(estimator: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to one file, complete or not at all.

    Args:
        estimator: Fitted.
        path: The file, usually `*.npz`; an existing one is replaced.

    Raises:
        sklearn.exceptions.NotFittedError: The estimator is not fitted.
        ValueError: A label or a parameter cannot be stored.
        FileNotFoundError: There is no such folder.
        OSError: The file cannot be written.
    """
    check_is_fitted(estimator)
    weights = estimator.weights_
    arrays: dict[str, npt.NDArray[Any]] = {
        "input_mean": estimator.input_mean_,
        "input_scale": estimator.input_scale_,
        "learning_curve": np.array(estimator.learning_curve_, "float64").reshape(-1, len(CurvePoint._fields)),
        **{name.rstrip("_"): getattr(estimator, name) for name in estimator._learned_arrays},
        **{f"weight_{i}": weight for i, weight in enumerate(weights)},
    }
    description = {
        "head_settings": {name: as_json_value(value) for name, value in estimator.head_settings_.items()},
        "weight_names": _weight_names(estimator),
        "iterations": estimator.n_iter_,
        "kept_iteration": getattr(estimator, "kept_iteration_", None),
        "effective_observations": getattr(estimator, "effective_observations_", None),
        "temperature": getattr(estimator, "temperature_", None),
        "num_rows": float(estimator.num_rows_) if hasattr(estimator, "num_rows_") else None,
        "rows_digest": getattr(estimator, "rows_digest_", None),
        "weights_digest": getattr(estimator, "weights_digest_", None),
        "linear_share": getattr(estimator, "linear_share_", None),
        **{name.rstrip("_"): bool(getattr(estimator, name)) for name in estimator._learned_flags},
    }
    if not is_classifier(estimator):
        arrays["target_moments"] = np.array([estimator.target_mean_, estimator.target_scale_])
    write_estimator(estimator, path, arrays, description)


def load_estimator(cls: type[Estimator], path: str | os.PathLike[str]) -> Estimator:
    """Read an estimator of class `cls` from a file of `save_estimator`.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is no such file, or of another class, damaged, or inconsistent.
    """
    return read_estimator(cls, path, _restored)


def _weight_names(estimator: BaseEstimator) -> list[str]:
    head = estimator._engine(estimator.n_features_in_).head
    return [weight.name for weight in head.weights]


def _check_description(description: Mapping[str, Any], cls: type[BaseEstimator]) -> None:
    for name, kind in (("head_settings", dict), ("weight_names", list)):
        if not isinstance(description.get(name), kind):
            raise ValueError(f"its description lacks {name}.")
    iterations = description.get("iterations")
    if not isinstance(iterations, int) or iterations < 1:
        raise ValueError(f"its number of iterations must be a positive integer, but is {iterations!r}.")
    kept = description.get("kept_iteration")  # earlier files have none
    if kept is not None and not (type(kept) is int and 0 <= kept <= iterations):
        raise ValueError(f"its kept_iteration must be an integer from 0 to {iterations}, but is {kept!r}.")
    for name in NUMBERS:
        value = description.get(name)
        if value is not None and not (isinstance(value, float) and 0.0 < value < math.inf):
            raise ValueError(f"its {name} must be a positive number, but is {value!r}.")
    for name in (flag.rstrip("_") for flag in cls._learned_flags):
        if not isinstance(description.get(name), bool | None):  # earlier files have none
            raise ValueError(f"its {name} must be true or false, but is {description[name]!r}.")


def _restored(cls: type[Estimator], description: Mapping[str, Any], arrays: Arrays) -> Estimator:
    _check_description(description, cls)
    estimator = unfitted(cls, description["parameters"])
    moments = {name: finite_array(arrays, name, (None,)) for name in ("input_mean", "input_scale")}
    (num_features,) = moments["input_mean"].shape
    if moments["input_scale"].shape != (num_features,) or not (moments["input_scale"] > 0).all():
        raise ValueError(f"input_scale must hold {num_features} positive numbers.")
    estimator.n_features_in_ = num_features
    estimator.input_mean_, estimator.input_scale_ = moments["input_mean"], moments["input_scale"]
    if is_classifier(estimator):
        estimator.classes_ = restored_classes(arrays, objects=bool(description.get("labels_are_objects")))
    else:
        mean, scale = finite_array(arrays, "target_moments", (2,)).tolist()
        if scale <= 0:
            raise ValueError(f"the scale of the targets must be positive, but is {scale}.")
        estimator.target_mean_, estimator.target_scale_ = mean, scale
    estimator.n_iter_ = description["iterations"]
    if description.get("kept_iteration") is not None:
        estimator.kept_iteration_ = description["kept_iteration"]
    for name in NUMBERS:
        if (value := description.get(name)) is not None:
            setattr(estimator, f"{name}_", float(value))
    estimator.learning_curve_ = restored_curve(arrays)
    for name in estimator._learned_arrays:
        setattr(estimator, name, finite_array(arrays, name.rstrip("_"), (None,)))
    for name in estimator._learned_flags:
        setattr(estimator, name, description.get(name.rstrip("_")))
    _restore_head(estimator, description, arrays)
    return estimator


def _restore_head(estimator: BaseEstimator, description: Mapping[str, Any], arrays: Arrays) -> None:
    of_before = {name: value for name, value in BEFORE.items() if name in estimator._head_settings()}
    settings: dict[str, Any] = {**of_before, **description["head_settings"]}
    names = description["weight_names"]
    missing = [f"weight_{i}" for i in range(len(names)) if f"weight_{i}" not in arrays]
    if missing:
        raise ValueError(f"lacks the arrays {missing[:5]}.")
    weights = [arrays[f"weight_{i}"] for i in range(len(names))]
    _check_settings(estimator, settings, sum(weight.size for weight in weights))
    estimator.head_settings_ = {name: with_tuples(value) for name, value in settings.items()}
    try:
        engine = estimator._engine(estimator.n_features_in_)
    except TypeError as error:
        raise ValueError(f"its head_settings are not those of a head: {error}") from error
    head = engine.head
    if head.is_classifier != is_classifier(estimator):
        raise ValueError(
            f"its head has the likelihood {settings['likelihood']!r}, which does not go with "
            f"{type(estimator).__name__}."
        )
    expected_names = [weight.name for weight in head.weights]
    if names != expected_names:
        raise ValueError(f"holds the weights {names}, but this model has {expected_names}.")
    for name, weight, like in zip(names, weights, head.get_weights(), strict=True):
        if weight.shape != like.shape or weight.dtype != like.dtype:
            raise ValueError(
                f"the weight {name} must be {like.dtype} of shape {list(like.shape)}, but is "
                f"{weight.dtype} of shape {list(weight.shape)}."
            )
        if not np.isfinite(weight).all():
            raise ValueError(f"the weight {name} holds numbers that are not finite.")
    engine.set_weights(weights)
    if settings.get("num_experts") and not len(head.active_experts):
        raise ValueError("all of its experts are dropped; at least one must be in use.")
    estimator.weights_ = weights
    estimator.n_experts_ = len(head.active_experts)


def _check_settings(estimator: BaseEstimator, settings: Mapping[str, Any], num_values: int) -> None:
    """Refuse settings that are not of a head, or for which it would hold more numbers than the file."""
    expected = {*estimator._sizes(1), *estimator._head_settings(), "dtype"}
    # Present or not by a parameter, which may have been changed after the fit.
    if {*settings, "num_expert_inducing"} != {*expected, "num_expert_inducing"}:
        raise ValueError(f"its head_settings are {sorted(settings)}, but must be {sorted(expected)}.")
    sizes = ("num_inducing", "num_hidden", "num_hidden_inducing", "num_expert_inducing", "num_experts")
    for name in (*sizes, "num_classes"):
        size = settings.get(name, 1)
        if not isinstance(size, int) or isinstance(size, bool) or size < (name != "num_experts"):
            raise ValueError(f"{name} must be a positive integer, but is {size!r}.")
    others = [
        v
        for name, v in settings.items()
        if isinstance(v, list | dict) and not (name in LISTS and isinstance(v, list))
    ]
    if others:
        raise ValueError(f"its head_settings must be numbers, strings or null, but one is {others[0]!r}.")
    if settings["dtype"] not in ("float32", "float64"):
        raise ValueError(f'dtype must be "float32" or "float64", but is {settings["dtype"]!r}.')
    if is_classifier(estimator) and settings["num_classes"] != len(estimator.classes_):
        raise ValueError(
            f"num_classes is {settings['num_classes']}, but there are {len(estimator.classes_)} labels."
        )
    needed = estimator._least_weights(settings)
    if needed > num_values:
        raise ValueError(
            f"its head_settings ask for at least {needed} weights, but the file holds {num_values}."
        )
