"""Regressors: hierarchical GP (the thesis' HMGP), sparse variational GP, mixture without a global term."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.utils.validation import _check_sample_weight, column_or_1d, validate_data

from gpmodels.estimators.base import ExpertsEstimator, SparseGPEstimator, expert_size, weighted_moments
from gpmodels.estimators.engine import FloatArray


class _GPRegressor(RegressorMixin, SparseGPEstimator):
    """What the regressors share."""

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        callback: Callable[[Any, int], None] | None = None,
    ) -> Self:
        """Fit to rows with real targets.

        Args:
            X: Inputs, ``[N, D]``; standardised inside.
            y: Targets, ``[N]``; standardised inside.
            sample_weight: How often each row counts, ``[N]``.
            callback: Called as ``callback(estimator, iteration)`` every ten iterations; the estimator can
                predict then.

        Returns:
            The estimator itself.

        Raises:
            ValueError: The data are not numbers or not finite.
        """
        x, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        y = column_or_1d(y, warn=True).astype(np.float64)
        weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        mean, scale = weighted_moments(y[:, None], weight)
        self.target_mean_, self.target_scale_ = float(mean[0]), float(scale[0])
        return self._fit(x, self._targets(y), weight, callback)

    def _head_settings(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "likelihood": "gaussian"}

    def _targets(self, y: npt.NDArray[Any]) -> FloatArray:
        return (y - self.target_mean_) / self.target_scale_

    def predict_distribution(self, X: Any) -> dict[str, npt.NDArray[Any]]:
        """All that the model says of each row.

        Args:
            X: Inputs, ``[N, D]``.

        Returns:
            ``mean``, ``variance`` of the noisy target, ``latent_variance`` of its mean, in the targets'
            units, and the responsible ``expert`` (from 0), each ``[N]``.
        """
        outputs = self._outputs(X)
        outputs["mean"] = outputs["mean"] * self.target_scale_ + self.target_mean_
        for name in ("variance", "latent_variance"):
            outputs[name] = outputs[name] * self.target_scale_**2
        return outputs

    def predict(self, X: Any, return_std: bool = False) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Mean of the target, and on request its standard deviation, noise included.

        Args:
            X: Inputs, ``[N, D]``.
            return_std: Return ``(mean, standard deviation)``.
        """
        outputs = self.predict_distribution(X)
        if return_std:
            return outputs["mean"], np.sqrt(outputs["variance"])
        return outputs["mean"]


class HGPRegressor(ExpertsEstimator, _GPRegressor):
    """Hierarchical Gaussian process regressor: a global sparse GP refined by gated local experts.

    Args:
        num_experts: T at the start, ``"auto"`` by the number of rows; experts that no row chooses are
            dropped.
        num_inducing: M of the global unit, ``"auto"`` for 2.5 % of the rows within 50 and 250.
        num_expert_inducing: M of each expert, None for as many.
        kernel: ``"squared_exponential"``, ``"matern12"``, ``"matern32"`` or ``"matern52"``, with one
            lengthscale for each column.
        global_weight: w, weight of the global unit's likelihood; 1 is the thesis, 0 a bound on log p(y).
        expert_variance: ``"full"`` or ``"thesis"``, see :class:`gpmodels.HGPHead`.
        e_step: ``"hard"``, or ``"soft"`` for responsibilities at T times the cost.
        optimizer: ``"lbfgs"`` on all rows, ``"adam"`` on mini-batches, or ``"auto"`` by the size of the data.
        max_iterations: Of L-BFGS or Adam; None takes 1000 or 10,000.
        learning_rate: Of Adam, at the start of its cosine schedule.
        batch_size: Rows of a step of Adam.
        tolerance: L-BFGS stops when an iteration gains less, in nats per row.
        early_stopping: Whether Adam holds rows out, stops when their density stalls, and keeps the best
            weights.
        validation_fraction: Share of the rows held out.
        random_state: Seed.
        dtype: ``"float64"`` or ``"float32"``.
        verbose: 1 shows a progress bar.
        log_dir: Folder for TensorBoard.

    Attributes:
        target_mean_: Mean of the targets.
        target_scale_: Their standard deviation.
        n_experts_: Experts left.
        n_iter_: Iterations done.
        learning_curve_: One :class:`gpmodels.estimators.monitoring.CurvePoint` for each iteration.
        weights_: What was learned.

    Source:
        Thesis chapter 3.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = HGPRegressor(num_experts=2, num_inducing=10, max_iterations=20, random_state=0).fit(X, y)
        >>> model.predict(X[:2]).shape
        (2,)
    """

    _model = "HGP"

    def __init__(
        self,
        *,
        num_experts: int | str = "auto",
        num_inducing: int | str = "auto",
        num_expert_inducing: int | None = None,
        kernel: str = "squared_exponential",
        global_weight: float = 1.0,
        expert_variance: str = "full",
        e_step: str = "hard",
        optimizer: str = "auto",
        max_iterations: int | None = None,
        learning_rate: float = 0.02,
        batch_size: int = 1024,
        tolerance: float = 1e-5,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        random_state: Any = None,
        dtype: str = "float64",
        verbose: int = 0,
        log_dir: str | None = None,
    ) -> None:
        self.num_experts = num_experts
        self.num_inducing = num_inducing
        self.num_expert_inducing = num_expert_inducing
        self.kernel = kernel
        self.global_weight = global_weight
        self.expert_variance = expert_variance
        self.e_step = e_step
        self.optimizer = optimizer
        self.max_iterations = max_iterations
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.tolerance = tolerance
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.dtype = dtype
        self.verbose = verbose
        self.log_dir = log_dir

    def _head_settings(self) -> dict[str, Any]:
        return {
            **super()._head_settings(),
            "global_weight": self.global_weight,
            "expert_variance": self.expert_variance,
        }

    def _sizes(self, num_rows: int) -> dict[str, Any]:
        return super()._sizes(num_rows) | expert_size(self.num_expert_inducing, num_rows)


class SVGPRegressor(_GPRegressor):
    """Sparse variational Gaussian process regressor.

    Parameters as for :class:`HGPRegressor`, without those of the experts.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True)
        >>> SVGPRegressor(num_inducing=10, max_iterations=20, random_state=0).fit(X, y).score(X, y) > 0.3
        True
    """

    _model = "SVGP"

    def __init__(
        self,
        *,
        num_inducing: int | str = "auto",
        kernel: str = "squared_exponential",
        optimizer: str = "auto",
        max_iterations: int | None = None,
        learning_rate: float = 0.02,
        batch_size: int = 1024,
        tolerance: float = 1e-5,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        random_state: Any = None,
        dtype: str = "float64",
        verbose: int = 0,
        log_dir: str | None = None,
    ) -> None:
        self.num_inducing = num_inducing
        self.kernel = kernel
        self.optimizer = optimizer
        self.max_iterations = max_iterations
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.tolerance = tolerance
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.dtype = dtype
        self.verbose = verbose
        self.log_dir = log_dir


class VMGPRegressor(ExpertsEstimator, SVGPRegressor):
    """Mixture of sparse GP experts without any global term (LMGP of thesis 3.5.5), for comparison.

    Parameters as for :class:`HGPRegressor`, without those of the global unit.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = VMGPRegressor(num_experts=2, num_inducing=10, max_iterations=20, random_state=0)
        >>> model.fit(X, y).n_experts_
        2
    """

    _model = "VMGP"
    _fewest_experts = 2  # there is nothing but experts

    def __init__(
        self,
        *,
        num_experts: int | str = "auto",
        num_inducing: int | str = "auto",
        kernel: str = "squared_exponential",
        e_step: str = "hard",
        optimizer: str = "auto",
        max_iterations: int | None = None,
        learning_rate: float = 0.02,
        batch_size: int = 1024,
        tolerance: float = 1e-5,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        random_state: Any = None,
        dtype: str = "float64",
        verbose: int = 0,
        log_dir: str | None = None,
    ) -> None:
        self.num_experts = num_experts
        self.e_step = e_step
        super().__init__(
            num_inducing=num_inducing,
            kernel=kernel,
            optimizer=optimizer,
            max_iterations=max_iterations,
            learning_rate=learning_rate,
            batch_size=batch_size,
            tolerance=tolerance,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            random_state=random_state,
            dtype=dtype,
            verbose=verbose,
            log_dir=log_dir,
        )
