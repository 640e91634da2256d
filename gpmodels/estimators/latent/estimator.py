"""Bayesian GPLVM: a map of the rows, what is odd among them, and what is missing in them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from gpmodels.estimators.fitting.fitted import all_or_nothing
from gpmodels.estimators.fitting.monitoring import CurvePoint, FitMonitor
from gpmodels.estimators.fitting.persistence import SavedEstimator
from gpmodels.estimators.fitting.summary import aligned
from gpmodels.estimators.latent.calibration import variance_factors
from gpmodels.estimators.latent.checks import (
    check_settings,
    checked_latent_rows,
    checked_positions,
    checked_standardised,
    checked_views,
)
from gpmodels.estimators.latent.files import restored_gplvm, stored_gplvm
from gpmodels.estimators.latent.fit import Fitted, fit_rows, relevance_of, shares_in_views
from gpmodels.gplvm.bounds import InducingPosterior
from gpmodels.gplvm.data import FloatArray, columns_of_views
from gpmodels.gplvm.inference import Positions, Starts, completed_moments, infer
from gpmodels.gplvm.kernels import LatentKernel
from gpmodels.gplvm.rows import HeldModel, expected_values, reconstruct
from gpmodels.gplvm.start import Scaling, scaling_of

FULL_BATCH_ROWS = 10_000
"""Most rows for which `optimizer="auto"` takes L-BFGS on all rows."""

FULL_BATCH_ITERATIONS = 1000
ADAM_ITERATIONS = 3000

DEFAULT_INDUCING = (25, 100)
"""Least and largest M of `num_inducing="auto"`, which takes a twentieth of the rows."""

MAX_LISTED = 20
"""Most dimensions in a summary."""

USED = 0.02
"""Share of a view's most relevant dimension from which on the view uses a dimension."""


@dataclass(kw_only=True, repr=False, eq=False)
class BayesianGPLVM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SavedEstimator):
    """Bayesian Gaussian process latent variable model: a map of rows with their uncertainty.

    Each column is a Gaussian process over a few latent dimensions, and each row has a Gaussian position
    there. Dimensions that the data do not need switch themselves off (`relevance_`). NaN means a missing
    value, in `fit`, `transform`, `score_samples` and `complete`. A file of `save` holds the positions of the
    training rows, not the rows.

    Columns of several kinds are `views`: each has a kernel, with relevances of its own, inducing inputs and a
    noise, so that some dimensions are shared and others private (`view_relevance_`, `dimension_views`). A row
    may lack whole views; `complete` predicts them from the others. Labels are a view of one column for each
    class.

    Args:
        num_dimensions: Q, latent dimensions to begin with; at most the rows and the columns.
        num_inducing: M, inducing inputs; `"auto"` takes a twentieth of the rows, within 25 and 100. A linear
            kernel needs none.
        posterior: `"gaussian"` for a Gaussian q(x) of each row, which makes the objective a bound on the
            evidence; `"map"` for a point, the plain GPLVM: quicker, but it does not switch dimensions off.
        kernel: `"rbf"`, with a lengthscale for each dimension; `"linear"`, which is probabilistic PCA with a
            prior on what each component contributes; or `"rbf+linear"`.
        scale: Centred columns are divided by `"common"`, one deviation of all values, which leaves columns
            that hardly vary as quiet as they are (pixels of a margin); `"columns"`, each by its own, for
            columns in different units; None, not at all.
        views: Columns of each view, column indices or a slice for each; each column is in one view. None
            makes all columns one view.
        optimizer: `"lbfgs"` on all rows, `"adam"` on mini-batches, or `"auto"`: mini-batches above 10,000
            rows of one view.
        max_iterations: Iterations of L-BFGS or Adam; None takes 1000 or 3000. Where L-BFGS ends with all rows
            at one position it starts once more from longer lengthscales, with as many again.
        learning_rate: Learning rate of Adam, at the start of its cosine schedule.
        batch_size: Rows of a step of Adam.
        tolerance: L-BFGS stops when an iteration gains less, in nats per row.
        random_state: Seed.
        verbose: 1 shows a progress bar.
        log_dir: Folder for TensorBoard.

    Attributes:
        embedding_: Positions of the training rows, `[N, Q]`, dimensions in the order of their relevance.
        embedding_std_: Standard deviations of the positions, `[N, Q]`.
        relevance_: Share of each dimension in what the kernel sees vary, of sum 1, falling, `[Q]`; all 0
            where every row lies at one position, since nothing was learned. Of several views, the mean.
        view_relevance_: The same for each view, `[V, Q]`; all 0 where a view sees no dimension.
        noise_deviation_: Standard deviation of the noise of each column in its own units, `[D]`.
        variance_factor_: What variances of filled values are multiplied by in `complete`, `[D]`.
        n_iter_: Iterations done, those of a second start included: up to twice `max_iterations`.
        learning_curve_: One `gpmodels.estimators.fitting.monitoring.CurvePoint` for each iteration.
        scaling_: Centre and deviation of each column.
        weights_: What was learned, arrays by name.

    Source:
        Titsias and Lawrence (2010); Lawrence (2005) for `"map"`; Damianou, Ek, Titsias and Lawrence (2012)
        for several views. Departures are in docs/theory.md.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X = load_iris().data
        >>> X[3, 2] = np.nan
        >>> model = BayesianGPLVM(num_dimensions=2, max_iterations=30, random_state=0)
        >>> model.fit_transform(X).shape
        (150, 2)
        >>> bool(abs(model.complete(X[3:4])[0, 2] - 1.5) < 0.5)
        True
    """

    _stored = stored_gplvm
    _restored: ClassVar[Any] = classmethod(restored_gplvm)

    num_dimensions: int = 10
    num_inducing: int | str = "auto"
    posterior: str = "gaussian"
    kernel: str = "rbf"
    scale: str | None = "common"
    views: Sequence[Sequence[int] | slice] | None = None
    optimizer: str = "auto"
    max_iterations: int | None = None
    learning_rate: float = 0.01
    batch_size: int = 500
    tolerance: float = 1e-5
    random_state: Any = None
    verbose: int = 0
    log_dir: str | None = None

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: NaN is allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002 - scikit-learn's signature
        *,
        callback: Callable[[Any, int], None] | None = None,
    ) -> Self:
        """Learn positions and functions.

        Args:
            X: Rows `[N, D]`; NaN where a value is missing.
            y: Not used. For a map that knows labels, give them as a view: a column of 0 and 1 for each class,
                NaN in rows without a label.
            callback: Called with the estimator and the iteration every ten iterations; the estimator can
                transform at that moment.

        Raises:
            ValueError: A parameter is out of range, a column is not in one of the views, X holds infinity or
                numbers too large to compute with, or a row or column of X is all NaN.
        """
        x = checked_latent_rows(self, X, reset=True)
        check_settings(self, x.shape)
        view = checked_views(self, x)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused in the next line
            self.scaling_: Scaling = scaling_of(x, self.scale, view)
        standardised = self._standardised(x)
        takes_all = view is not None or len(x) <= FULL_BATCH_ROWS
        full_batch = self.optimizer == "lbfgs" or (self.optimizer == "auto" and takes_all)
        total = self.max_iterations or (FULL_BATCH_ITERATIONS if full_batch else ADAM_ITERATIONS)
        latest: list[Callable[[], Fitted]] = []
        with FitMonitor(
            None,
            num_data=float(len(x)),
            total=total,
            verbose=self.verbose,
            log_dir=self.log_dir,
            publish=lambda: self._publish(latest[0]()),
            callback=None if callback is None else lambda iteration: callback(self, iteration),
            scalars=lambda: latest[0]().scalars(),
        ) as monitor:

            def iteration_done(bound: float, fitted: Callable[[], Fitted]) -> None:
                latest[:] = [fitted]
                monitor.report(bound)

            fitted = fit_rows(
                self,
                standardised,
                num_inducing=self._num_inducing(len(x)),
                full_batch=full_batch,
                max_iterations=total,
                rng=rng,
                iteration_done=iteration_done,
                view=view,
            )
        self._publish(fitted)
        self.learning_curve_: list[CurvePoint] = monitor.curve
        self.n_iter_ = max(monitor.iteration, 1)
        # A row's best position with q(u) held is what `transform` returns; it never lowers the bound.
        self.embedding_, self.embedding_std_ = self._positions(standardised).best()
        self.variance_factor_ = variance_factors(self._model(), self._starts(), standardised, rng)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> FloatArray:
        """Learn positions and functions, and return the positions of the rows, `embedding_`.

        Args:
            X: Rows `[N, D]`; NaN where a value is missing.
            y: Not used.
            **fit_params: As for `fit`.
        """
        return self.fit(X, y, **fit_params).embedding_

    def transform(self, X: Any, return_std: bool = False) -> Any:
        """Return the positions of rows, whole or partial, with q(u) held.

        Args:
            X: Rows `[N, D]`; NaN where a value is missing.
            return_std: Whether to return standard deviations too. Where several positions explain a row, the
                likeliest is returned, and the deviations say how far the others are.

        Returns:
            Positions `[N, Q]`, or positions and deviations.
        """
        check_is_fitted(self)
        x = checked_latent_rows(self, X, reset=False)
        mean, deviation = self._positions(self._standardised(x)).best()
        return (mean, deviation) if return_std else mean

    def inverse_transform(self, Z: Any, return_std: bool = False) -> Any:
        """Return what the model expects at positions.

        Args:
            Z: Positions `[N, Q]`.
            return_std: Whether to return standard deviations, noise included, too.

        Returns:
            Rows `[N, D]` in the data's units, or rows and deviations.

        Raises:
            ValueError: Z has another number of columns than the model has dimensions, or is not finite.
        """
        check_is_fitted(self)
        z = checked_positions(Z, self.embedding_.shape[1])
        expected = reconstruct(self._model(), z, np.zeros_like(z))
        mean = self.scaling_.restored(expected.mean)
        return (mean, np.sqrt(expected.variance) * self.scaling_.deviation) if return_std else mean

    def complete(self, X: Any, return_std: bool = False) -> Any:
        """Return rows with their missing values filled by what the model expects of them.

        Args:
            X: Rows `[N, D]`; NaN where a value is missing.
            return_std: Whether to return standard deviations, noise included, too: 0 where a value was given.
                They are those of the model, times what values of training rows that were hidden on purpose
                ask for in each column.

        Returns:
            Rows without NaN `[N, D]`, or rows and deviations.
        """
        check_is_fitted(self)
        x = checked_latent_rows(self, X, reset=False)
        expected = completed_moments(self._model(), self._positions(self._standardised(x)))
        is_missing = np.isnan(x)
        completed = np.where(is_missing, self.scaling_.restored(expected.mean), x)
        deviation = np.sqrt(expected.variance * self.variance_factor_) * self.scaling_.deviation
        return (completed, np.where(is_missing, deviation, 0.0)) if return_std else completed

    def score_samples(self, X: Any) -> FloatArray:
        """Return a lower bound on the log density of what was seen of each row; the lowest are the oddest.

        Args:
            X: Rows `[N, D]`; NaN where a value is missing.

        Returns:
            Nats in the data's units, `[N]`. With `posterior="map"` it is the log density of the row and its
            best position together, which bounds nothing. Compare rows with the same columns seen.
        """
        check_is_fitted(self)
        x = checked_latent_rows(self, X, reset=False)
        bound = self._positions(self._standardised(x)).bound
        return bound - (~np.isnan(x)).astype(np.float64) @ np.log(self.scaling_.deviation)

    def summary(self) -> str:
        """Return a table of what was learned: relevance and spread of each dimension, and the noise."""
        check_is_fitted(self)
        weights, model = self.weights_, self._model()
        views = () if model.view is None else range(len(model.inducing))
        header = ["dimension", "relevance", "spread", "median deviation"]
        header += [f"in view {v}" for v in views] + (["used by views"] if views else [])
        has_lengthscales = "kernel_lengthscales" in weights and not views
        rows = [[*header, *(["lengthscale"] if has_lengthscales else [])]]
        users = self.dimension_views()
        for q in range(min(len(self.relevance_), MAX_LISTED)):
            spread, deviation = self.embedding_[:, q].std(), np.median(self.embedding_std_[:, q])
            row = [str(q), f"{self.relevance_[q]:.1%}", f"{spread:.3g}", f"{deviation:.3g}"]
            if views:
                row += [f"{share:.1%}" for share in self.view_relevance_[:, q]]
                row.append(", ".join(map(str, users[q])) or "none")
            if has_lengthscales:
                row.append(f"{weights['kernel_lengthscales'][q]:.3g}")
            rows.append(row)
        hidden = len(self.relevance_) - len(rows) + 1
        bound = self.learning_curve_[-1].bound_per_point if self.learning_curve_ else float("nan")
        num_inducing = model.inducing.shape[-2]
        kind = "objective" if self._is_point else "bound"
        variances = np.var(self._expected(), axis=0)
        signals = [
            f"{variances[columns].mean() / noise:.3g}"
            for columns, noise in zip(
                columns_of_views(model.view), np.atleast_1d(model.noise_variance), strict=True
            )
        ]
        return "\n".join(
            [
                f"{type(self).__name__}: {self.kernel} kernel, {num_inducing} inducing inputs",
                f"{len(self.embedding_)} rows, {self.n_features_in_} columns",
                f"{kind} {bound:.4f} nats per row after {self.n_iter_} iterations",
                f"signal over noise {', '.join(signals)}",
                "",
                *aligned(rows),
                *([f"and {hidden} less relevant dimensions"] if hidden > 0 else []),
            ]
        )

    def dimension_views(self, threshold: float = USED) -> list[tuple[int, ...]]:
        """Return the views that use each dimension: several share it, one has it for itself, none needs it.

        Args:
            threshold: A view uses a dimension from this share of its own most relevant dimension on.
        """
        shares = self.view_relevance_
        is_used = (shares > 0.0) & (shares >= threshold * shares.max(axis=1, keepdims=True))
        return [tuple(np.flatnonzero(used).tolist()) for used in is_used.T]

    @property
    def view_relevance_(self) -> FloatArray:
        """Share of each dimension in what each view's kernel sees vary, of sum 1 or all 0, `[V, Q]`."""
        check_is_fitted(self)
        model = self._model()
        return shares_in_views(self.weights_["start_mean"], model.kernel, np.asarray(model.noise_variance))

    @property
    def noise_deviation_(self) -> FloatArray:
        """Standard deviation of the noise of each column in its own units, `[D]`."""
        check_is_fitted(self)
        return np.sqrt(self._model().column_noise()) * self.scaling_.deviation

    def _publish(self, fitted: Fitted) -> None:
        """Take over what was learned."""
        self.weights_: dict[str, npt.NDArray[Any]] = fitted.weights()
        self.relevance_ = relevance_of(fitted.parameters)
        self.embedding_ = self.weights_["start_mean"]
        self.embedding_std_ = np.sqrt(self.weights_["start_variance"])
        self.variance_factor_ = np.ones(fitted.model().posterior.mean.shape[1])

    def _standardised(self, x: FloatArray) -> FloatArray:
        return checked_standardised(self.scaling_, x, getattr(self, "feature_names_in_", None))

    def _num_inducing(self, num_rows: int) -> int:
        least, largest = DEFAULT_INDUCING
        if self.num_inducing == "auto":
            return min(max(num_rows // 20, least), largest, num_rows)
        return min(int(self.num_inducing), num_rows)

    @property
    def _is_point(self) -> bool:
        """Whether points were fitted, whatever `posterior` says since."""
        return not self.weights_["start_variance"].any()

    def _model(self) -> HeldModel:
        weights = self.weights_
        kernel = {
            name: tf.constant(weights[f"kernel_{name}"])
            for name in LatentKernel._fields
            if f"kernel_{name}" in weights
        }
        covariance = tf.constant(weights["inducing_covariance"])
        return HeldModel(
            kernel=LatentKernel(**kernel),
            inducing=weights["inducing_inputs"],
            noise_variance=weights["noise_variance"]
            if "column_view" in weights
            else float(weights["noise_variance"]),
            posterior=InducingPosterior(tf.constant(weights["inducing_mean"]), covariance),
            group=weights["column_group"],
            is_point=self._is_point,
            view=weights.get("column_view"),
        )

    def _expected(self) -> FloatArray:
        """Return what the model expects of the training rows, standardised, `[N, D]`."""
        weights = self.weights_
        return expected_values(self._model(), weights["start_mean"], weights["start_variance"])

    def _starts(self) -> Starts:
        """Return the training rows, from which searches for new rows start."""
        weights = self.weights_
        return Starts(weights["start_mean"], weights["start_variance"], self._expected())

    def _positions(self, standardised: FloatArray) -> Positions:
        return infer(self._model(), self._starts(), standardised)
