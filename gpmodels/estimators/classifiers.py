"""Classifiers: hierarchical GP, sparse variational GP, and the mixture without a global term."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.special
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from gpmodels.estimators.base import ExpertsEstimator, SparseGPEstimator, expert_size
from gpmodels.estimators.engine import FloatArray

LIKELIHOODS = ("auto", "bernoulli", "softmax", "robust_max")


class _GPClassifier(ClassifierMixin, SparseGPEstimator):
    """What the classifiers share."""

    likelihood: str
    class_kernels: str
    class_weight: Any

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        callback: Callable[[Any, int], None] | None = None,
    ) -> Self:
        """Fit to labelled rows.

        Args:
            X: Inputs, ``[N, D]``; standardised inside.
            y: Labels of any type, ``[N]``.
            sample_weight: How often each row counts, ``[N]``.
            callback: Called as ``callback(estimator, iteration)`` every ten iterations; the estimator can
                predict then.

        Returns:
            The estimator itself.

        Raises:
            ValueError: The data are not numbers or not finite, or there is only one class.
        """
        x, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        self.classes_, targets = np.unique(y, return_inverse=True)
        if self.class_weight is not None:
            factors = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
            if not (np.isfinite(factors).all() and (factors >= 0).all()):
                raise ValueError(f"class_weight must not be negative, but is {self.class_weight!r}.")
            weight = weight * factors[targets]
        if len(np.unique(targets[weight > 0])) < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of at least two classes, but all rows of positive weight "
                f"are of one class: {self.classes_[targets[weight > 0][:1]].tolist()}."
            )
        return self._fit(x, targets.astype(np.float64), weight, callback)

    def _head_settings(self) -> dict[str, Any]:
        if self.likelihood not in LIKELIHOODS:
            raise ValueError(f"likelihood must be one of {LIKELIHOODS}, but is {self.likelihood!r}.")
        likelihood = None if self.likelihood == "auto" else self.likelihood
        return {
            "kernel": self.kernel,
            "num_classes": len(self.classes_),
            "likelihood": likelihood,
            "class_kernels": self.class_kernels,
        }

    def _targets(self, y: npt.NDArray[Any]) -> FloatArray:
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"Labels {unknown[:5].tolist()} were not seen in fit, which had {self.classes_.tolist()}."
            )
        return np.searchsorted(self.classes_, y).astype(np.float64)

    def predict_distribution(self, X: Any) -> dict[str, npt.NDArray[Any]]:
        """All that the model says of each row.

        Args:
            X: Inputs, ``[N, D]``.

        Returns:
            ``probability`` of each class ``[N, C]``, ``label`` ``[N]``, ``latent_mean`` and
            ``latent_variance`` (``[N]`` for two classes, else ``[N, C]``), ``predictive_entropy`` and
            ``mutual_information`` in nats ``[N]``, and the responsible ``expert`` (from 0) ``[N]``.
        """
        outputs = self._outputs(X)
        if outputs["probability"].ndim == 1:
            # Both tails, so that neither probability is 1 minus something close to 1.
            z = outputs["latent_mean"] / np.sqrt(1.0 + outputs["latent_variance"])
            outputs["probability"] = scipy.special.ndtr(np.stack([-z, z], axis=1))
        outputs["label"] = self.classes_[np.argmax(outputs["probability"], axis=1)]
        return outputs

    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of each class in the order of ``classes_``, ``[N, C]``, for inputs ``[N, D]``."""
        return self.predict_distribution(X)["probability"]

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable label of each row, ``[N]``, for inputs ``[N, D]``."""
        check_is_fitted(self)
        return self.predict_distribution(X)["label"]


class HGPClassifier(ExpertsEstimator, _GPClassifier):
    """Hierarchical Gaussian process classifier: a global sparse GP refined by gated local experts.

    Args:
        num_experts: T at the start, ``"auto"`` by the number of rows; experts that no row chooses are
            dropped.
        num_inducing: M of the global unit, ``"auto"`` for 2.5 % of the rows within 50 and 250.
        num_expert_inducing: M of each expert, None for as many.
        kernel: ``"squared_exponential"``, ``"matern12"``, ``"matern32"`` or ``"matern52"``, with one
            lengthscale for each column.
        likelihood: ``"auto"``, or of more than two classes ``"softmax"`` or ``"robust_max"``.
        class_kernels: ``"shared"``, or ``"separate"`` for one kernel of each class.
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
        class_weight: ``"balanced"``, or ``{label: weight}``.
        random_state: Seed.
        dtype: ``"float64"`` or ``"float32"``.
        verbose: 1 shows a progress bar.
        log_dir: Folder for TensorBoard.

    Attributes:
        classes_: Labels, sorted.
        n_experts_: Experts left.
        n_iter_: Iterations done.
        learning_curve_: One :class:`gpmodels.estimators.monitoring.CurvePoint` for each iteration.
        weights_: What was learned.

    Source:
        Thesis chapter 4.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = HGPClassifier(num_experts=2, num_inducing=10, max_iterations=20, random_state=0).fit(X, y)
        >>> model.predict_proba(X[:2]).shape
        (2, 3)
    """

    _model = "HGP"

    def __init__(
        self,
        *,
        num_experts: int | str = "auto",
        num_inducing: int | str = "auto",
        num_expert_inducing: int | None = None,
        kernel: str = "squared_exponential",
        likelihood: str = "auto",
        class_kernels: str = "shared",
        global_weight: float = 0.1,
        expert_variance: str = "thesis",
        e_step: str = "hard",
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
        self.num_experts = num_experts
        self.num_inducing = num_inducing
        self.num_expert_inducing = num_expert_inducing
        self.kernel = kernel
        self.likelihood = likelihood
        self.class_kernels = class_kernels
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
        self.class_weight = class_weight
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


class SVGPClassifier(_GPClassifier):
    """Sparse variational Gaussian process classifier.

    Parameters as for :class:`HGPClassifier`, without those of the experts.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> SVGPClassifier(num_inducing=10, max_iterations=20, random_state=0).fit(X, y).score(X, y) > 0.9
        True
    """

    _model = "SVGP"

    def __init__(
        self,
        *,
        num_inducing: int | str = "auto",
        kernel: str = "squared_exponential",
        likelihood: str = "auto",
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
        self.num_inducing = num_inducing
        self.kernel = kernel
        self.likelihood = likelihood
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


class VMGPClassifier(ExpertsEstimator, SVGPClassifier):
    """Mixture of sparse GP experts without any global term (thesis 4.4.2.3), for comparison.

    Parameters as for :class:`HGPClassifier`, without those of the global unit.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = VMGPClassifier(num_experts=2, num_inducing=10, max_iterations=20, random_state=0)
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
        likelihood: str = "auto",
        class_kernels: str = "shared",
        e_step: str = "hard",
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
        self.num_experts = num_experts
        self.e_step = e_step
        super().__init__(
            num_inducing=num_inducing,
            kernel=kernel,
            likelihood=likelihood,
            class_kernels=class_kernels,
            optimizer=optimizer,
            max_iterations=max_iterations,
            learning_rate=learning_rate,
            batch_size=batch_size,
            tolerance=tolerance,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            class_weight=class_weight,
            random_state=random_state,
            dtype=dtype,
            verbose=verbose,
            log_dir=log_dir,
        )
