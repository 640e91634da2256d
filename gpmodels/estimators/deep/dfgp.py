"""Deep feed-forward GP: classifier and regressor, with multiple-kernel learning over views of the columns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from gpmodels.dfgp.head import default_num_hidden
from gpmodels.estimators.fitting.engine import FloatArray
from gpmodels.estimators.fitting.summary import aligned, reported_bound
from gpmodels.estimators.sparse.base import PLACEMENT_ROWS, SparseGPEstimator
from gpmodels.estimators.sparse.classifiers import _GPClassifier
from gpmodels.estimators.sparse.regressors import _GPRegressor
from gpmodels.units.counts import is_count
from gpmodels.units.views import normalised_views

MAX_LISTED = 20
"""Most hidden units in a summary, those of the largest weights."""


@dataclass(kw_only=True, repr=False, eq=False)
class _DeepEstimator(SparseGPEstimator):
    """What classifier and regressor share."""

    _model: ClassVar[str] = "dfgp"
    _of_head: ClassVar[tuple[str, ...]] = (
        *("output_kernel", "hidden_posterior", "hidden_lengthscales", "hidden_kl_weight"),
    )
    _lbfgs_iterations: ClassVar[int] = 200
    _learned_arrays: ClassVar[tuple[str, ...]] = ("view_weights_",)

    num_inducing: int = 20
    num_hidden: int | None = None
    num_hidden_inducing: int | None = None
    views: Sequence[Sequence[int] | slice] | None = None
    output_kernel: str = "ard"
    hidden_posterior: str = "gaussian"
    hidden_lengthscales: str = "learned"
    hidden_kl_weight: float = 1.0

    def _sizes(self, num_rows: int) -> dict[str, Any]:
        counts = {"num_inducing": self.num_inducing}
        for name, default in (
            ("num_hidden_inducing", self.num_inducing),
            ("num_hidden", default_num_hidden(self.n_features_in_)),
        ):
            value = getattr(self, name)
            counts[name] = default if value is None else value
        views = None if self.views is None else normalised_views(self.views)
        if views is not None and self.num_hidden is None:
            counts["num_hidden"] = len(views)
        for name, value in counts.items():
            if not is_count(value):
                raise ValueError(f"{name} must be a positive integer, but is {value!r}.")
        for name in ("num_inducing", "num_hidden_inducing"):
            counts[name] = min(int(counts[name]), num_rows)
        return {**counts, "views": views}

    def _values_per_row(self) -> float:
        settings = self.head_settings_
        hidden, inducing = settings["num_hidden"], settings["num_inducing"]
        pairs = inducing * (inducing + 1) // 2 * max(settings.get("num_classes", 1) - 1, 1)
        return (3 * hidden * settings["num_hidden_inducing"] + pairs) / 3

    def _fit(
        self,
        x: FloatArray,
        targets: FloatArray,
        weight: FloatArray,
        groups: npt.NDArray[np.intp] | None,
        callback: Callable[[Any, int], None] | None,
    ) -> Self:
        super()._fit(x, targets, weight, groups, callback)
        used = np.flatnonzero(weight > 0)
        rows = used[:: -(-len(used) // PLACEMENT_ROWS)]
        features = (x[rows] - self.input_mean_) / self.input_scale_
        weights = self._trained_engine().head.view_weights(features)
        if weights is None:
            raise TypeError(f"The head of a {type(self).__name__} must weigh views.")
        self.view_weights_ = weights
        return self

    def summary(self) -> str:
        """Return a table of what was learned: hidden units' views and weights, and the output functions."""
        check_is_fitted(self)
        head = self._trained_engine().head
        divergences = dict(zip(head.unit_names, head.prior_kl().numpy(), strict=True))
        lengthscales = dict(zip(head.unit_names, head.lengthscales(), strict=True))
        views = head.views or [range(self.n_features_in_)] * head.hidden.num_hidden
        rows = [["unit", "columns", "weight", "KL", "median lengthscale"]]
        for r in np.argsort(-self.view_weights_, kind="stable")[:MAX_LISTED]:
            name = f"hidden_{r + 1}"
            median = f"{np.median(lengthscales[name]):.4g}"
            weight = f"{self.view_weights_[r]:.1%}"
            rows.append([name, _shown(views[r]), weight, f"{divergences[name]:.2f}", median])
        rows += [
            [name, "", "", f"{divergences[name]:.2f}", f"{np.median(lengthscales[name]):.4g}"]
            for name in head.unit_names[head.hidden.num_hidden :]
        ]
        left_out = head.hidden.num_hidden - MAX_LISTED
        bound, training = reported_bound(self)
        objective = "bound" if self.hidden_kl_weight == 1.0 else "tempered objective (no bound)"
        kernels = f"{head.kernel_name} hidden kernels, {head.output_kernel} output kernel"
        return "\n".join(
            [
                f"{type(self).__name__}: {kernels}, {head.likelihood_name} likelihood",
                f"{self.n_features_in_} features, {head.hidden.num_hidden} hidden units",
                f"{objective} {bound:.4f} nats per row {training}",
                "",
                *aligned(rows),
                *([f"and {left_out} hidden units of smaller weights"] if left_out > 0 else []),
            ]
        )


def _shown(columns: Sequence[int]) -> str:
    """Return the columns as text, shortened where they follow each other."""
    if len(columns) > 2 and list(columns) == list(range(columns[0], columns[-1] + 1)):
        return f"{columns[0]} to {columns[-1]}"
    shown = ", ".join(map(str, columns[:6]))
    return f"{shown}, ..." if len(columns) > 6 else shown


@dataclass(kw_only=True, repr=False, eq=False)
class DFGPClassifier(_DeepEstimator, _GPClassifier):
    """Deep feed-forward Gaussian process classifier: sparse GPs on the columns, a sparse GP on their values.

    Args:
        num_hidden: ν, hidden units; None takes one for each view, or without views a quarter of the columns,
            within 4 and 32.
        num_inducing: M of each output function.
        num_hidden_inducing: M of each hidden unit, None for as many.
        views: Columns of each hidden unit, for multiple-kernel learning: column indices or a slice for each.
            None shows all columns to all units.
        kernel: Kernel of the hidden units, see `gpmodels.HGPClassifier`.
        kernel_depth: Layers of an arc-cosine kernel.
        output_kernel: `"ard"`, `"rbf"`, `"full"` or `"linear"` (DFGP-WP), see
            `gpmodels.DFGPHead`.
        hidden_posterior: `"gaussian"`, or `"point"` for the paper's.
        hidden_lengthscales: `"learned"`, or `"median"` to leave them at the median distance, which may
            help where rows are few, see `gpmodels.DFGPHead`.
        hidden_kl_weight: What the hidden units' KL counts in the objective, in (0, 1]; less than 1 may help
            where rows are few, see `gpmodels.DFGPHead`.
        class_kernels: `"shared"`, or `"separate"` for one output kernel of each class.
        optimizer: `"lbfgs"` on all rows, `"adam"` on mini-batches, or `"auto"` by the size of the data.
        max_iterations: Iterations of L-BFGS or Adam; None takes 200 or 10,000.
        learning_rate: Learning rate of Adam, at the start of its cosine schedule.
        batch_size: Rows of a step of Adam.
        tolerance: L-BFGS stops when an iteration gains less, in nats per row.
        effective_observations: How many observations the rows count as: `"all"` of them; `"auto"`, where
            `fit` is given groups, as many as the rows of a group do not repeat; or a number.
        early_stopping: Whether Adam holds rows out, stops when their density stalls, and keeps the best
            weights.
        validation_fraction: Share of the rows held out.
        class_weight: `"balanced"`, or `{label: weight}`.
        random_state: Seed.
        dtype: `"float64"` or `"float32"`.
        verbose: 1 shows a progress bar.
        log_dir: Folder for TensorBoard.

    Attributes:
        classes_: Labels, sorted.
        view_weights_: Share of each hidden unit in what the output varies with over the training rows, of
            sum 1, `[ν]`; `gpmodels.DFGPHead.view_weights` has the definition.
        effective_observations_: How many observations the rows counted as: the number set, what `"auto"`
            found, or N.
        n_iter_: Iterations done.
        kept_iteration_: Iteration whose weights were kept, the last one unless rows held out preferred
            another; 0 for the start.
        learning_curve_: One `gpmodels.estimators.fitting.monitoring.CurvePoint` for each iteration.
        weights_: What was learned.

    Source:
        Paper (Kandemir and Hamprecht), sections 3 to 5.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = DFGPClassifier(views=[[0, 1], [2, 3]], num_inducing=8, max_iterations=20, random_state=0)
        >>> model.fit(X, y).view_weights_.shape
        (2,)
    """

    def _head_settings(self) -> dict[str, Any]:
        return {
            **super()._head_settings(),
            "num_classes": len(self.classes_),
            "class_kernels": self.class_kernels,
            "likelihood": "noisy_probit",
        }


@dataclass(kw_only=True, repr=False, eq=False)
class DFGPRegressor(_DeepEstimator, _GPRegressor):
    """Deep feed-forward Gaussian process regressor: sparse GPs on the columns, a sparse GP on their values.

    Parameters as for `DFGPClassifier`, without those of the classes.

    Attributes:
        view_weights_: As for `DFGPClassifier`, `[ν]`.
        target_mean_: Mean of the targets.
        target_scale_: Their standard deviation.

    Source:
        Paper (Kandemir and Hamprecht), sections 3 to 5.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = DFGPRegressor(num_inducing=10, max_iterations=30, random_state=0).fit(X, y)
        >>> model.score(X, y) > 0.4
        True
    """
