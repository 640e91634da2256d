"""What a fitted estimator would say of each of its training rows if it had not seen it.

One pass over the rows takes the place of N fits: the row's site is divided out of the posterior, see
`gpmodels.heads.leave_one_out`. Rows of a group say much of each other, so that where groups are given the
posterior is solved anew without each group. Inducing inputs and hyper-parameters have seen the row and stay.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from sklearn.base import is_classifier
from sklearn.utils import compute_class_weight
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d

from gpmodels.estimators.fitting.engine import Engine, FloatArray
from gpmodels.estimators.fitting.full_batch import refit_posterior
from gpmodels.estimators.fitting.grouped import checked_groups
from gpmodels.estimators.fitting.mini_batch import CHUNK, Rows
from gpmodels.estimators.fitting.rows import checked_rows
from gpmodels.estimators.sparse.base import PLACEMENT_ROWS, SparseGPEstimator
from gpmodels.estimators.sparse.row_digest import row_digest, weighted_row_digest
from gpmodels.estimators.sparse.temperature import tempered_log_probabilities
from gpmodels.heads.conjugate import SitePair
from gpmodels.heads.gp import Points
from gpmodels.heads.linear_layer import linear_layer_of
from gpmodels.units.counts import is_count

MOST_GROUP_PARTS = 20
"""Parts in which groups are left out: each costs a posterior that is solved anew."""

OfPoints = Callable[[Engine, Points, Any], FloatArray]
"""Returns something of some points by their marginals."""


@dataclass(kw_only=True, repr=False, eq=False)
class _LeavesOneOut(SparseGPEstimator, abc.ABC):
    """What classifiers and regressors share."""

    def _remember_rows(self, x: FloatArray, targets: FloatArray, weight: FloatArray) -> None:
        super()._remember_rows(x, targets, weight)
        self.rows_digest_ = row_digest(x, targets)
        self.weights_digest_ = weighted_row_digest(x, targets, weight)

    def _left_out(self, X: Any, y: Any, sample_weight: Any, groups: Any, of_points: OfPoints) -> FloatArray:
        """Return a function of the marginals without the row, or its group, some rows at a time."""
        check_is_fitted(self)
        x, labels = checked_rows(self, X, y, reset=False, dtype=np.float64)
        labels = column_or_1d(labels)
        fitted = int(getattr(self, "num_rows_", len(x)))  # files of earlier versions do not say
        if len(x) != fitted:
            raise ValueError(
                f"These are {len(x)} rows, but the fit had {fitted}. Pass the rows of the fit, with "
                "their weights: each is left out of what all of them taught."
            )
        labels = labels if is_classifier(self) else labels.astype(np.float64)  # as `fit` has them
        given = self._targets(labels) if is_classifier(self) else labels
        digest = row_digest(x, given)
        if digest != getattr(self, "rows_digest_", digest):
            raise ValueError(
                "These are not the rows of the fit: inputs or targets differ. Pass both as `fit` had them, "
                "in any order but together: each row is left out of what all of them taught."
            )
        weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        weight = self._row_weight(labels, weight)
        digest = weighted_row_digest(x, given, weight)
        if digest != getattr(self, "weights_digest_", digest):  # files of earlier versions have none
            raise ValueError(
                "These are the rows of the fit, but not with their weights. Pass the sample_weight that "
                "`fit` had, or none if it had none."
            )
        of_row = None if groups is None else checked_groups(groups, len(x))
        targets = self._targets(labels)
        return self._left_out_rows(x, targets, weight, of_points, self._before_leaving_out, of_row)

    def _left_out_rows(
        self,
        x: FloatArray,
        targets: FloatArray,
        weight: FloatArray,
        of_points: OfPoints,
        prepare: Callable[[Engine, Rows], None] | None = None,
        groups: npt.NDArray[np.intp] | None = None,
    ) -> FloatArray:
        """Return a function of the left-out marginals of checked rows, whose weights are those of the fit."""
        weight = weight * (self.effective_observations_ / weight.sum())
        engine = self._engine_to_leave_out_by()
        if prepare is not None:
            prepare(engine, Rows(x, targets, weight, self.input_mean_, self.input_scale_))
        scaled, logits, variance = (x - self.input_mean_) / self.input_scale_, None, None
        layer = (
            linear_layer_of(engine.head, scaled, targets, weight, groups)
            if len(x) <= PLACEMENT_ROWS
            else None
        )
        if layer is not None:
            logits, variance = layer.logits, layer.logit_variance
        points = engine.points(scaled, targets, weight, logits, variance)
        if points.logits is not None and engine.head.linear_mean is not None:
            own = engine.head.linear_mean.logits(points.x)  # which knows nothing of rows without weight
            points = points._replace(logits=tf.where(points.weight[:, None] > 0, points.logits, own))
        left_out = engine.head.leaving_out(points)
        if groups is None:
            return self._of_chunks(engine, points, left_out, of_points)
        num_groups = int(groups.max()) + 1
        part_of_row = np.random.default_rng(0).permutation(num_groups)[groups] % MOST_GROUP_PARTS
        found: FloatArray | None = None
        with engine.unchanged():
            sites = None if engine.head.best_posterior_by != "sites" else engine.matching_sites(points)
            for number in range(min(num_groups, MOST_GROUP_PARTS)):
                held_out = part_of_row == number
                kept = np.where(held_out, 0.0, weight)
                without = points._replace(weight=tf.constant(kept, engine.dtype))
                rows = Rows(x, targets, kept, self.input_mean_, self.input_scale_)
                self._solve_without(engine, rows, without, sites)
                own = Points(*(None if value is None else value[held_out] for value in without))
                # Of rows without weight, whose sites are nothing, these are the marginals of q itself.
                values = self._of_chunks(engine, own, engine.head.leaving_out(without), of_points)
                found = np.empty((len(x), *values.shape[1:])) if found is None else found
                found[held_out] = values
        return np.asarray(found)

    def _of_chunks(
        self, engine: Engine, points: Points, left_out: Callable[[Points], Any], of_points: OfPoints
    ) -> FloatArray:
        """Return a function of left-out marginals, some points at a time."""
        rows = max(CHUNK // self.head_settings_.get("num_classes", 1), 64)
        parts = []
        for start in range(0, len(points.y), rows):
            part = Points(*(None if value is None else value[start : start + rows] for value in points))
            parts.append(of_points(engine, part, left_out(part)))
        return np.concatenate(parts)

    def _engine_to_leave_out_by(self) -> Engine:
        """Return an engine with the posterior that rows are left out of: the trained one."""
        return self._trained_engine()

    def _before_leaving_out(self, engine: Engine, rows: Rows) -> None:
        """Bring the posterior to the best one at the rows, where the fit may have left another."""

    def _solve_without(self, engine: Engine, _rows: Rows, points: Points, sites: SitePair | None) -> None:
        """Bring the posterior to the best one of the points that have weight, given as rows as well."""
        if sites is not None:
            refit_posterior(engine, points, sites)
        elif engine.head.best_posterior_by == "closed_form":
            engine.set_best_posterior(points)
        else:
            raise NotImplementedError(
                f"The posterior of this {type(self).__name__} was found by steps, and cannot be solved "
                "without a group. Fit with another e_step, or leave out rows alone."
            )

    def _row_weight(self, labels: npt.NDArray[Any], weight: FloatArray) -> FloatArray:  # noqa: ARG002 - classifiers need the labels
        """Return how often each row counted in the fit."""
        return weight


@dataclass(kw_only=True, repr=False, eq=False)
class LeavesOneOutRegressor(_LeavesOneOut, abc.ABC):
    """Adds leave-one-out to a regressor."""

    def leave_one_out(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> FloatArray:
        """Return log p(y_n) of each training row by the model that has not seen it, without N fits.

        Minus their mean is a cross-validated NLL. It is exact for the posterior; the hyper-parameters have
        seen the row, so that it is a little too good. Rows that early stopping held out of the posterior of
        an SVGP or HGP, on mini-batches, had no part in it; theirs is a little too low.

        Args:
            X: The rows of `fit`, `[N, D]`.
            y: Their targets, `[N]`.
            sample_weight: Their weights in `fit`, `[N]`.
            groups: Group of each row, `[N]`, such as its patient: the whole group is left out, with others
                where there are more than 20. None leaves out the row alone.

        Returns:
            Log density in the targets' units, nats, `[N]`.

        Raises:
            sklearn.exceptions.NotFittedError: The estimator is not fitted.
            NotImplementedError: Its posterior is not one of sites.
            ValueError: The rows, or their weights, are others than those of the fit.

        Source:
            `gpmodels.heads.leave_one_out`.
        """

        def density(engine: Engine, points: Points, latent: Any) -> FloatArray:
            return engine.head.log_predictive_density(latent, points.y).numpy()

        return self._left_out(X, y, sample_weight, groups, density) - np.log(self.target_scale_)


@dataclass(kw_only=True, repr=False, eq=False)
class LeavesOneOutClassifier(_LeavesOneOut, abc.ABC):
    """Adds leave-one-out, and a list of probable label errors, to a classifier."""

    def leave_one_out(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> FloatArray:
        """Return log p(y_n) of each training row by the model that has not seen it, without N fits.

        Minus their mean is a cross-validated NLL. For classes it is an approximation that is good to some
        hundredths of a nat, and the hyper-parameters have seen the row, so that it is a little too good. Rows
        that early stopping held out of the posterior of an SVGP or HGP, on mini-batches, had no part in it;
        theirs is a little too low.

        Args:
            X: The rows of `fit`, `[N, D]`.
            y: Their labels, `[N]`.
            sample_weight: Their weights in `fit`, `[N]`.
            groups: Group of each row, `[N]`, such as its patient: the whole group is left out, with others
                where there are more than 20. None leaves out the row alone.

        Returns:
            Nats, at the estimator's temperature, `[N]`; of an AutoGP at the one that left-out rows ask for.

        Raises:
            sklearn.exceptions.NotFittedError: The estimator is not fitted.
            NotImplementedError: Its posterior is not one of sites.
            ValueError: A label was not seen in `fit`, or the rows, or their weights, are others than
                those of the fit.

        Source:
            `gpmodels.heads.leave_one_out`.
        """
        logs = self._left_out_log_probabilities(X, y, sample_weight, groups)
        return logs[np.arange(len(logs)), self._class_indices(y)]

    def suspicious_labels(
        self, X: Any, y: Any, sample_weight: Any = None, *, limit: int | None = None, groups: Any = None
    ) -> npt.NDArray[np.intp]:
        """Return the training rows whose labels the other rows contradict, the most suspicious first.

        A row is listed where the model that has not seen it finds another class more probable, in the order
        of the probability of the given label. It is a list to look at, not one to delete.

        Args:
            X: The rows of `fit`, `[N, D]`.
            y: Their labels, `[N]`.
            sample_weight: Their weights in `fit`, `[N]`.
            limit: Most rows to list; None lists all that are contradicted.
            groups: As for `leave_one_out`: a group may be labelled wrongly as a whole.

        Returns:
            Row numbers.

        Raises:
            ValueError: The limit is no whole number from 1; or as `leave_one_out`.

        Example:
            >>> from sklearn.datasets import load_iris
            >>> from gpmodels import SVGPClassifier
            >>> X, y = load_iris(return_X_y=True)
            >>> y[3] = 2  # a setosa, labelled virginica
            >>> model = SVGPClassifier(num_inducing=10, max_iterations=30, random_state=0).fit(X, y)
            >>> int(model.suspicious_labels(X, y, limit=1)[0])
            3
        """
        if limit is not None and not is_count(limit):
            raise ValueError(f"limit must be at least 1 and whole, or None for all rows, but is {limit!r}.")
        logs = self._left_out_log_probabilities(X, y, sample_weight, groups)
        own = logs[np.arange(len(logs)), self._class_indices(y)]
        contradicted = np.flatnonzero(own < logs.max(axis=1))
        return contradicted[np.argsort(own[contradicted], kind="stable")][:limit]

    def _class_indices(self, y: Any) -> npt.NDArray[np.intp]:
        """Return the number of each row's class, `[N]`."""
        return self._targets(column_or_1d(y)).astype(np.intp)

    def _left_out_log_probabilities(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> FloatArray:
        """Return log p_c of each row by what the others say, `[N, C]`."""
        logs = self._left_out(X, y, sample_weight, groups, self._log_probabilities_of)
        return tempered_log_probabilities(logs, getattr(self, "temperature_", 1.0))

    def _log_probabilities_of(self, engine: Engine, _: Points, latent: Any) -> FloatArray:
        """Return log p_c of marginals, `[n, C]`, before any temperature."""
        return engine.head.class_log_probabilities(latent).numpy()

    def _row_weight(self, labels: npt.NDArray[Any], weight: FloatArray) -> FloatArray:
        if self.class_weight is None:
            return weight
        factors = compute_class_weight(self.class_weight, classes=self.classes_, y=labels)
        return weight * factors[self._targets(labels).astype(np.intp)]
