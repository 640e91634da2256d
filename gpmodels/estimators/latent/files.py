"""Bayesian GPLVMs as files: one `.npz` of arrays and a JSON description, as the other estimators'."""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from gpmodels.estimators.fitting.persistence import Arrays, curve_array, restored_curve, unfitted
from gpmodels.gplvm.start import Scaling

Estimator = TypeVar("Estimator", bound=BaseEstimator)


def stored_gplvm(estimator: BaseEstimator) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Return the arrays and the description that a file of a Bayesian GPLVM holds."""
    arrays: dict[str, npt.NDArray[Any]] = {
        "column_mean": estimator.scaling_.mean,
        "column_deviation": estimator.scaling_.deviation,
        "embedding": estimator.embedding_,
        "embedding_std": estimator.embedding_std_,
        "relevance": estimator.relevance_,
        "variance_factor": estimator.variance_factor_,
        "learning_curve": curve_array(estimator.learning_curve_),
        **{f"weight_{name}": value for name, value in estimator.weights_.items()},
    }
    for name in ("weight_column_group", "weight_column_view"):
        if name in arrays:
            arrays[name] = arrays[name].astype(np.int64)
    return arrays, {"iterations": estimator.n_iter_}


def restored_gplvm(cls: type[Estimator], description: Mapping[str, Any], arrays: Arrays) -> Estimator:
    """Return the Bayesian GPLVM of a file."""
    estimator = unfitted(cls, description, arrays)
    estimator.scaling_ = Scaling(arrays["column_mean"], arrays["column_deviation"])
    estimator.n_features_in_ = len(estimator.scaling_.mean)
    for name in ("embedding", "embedding_std", "relevance", "variance_factor"):
        setattr(estimator, f"{name}_", arrays[name])
    estimator.learning_curve_ = restored_curve(arrays)
    estimator.n_iter_ = description["iterations"]
    estimator.weights_ = {
        name.removeprefix("weight_"): array for name, array in arrays.items() if name.startswith("weight_")
    }
    return estimator
