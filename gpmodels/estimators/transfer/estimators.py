"""ATL-DGP: rows of well-labelled sources help a target that has few labels."""

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from gpmodels.estimators.fitting.engine import FloatArray
from gpmodels.estimators.fitting.fitted import all_or_nothing
from gpmodels.estimators.fitting.learned import warn_of_lone_targets
from gpmodels.estimators.fitting.rows import checked_rows
from gpmodels.estimators.transfer.base import TransferEstimator
from gpmodels.estimators.transfer.domains import TARGET, Scales, scales_of
from gpmodels.estimators.transfer.unlabelled import without_marks
from gpmodels.transfer.exact import ExactTransfer
from gpmodels.transfer.judged import JudgedTransfer
from gpmodels.transfer.rows import TransferRows, class_codes
from gpmodels.transfer.second_layer import fit_two_layer

FEW_VALUES = 10
"""Labelled target rows below which the mean and deviation of their values are a poor guess."""

OUTPUTS = ("exact", "two_layer")


@dataclass(kw_only=True, repr=False, eq=False)
class ATLDGPClassifier(ClassifierMixin, TransferEstimator):
    """Asymmetric transfer learning with a deep Gaussian process, for classes.

    Functions of the target are a mixture of functions that the sources' rows teach and of its own, with
    weights π that the target's rows decide about. The model is the exact limit of ATL-DGP (docs/theory.md,
    Transfer): a Gaussian process over all domains, which is fitted in closed form.

    Args:
        mixing: Shares π of the sources in the mixture: `"learned"`, or a number of one source, or one number
            for each source. 0 learns from the target alone.
        max_iterations: 0 is the exact limit. More trains the deep model on its bound, by so many iterations
            of L-BFGS, and keeps it where left-out target rows are predicted better by it.
        latent_posterior: Of that training: `"integrated"`, with the hidden layer's values integrated out, or
            `"mean_field"`, the paper's looser bound.
        noise_variance: σ² of the codes of the classes, `"auto"` for 0.1.
        output: `"exact"`, or `"two_layer"`, the paper's second layer: a GP with a Gaussian kernel on the
            codes of the exact limit. It is kept where labelled rows of the target that are left out (whole
            `groups` of them) are predicted better with it, else the predictions are those of `"exact"`. The
            same left-out rows weigh its amplitudes and decide, by any gain however small, which is
            optimistic: it may be kept where new rows lose a little. It needs at least three labelled target
            rows of each class, and three groups of each where there are groups; with fewer it may not be
            judged, and is not kept then.
        scaling: What the columns are standardised by: `"domain"` for each domain's own rows, unlabelled ones
            too; `"joint"` for all rows; None where they are in one scale already, as principal components.
        random_state: Seed of the inducing inputs, where a domain has more rows than can all be kept.
        verbose: 1 shows a progress bar while it trains.
        log_dir: Folder for TensorBoard.

    Attributes:
        classes_: Labels of all domains, sorted.
        is_trained_: Whether the trained model, or the second layer, was kept.
        mixing_: Posterior mean of each source's share π, `[K]`.
        mixing_std_: Its posterior standard deviation, `[K]`.
        transfer_weight_: Share of each source's projection in what the target's functions vary with over its
            rows, `[K]`; the target's own is what is left to 1.
        leave_one_out_: Mean NLL of target rows that were left out, with and without the sources; of the exact
            limit, where a second layer stands on it.
        second_layer_judged_: Whether there were enough labels to judge a second layer by; of
            `output="two_layer"` alone.

    Source:
        Kandemir (2015), Asymmetric transfer learning with deep Gaussian processes, section 4, and its exact
        limit (docs/theory.md).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(60, 2))
        >>> y = (X[:, 0] > 0.0).astype(int)
        >>> domain = np.r_[np.zeros(50), -np.ones(10)]
        >>> model = ATLDGPClassifier().fit(X, y, sample_domain=domain)
        >>> model.predict_proba(X[50:]).shape
        (10, 2)
    """

    _is_classifier: ClassVar[bool] = True

    output: str = "exact"

    @all_or_nothing
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, sample_domain: Any = None, groups: Any = None
    ) -> Self:
        """Fit to labelled rows of sources and target.

        Args:
            X: Inputs, `[N, D]`.
            y: Labels, `[N]`. Where `sample_domain` is given, -1 marks a row without a label: it counts for
                its domain's scales alone. Among strings -1, None and NaN do, in a list or array of objects.
            sample_weight: How often each row counts, `[N]`.
            sample_domain: Domain of each row, `[N]`: a number from 0 for a source, one negative number for
                the target. None: all rows are the target's.
            groups: What each row belongs to, a patient for instance, `[N]`: rows of one group of the target
                are left out together, where it is chosen by what leaving out says.

        Returns:
            The estimator itself.

        Raises:
            ValueError: The data are not numbers or not finite, a domain has no labelled row, or the labelled
                rows are of one class.
        """
        labelled = None
        if sample_domain is not None:
            y, labelled = without_marks(y)
        x, y = checked_rows(self, X, y, dtype=np.float64, ensure_min_samples=2)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        rows = self._checked(x, sample_domain, sample_weight, groups)
        if labelled is not None:
            rows = rows._replace(labelled=labelled)
            if not rows.labelled[rows.domain != TARGET].all():
                warnings.warn(
                    f"y = -1 marks rows without a label, and {np.sum(~rows.labelled)} rows have it, some of "
                    "a source. Where -1 is a class, give it another name.",
                    UserWarning,
                    stacklevel=2,
                )
        used = rows.labelled & (rows.weight > 0)
        self.classes_ = np.unique(y[used])
        if len(self.classes_) < 2:
            hint = " The label -1 marks rows without a label." if not rows.labelled.all() else ""
            raise ValueError(
                f"{type(self).__name__} needs labelled rows of at least two classes, but all are of one "
                f"class: {self.classes_.tolist()}.{hint}"
            )
        index = np.searchsorted(self.classes_, np.where(used, y, self.classes_[0]))
        self._warn_of_untold_classes(y, used & (rows.domain == TARGET))
        return self._fit_rows(rows, class_codes(index, len(self.classes_)))

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.output not in OUTPUTS:
            raise ValueError(f"output must be one of {OUTPUTS}, but is {self.output!r}.")
        if self.output == "two_layer" and self._kind == "symmetric":
            raise ValueError(
                f'output="two_layer" puts a second layer on the exact limit, which {type(self).__name__} '
                'does not have. Leave output out, or take ATLDGPClassifier(output="two_layer").'
            )
        if self.output == "two_layer" and self.max_iterations:
            raise ValueError(
                'output="two_layer" puts a second layer on the exact limit, but max_iterations='
                f'{self.max_iterations} trains another model. Set max_iterations=0, or output="exact".'
            )

    @property
    def _alternative(self) -> str:
        return "the second layer" if self.output == "two_layer" else super()._alternative

    @property
    def _why_exact(self) -> str:
        if self.output != "two_layer":
            return super()._why_exact
        if not self.second_layer_judged_:
            return "the target has too few labels to judge a second layer by"
        return "left-out rows did not gain by a second layer"

    def _best(
        self, exact: ExactTransfer, rows: TransferRows, groups: npt.NDArray[np.intp] | None, seed: int
    ) -> ExactTransfer | JudgedTransfer:
        if self.output != "two_layer":
            return super()._best(exact, rows, groups, seed)
        found = fit_two_layer(rows, exact, groups)
        self.second_layer_judged_ = found is not None
        return exact if found is None else found

    def _warn_of_untold_classes(self, y: npt.NDArray[Any], of_target: npt.NDArray[np.bool_]) -> None:
        missing = np.setdiff1d(self.classes_, y[of_target])
        if len(missing) and self.domains_.sources and of_target.any():
            warnings.warn(
                f"The target has no labelled row of the classes {missing[:5].tolist()}: what is predicted of "
                "them comes from the sources alone, and leaving out says nothing of it.",
                UserWarning,
                stacklevel=3,
            )

    def predict_distribution(self, X: Any, sample_domain: Any = None) -> dict[str, npt.NDArray[Any]]:
        """Return everything that the model says of each row.

        Args:
            X: Inputs, `[N, D]`.
            sample_domain: Domain of each row, `[N]`; None: all are the target's.

        Returns:
            `probability` of each class `[N, C]`, `label` `[N]`, `latent_mean` and `latent_variance` of the
            codes `[N, C]` (the variance is NaN for rows of a source), and `predictive_entropy` in nats `[N]`.
        """
        mean, variance, _ = self._moments(X, sample_domain)
        logarithms = log_softmax(self.model_.score_scale * mean, axis=1)
        probability = np.exp(logarithms)
        return {
            "probability": probability,
            "label": self.classes_[np.argmax(logarithms, axis=1)],
            "latent_mean": mean,
            "latent_variance": variance,
            "predictive_entropy": -np.sum(probability * logarithms, axis=1),
        }

    def predict_proba(self, X: Any, sample_domain: Any = None) -> FloatArray:
        """Return the probability of each class in the order of `classes_`, `[N, C]`.

        Args:
            X: Inputs, `[N, D]`.
            sample_domain: Domain of each row, `[N]`; None: all are the target's.
        """
        return self.predict_distribution(X, sample_domain)["probability"]

    def predict(self, X: Any, sample_domain: Any = None) -> npt.NDArray[Any]:
        """Return the most probable label of each row, `[N]`; arguments as of `predict_proba`."""
        return self.predict_distribution(X, sample_domain)["label"]

    def score(self, X: Any, y: Any, sample_weight: Any = None, sample_domain: Any = None) -> float:
        """Return the accuracy at rows `[N, D]` with labels `[N]`; arguments as of `fit`."""
        return float(accuracy_score(y, self.predict(X, sample_domain), sample_weight=sample_weight))


@dataclass(kw_only=True, repr=False, eq=False)
class ATLDGPRegressor(RegressorMixin, TransferEstimator):
    """Asymmetric transfer learning with a deep Gaussian process, for real targets.

    Parameters as for `ATLDGPClassifier`; `noise_variance` is of standardised targets, and `"auto"` chooses it
    with the lengthscale by what leaving out target rows says. Target values are standardised as
    the columns are: with few labelled rows of the target, and one unit, take `scaling="joint"`.

    Attributes:
        mixing_: As for `ATLDGPClassifier`, and so `mixing_std_` and `transfer_weight_`.
        leave_one_out_: Mean NLL of target rows that were left out, with and without the sources, nats; of
            densities of the target values as they were given, in their own unit.

    Source:
        Kandemir (2015), section 4, and its exact limit (docs/theory.md).

    Example:
        >>> X = np.random.default_rng(0).permutation(np.linspace(0.0, 1.0, 30))[:, None]
        >>> domain = np.r_[np.zeros(24), -np.ones(6)]
        >>> model = ATLDGPRegressor(scaling="joint").fit(X, np.sin(6.0 * X[:, 0]), sample_domain=domain)
        >>> model.predict(X[24:]).shape
        (6,)
    """

    _is_classifier: ClassVar[bool] = False

    @all_or_nothing
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, sample_domain: Any = None, groups: Any = None
    ) -> Self:
        """Fit to rows with real targets of sources and target.

        Args:
            X: Inputs, `[N, D]`.
            y: Targets, `[N]`. Where `sample_domain` is given, NaN marks a row without a target value: it
                counts for its domain's scales alone.
            sample_weight: How often each row counts, `[N]`.
            sample_domain: Domain of each row, `[N]`: a number from 0 for a source, one negative number for
                the target. None: all rows are the target's.
            groups: What each row belongs to, `[N]`: rows of one group of the target are left out together.

        Returns:
            The estimator itself.

        Raises:
            ValueError: The data are not numbers or not finite, or a domain has no row with a target value.
        """
        if sample_domain is None:
            x, y = checked_rows(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
            y = column_or_1d(y, warn=True).astype(np.float64)
        else:
            x = checked_rows(self, X, dtype=np.float64, ensure_min_samples=2)
            y = column_or_1d(np.asarray(y, np.float64), warn=True)
            if len(y) != len(x):
                raise ValueError(
                    f"y has {len(y)} values, but X has {len(x)} rows. Give one value for each row."
                )
            if np.isinf(y).any():
                raise ValueError("y holds infinity. Mark rows without a target value by NaN.")
        rows = self._checked(x, sample_domain, sample_weight, groups)
        rows = rows._replace(labelled=~np.isnan(y))
        order = [*range(len(self.domains_.sources)), TARGET]
        parts = []
        for k in order:
            chosen = np.flatnonzero((rows.domain == k) & rows.labelled & (rows.weight > 0))
            if len(chosen):  # else `_fit_rows` says what is missing
                parts.append((y[chosen, None], rows.weight[chosen]))
            else:
                parts.append((np.zeros([1, 1]), np.ones(1)))
        self.target_scales_: Scales = scales_of(parts, self.scaling or "joint")
        labelled = len(parts[-1][0])
        if self.domains_.sources and self.scaling == "domain" and labelled < FEW_VALUES:
            warnings.warn(
                f"The target has {labelled} labelled rows, and its values are standardised by these alone: "
                "that is a poor guess. Where sources and target have one unit, fit with scaling='joint'.",
                UserWarning,
                stacklevel=2,
            )
        warn_of_lone_targets(y[rows.labelled & (rows.weight > 0)])
        codes = np.zeros([len(y), 1])
        for k in order:
            chosen = rows.domain == k
            codes[chosen] = self.target_scales_.scaled(y[chosen, None], k)
        return self._fit_rows(rows, codes)

    @property
    def _unit(self) -> float:
        """Deviation by which the target's values are divided before they are fitted."""
        return float(self.target_scales_.deviation[TARGET, 0])

    def predict(self, X: Any, return_std: bool = False, sample_domain: Any = None) -> Any:
        """Return the mean of the target value at each row.

        Args:
            X: Inputs, `[N, D]`.
            return_std: Whether to return the standard deviation of the noisy value too; NaN of sources.
            sample_domain: Domain of each row, `[N]`; None: all are the target's.

        Returns:
            Means `[N]`, or means and standard deviations.
        """
        mean, variance, domain = self._moments(X, sample_domain)
        scale = self.target_scales_.deviation[domain, 0]
        mean = mean[:, 0] * scale + self.target_scales_.mean[domain, 0]
        return (mean, scale * np.sqrt(variance[:, 0] + self.model_.noise)) if return_std else mean

    def score(self, X: Any, y: Any, sample_weight: Any = None, sample_domain: Any = None) -> float:
        """Return R² at rows `[N, D]` with target values `[N]`; arguments as of `fit`."""
        return float(r2_score(y, self.predict(X, sample_domain=sample_domain), sample_weight=sample_weight))


@dataclass(kw_only=True, repr=False, eq=False)
class _SymmetricEstimator(TransferEstimator):
    """What the symmetric models share: there is no exact limit, and nothing is mixed."""

    _kind: ClassVar[str] = "symmetric"

    max_iterations: int = 100

    def _best(
        self,
        exact: ExactTransfer,
        rows: TransferRows,
        groups: npt.NDArray[np.intp] | None,  # noqa: ARG002 - training knows none
        seed: int,
    ) -> ExactTransfer | JudgedTransfer:
        """Return the trained model; without a source that is the target's own exact limit."""
        return self._trained(rows, seed) if rows.num_sources else exact


@dataclass(kw_only=True, repr=False, eq=False)
class STLDGPClassifier(_SymmetricEstimator, ATLDGPClassifier):
    """Symmetric transfer learning with a deep Gaussian process, for classes.

    Each domain's output layer sees the hidden units of all domains side by side. Parameters as for
    `ATLDGPClassifier`; `mixing` has no meaning, `mixing_` is empty, and `max_iterations=0` is the joint
    start.

    Source:
        Kandemir (2015), section 4, the symmetric model.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(40, 2))
        >>> domain = np.r_[np.zeros(30), -np.ones(10)]
        >>> model = STLDGPClassifier(max_iterations=20).fit(X, X[:, 0] > 0.0, sample_domain=domain)
        >>> model.predict_proba(X[30:]).shape
        (10, 2)
    """


@dataclass(kw_only=True, repr=False, eq=False)
class STLDGPRegressor(_SymmetricEstimator, ATLDGPRegressor):
    """Symmetric transfer learning with a deep Gaussian process, for real targets.

    Parameters as for `STLDGPClassifier`.

    Source:
        Kandemir (2015), section 4, the symmetric model.

    Example:
        >>> STLDGPRegressor().max_iterations
        100
    """
