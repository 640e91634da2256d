"""Bayesian GPLVM: a map of the rows, what is odd among them, and what is missing in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from gpmodels.estimators.monitoring import CurvePoint, FitMonitor
from gpmodels.gplvm.bounds import InducingPosterior
from gpmodels.gplvm.data import FloatArray, SeenRows, seen_rows
from gpmodels.gplvm.inference import Positions, Starts, infer
from gpmodels.gplvm.kernels import LatentKernel
from gpmodels.gplvm.rows import HeldModel, expected_values, reconstruct
from gpmodels.gplvm.start import scaling_of
from gpmodels.gplvm.training import Parameters, held_model, maximise, start_parameters

POSTERIORS = ("gaussian", "map")
SCALES = ("common", "columns", None)
OPTIMIZERS = ("auto", "lbfgs", "adam")

DEFAULT_INDUCING = (25, 100)
"""Least and largest M of `num_inducing="auto"`, which takes a twentieth of the rows."""


@dataclass(kw_only=True, repr=False, eq=False)
class BayesianGPLVM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    num_dimensions: int = 10
    num_inducing: int | str = "auto"
    posterior: str = "gaussian"
    kernel: str = "rbf"
    scale: str | None = "common"
    optimizer: str = "auto"
    max_iterations: int | None = None
    learning_rate: float = 0.01
    batch_size: int = 500
    tolerance: float = 1e-5
    random_state: Any = None
    verbose: int = 0
    log_dir: str | None = None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def fit(self, X: Any, y: Any = None, callback: Callable[[Any, int], None] | None = None) -> Self:
        """Learn the map."""
        x = self._checked(X, reset=True)
        self._check_settings(x)
        self.__dict__.pop("weights_", None)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        self.scaling_ = scaling_of(x, self.scale)
        standardised = self.scaling_.standardised(x)
        rows = seen_rows(standardised)
        total = self.max_iterations or 1000
        latest: list[Parameters] = []
        with FitMonitor(
            None,
            num_data=float(len(x)),
            total=total,
            verbose=self.verbose,
            log_dir=self.log_dir,
            publish=lambda: self._publish(latest[-1], rows),
            callback=None if callback is None else lambda iteration: callback(self, iteration),
            scalars=lambda: _scalars(latest[-1]),
        ) as monitor:

            def iteration_done(bound: float, parameters: Callable[[], Parameters]) -> None:
                latest[:] = [parameters()]
                monitor.report(bound)

            start = start_parameters(
                standardised,
                num_dimensions=self.num_dimensions,
                num_inducing=self._num_inducing(len(x)),
                kernel=self.kernel,
                is_point=self.posterior == "map",
                rng=rng,
            )
            found = maximise(
                start, rows, max_iterations=total, tolerance=self.tolerance, iteration_done=iteration_done
            )
        self._publish(found, rows)
        self.learning_curve_: list[CurvePoint] = monitor.curve
        self.n_iter_ = max(monitor.iteration, 1)
        self._settle(standardised)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> FloatArray:
        """Learn the map and return the positions of its rows, `embedding_`."""
        return self.fit(X, y).embedding_

    def _publish(self, found: Parameters, rows: SeenRows) -> None:
        order = np.argsort(-_relevance(found), kind="stable")
        found = _reordered(found, order)
        model = held_model(found, rows)
        self.weights_ = {
            "inducing_inputs": model.inducing,
            "noise_variance": np.array(model.noise_variance),
            "inducing_mean": model.posterior.mean.numpy(),
            "inducing_covariance": model.posterior.covariance.numpy(),
            "column_group": np.asarray(model.group),
            "start_mean": found.mean,
            "start_variance": np.zeros_like(found.mean)
            if found.log_variances is None
            else np.exp(found.log_variances),
        }
        for name, value in model.kernel._asdict().items():
            if value is not None:
                self.weights_[f"kernel_{name}"] = value.numpy()
        self.relevance_ = _relevance(found)
        self.embedding_ = found.mean
        self.embedding_std_ = np.sqrt(self.weights_["start_variance"])

    def _settle(self, standardised: FloatArray) -> None:
        """Set each row's position to the best one with q(u) held, which is what `transform` returns."""
        self.embedding_, self.embedding_std_ = self._positions(standardised).best()

    def _model(self) -> HeldModel:
        weights = self.weights_
        kernel = {
            name: tf.constant(weights[f"kernel_{name}"])
            for name in LatentKernel._fields
            if f"kernel_{name}" in weights
        }
        return HeldModel(
            kernel=LatentKernel(**kernel),
            inducing=weights["inducing_inputs"],
            noise_variance=float(weights["noise_variance"]),
            posterior=InducingPosterior(
                tf.constant(weights["inducing_mean"]), tf.constant(weights["inducing_covariance"])
            ),
            group=weights["column_group"],
            is_point=self.posterior == "map",
        )

    def _positions(self, standardised: FloatArray) -> Positions:
        model = self._model()
        mean, variance = self.weights_["start_mean"], self.weights_["start_variance"]
        starts = Starts(mean, variance, expected_values(model, mean, variance))
        return infer(model, starts, standardised)

    def transform(self, X: Any, return_std: bool = False) -> Any:
        """Return the positions of rows."""
        check_is_fitted(self)
        x = self._checked(X, reset=False)
        mean, deviation = self._positions(self.scaling_.standardised(x)).best()
        return (mean, deviation) if return_std else mean

    def inverse_transform(self, Z: Any, return_std: bool = False) -> Any:
        """Return what the model expects at positions."""
        check_is_fitted(self)
        z = np.asarray(Z, np.float64)
        expected = reconstruct(self._model(), z, np.zeros_like(z))
        mean = self.scaling_.restored(expected.mean)
        return (mean, np.sqrt(expected.variance) * self.scaling_.deviation) if return_std else mean

    def complete(self, X: Any, return_std: bool = False) -> Any:
        """Return rows with their missing values filled."""
        check_is_fitted(self)
        x = self._checked(X, reset=False)
        model = self._model()
        positions = self._positions(self.scaling_.standardised(x))
        mean, square = np.zeros_like(x), np.zeros_like(x)
        for k in range(positions.weight.shape[1]):
            weight = positions.weight[:, k, None]
            part = reconstruct(model, positions.mean[:, k], positions.variance[:, k])
            mean += weight * part.mean
            square += weight * (part.variance + part.mean**2)
        is_missing = np.isnan(x)
        completed = np.where(is_missing, self.scaling_.restored(mean), x)
        deviation = np.sqrt(np.maximum(square - mean**2, 0.0)) * self.scaling_.deviation
        return (completed, np.where(is_missing, deviation, 0.0)) if return_std else completed

    def score_samples(self, X: Any) -> FloatArray:
        """Return a bound on the log density of each row."""
        check_is_fitted(self)
        x = self._checked(X, reset=False)
        bound = self._positions(self.scaling_.standardised(x)).bound
        return bound - (~np.isnan(x)) @ np.log(self.scaling_.deviation)

    def _checked(self, X: Any, *, reset: bool) -> FloatArray:
        x = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
        return np.asarray(x)

    def _num_inducing(self, num_rows: int) -> int:
        least, largest = DEFAULT_INDUCING
        if self.num_inducing == "auto":
            return min(max(num_rows // 20, least), largest, num_rows)
        return min(int(self.num_inducing), num_rows)

    def _check_settings(self, x: FloatArray) -> None:
        pass


def _relevance(parameters: Parameters) -> FloatArray:
    """Return the share of each dimension in what the kernel sees vary, of sum 1, `[Q]`."""
    spread = np.var(parameters.mean, axis=0)
    share = spread * parameters.kernel().relevance().numpy()
    return share / max(share.sum(), 1e-300)


def _reordered(parameters: Parameters, order: npt.NDArray[np.intp]) -> Parameters:
    """Return the parameters with the dimensions in another order."""
    return parameters._replace(
        **{
            name: value[..., order]
            for name, value in parameters.present().items()
            if name not in ("log_kernel_variance", "log_noise")
        }
    )


def _scalars(parameters: Parameters) -> dict[str, float]:
    relevance = np.sort(_relevance(parameters))[::-1]
    return {"noise_variance": float(np.exp(parameters.log_noise))} | {
        f"relevance/{q + 1}": float(share) for q, share in enumerate(relevance)
    }
