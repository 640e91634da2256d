"""Transfer estimators as files: one `.npz` of arrays and a JSON description, as the other estimators'."""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, is_classifier

from gpmodels.estimators.fitting.persistence import Arrays, unfitted
from gpmodels.estimators.transfer.domains import Domains, Scales
from gpmodels.transfer.exact import ExactTransfer
from gpmodels.transfer.features import DomainFeatures
from gpmodels.transfer.judged import JudgedTransfer
from gpmodels.transfer.outputs import OutputPosterior
from gpmodels.transfer.parameters import ModelKind, gathered
from gpmodels.transfer.rows import DomainRows, LeftOut, TransferRows
from gpmodels.transfer.score_scale import SourceComparison
from gpmodels.transfer.second_layer import SecondLayer, TwoLayerTransfer
from gpmodels.transfer.trained import TrainedTransfer

Estimator = TypeVar("Estimator", bound=BaseEstimator)


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
        **(_exact_arrays(model) if isinstance(model, ExactTransfer) else _trained_arrays(model.trained)),
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
        "second_layer_judged": getattr(estimator, "second_layer_judged_", None),
    }
    if not is_classifier(estimator):
        arrays["target_mean"] = estimator.target_scales_.mean
        arrays["target_deviation"] = estimator.target_scales_.deviation
    return arrays, description


def restored_transfer(cls: type[Estimator], description: Mapping[str, Any], arrays: Arrays) -> Estimator:
    """Return the transfer estimator of a file."""
    estimator = unfitted(cls, description, arrays)
    estimator.domains_ = Domains(tuple(arrays["sources"].tolist()), description["target"])
    estimator.scales_ = Scales(arrays["scale_mean"], arrays["scale_deviation"])
    estimator.n_features_in_ = estimator.scales_.mean.shape[1]
    left_out = LeftOut(arrays["left_out_mean"], arrays["left_out_variance"])
    if description["trained"] is None:
        estimator.model_ = _exact(arrays, left_out, description)
    else:
        kind = ModelKind(*description["trained"])
        trained = _trained(arrays, kind, is_classifier=is_classifier(estimator))
        estimator.model_ = JudgedTransfer(trained, left_out, description["score_scale"], description["nll"])
    scores = (description[name] for name in ("nll_with_sources", "nll_without_sources", "standard_error"))
    estimator._set_found(arrays["transfer_weight"], SourceComparison(*scores))
    if getattr(estimator, "output", "exact") == "two_layer":
        estimator.second_layer_judged_ = bool(description.get("second_layer_judged", True))
    if not is_classifier(estimator):
        estimator.target_scales_ = Scales(arrays["target_mean"], arrays["target_deviation"])
    return estimator


def _exact_arrays(model: ExactTransfer) -> dict[str, npt.NDArray[Any]]:
    second = vars(model.second) if isinstance(model, TwoLayerTransfer) else {}
    return {
        **{f"second_{name}": np.asarray(value, np.float64) for name, value in second.items()},
        "nodes": model.nodes,
        "node_weight": model.node_weight,
        "target_weights": model.target_weights,
        "source_weights": model.source_weights,
        "covariance": model.covariance,
        "lengthscales": np.array([features.lengthscale for features in model.features]),
        **{f"inducing_{i}": features.inducing for i, features in enumerate(model.features)},
    }


def _exact(arrays: Arrays, left_out: LeftOut, description: Mapping[str, Any]) -> ExactTransfer:
    """Return the exact limit of a file, with its second layer if it has one."""
    lengthscales = arrays["lengthscales"].tolist()
    parts: dict[str, Any] = {
        key.removeprefix("second_"): value if np.ndim(value) else float(value)
        for key, value in arrays.items()
        if key.startswith("second_")
    }
    layers = {"second": SecondLayer(**parts)} if parts else {}
    return (TwoLayerTransfer if parts else ExactTransfer)(
        features=tuple(
            DomainFeatures.of(arrays[f"inducing_{i}"], each) for i, each in enumerate(lengthscales)
        ),
        nodes=arrays["nodes"],
        node_weight=arrays["node_weight"],
        target_weights=arrays["target_weights"],
        source_weights=arrays["source_weights"],
        covariance=arrays["covariance"],
        noise=description["noise"],
        left_out=left_out,
        score_scale=description["score_scale"],
        nll=description["nll"],
        **layers,
    )


def _trained_arrays(trained: TrainedTransfer) -> dict[str, npt.NDArray[Any]]:
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


def _trained(arrays: Arrays, kind: ModelKind, *, is_classifier: bool) -> TrainedTransfer:
    """Return the trained model of a file; it predicts, but holds no rows to leave out."""
    named = [(key.split("_", 2), value) for key, value in arrays.items() if key.startswith("part_")]
    parameters = gathered([(int(number), name, value) for (_, number, name), value in named])
    outputs = tuple(
        OutputPosterior(*(arrays[f"output_{number}_{name}"] for name in OutputPosterior._fields))
        for number in range(len(parameters.domains))
    )
    num_features, num_outputs = parameters.target.inducing.shape[-1], len(outputs[-1].mean)
    nothing = DomainRows(np.zeros([0, num_features]), np.zeros([0, num_outputs]), np.zeros(0), 1.0)
    rows = TransferRows((nothing,) * (len(outputs) - 1), nothing, is_classifier)
    curve = arrays["curve"]
    bound = float(curve[-1]) if len(curve) else float("nan")
    return TrainedTransfer(kind, parameters, outputs, rows, arrays["prior"], bound, curve)
