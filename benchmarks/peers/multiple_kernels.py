"""What the multiple-kernel classifiers share: one kernel for each view, and the rules of scikit-learn."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from benchmarks.peers.base import Array
from gpmodels.estimators.fitting.fitted import all_or_nothing
from gpmodels.units.placement import median_distance
from gpmodels.units.views import normalised_views

Views = Sequence[Sequence[int] | slice] | None


@dataclass(frozen=True)
class ViewKernels:
    """Squared exponential kernels of standardised views, each with its median distance as lengthscale.

    Attributes:
        inputs: Standardised training inputs of each view.
        columns: Columns of each view.
        mean: Mean of each column, `[D]`.
        scale: Deviation of each column, `[D]`.
        lengthscales: One for each view.
    """

    inputs: tuple[Array, ...]
    columns: tuple[tuple[int, ...], ...]
    mean: Array
    scale: Array
    lengthscales: tuple[float, ...]

    @classmethod
    def fitted(cls, x: Array, views: Views, rng: np.random.Generator) -> ViewKernels:
        """Return the kernels of training inputs `[N, D]`; without views all columns are one.

        Raises:
            ValueError: A view has a column that is not there.
        """
        columns = (tuple(range(x.shape[1])),) if views is None else normalised_views(views)
        if max(map(max, columns)) >= x.shape[1]:
            raise ValueError(
                f"A view has column {max(map(max, columns))}, but X has {x.shape[1]} features, from 0."
            )
        mean, scale = x.mean(axis=0), x.std(axis=0)
        scale = np.where(scale > 1e-10 * np.abs(mean), scale, 1.0)
        inputs = tuple(((x - mean) / scale)[:, list(view)] for view in columns)
        return cls(inputs, columns, mean, scale, tuple(median_distance(part, rng) for part in inputs))

    def between(self, x: Array) -> Array:
        """Return κ_m(x_n, training input) of each view, `[views, n, N]`."""
        scaled = (x - self.mean) / self.scale
        return np.stack(
            [
                np.exp(-0.5 * cdist(scaled[:, list(view)], own, "sqeuclidean") / lengthscale**2)
                for view, own, lengthscale in zip(self.columns, self.inputs, self.lengthscales, strict=True)
            ]
        )


@dataclass(kw_only=True, repr=False, eq=False)
class MultipleKernelClassifier(ClassifierMixin, BaseEstimator, abc.ABC):
    """A classifier of two classes by one kernel for each view.

    A subclass is a dataclass of its arguments and defines `_train` and `_decide`.
    """

    views: Views = None
    random_state: Any = None

    @all_or_nothing
    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Learn to tell two classes apart.

        Args:
            X: Inputs, `[N, D]`; standardised inside.
            y: Labels of any type, `[N]`.

        Returns:
            The estimator itself.

        Raises:
            ValueError: X is not finite, there are not two classes, or a constructor argument is out of range.
        """
        x, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(labels)
        self.classes_, index = np.unique(labels, return_inverse=True)
        if len(self.classes_) != 2:
            kinds = "class" if len(self.classes_) == 1 else "classes"
            raise ValueError(
                f"Only binary classification is supported: {type(self).__name__} needs two classes, but y "
                f"has {len(self.classes_)} {kinds}. For more, wrap it in "
                "sklearn.multiclass.OneVsRestClassifier."
            )
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        kernels = ViewKernels.fitted(x, self.views, rng)
        self._train(kernels.between(x), 2.0 * index - 1.0)
        self.kernels_ = kernels
        return self

    def predict_proba(self, X: npt.ArrayLike) -> Array:
        """Return the probability of each class in the order of `classes_`, `[N, 2]`, for inputs `[N, D]`."""
        check_is_fitted(self, "kernels_")
        x = validate_data(self, X, dtype=np.float64, reset=False)
        return self._decide(self.kernels_.between(x))

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the more probable label of each row, `[N]`, for inputs `[N, D]`."""
        probability = self.predict_proba(X)
        return self.classes_[np.argmax(probability, axis=1)]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    @abc.abstractmethod
    def _train(self, kernels: Array, y: Array) -> None:
        """Train on kernels among the training rows `[views, N, N]` and labels -1 or 1 `[N]`."""

    @abc.abstractmethod
    def _decide(self, kernels: Array) -> Array:
        """Return the probabilities `[n, 2]` from kernels with the training rows `[views, n, N]`."""
