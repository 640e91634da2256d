"""What the transfer classifiers of the literature share: who is a source, temperature, scikit-learn's rules.

A classifier learns from rows of some sources and of one target, and predicts rows of the target. As in skada,
`sample_domain` says whose a row is: a number of at least 0 for a source, one negative number for the target.

    p(class c) = softmax(T s)_c

The scores s are each model's own. T is fitted to scores of the target's labelled rows by models that have not
seen them, since scores of rows seen are too sure. Of a few rows, all may be right whatever T is: log T has
the prior N(log T₀, 1), T₀ the scale that the model itself claims, which thirty rows outweigh.
"""

from __future__ import annotations

import abc
import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from gpmodels.estimators.fitting.fitted import all_or_nothing

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]

LOG_SCALE_RANGE = 5.0
"""log T is sought within this of log T₀."""


class Rows(NamedTuple):
    """Labelled rows of all domains.

    Attributes:
        x: Inputs, `[N, D]`.
        label: Class indices or real targets, `[N]`.
        domain: 0 to K - 1 for the sources in the order of their numbers, K for the target, `[N]`.
        num_sources: K.
        num_classes: C; 0 for real targets.
        groups: What each row belongs to, `[N]`: rows of one group of the target are left out together. None:
            each row is left out alone.
    """

    x: Array
    label: npt.NDArray[Any]
    domain: Integers
    num_sources: int
    num_classes: int = 0
    groups: npt.NDArray[Any] | None = None

    @property
    def is_target(self) -> npt.NDArray[np.bool_]:
        """Whether each row is of the target, `[N]`."""
        return self.domain == self.num_sources

    def of(self, domain: int) -> tuple[Array, npt.NDArray[Any]]:
        """Return inputs and labels of one domain."""
        own = self.domain == domain
        return self.x[own], self.label[own]

    def without(self, rows: Integers) -> Rows:
        """Return all rows but those of the given numbers."""
        kept = np.delete(np.arange(len(self.x)), rows)
        groups = None if self.groups is None else self.groups[kept]
        return self._replace(x=self.x[kept], label=self.label[kept], domain=self.domain[kept], groups=groups)


def domain_numbers(sample_domain: npt.ArrayLike | None, num_rows: int) -> tuple[Integers, int]:
    """Return the number of each row's domain, the target's last, and how many sources there are.

    Args:
        sample_domain: `[N]`; at least 0 for sources, one negative number for the target. Without it all rows
            are the target's.
        num_rows: N.

    Raises:
        ValueError: There is no target, or more than one, or the length is not N.

    Example:
        >>> domain_numbers([7, 7, 2, -1], 4)
        (array([1, 1, 0, 2]), 2)
    """
    if sample_domain is None:
        return np.zeros(num_rows, dtype=np.intp), 0
    numbers = np.asarray(sample_domain)
    if numbers.shape != (num_rows,):
        raise ValueError(
            f"sample_domain has the shape {numbers.shape}, but X has {num_rows} rows: give one number a row."
        )
    targets = np.unique(numbers[numbers < 0])
    if len(targets) != 1:
        raise ValueError(
            f"sample_domain has {len(targets)} different negative numbers, but must have one: it marks the "
            "target's rows, and numbers of at least 0 mark those of the sources."
        )
    sources = np.unique(numbers[numbers >= 0])
    domain = np.where(numbers < 0, len(sources), np.searchsorted(sources, numbers))
    return domain.astype(np.intp), len(sources)


def fit_score_scale(scores: Array, label: Integers, own: float = 1.0) -> float:
    """Return the T with which softmax(T x scores) of left-out rows is most probable, a posteriori.

    Args:
        scores: Scores of rows by models that have not seen them, `[N, C]`.
        label: Class indices, `[N]`.
        own: T₀, the scale that the model itself claims.

    Source:
        Guo et al. (2017), section 4.2, with a prior.

    Example:
        >>> fit_score_scale(np.empty((0, 2)), np.empty(0, int), own=3.0) - 3.0 < 1e-4
        True
    """
    centre, rows = np.log(own), np.arange(len(label))

    def loss(log_scale: float) -> float:
        own_log = log_softmax(np.exp(log_scale) * scores, axis=1)[rows, label]
        return float(-own_log.sum() + 0.5 * (log_scale - centre) ** 2)

    bounds = (centre - LOG_SCALE_RANGE, centre + LOG_SCALE_RANGE)
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))


def checked_groups(groups: npt.ArrayLike | None, num_rows: int) -> npt.NDArray[Any] | None:
    """Return the group of each row, `[N]`, or None where no groups are given.

    Raises:
        ValueError: There is not one group for each row.
    """
    if groups is None:
        return None
    names = np.asarray(groups)
    if names.shape != (num_rows,):
        raise ValueError(
            f"groups has the shape {names.shape}, but X has {num_rows} rows: give one group a row."
        )
    return names


def target_folds(rows: Rows, num_folds: int) -> list[Integers]:
    """Return parts of the target's labelled rows to leave out in turn, each class spread over the parts.

    Args:
        rows: Rows of all domains; those of one group stay together.
        num_folds: Most parts; 0 leaves out each row, or each group, alone.
    """
    number = np.flatnonzero(rows.is_target)
    unit = number if rows.groups is None else rows.groups[number]
    names, index = np.unique(unit, return_inverse=True)
    first = np.array([rows.label[number[index == k][0]] for k in range(len(names))])
    order = np.argsort(first, kind="stable")  # neighbours are of one class, and part from each other
    part = np.empty(len(names), dtype=np.intp)
    part[order] = np.arange(len(names)) % (num_folds or len(names))
    return [number[part[index] == k] for k in np.unique(part)]


@dataclass(kw_only=True, repr=False, eq=False)
class TransferClassifier(ClassifierMixin, BaseEstimator, abc.ABC):
    """A classifier of target rows that learns from source rows too.

    A subclass is a dataclass of its arguments and defines `_train` and `_scores`.

    Args:
        temperature_folds: Parts in which labelled target rows are left out for the temperature; 0 leaves each
            row out alone, None fits no temperature.

    Attributes:
        classes_: Labels, sorted.
        num_sources_: K.
        score_scale_: T.
        left_out_nll_: Mean NLL of left-out target rows with T; NaN where none was left out.
    """

    temperature_folds: int | None = 10

    @all_or_nothing
    def fit(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        sample_domain: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> Self:
        """Learn from labelled rows of all domains.

        Args:
            X: Inputs, `[N, D]`.
            y: Labels of any type, `[N]`.
            sample_domain: Whose each row is, `[N]`: at least 0 for a source, one negative number for the
                target. Without it all rows are the target's.
            groups: Rows that are left out together wherever rows are left out, `[N]`; each alone without
                it.

        Returns:
            The estimator itself.

        Raises:
            ValueError: X is not finite, y has one class, `sample_domain` marks no target or several, or there
                is not one group a row.
        """
        x, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(labels)
        self.classes_, index = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes, but y has one class, "
                f"{self.classes_[0]!r}."
            )
        domain = domain_numbers(sample_domain, len(x))
        rows = Rows(x, index, *domain, len(self.classes_), checked_groups(groups, len(x)))
        self.num_sources_ = rows.num_sources
        self._train(rows)
        scale, left_out_nll = 1.0, float("nan")
        if self.temperature_folds is not None:
            scores, label = self._left_out(rows)
            scale = fit_score_scale(scores, label, self._own_scale())
            if len(label):
                logarithms = log_softmax(scale * scores, axis=1)
                left_out_nll = -float(logarithms[np.arange(len(label)), label].mean())
        self.score_scale_, self.left_out_nll_ = scale, left_out_nll
        return self

    def class_scores(self, X: npt.ArrayLike) -> Array:
        """Return the scores of target rows `[N, D]`, `[N, C]`, before the temperature."""
        check_is_fitted(self, "score_scale_")
        return self._scores(validate_data(self, X, dtype=np.float64, reset=False))

    def predict_proba(self, X: npt.ArrayLike) -> Array:
        """Return the probability of each class in the order of `classes_`, `[N, C]`, of rows `[N, D]`."""
        scores = self.class_scores(X)
        return softmax(self.score_scale_ * scores, axis=1)

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the most probable label of each target row, `[N]`, for inputs `[N, D]`."""
        scores = self.class_scores(X)
        return self.classes_[np.argmax(scores, axis=1)]

    def _left_out(self, rows: Rows) -> tuple[Array, Integers]:
        """Return scores `[n, C]` and labels `[n]` of target rows, by models that have not seen them."""
        scores, labels = [], []
        for fold in target_folds(rows, self.temperature_folds or 0):
            kept = rows.without(fold)
            if not len(kept.x) or len(np.unique(kept.label)) < 2:
                continue
            model = copy.copy(self)
            model._train(kept)
            scores.append(model._scores(rows.x[fold]))
            labels.append(rows.label[fold])
        if not scores:
            return np.empty((0, rows.num_classes)), np.empty(0, dtype=np.intp)
        return np.concatenate(scores), np.concatenate(labels)

    def _own_scale(self) -> float:
        """Return T₀."""
        return 1.0

    @abc.abstractmethod
    def _train(self, rows: Rows) -> None:
        """Train on labelled rows of all domains."""

    @abc.abstractmethod
    def _scores(self, x: Array) -> Array:
        """Return scores of target rows `[n, D]`, `[n, C]`."""


def scores_of_decision(decision: Array, classes: Integers, num_classes: int) -> Array:
    """Return a score for each class from a classifier's decision function, `[N, C]`.

    Args:
        decision: `[N]` of two classes, else `[N, classes]`.
        classes: Class indices that the classifier knows; the others have the lowest score of a row.
        num_classes: C.

    Example:
        >>> scores_of_decision(np.array([2.0]), np.array([0, 2]), 3).tolist()
        [[-1.0, -1.0, 1.0]]
    """
    if decision.ndim == 1:
        decision = np.stack([-0.5 * decision, 0.5 * decision], axis=1)
    scores = np.repeat(decision.min(axis=1, keepdims=True), num_classes, axis=1)
    scores[:, classes] = decision
    return scores
