"""Transfer estimators as files: one `.npz` of arrays and a JSON description, as the other estimators'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, is_classifier

from gpmodels.estimators.fitting.persistence import (
    Arrays,
    finite_array,
    restored_classes,
    unfitted,
)
from gpmodels.estimators.transfer.domains import Domains, Scales
from gpmodels.estimators.transfer.training_files import restored_training, trained_arrays
from gpmodels.transfer.exact import ExactTransfer
from gpmodels.transfer.features import DomainFeatures
from gpmodels.transfer.judged import JudgedTransfer
from gpmodels.transfer.rows import LeftOut
from gpmodels.transfer.score_scale import SourceComparison

Estimator = TypeVar("Estimator", bound=BaseEstimator)

NUMBERS = ("noise", "score_scale", "nll", "nll_with_sources", "nll_without_sources", "standard_error")


def stored_transfer(estimator: BaseEstimator) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Return the arrays and the description that a file of a transfer estimator holds."""
    model: ExactTransfer | JudgedTransfer = estimator.model_
    arrays: dict[str, npt.NDArray[Any]] = {
        "sources": np.array(estimator.domains_.sources, np.int64),
        "scale_mean": estimator.scales_.mean,
        "scale_deviation": estimator.scales_.deviation,
        "left_out_mean": model.left_out.mean,
        "left_out_variance": model.left_out.variance,
        "transfer_weight": estimator.transfer_weight_,
        **(_exact_arrays(model) if isinstance(model, ExactTransfer) else trained_arrays(model.trained)),
    }
    description = {
        "target": estimator.domains_.target,
        "trained": None if isinstance(model, ExactTransfer) else list(model.trained.kind),
        "noise": model.noise,
        "score_scale": model.score_scale,
        "nll": model.nll,
        "nll_with_sources": estimator.leave_one_out_.with_sources,
        "nll_without_sources": estimator.leave_one_out_.without_sources,
        "standard_error": estimator.leave_one_out_.standard_error,
    }
    if not is_classifier(estimator):
        arrays["target_mean"] = estimator.target_scales_.mean
        arrays["target_deviation"] = estimator.target_scales_.deviation
    return arrays, description


def restored_transfer(cls: type[Estimator], description: Mapping[str, Any], arrays: Arrays) -> Estimator:
    """Return the transfer estimator of a file.

    Raises:
        ValueError: It is inconsistent.
    """
    numbers = {name: _number(description, name) for name in NUMBERS}
    if not (numbers["noise"] > 0 and numbers["score_scale"] > 0):
        raise ValueError("its noise and score_scale must be positive.")
    estimator = unfitted(cls, description["parameters"])
    estimator.domains_ = _domains(arrays, description.get("target"))
    count = len(estimator.domains_.sources) + 1
    estimator.scales_ = _scales(arrays, "scale_mean", "scale_deviation", count)
    num_features = estimator.scales_.mean.shape[1]
    estimator.n_features_in_ = num_features
    left_out = finite_array(arrays, "left_out_mean", (None, None))
    judged = LeftOut(left_out, finite_array(arrays, "left_out_variance", (len(left_out),)))
    num_outputs = left_out.shape[1]
    kind = description.get("trained")
    if kind is None:
        estimator.model_ = _exact(arrays, (count, num_features, num_outputs), judged, numbers)
    else:
        trained = restored_training(
            arrays, kind, (count, num_features, num_outputs), is_classifier=is_classifier(estimator)
        )
        estimator.model_ = JudgedTransfer(trained, judged, numbers["score_scale"], numbers["nll"])
    scores = (numbers[name] for name in ("nll_with_sources", "nll_without_sources", "standard_error"))
    estimator._set_found(finite_array(arrays, "transfer_weight", (count - 1,)), SourceComparison(*scores))
    if is_classifier(estimator):
        estimator.classes_ = restored_classes(arrays, objects=bool(description.get("labels_are_objects")))
        if len(estimator.classes_) != num_outputs:
            raise ValueError(f"holds {len(estimator.classes_)} labels for {num_outputs} functions.")
    else:
        estimator.target_scales_ = _scales(arrays, "target_mean", "target_deviation", count)
        if estimator.target_scales_.mean.shape[1] != 1 or num_outputs != 1:
            raise ValueError("a regressor has one function, with one scale in each domain.")
    return estimator


def _exact_arrays(model: ExactTransfer) -> dict[str, npt.NDArray[Any]]:
    return {
        "nodes": model.nodes,
        "node_weight": model.node_weight,
        "target_weights": model.target_weights,
        "source_weights": model.source_weights,
        "covariance": model.covariance,
        "lengthscales": np.array([features.lengthscale for features in model.features]),
        **{f"inducing_{i}": features.inducing for i, features in enumerate(model.features)},
    }


def _exact(
    arrays: Arrays, shape: tuple[int, int, int], left_out: LeftOut, numbers: Mapping[str, float]
) -> ExactTransfer:
    """Return the exact limit of a file, of so many domains, columns and functions."""
    count, num_features, num_outputs = shape
    features = []
    lengthscales = finite_array(arrays, "lengthscales", (count,))
    if not (lengthscales > 0).all():
        raise ValueError("the array lengthscales must hold positive numbers.")
    for i, lengthscale in enumerate(lengthscales.tolist()):
        inducing = finite_array(arrays, f"inducing_{i}", (None, num_features))
        if not len(inducing):
            raise ValueError(f"the array inducing_{i} has no row.")
        features.append(_features(inducing, lengthscale))
    total = sum(one.size for one in features)
    nodes = finite_array(arrays, "nodes", (None, count))
    weight = finite_array(arrays, "node_weight", (len(nodes),))
    if (weight < 0).any() or abs(weight.sum() - 1.0) > 1e-6:
        raise ValueError("the array node_weight must hold weights of sum 1.")
    return ExactTransfer(
        tuple(features),
        nodes,
        weight,
        finite_array(arrays, "target_weights", (len(nodes), total, num_outputs)),
        finite_array(arrays, "source_weights", (total - features[-1].size, num_outputs)),
        finite_array(arrays, "covariance", (total, total)),
        numbers["noise"],
        left_out,
        numbers["score_scale"],
        numbers["nll"],
    )


def _domains(arrays: Arrays, target: Any) -> Domains:
    sources = arrays.get("sources")
    if (
        sources is None
        or sources.ndim != 1
        or sources.dtype != np.int64
        or not np.array_equal(sources, np.unique(sources))
        or (sources < 0).any()
        or not isinstance(target, int)
        or target >= 0
    ):
        raise ValueError("its sources must be different numbers from 0 in order, its target one below 0.")
    return Domains(tuple(sources.tolist()), target)


def _scales(arrays: Arrays, mean: str, deviation: str, count: int) -> Scales:
    means = finite_array(arrays, mean, (count, None))
    deviations = finite_array(arrays, deviation, means.shape)
    if not (deviations > 0).all():
        raise ValueError(f"the array {deviation} must hold positive numbers.")
    return Scales(means, deviations)


def _features(inducing: npt.NDArray[Any], lengthscale: float) -> DomainFeatures:
    try:
        return DomainFeatures.of(inducing, lengthscale)
    except np.linalg.LinAlgError as error:
        raise ValueError("its inducing inputs cannot be those of a fit: their kernel is singular.") from error


def _number(description: Mapping[str, Any], name: str) -> float:
    value = description.get(name)
    if not isinstance(value, float) or not np.isfinite(value):
        raise ValueError(f"its {name} must be a number, but is {value!r}.")
    return value
