"""Deep feed-forward GP: classifier and regressor, with multiple-kernel learning over views of the columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from gpmodels.dfgp import DFGPHead, default_num_hidden, normalised_views
from gpmodels.estimators.base import PLACEMENT_ROWS, SparseGPEstimator, is_count
from gpmodels.estimators.classifiers import _GPClassifier
from gpmodels.estimators.engine import FloatArray
from gpmodels.estimators.regressors import _GPRegressor
from gpmodels.estimators.summary import aligned

MAX_LISTED = 20
"""Most hidden units in a summary, those of the largest weights."""


class _DeepEstimator(SparseGPEstimator):
    """What classifier and regressor share."""

    _model = "DFGP"
    _lbfgs_iterations = 200
    _learned_arrays = ("view_weights_",)

    num_inducing: int
    num_hidden: int | None
    num_hidden_inducing: int | None
    views: Sequence[Sequence[int] | slice] | None
    output_kernel: str
    hidden_posterior: str
    hidden_lengthscales: str
    hidden_kl_weight: float

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

    def _head_settings(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "output_kernel": self.output_kernel,
            "hidden_posterior": self.hidden_posterior,
            "hidden_lengthscales": self.hidden_lengthscales,
            "hidden_kl_weight": self.hidden_kl_weight,
        }

    def _values_per_row(self) -> float:
        settings = self.head_settings_
        hidden, inducing = settings["num_hidden"], settings["num_inducing"]
        pairs = inducing * (inducing + 1) // 2 * max(settings.get("num_classes", 1) - 1, 1)
        return (3 * hidden * settings["num_hidden_inducing"] + pairs) / 3

    def _least_weights(self, settings: Mapping[str, Any]) -> int:
        inducing = settings["num_hidden_inducing"]
        hidden = settings["num_hidden"] * inducing * (2 + inducing // 2)
        if settings["output_kernel"] == "linear":
            return hidden
        return hidden + settings["num_inducing"] * settings["num_hidden"]

    def _fit(
        self,
        x: FloatArray,
        targets: FloatArray,
        weight: FloatArray,
        callback: Callable[[Any, int], None] | None,
    ) -> Self:
        super()._fit(x, targets, weight, callback)
        used = np.flatnonzero(weight > 0)
        rows = used[:: -(-len(used) // PLACEMENT_ROWS)]
        head = self._trained_head()
        self.view_weights_: npt.NDArray[np.float64] = head.view_weights(
            (x[rows] - self.input_mean_) / self.input_scale_
        )
        return self

    def _trained_head(self) -> DFGPHead:
        head = self._trained_engine().head
        if not isinstance(head, DFGPHead):
            raise TypeError(f"The engine of a {type(self).__name__} must hold a DFGPHead, not {head!r}.")
        return head

    def summary(self) -> str:
        """A table of what was learned: each hidden unit's view and weight, and the output functions."""
        check_is_fitted(self)
        head = self._trained_head()
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
        bound = self.learning_curve_[-1].bound_per_point if self.learning_curve_ else float("nan")
        objective = "bound" if self.hidden_kl_weight == 1.0 else "tempered objective (no bound)"
        kernels = f"{head.kernel_name} hidden kernels, {head.output_kernel} output kernel"
        return "\n".join(
            [
                f"{type(self).__name__}: {kernels}, {head.likelihood_name} likelihood",
                f"{self.n_features_in_} features, {head.hidden.num_hidden} hidden units",
                f"{objective} {bound:.4f} nats per row after {self.n_iter_} iterations",
                "",
                *aligned(rows),
                *([f"and {left_out} hidden units of smaller weights"] if left_out > 0 else []),
            ]
        )


def _shown(columns: Sequence[int]) -> str:
    """Columns as text, shortened where they follow each other."""
    if len(columns) > 2 and list(columns) == list(range(columns[0], columns[-1] + 1)):
        return f"{columns[0]} to {columns[-1]}"
    shown = ", ".join(map(str, columns[:6]))
    return f"{shown}, ..." if len(columns) > 6 else shown


class DFGPClassifier(_DeepEstimator, _GPClassifier):
    """Deep feed-forward Gaussian process classifier: sparse GPs on the columns, a sparse GP on their values.

    Args:
        num_hidden: ν, hidden units; None takes one for each view, or without views a quarter of the columns,
            within 4 and 32.
        num_inducing: M of each output function.
        num_hidden_inducing: M of each hidden unit, None for as many.
        views: Columns of each hidden unit, for multiple-kernel learning: column indices or a slice for each.
            None shows all columns to all units.
        kernel: Of the hidden units, see :class:`gpmodels.HGPClassifier`.
        output_kernel: ``"ard"``, ``"rbf"``, ``"full"`` or ``"linear"`` (DFGP-WP), see
            :class:`gpmodels.DFGPHead`.
        hidden_posterior: ``"gaussian"``, or ``"point"`` for the paper's.
        hidden_lengthscales: ``"learned"``, or ``"median"`` to leave them at the median distance, which may
            help where rows are few, see :class:`gpmodels.DFGPHead`.
        hidden_kl_weight: What the hidden units' KL counts in the objective, in (0, 1]; less than 1 may help
            where rows are few, see :class:`gpmodels.DFGPHead`.
        class_kernels: ``"shared"``, or ``"separate"`` for one output kernel of each class.
        optimizer: ``"lbfgs"`` on all rows, ``"adam"`` on mini-batches, or ``"auto"`` by the size of the data.
        max_iterations: Of L-BFGS or Adam; None takes 200 or 10,000.
        learning_rate: Of Adam, at the start of its cosine schedule.
        batch_size: Rows of a step of Adam.
        tolerance: L-BFGS stops when an iteration gains less, in nats per row.
        early_stopping: Whether Adam holds rows out, stops when their density stalls, and keeps the best
            weights.
        validation_fraction: Share of the rows held out.
        class_weight: ``"balanced"``, or ``{label: weight}``.
        random_state: Seed.
        dtype: ``"float64"`` or ``"float32"``.
        verbose: 1 shows a progress bar.
        log_dir: Folder for TensorBoard.

    Attributes:
        classes_: Labels, sorted.
        view_weights_: Share of each hidden unit in what the output varies with over the training rows, of
            sum 1, ``[ν]``; :meth:`gpmodels.DFGPHead.view_weights` has the definition.
        n_iter_: Iterations done.
        learning_curve_: One :class:`gpmodels.estimators.monitoring.CurvePoint` for each iteration.
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

    def __init__(
        self,
        *,
        num_hidden: int | None = None,
        num_inducing: int = 20,
        num_hidden_inducing: int | None = None,
        views: Sequence[Sequence[int] | slice] | None = None,
        kernel: str = "squared_exponential",
        output_kernel: str = "ard",
        hidden_posterior: str = "gaussian",
        hidden_lengthscales: str = "learned",
        hidden_kl_weight: float = 1.0,
        class_kernels: str = "shared",
        optimizer: str = "auto",
        max_iterations: int | None = None,
        learning_rate: float = 0.02,
        batch_size: int = 1024,
        tolerance: float = 1e-5,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        class_weight: Any = None,
        random_state: Any = None,
        dtype: str = "float64",
        verbose: int = 0,
        log_dir: str | None = None,
    ) -> None:
        self.num_hidden = num_hidden
        self.num_inducing = num_inducing
        self.num_hidden_inducing = num_hidden_inducing
        self.views = views
        self.kernel = kernel
        self.output_kernel = output_kernel
        self.hidden_posterior = hidden_posterior
        self.hidden_lengthscales = hidden_lengthscales
        self.hidden_kl_weight = hidden_kl_weight
        self.class_kernels = class_kernels
        self.optimizer = optimizer
        self.max_iterations = max_iterations
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.tolerance = tolerance
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.random_state = random_state
        self.dtype = dtype
        self.verbose = verbose
        self.log_dir = log_dir

    def _head_settings(self) -> dict[str, Any]:
        return {
            **super()._head_settings(),
            "num_classes": len(self.classes_),
            "class_kernels": self.class_kernels,
            "likelihood": "noisy_probit",
        }


class DFGPRegressor(_DeepEstimator, _GPRegressor):
    """Deep feed-forward Gaussian process regressor: sparse GPs on the columns, a sparse GP on their values.

    Parameters as for :class:`DFGPClassifier`, without those of the classes.

    Attributes:
        view_weights_: As for :class:`DFGPClassifier`, ``[ν]``.
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

    def __init__(
        self,
        *,
        num_hidden: int | None = None,
        num_inducing: int = 20,
        num_hidden_inducing: int | None = None,
        views: Sequence[Sequence[int] | slice] | None = None,
        kernel: str = "squared_exponential",
        output_kernel: str = "ard",
        hidden_posterior: str = "gaussian",
        hidden_lengthscales: str = "learned",
        hidden_kl_weight: float = 1.0,
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
        self.num_hidden = num_hidden
        self.num_inducing = num_inducing
        self.num_hidden_inducing = num_hidden_inducing
        self.views = views
        self.kernel = kernel
        self.output_kernel = output_kernel
        self.hidden_posterior = hidden_posterior
        self.hidden_lengthscales = hidden_lengthscales
        self.hidden_kl_weight = hidden_kl_weight
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
        return {**super()._head_settings(), "likelihood": "gaussian"}
