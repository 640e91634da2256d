"""Gaussian processes over several domains whose functions are correlated: ICM, and FMTL's variant of it.

    cov(f_i(x), f_j(x')) = B_ij k(x, x'),   B = 1 on the diagonal, ρ between a source and the target,
                                            ρ² between two sources

f_s = ρ f_t + √(1 - ρ²) g_s has this covariance, so that it is valid for every |ρ| <= 1. With ρ = ½ and one
source it is EasyAdapt, which repeats features, [x, x, 0] for a source and [x, 0, x] for the target, with an
RBF kernel on each part. With kernels of their own the sources can explain away what the target does not share
(focused multi-task learning, FMTL): cov(f_s) = k + k_s.

Classes are fitted as the real codes onehot - 1/C with Gaussian noise, in closed form. What is predicted of a
group g of rows by all others needs no second fit:

    mean y_g - ([K⁻¹]_gg)⁻¹ [K⁻¹y]_g,    covariance ([K⁻¹]_gg)⁻¹,    K the covariance with noise
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from benchmarks.peers.transfer_base import (
    Array,
    Integers,
    Rows,
    TransferClassifier,
    checked_groups,
    domain_numbers,
    fit_score_scale,
    target_folds,
)
from gpmodels.estimators.fitting.fitted import all_or_nothing
from gpmodels.transfer.rows import class_codes, mean_distance
from gpmodels.transfer.score_scale import own_scale

GRID = tuple(np.linspace(0.0, 1.0, 11).tolist())
"""Values of ρ to choose from."""


@dataclass(frozen=True)
class CoregionalisedPosterior:
    """The process given its rows.

    Attributes:
        x: Inputs of all domains, `[N, D]`.
        codes: What is fitted, `[N, C]`.
        domain: Number of each row's domain, the target's last, `[N]`.
        num_sources: K.
        correlation: ρ.
        noise: Variance of the noise.
        lengthscale: Of k.
        own_lengthscales: Of the sources' own kernels, K of them, or none.
        inverse: K⁻¹, `[N, N]`.
        weights: K⁻¹ codes, `[N, C]`.
    """

    x: Array
    codes: Array
    domain: Integers
    num_sources: int
    correlation: float
    noise: float
    lengthscale: float
    own_lengthscales: tuple[float, ...]
    inverse: Array
    weights: Array

    @classmethod
    def fitted(
        cls, rows: Rows, codes: Array, *, correlation: float, noise: float, own_source_kernel: bool
    ) -> CoregionalisedPosterior:
        """Return the posterior, with lengthscales at the mean distances of all rows and of each source's."""
        own: tuple[float, ...] = ()
        if own_source_kernel:
            own = tuple(mean_distance(rows.of(k)[0]) for k in range(rows.num_sources))
        empty = np.empty((0, 0))
        prior = cls(
            x=rows.x,
            codes=codes,
            domain=rows.domain,
            num_sources=rows.num_sources,
            correlation=correlation,
            noise=noise,
            lengthscale=mean_distance(rows.x),
            own_lengthscales=own,
            inverse=empty,
            weights=empty,
        )
        return prior.with_correlation(correlation)

    def with_correlation(self, correlation: float) -> CoregionalisedPosterior:
        """Return the posterior of the same rows with another ρ."""
        changed = replace(self, correlation=correlation)
        size = len(self.x)
        covariance = changed.covariance(self.x, self.domain) + self.noise * np.eye(size)
        inverse = cho_solve(cho_factor(covariance, lower=True), np.eye(size))
        return replace(changed, inverse=inverse, weights=inverse @ self.codes)

    def covariance(self, x: Array, domain: Integers) -> Array:
        """Return the covariance of f at inputs `[n, D]` of domains `[n]` with f at the rows, `[n, N]`."""
        of_source = [
            (domain < self.num_sources)[:, None],
            (self.domain < self.num_sources)[None],
        ]
        between = np.where(domain[:, None] == self.domain[None], 1.0, self.correlation)
        different = (of_source[0] & of_source[1]) & (domain[:, None] != self.domain[None])
        between = np.where(different, self.correlation**2, between)
        distance = cdist(x, self.x)
        total = between * _rbf(distance, self.lengthscale)
        for k, lengthscale in enumerate(self.own_lengthscales):
            both = (domain == k)[:, None] & (self.domain == k)[None]
            total += both * _rbf(distance, lengthscale)
        return total

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Return mean `[n, C]` and variance `[n]` of the noisy codes of target rows `[n, D]`."""
        cross = self.covariance(x, np.full(len(x), self.num_sources))
        return cross @ self.weights, 1.0 + self.noise - np.einsum(
            "nj,jk,nk->n", cross, self.inverse, cross, optimize=True
        )

    def left_out(self, folds: Sequence[Integers]) -> tuple[Array, Array]:
        """Return mean `[n, C]` and variance `[n]` of the codes of rows by all rows outside of their fold."""
        means, variances = [], []
        for fold in folds:
            covariance = np.linalg.inv(self.inverse[np.ix_(fold, fold)])
            means.append(self.codes[fold] - covariance @ self.weights[fold])
            variances.append(np.diag(covariance))
        return np.concatenate(means), np.concatenate(variances)


@dataclass(kw_only=True, repr=False, eq=False)
class CoregionalisedSettings(abc.ABC):
    """Settings that the classifier and the regressor share."""

    correlation: float | Literal["leave_one_out"] = "leave_one_out"
    noise_variance: float = 0.1
    own_source_kernel: bool = False

    def _posterior(self, rows: Rows, codes: Array, folds: Sequence[Integers]) -> CoregionalisedPosterior:
        """Return the posterior, ρ chosen by what is left out where it is not given."""
        self._check()
        chosen = self.correlation
        first = 0.0 if chosen == "leave_one_out" else float(chosen)
        posterior = CoregionalisedPosterior.fitted(
            rows,
            codes,
            correlation=first,
            noise=self.noise_variance,
            own_source_kernel=self.own_source_kernel,
        )
        if chosen != "leave_one_out" or not rows.num_sources:
            return posterior
        candidates = (posterior.with_correlation(rho) for rho in GRID)
        return max(candidates, key=lambda one: self._left_out_evidence(one, folds))

    def _check(self) -> None:
        """Refuse settings out of range."""
        value: Any = self.correlation
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value != "leave_one_out" and not (is_number and -1.0 <= value <= 1.0):
            raise ValueError(
                f'correlation is {value!r}, but must be "leave_one_out" or a number from -1 to 1.'
            )
        if not self.noise_variance > 0.0:
            raise ValueError(f"noise_variance must be positive, but is {self.noise_variance!r}.")

    @abc.abstractmethod
    def _left_out_evidence(self, posterior: CoregionalisedPosterior, folds: Sequence[Integers]) -> float:
        """Return how probable the target's rows are when they are left out, nats."""


@dataclass(kw_only=True, repr=False, eq=False)
class CoregionalisedGPClassifier(CoregionalisedSettings, TransferClassifier):
    """Gaussian process on codes of classes, correlated between domains.

    Args:
        correlation: ρ between each source and the target, or `"leave_one_out"`, which takes of `GRID` the
            value by which target rows are most probable that are left out, those of one group together.
        noise_variance: Variance of the codes' noise; the kernel's is 1.
        own_source_kernel: Whether each source has a kernel of its own too (FMTL).
        temperature_folds: Parts in which target rows are left out, 0 for each row alone, None to fit no
            temperature. Nothing is refitted.

    Attributes:
        classes_: Labels, sorted.
        correlation_: ρ.
        score_scale_: T.

    Source:
        Bonilla, Chai and Williams (2008) for B; Daumé (2007) for EasyAdapt; Leen, Peltonen and Kaski (2011)
        for kernels of the sources' own. Rasmussen and Williams (2006), section 5.4.2, for leaving out.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(60, 2))
        >>> domain = np.repeat([0, -1], [50, 10])
        >>> model = CoregionalisedGPClassifier(correlation=0.8).fit(x, x[:, 0] > 0, sample_domain=domain)
        >>> bool(model.score(x, x[:, 0] > 0) > 0.9)
        True
    """

    temperature_folds: int | None = 0

    def _train(self, rows: Rows) -> None:
        codes = class_codes(rows.label, rows.num_classes)
        self.posterior_ = self._posterior(rows, codes, target_folds(rows, 0))
        self.correlation_ = self.posterior_.correlation

    def _scores(self, x: Array) -> Array:
        return self.posterior_.predict(x)[0]

    def _left_out(self, rows: Rows) -> tuple[Array, Integers]:
        folds = target_folds(rows, self.temperature_folds or 0)
        mean, variance = self.posterior_.left_out(folds)
        self._variance = float(variance.mean())
        return mean, rows.label[np.concatenate(folds)]

    def _own_scale(self) -> float:
        return own_scale(len(self.classes_), self._variance)

    def _left_out_evidence(self, posterior: CoregionalisedPosterior, folds: Sequence[Integers]) -> float:
        mean, variance = posterior.left_out(folds)
        label = np.argmax(posterior.codes[np.concatenate(folds)], axis=1)
        scale = fit_score_scale(mean, label, own_scale(mean.shape[1], float(variance.mean())))
        return float(log_softmax(scale * mean, axis=1)[np.arange(len(label)), label].sum())


@dataclass(kw_only=True, repr=False, eq=False)
class CoregionalisedGPRegressor(CoregionalisedSettings, RegressorMixin, BaseEstimator):
    """Gaussian process regression, correlated between domains.

    Args:
        correlation: ρ between each source and the target, or `"leave_one_out"`, which takes of `GRID` the
            value by which target rows are most probable that are left out, those of one group together.
        noise_variance: Of the targets divided by their standard deviation; the kernel's variance is 1.
        own_source_kernel: Whether each source has a kernel of its own too (FMTL).

    Attributes:
        correlation_: ρ.

    Source:
        As of `CoregionalisedGPClassifier`.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(60, 1))
        >>> domain = np.repeat([0, -1], [50, 10])
        >>> model = CoregionalisedGPRegressor(noise_variance=0.01)
        >>> bool(model.fit(x, np.sin(x[:, 0]), sample_domain=domain).score(x, np.sin(x[:, 0])) > 0.9)
        True
    """

    @all_or_nothing
    def fit(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        sample_domain: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> Self:
        """Learn from rows of all domains.

        Args:
            X: Inputs, `[N, D]`.
            y: Real targets, `[N]`.
            sample_domain: Whose each row is, `[N]`: at least 0 for a source, one negative number for the
                target. Without it all rows are the target's.
            groups: Rows that are left out together where ρ is chosen, `[N]`; each alone without it.

        Returns:
            The estimator itself.

        Raises:
            ValueError: X or y is not finite, `sample_domain` marks no target or several, or there is not one
                group a row.
        """
        x, target = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self.mean_, deviation = float(np.mean(target)), float(np.std(target))
        self.scale_ = deviation if deviation > 0.0 else 1.0
        rows = Rows(
            x,
            target,
            *domain_numbers(sample_domain, len(x)),
            groups=checked_groups(groups, len(x)),
        )
        codes = ((np.asarray(target, np.float64) - self.mean_) / self.scale_)[:, None]
        self.posterior_ = self._posterior(rows, codes, target_folds(rows, 0))
        self.correlation_ = self.posterior_.correlation
        return self

    def predict(self, X: npt.ArrayLike, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Return the mean of the target's function, `[N]`, for inputs `[N, D]` of the target.

        Args:
            X: Inputs, `[N, D]`.
            return_std: Whether to return the standard deviation of the noisy target as well.
        """
        check_is_fitted(self, "posterior_")
        mean, variance = self.posterior_.predict(validate_data(self, X, dtype=np.float64, reset=False))
        scaled = self.mean_ + self.scale_ * mean[:, 0]
        return (scaled, self.scale_ * np.sqrt(variance)) if return_std else scaled

    def _left_out_evidence(self, posterior: CoregionalisedPosterior, folds: Sequence[Integers]) -> float:
        mean, variance = posterior.left_out(folds)
        error = posterior.codes[np.concatenate(folds)] - mean
        return float(-0.5 * (np.log(2.0 * np.pi * variance)[:, None] + error**2 / variance[:, None]).sum())


def _rbf(distance: Array, lengthscale: float) -> Array:
    return np.exp(-0.5 * np.square(distance / lengthscale))
