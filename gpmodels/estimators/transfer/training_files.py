"""The arrays of a trained transfer model in a file of its estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpmodels.estimators.fitting.persistence import Arrays, finite_array
from gpmodels.transfer.outputs import OutputPosterior
from gpmodels.transfer.parameters import DomainParameters, ModelKind, TransferParameters
from gpmodels.transfer.rows import DomainRows, TransferRows
from gpmodels.transfer.trained import TrainedTransfer

_AXES = {
    "inducing": 3,
    "log_lengthscales": 1,
    "mean": 2,
    "root": 3,
    "log_weights": 1,
    "log_noise": 0,
    "log_latent_noise": 0,
    "latent_mean": 2,
    "log_latent_variance": 0,
    "gain": 0,
    "log_concentration": 1,
    "mixing": 1,
}
"""Axes of each part of the parameters."""


def trained_arrays(trained: TrainedTransfer) -> dict[str, npt.NDArray[Any]]:
    """Return all that predictions need by name; the rows of the training are left out."""
    arrays = {
        f"part_{number}_{name}": np.asarray(value, np.float64)
        for number, name, value in trained.parameters.leaves()
        if name != "latent_mean"  # one for each training row, and no prediction needs it
    }
    for number, outputs in enumerate(trained.outputs):
        for name, value in outputs._asdict().items():
            arrays[f"output_{number}_{name}"] = np.asarray(value, np.float64)
    return arrays | {"prior": np.asarray(trained.prior), "curve": np.asarray(trained.curve)}


def restored_training(
    arrays: Arrays, kind: Any, shape: tuple[int, int, int], *, is_classifier: bool
) -> TrainedTransfer:
    """Return the trained model of a file; it predicts, but holds no rows to leave out.

    Args:
        arrays: Arrays of the file.
        kind: What its description says of the kind of model.
        shape: Domains, columns and functions.
        is_classifier: Whether its functions are codes of classes.

    Raises:
        ValueError: An array is missing, or of another shape.
    """
    count, num_features, num_outputs = shape
    if not isinstance(kind, list) or len(kind) != len(ModelKind._fields):
        raise ValueError(f"its kind of training is {kind!r}, which is none.")
    model = ModelKind(*map(str, kind))
    model.check()
    domains = tuple(_domain(arrays, number, num_features) for number in range(count))
    shared = {
        name: finite_array(arrays, f"part_-1_{name}", (None,) * _AXES[name])
        for name in ("gain", "log_concentration", "mixing")
        if f"part_-1_{name}" in arrays
    }
    if "gain" not in shared or len(shared) != 2:
        raise ValueError("its trained parameters lack the gain or the mixing weights.")
    if any(len(values) != count for name, values in shared.items() if name != "gain"):
        raise ValueError(f"its mixing weights must be {count}.")
    width = domains[0].num_hidden * (count if model.is_symmetric else 1)
    if any(domain.num_hidden != domains[0].num_hidden for domain in domains):
        raise ValueError("its domains must have equally many hidden units.")
    if any(np.shape(domain.log_weights) != (width,) for domain in domains):
        raise ValueError(f"its output functions must see {width} hidden units.")
    shapes = {"mean": (num_outputs, width), "covariance": (width, width)}
    outputs = tuple(
        OutputPosterior(
            *(
                finite_array(arrays, f"output_{number}_{name}", shapes[name])
                for name in OutputPosterior._fields
            )
        )
        for number in range(count)
    )
    nothing = DomainRows(np.zeros([0, num_features]), np.zeros([0, num_outputs]), np.zeros(0), 1.0)
    curve = finite_array(arrays, "curve", (None,))
    return TrainedTransfer(
        model,
        TransferParameters(domains, **shared),
        outputs,
        TransferRows((nothing,) * (count - 1), nothing, is_classifier),
        finite_array(arrays, "prior", (None,)),
        float(curve[-1]) if len(curve) else float("nan"),
        curve,
    )


def _domain(arrays: Arrays, number: int, num_features: int) -> DomainParameters:
    parts = {
        name: finite_array(arrays, f"part_{number}_{name}", (None,) * _AXES[name])
        for name in DomainParameters._fields
        if f"part_{number}_{name}" in arrays
    }
    needed = {"inducing", "log_lengthscales", "mean", "root", "log_weights", "log_noise"}
    if needed - set(parts):
        raise ValueError(f"its trained domain {number} lacks {sorted(needed - set(parts))}.")
    units, inducing = parts["mean"].shape
    shapes = {
        "inducing": (units, inducing, num_features),
        "log_lengthscales": (units,),
        "root": (units, inducing, inducing),
    }
    for name, expected in shapes.items():
        if parts[name].shape != expected:
            raise ValueError(f"its trained {name} must have the shape {expected}.")
    return DomainParameters(**parts)
