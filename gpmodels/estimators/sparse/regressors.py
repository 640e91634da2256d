"""Regressors: hierarchical GP (the thesis' HMGP), sparse variational GP, mixture without a global term."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d

from gpmodels.estimators.fitting.engine import FloatArray
from gpmodels.estimators.fitting.fitted import all_or_nothing
from gpmodels.estimators.fitting.grouped import checked_groups
from gpmodels.estimators.fitting.learned import warn_of_lone_targets
from gpmodels.estimators.fitting.rows import checked_rows, weighted_moments
from gpmodels.estimators.sparse.base import (
    ConjugateEstimator,
    ExpertsEstimator,
    HierarchicalEstimator,
    SparseGPEstimator,
)
from gpmodels.estimators.sparse.leave_one_out import LeavesOneOutRegressor
from gpmodels.estimators.sparse.row_digest import row_digest
from gpmodels.likelihoods.names import COUNT_LIKELIHOODS, TARGET_LIKELIHOODS
from gpmodels.statistics.conformal import conformal_threshold, groups_needed
from gpmodels.units.counts import check_counts


@dataclass(kw_only=True, repr=False, eq=False)
class _GPRegressor(RegressorMixin, SparseGPEstimator):
    """What the regressors share."""

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        callback: Callable[[Any, int], None] | None = None,
    ) -> Self:
        """Fit to rows with real targets.

        Args:
            X: Inputs, `[N, D]`; standardised inside.
            y: Targets, `[N]`; standardised inside.
            sample_weight: How often each row counts, `[N]`.
            groups: What each row belongs to, a patient or a site for instance, `[N]`: rows of one group
                repeat each other, and `effective_observations="auto"` finds how much. None: no two rows do.
            callback: Called as `callback(estimator, iteration)` every ten iterations; the estimator can
                predict then.

        Returns:
            The estimator itself.

        Raises:
            ValueError: The data are not numbers or not finite.
        """
        x, y = checked_rows(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        y = column_or_1d(y, warn=True).astype(np.float64)
        weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        warn_of_lone_targets(y[weight > 0.0])
        if self._likelihood() in COUNT_LIKELIHOODS and not np.all(
            is_count := (y >= 0.0) & (y == np.floor(y))
        ):
            raise ValueError(
                f"likelihood={self._likelihood()!r} is for counts 0, 1, 2, ..., but y has "
                f"{y[~is_count][0]:g} in row {int(np.argmin(is_count))}, counted from 0. Give counts, or "
                "take likelihood='gaussian'."
            )
        for name in ("interval_scores_", "interval_groups_"):
            if hasattr(self, name):  # those of an earlier fit
                delattr(self, name)
        return self._fit(x, y, weight, checked_groups(groups, len(x)), callback)

    def _head_settings(self) -> dict[str, Any]:
        return {**super()._head_settings(), "likelihood": self._likelihood()}

    def _likelihood(self) -> str:
        """Return the name of the likelihood, which most regressors have no choice of."""
        return str(getattr(self, "likelihood", "gaussian"))

    def _check_settings(self) -> None:
        super()._check_settings()
        if self._likelihood() not in TARGET_LIKELIHOODS:
            raise ValueError(
                f"likelihood must be one of {TARGET_LIKELIHOODS}, but is {self._likelihood()!r}."
            )

    def _scaled_targets(self, targets: FloatArray, weight: FloatArray) -> FloatArray:
        mean, scale = weighted_moments(targets[:, None], weight)
        standardises = self._likelihood() == "gaussian"
        self.target_mean_, self.target_scale_ = (
            (float(mean[0]), float(scale[0])) if standardises else (0.0, 1.0)
        )
        return self._targets(targets)

    def _targets(self, y: npt.NDArray[Any]) -> FloatArray:
        return (y - self.target_mean_) / self.target_scale_

    def predict_distribution(self, X: Any) -> dict[str, npt.NDArray[Any]]:
        """Return everything that the model says of each row.

        Args:
            X: Inputs, `[N, D]`.

        Returns:
            `mean`, `variance` of the noisy target, `latent_variance` of its mean, in the targets'
            units, and the responsible `expert` (from 0), each `[N]`. Of counts the latent function, with its
            `latent_mean`, is the logarithm of their mean over the mean of the fit's counts.
        """
        outputs = self._outputs(X)
        # In float64, whatever the head computes in: targets may be large beside their deviation.
        outputs["mean"] = outputs["mean"].astype(np.float64) * self.target_scale_ + self.target_mean_
        for name in ("variance", "latent_variance"):
            outputs[name] = outputs[name] * self.target_scale_**2
        return outputs

    def predict(
        self, X: Any, return_std: bool = False, *, return_interval: float | None = None
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the mean of the target, on request with its standard deviation or an interval.

        Args:
            X: Inputs, `[N, D]`.
            return_std: Return `(mean, standard deviation)`, noise included.
            return_interval: Return `(mean, interval [N, 2])` whose intervals hold this share of new targets,
                as the rows given to `conformalize` show.

        Raises:
            ValueError: Both are asked for, or `conformalize` had too few rows, or groups, for such intervals.
        """
        outputs = self.predict_distribution(X)
        deviation = np.sqrt(outputs["variance"])
        if return_interval is None:
            return (outputs["mean"], deviation) if return_std else outputs["mean"]
        if return_std:
            raise ValueError("At most one of return_std and return_interval can be requested.")
        half = self._interval_factor(return_interval) * deviation
        least = 0.0 if self._likelihood() in COUNT_LIKELIHOODS else -np.inf
        ends = outputs["mean"] - half, outputs["mean"] + half
        return outputs["mean"], np.maximum(np.stack(ends, axis=1), least)

    def conformalize(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Find how wide intervals must be, by rows that the fit has not seen; `predict` gives them then.

        An interval reaches as many standard deviations from the mean as the share of these rows that is asked
        for takes. It then holds a new target with at least this probability, on average over such rows, where
        new rows are like them: whatever the model gets wrong.

        Args:
            X: Inputs that were not in `fit`, `[N, D]`.
            y: Their targets, `[N]`.
            groups: Group of each row, `[N]`, such as its patient: groups count alike. None: each row is one.

        Returns:
            The estimator itself.

        Raises:
            ValueError: The rows are those of the fit.

        Source:
            `gpmodels.statistics.conformal`.

        Example:
            >>> from sklearn.datasets import load_diabetes
            >>> X, y = load_diabetes(return_X_y=True)
            >>> model = SVGPRegressor(num_inducing=10, max_iterations=20).fit(X[:300], y[:300])
            >>> mean, interval = model.conformalize(X[300:], y[300:]).predict(X[:2], return_interval=0.9)
            >>> interval.shape
            (2, 2)
        """
        check_is_fitted(self)
        x, targets = checked_rows(self, X, y, reset=False, dtype=np.float64)
        targets = column_or_1d(targets).astype(np.float64)
        if row_digest(x, targets) == getattr(self, "rows_digest_", None):
            raise ValueError(
                "These are the rows of the fit, whose errors are smaller than those of new rows. Give rows "
                "that were held out of the fit."
            )
        outputs = self.predict_distribution(x)
        self.interval_scores_ = np.abs(targets - outputs["mean"]) / np.sqrt(outputs["variance"])
        of_row = checked_groups(groups, len(x))
        self.interval_groups_ = np.arange(len(x)) if of_row is None else of_row
        return self

    def _interval_factor(self, coverage: float) -> float:
        """Return how many standard deviations from the mean an interval reaches."""
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"return_interval is a share between 0 and 1, such as 0.9, but is {coverage!r}.")
        if not hasattr(self, "interval_scores_"):
            raise ValueError(
                "Intervals follow from rows that the fit has not seen. Call conformalize(X, y) with such "
                "rows first."
            )
        factor = conformal_threshold(self.interval_scores_, self.interval_groups_, coverage)
        if not np.isfinite(factor):
            raise ValueError(
                f"Intervals for a share of {coverage:g} take {groups_needed(coverage)} held-out rows, or "
                f"groups of them, but conformalize had {len(np.unique(self.interval_groups_))}."
            )
        return factor


@dataclass(kw_only=True, repr=False, eq=False)
class _JointRegressor(_GPRegressor):
    """A regressor of sparse GP units, whose joint posterior is known."""

    likelihood: str = "gaussian"

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        return_interval: float | None = None,
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the mean of the target, on request with its standard deviation, covariance or an interval.

        All of them include the noise. The covariance says how the targets of several rows vary together,
        which the uncertainty of their sum, mean or maximum needs. Its diagonal is the square of the standard
        deviation. Memory grows with N².

        Args:
            X: Inputs, `[N, D]`.
            return_std: Return `(mean, standard deviation)`.
            return_cov: Return `(mean, covariance [N, N])`; not of counts.
            return_interval: Return `(mean, interval [N, 2])` whose intervals hold this share of new targets,
                as the rows given to `conformalize` show.

        Raises:
            ValueError: Several are asked for, `conformalize` had too few rows, or groups, for such intervals,
                or a covariance of counts is asked for.
        """
        if not return_cov:
            return super().predict(X, return_std, return_interval=return_interval)
        if return_std or return_interval is not None:
            raise ValueError("At most one of return_std, return_cov and return_interval can be requested.")
        outputs, covariance = self._joint(X)
        np.fill_diagonal(covariance, outputs["variance"])
        return outputs["mean"], covariance

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = 0, *, noise: bool = True
    ) -> FloatArray:
        """Draw targets of all rows together, or functions at these rows.

        Time grows with N³: draw for some thousand rows at most.

        Args:
            X: Inputs, `[N, D]`.
            n_samples: Number of draws.
            random_state: Seed of the draws, or a `RandomState`.
            noise: Whether each target has its noise; False draws the functions beneath.

        Returns:
            The draws, `[N, n_samples]`.

        Raises:
            ValueError: `n_samples` is no positive whole number, the model is one of counts, or X is not what
                it was fitted to.

        Example:
            >>> from sklearn.datasets import load_diabetes
            >>> X, y = load_diabetes(return_X_y=True)
            >>> model = SVGPRegressor(num_inducing=10, max_iterations=20, random_state=0).fit(X, y)
            >>> model.sample_y(X[:4], 3).shape
            (4, 3)
        """
        check_counts(n_samples=n_samples)
        outputs, covariance = self._joint(X)
        if noise:
            np.fill_diagonal(covariance, outputs["variance"])
        draws = check_random_state(random_state).multivariate_normal(
            outputs["mean"], covariance, n_samples, check_valid="ignore"
        )
        return np.asarray(draws).T

    def _joint(self, X: Any) -> tuple[dict[str, npt.NDArray[Any]], FloatArray]:
        """Return `predict_distribution`, and the covariance of the mean of the targets, `[N, N]`."""
        if self._likelihood() != "gaussian":
            raise ValueError("Covariances and joint draws are those of likelihood='gaussian', not of counts.")
        outputs = self.predict_distribution(X)
        covariance = self._latent_covariance(X, outputs["expert"])[0] * self.target_scale_**2
        np.fill_diagonal(covariance, outputs["latent_variance"])  # which is bounded below against rounding
        return outputs, covariance


@dataclass(kw_only=True, repr=False, eq=False)
class HGPRegressor(LeavesOneOutRegressor, HierarchicalEstimator, _JointRegressor):
    """Hierarchical Gaussian process regressor: a global sparse GP refined by gated local experts.

    Args:
        num_experts: T at the start, `"auto"` by the number of rows; experts that no row chooses are
            dropped.
        num_inducing: M of the global unit, `"auto"` for 2.5 % of the rows within 50 and 250.
        num_expert_inducing: M of each expert, None for as many.
        kernel: `"squared_exponential"`, `"matern12"`, `"matern32"`, `"matern52"`, or the kernel of a wide
            network, `"arc_cosine0"`, `"arc_cosine1"`, `"arc_cosine2"`; with one lengthscale for each column.
        kernel_depth: Layers of an arc-cosine kernel.
        likelihood: `"gaussian"`; or of counts 0, 1, 2, ... `"poisson"`, or `"negative_binomial"`, whose
            variance may be larger than their mean. `predict` returns the expected count then.
        mean: `"linear"`: the GP corrects a regularised linear layer, whose penalty is chosen by rows, or
            groups, held out; `"none"`: the latent functions have mean zero, as in the thesis.
        lengthscale_spread: How far the lengthscales of a kernel are expected to lie apart: the standard
            deviation of their logarithms about their mean. With few rows the prior decides, with many the
            data. None leaves each of them free from the start.
        global_weight: w, weight of the global unit's likelihood; 1 is the thesis, 0 a bound on log p(y).
        expert_variance: `"full"` or `"thesis"`, see `gpmodels.HGPHead`.
        e_step: `"hard"`, or `"soft"` for responsibilities at T times the cost.
        optimizer: `"lbfgs"` on all rows, `"adam"` on mini-batches, or `"auto"` by the size of the data.
        max_iterations: Iterations of L-BFGS or Adam; None takes 1000 or 10,000.
        learning_rate: Learning rate of Adam, at the start of its cosine schedule.
        batch_size: Rows of a step of Adam.
        tolerance: L-BFGS stops when an iteration gains less, in nats per row.
        effective_observations: How many observations the rows count as: `"all"` of them; `"auto"`, where
            `fit` is given groups, as many as the rows of a group do not repeat; or a number.
        early_stopping: Whether Adam holds rows out, stops when their density stalls, and keeps the best
            weights.
        validation_fraction: Share of the rows held out.
        random_state: Seed.
        dtype: `"float64"` or `"float32"`.
        verbose: 1 shows a progress bar.
        log_dir: Folder for TensorBoard.

    Attributes:
        target_mean_: Mean of the targets, 0 of counts.
        target_scale_: Their standard deviation, 1 of counts.
        n_experts_: Experts left.
        effective_observations_: How many observations the rows counted as: the number set, what `"auto"`
            found, or N.
        linear_share_: Share of the latent functions' variance over the rows that is the linear mean's.
        n_iter_: Iterations done.
        kept_iteration_: Iteration whose weights were kept, the last one unless rows held out preferred
            another; 0 for the start.
        learning_curve_: One `gpmodels.estimators.fitting.monitoring.CurvePoint` for each iteration.
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


@dataclass(kw_only=True, repr=False, eq=False)
class SVGPRegressor(LeavesOneOutRegressor, _JointRegressor, ConjugateEstimator):
    """Sparse variational Gaussian process regressor.

    Parameters as for `HGPRegressor`, without those of the experts.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True)
        >>> SVGPRegressor(num_inducing=10, max_iterations=20, random_state=0).fit(X, y).score(X, y) > 0.3
        True
    """

    _model: ClassVar[str] = "svgp"


@dataclass(kw_only=True, repr=False, eq=False)
class VMGPRegressor(ExpertsEstimator, SVGPRegressor):
    """Mixture of sparse GP experts without any global term (LMGP of thesis 3.5.5), for comparison.

    Parameters as for `HGPRegressor`, without those of the global unit.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = VMGPRegressor(num_experts=2, num_inducing=10, max_iterations=20, random_state=0)
        >>> model.fit(X, y).n_experts_
        2
    """

    _model: ClassVar[str] = "vmgp"
    _fewest_experts: ClassVar[int] = 2  # there is nothing but experts
