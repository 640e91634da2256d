"""Classifiers: hierarchical GP, sparse variational GP, and the mixture without a global term."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d

from gpmodels.estimators.fitting.engine import LOG_PROBABILITY, Engine, FloatArray
from gpmodels.estimators.fitting.fitted import all_or_nothing
from gpmodels.estimators.fitting.grouped import checked_groups
from gpmodels.estimators.fitting.rows import checked_rows
from gpmodels.estimators.sparse.base import (
    ConjugateEstimator,
    ExpertsEstimator,
    HierarchicalEstimator,
    SparseGPEstimator,
)
from gpmodels.estimators.sparse.leave_one_out import LeavesOneOutClassifier
from gpmodels.estimators.sparse.temperature import (
    check_temperature,
    held_out_temperature,
    tempered_log_probabilities,
)
from gpmodels.heads.gp import Points
from gpmodels.units.counts import check_counts

LIKELIHOODS = ("auto", "bernoulli", "logistic", "softmax", "robust_max")


@dataclass(kw_only=True, repr=False, eq=False)
class _GPClassifier(ClassifierMixin, SparseGPEstimator):
    """What the classifiers share."""

    class_kernels: str = "shared"
    class_weight: Any = None

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
        """Fit to labelled rows.

        Args:
            X: Inputs, `[N, D]`; standardised inside.
            y: Labels of any type, `[N]`.
            sample_weight: How often each row counts, `[N]`.
            groups: What each row belongs to, a patient or a site for instance, `[N]`: rows of one group
                repeat each other, and `effective_observations="auto"` finds how much. None: no two rows do.
            callback: Called as `callback(estimator, iteration)` every ten iterations; the estimator can
                predict then.

        Returns:
            The estimator itself.

        Raises:
            ValueError: The data are not numbers or not finite, or there is only one class.
        """
        x, y = checked_rows(self, X, y, dtype=np.float64, ensure_min_samples=2)
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
        return self._fit(x, targets.astype(np.float64), weight, checked_groups(groups, len(x)), callback)

    def _targets(self, y: npt.NDArray[Any]) -> FloatArray:
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"Labels {unknown[:5].tolist()} were not seen in fit, which had {self.classes_.tolist()}."
            )
        return np.searchsorted(self.classes_, y).astype(np.float64)

    def predict_distribution(self, X: Any) -> dict[str, npt.NDArray[Any]]:
        """Return everything that the model says of each row.

        Args:
            X: Inputs, `[N, D]`.

        Returns:
            `probability` of each class `[N, C]`, `label` `[N]`, `latent_mean` and
            `latent_variance` (`[N]` for two classes, else `[N, C]`), `predictive_entropy` and
            `mutual_information` in nats `[N]`, and the responsible `expert` (from 0) `[N]`. The mutual
            information is that before the temperature; by one below 1 it falls with the entropy, in
            proportion.
        """
        outputs = self._outputs(X)
        log_probability = outputs.pop(LOG_PROBABILITY)
        if outputs["probability"].ndim == 1:
            # Both tails, so that neither probability is 1 minus something close to 1.
            outputs["probability"] = np.exp(log_probability)
        temperature = getattr(self, "temperature_", 1.0)
        if temperature != 1.0:
            logarithms = tempered_log_probabilities(log_probability, temperature)
            outputs["probability"] = np.exp(logarithms)
            entropy = -np.sum(outputs["probability"] * logarithms, axis=1)
            if temperature < 1.0:
                before = np.maximum(outputs["predictive_entropy"], np.finfo(entropy.dtype).tiny)
                share = outputs["mutual_information"] / before
                outputs["mutual_information"] = np.minimum(share * entropy, entropy)
            outputs["predictive_entropy"] = entropy
        outputs["label"] = self.classes_[np.argmax(outputs["probability"], axis=1)]
        return outputs

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class in the order of `classes_`, `[N, C]`, for inputs `[N, D]`."""
        return self.predict_distribution(X)["probability"]

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable label of each row, `[N]`, for inputs `[N, D]`."""
        check_is_fitted(self)
        return self.predict_distribution(X)["label"]


@dataclass(kw_only=True, repr=False, eq=False)
class _SparseGPClassifier(LeavesOneOutClassifier, _GPClassifier, ConjugateEstimator):
    """What the classifiers with a choice of likelihoods share."""

    likelihood: str = "auto"
    temperature: float | str = "auto"

    def _check_settings(self) -> None:
        super()._check_settings()
        check_temperature(self.temperature)

    def _fit_temperature(
        self, engine: Engine, points: Points, groups: npt.NDArray[np.intp] | None, seed: int
    ) -> None:
        if self.temperature == "auto":
            self.temperature_ = held_out_temperature(engine, points, groups, seed=seed)

    def _fit(
        self,
        x: FloatArray,
        targets: FloatArray,
        weight: FloatArray,
        groups: npt.NDArray[np.intp] | None,
        callback: Callable[[Any, int], None] | None,
    ) -> Self:
        super()._fit(x, targets, weight, groups, callback)
        if not hasattr(self, "temperature_"):
            self.temperature_ = 1.0 if self.temperature == "auto" else float(self.temperature)
        return self

    def sample_functions(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> FloatArray:
        """Draw the latent functions at all rows together, which marginals of single rows cannot show.

        In a map of classes that is drawn this way, neighbours change sides together. The temperature has no
        part in it. Time grows with N³: draw for some thousand rows at most.

        Args:
            X: Inputs, `[N, D]`.
            n_samples: Number of draws S.
            random_state: Seed of the draws, or a `RandomState`.

        Returns:
            The draws, `[N, S]`; where each class has a function of its own `[N, S, C]`.

        Raises:
            ValueError: `n_samples` is no positive whole number, or X is not what the model was fitted to.

        Example:
            >>> from sklearn.datasets import load_iris
            >>> X, y = load_iris(return_X_y=True)
            >>> model = SVGPClassifier(num_inducing=10, max_iterations=20, random_state=0).fit(X, y)
            >>> model.sample_functions(X[:4], 5).shape
            (4, 5, 3)
        """
        check_counts(n_samples=n_samples)
        outputs, random = self.predict_distribution(X), check_random_state(random_state)
        shape = outputs["latent_mean"].shape
        mean, variance = (outputs[key].reshape(shape[0], -1) for key in ("latent_mean", "latent_variance"))
        covariance = self._latent_covariance(X, outputs["expert"])
        draws = np.empty([shape[0], n_samples, mean.shape[1]])
        for p in range(mean.shape[1]):
            np.fill_diagonal(covariance[p], variance[:, p])  # which is bounded below against rounding
            draws[:, :, p] = random.multivariate_normal(
                mean[:, p], covariance[p], n_samples, check_valid="ignore"
            ).T
        return draws[:, :, 0] if len(shape) == 1 else draws

    def _head_settings(self) -> dict[str, Any]:
        if self.likelihood not in LIKELIHOODS:
            raise ValueError(f"likelihood must be one of {LIKELIHOODS}, but is {self.likelihood!r}.")
        likelihood: str | None = self.likelihood
        if likelihood == "auto":
            # That of the linear layer, which forgives a row on the wrong side more than a probit does.
            likelihood = "logistic" if self.mean == "linear" and len(self.classes_) == 2 else None
        return {
            **super()._head_settings(),
            "num_classes": len(self.classes_),
            "likelihood": likelihood,
            "class_kernels": self.class_kernels,
            "mean_posterior": self.mean == "linear",
        }


@dataclass(kw_only=True, repr=False, eq=False)
class HGPClassifier(HierarchicalEstimator, _SparseGPClassifier):
    """Hierarchical Gaussian process classifier: a global sparse GP refined by gated local experts.

    Args:
        num_experts: T at the start, `"auto"` by the number of rows; experts that no row chooses are
            dropped.
        num_inducing: M of the global unit, `"auto"` for 2.5 % of the rows within 50 and 250.
        num_expert_inducing: M of each expert, None for as many.
        kernel: `"squared_exponential"`, `"matern12"`, `"matern32"`, `"matern52"`, or the kernel of a wide
            network, `"arc_cosine0"`, `"arc_cosine1"`, `"arc_cosine2"`; with one lengthscale for each column.
        kernel_depth: Layers of an arc-cosine kernel.
        mean: `"linear"`: the GP corrects a regularised linear layer, whose penalty is chosen by rows, or
            groups, held out; `"none"`: the latent functions have mean zero, as in the thesis.
        lengthscale_spread: How far the lengthscales of a kernel are expected to lie apart: the standard
            deviation of their logarithms about their mean. With few rows the prior decides, with many the
            data. None leaves each of them free from the start.
        likelihood: `"auto"`, for two classes `"logistic"` beside a linear mean and the probit, `"bernoulli"`,
            without, for more `"softmax"`; or one of these, or `"robust_max"` of more classes.
        class_kernels: `"shared"`, or `"separate"` for one kernel of each class.
        global_weight: w, weight of the global unit's likelihood; 1 is the thesis, 0 a bound on log p(y).
        expert_variance: `"full"` or `"thesis"`, see `gpmodels.HGPHead`.
        e_step: `"hard"`, or `"soft"` for responsibilities at T times the cost.
        optimizer: `"lbfgs"` on all rows, `"adam"` on mini-batches, or `"auto"` by the size of the data.
        max_iterations: Iterations of L-BFGS or Adam; None takes 1000 or 10,000.
        learning_rate: Learning rate of Adam, at the start of its cosine schedule.
        batch_size: Rows of a step of Adam.
        tolerance: L-BFGS stops when an iteration gains less, in nats per row.
        temperature: `"auto"` for the temperature of the probabilities that rows held out from the posterior
            ask for, see `gpmodels.estimators.sparse.temperature`; a number sets it, and 1 changes nothing.
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
        n_experts_: Experts left.
        temperature_: Temperature of the probabilities: the number set, or what `"auto"` found, which is 1
            with experts and after mini-batches.
        effective_observations_: How many observations the rows counted as: the number set, what `"auto"`
            found, or N.
        linear_share_: Share of the latent functions' variance over the rows that is the linear mean's.
        n_iter_: Iterations done.
        kept_iteration_: Iteration whose weights were kept, the last one unless rows held out preferred
            another; 0 for the start.
        learning_curve_: One `gpmodels.estimators.fitting.monitoring.CurvePoint` for each iteration.
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

    global_weight: float = 0.1
    expert_variance: str = "thesis"


@dataclass(kw_only=True, repr=False, eq=False)
class SVGPClassifier(_SparseGPClassifier):
    """Sparse variational Gaussian process classifier.

    Parameters as for `HGPClassifier`, without those of the experts.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> SVGPClassifier(num_inducing=10, max_iterations=20, random_state=0).fit(X, y).score(X, y) > 0.9
        True
    """

    _model: ClassVar[str] = "svgp"


@dataclass(kw_only=True, repr=False, eq=False)
class VMGPClassifier(ExpertsEstimator, SVGPClassifier):
    """Mixture of sparse GP experts without any global term (thesis 4.4.2.3), for comparison.

    Parameters as for `HGPClassifier`, without those of the global unit.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = VMGPClassifier(num_experts=2, num_inducing=10, max_iterations=20, random_state=0)
        >>> model.fit(X, y).n_experts_
        2
    """

    _model: ClassVar[str] = "vmgp"
    _fewest_experts: ClassVar[int] = 2  # there is nothing but experts
