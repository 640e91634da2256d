"""What an estimator has learned, in the user's units: experts, lengthscales, relevance, noise."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from gpmodels.estimators.fitting.engine import FloatArray
from gpmodels.heads.base import UnitDescription
from gpmodels.heads.gp import GPHead
from gpmodels.likelihoods.gaussian import GaussianLikelihood

MAX_FEATURES = 8
"""Most features that the table lists, the most relevant ones first."""

TOP_OF_UNIT = 3
"""Features named beside each unit."""


@dataclass(frozen=True)
class UnitSummary:
    """One GP unit in use.

    Attributes:
        name: `"global"` or `"expert_k"`, k from 1.
        num_inducing: M.
        share: Share of the training rows that it answers for, None for a global unit above experts.
        lengthscales: ℓ in the inputs' own units, `[J, D]`, J = 1 or one row for each class.
        relevance: 1/ℓ of standardised inputs, of sum 1, averaged over J: `[D]`. It says how quickly the
            function varies along a feature, not how much of the target depends on it.
        kernel_deviation: Square root of the kernel's variance, in the target's units for regression, `[J]`.
        noise_deviation: Standard deviation of the noise in the target's units, None for classes.
        kl: KL(q ‖ prior), nats.
    """

    name: str
    num_inducing: int
    share: float | None
    lengthscales: FloatArray
    relevance: FloatArray
    kernel_deviation: FloatArray
    noise_deviation: float | None
    kl: float


@dataclass(frozen=True)
class ModelSummary:
    """A fitted estimator.

    Attributes:
        estimator: Name of the class.
        kernel: Name of the kernel.
        likelihood: Name of the likelihood.
        feature_names: Names given in `fit`, else `x0` to `x{D-1}`.
        units: Units in use.
        dropped: Names of the experts that no row chose.
        bound_per_point: Bound at the iteration that was kept, nats per row (of its mini-batch under Adam; of
            the first one where the start was kept).
        training: Words for how many iterations were done, and which one was kept.
        iterations: Iterations done.
        seconds: Time of the fit.
        mean: Words for the linear mean, empty without one.
    """

    estimator: str
    kernel: str
    likelihood: str
    feature_names: tuple[str, ...]
    units: tuple[UnitSummary, ...]
    dropped: tuple[str, ...]
    bound_per_point: float
    training: str
    iterations: int
    seconds: float
    mean: str = ""

    def relevance(self) -> FloatArray:
        """Return the relevance of each feature to the whole model, of sum 1, `[D]`.

        Mean over the experts by their shares, and with equal weight the global unit's.
        """
        experts = [unit for unit in self.units if unit.share is not None]
        parts = [unit.relevance for unit in self.units if unit.share is None]
        if experts:
            shares = np.array([unit.share for unit in experts])
            weights = shares if shares.sum() > 0 else np.ones(len(experts))
            parts.append(np.average([unit.relevance for unit in experts], axis=0, weights=weights))
        return np.mean(parts, axis=0)

    def __str__(self) -> str:
        return "\n".join([*self._headline(), "", *self._unit_table(), "", *self._feature_table()])

    def _headline(self) -> list[str]:
        dropped = f", {len(self.dropped)} dropped ({', '.join(self.dropped)})" if self.dropped else ""
        experts = sum(unit.name != "global" for unit in self.units)
        in_use = f", {experts} experts in use{dropped}" if experts or dropped else ""
        return [
            f"{self.estimator}: {self.kernel} kernel, {self.likelihood} likelihood",
            f"{len(self.feature_names)} features{in_use}",
            *([self.mean] if self.mean else []),
            f"bound {self.bound_per_point:.4f} nats per row {self.training}, {self.seconds:.1f} s",
        ]

    def _unit_table(self) -> list[str]:
        has_noise = self.units[0].noise_deviation is not None
        has_experts = any(unit.share is not None for unit in self.units)
        header = [
            "unit",
            "M",
            *["rows"] * has_experts,
            "kernel sd",
            *["noise sd"] * has_noise,
            "KL",
            "top features",
        ]
        rows = [header]
        for unit in self.units:
            top = np.argsort(-unit.relevance, kind="stable")[:TOP_OF_UNIT]
            share = "" if unit.share is None else f"{unit.share:.1%}"
            noise = "" if unit.noise_deviation is None else f"{unit.noise_deviation:.4g}"
            rows.append(
                [
                    unit.name,
                    str(unit.num_inducing),
                    *[share] * has_experts,
                    _range(unit.kernel_deviation),
                    *[noise] * has_noise,
                    f"{unit.kl:.2f}",
                    ", ".join(f"{self.feature_names[d]} {unit.relevance[d]:.0%}" for d in top),
                ]
            )
        return aligned(rows)

    def _feature_table(self) -> list[str]:
        relevance = self.relevance()
        order = np.argsort(-relevance, kind="stable")[:MAX_FEATURES]
        experts = [unit.lengthscales for unit in self.units if unit.name != "global"]
        shared = [unit.lengthscales for unit in self.units if unit.name == "global"]
        header = ["feature", "relevance"]
        header += ["lengthscale, global"] * bool(shared) + ["lengthscale, experts"] * bool(experts)
        rows = [header]
        for d in order:
            groups = [np.concatenate(group)[:, d] for group in (shared, experts) if group]
            rows.append([self.feature_names[d], f"{relevance[d]:.1%}", *(_range(group) for group in groups)])
        hidden = len(self.feature_names) - len(order)
        return aligned(rows) + ([f"and {hidden} less relevant features"] if hidden else [])


def feature_names(estimator: BaseEstimator) -> tuple[str, ...]:
    """Return the names of the columns that an estimator was fitted to; x0, x1 and so on where they had none.

    Args:
        estimator: Fitted.

    Example:
        >>> from gpmodels import SVGPRegressor
        >>> X = np.linspace(0.0, 10.0, 40)[:, None]
        >>> feature_names(SVGPRegressor(num_inducing=8, max_iterations=10).fit(X, np.sin(X[:, 0])))
        ('x0',)
    """
    unnamed = [f"x{d}" for d in range(estimator.n_features_in_)]
    return tuple(str(name) for name in getattr(estimator, "feature_names_in_", unnamed))


def describe(estimator: BaseEstimator) -> ModelSummary:
    """Return what a fitted estimator has learned.

    Args:
        estimator: Fitted.

    Raises:
        sklearn.exceptions.NotFittedError: It is not fitted.
        TypeError: Its head has other units, as that of a DFGP.

    Example:
        >>> from gpmodels import SVGPRegressor
        >>> X = np.linspace(0.0, 10.0, 40)[:, None]
        >>> model = SVGPRegressor(num_inducing=8, max_iterations=10, random_state=0).fit(X, np.sin(X[:, 0]))
        >>> [unit.name for unit in describe(model).units]
        ['global']
    """
    check_is_fitted(estimator)
    head = estimator._trained_engine().head
    descriptions = head.describe()
    if descriptions is None:
        raise TypeError(
            f"{type(estimator).__name__} has no unit on the features alone, whose lengthscales would say "
            "what each feature counts. Call its summary(), which tells what it has."
        )
    units = _units(estimator, head, descriptions)
    in_use = {unit.name for unit in units}
    curve = estimator.learning_curve_
    bound, training = reported_bound(estimator)
    return ModelSummary(
        estimator=type(estimator).__name__,
        kernel=head.kernel_name,
        likelihood=head.likelihood_name,
        feature_names=feature_names(estimator),
        units=units,
        dropped=tuple(name for name in head.unit_names if name not in in_use),
        bound_per_point=bound,
        training=training,
        iterations=estimator.n_iter_,
        seconds=curve[-1].seconds if curve else float("nan"),
        mean=_mean(estimator, head),
    )


def _mean(estimator: BaseEstimator, head: GPHead) -> str:
    """Return words for how much of the latent functions is the linear mean's."""
    if head.linear_mean is None:
        return ""
    share = getattr(estimator, "linear_share_", None)
    of_all = "" if share is None else f", {share:.0%} of the latent functions' variance over the rows"
    return f"linear mean: its layer times {float(head.linear_mean.scale.numpy()):.2f}{of_all}"


def reported_bound(estimator: BaseEstimator) -> tuple[float, str]:
    """Return the bound per row at the iteration that was kept, and words for which one of how many that was.

    Args:
        estimator: Fitted. One of an earlier file does not know what was kept: the last iteration counts.
    """
    iterations, curve = estimator.n_iter_, estimator.learning_curve_
    kept = getattr(estimator, "kept_iteration_", iterations)
    bounds = {point.iteration: point.bound_per_point for point in curve}
    last = curve[-1].bound_per_point if curve else float("nan")
    bound = bounds.get(max(kept, 1), last)
    if kept == iterations:
        return bound, f"after {iterations} iterations"
    return bound, f"after {kept} of {iterations} iterations (chosen by held-out rows)"


def _units(
    estimator: BaseEstimator, head: GPHead, descriptions: Sequence[UnitDescription]
) -> tuple[UnitSummary, ...]:
    """Return a summary of each unit in use, in the order of the head's names."""
    target_scale = 1.0 if is_classifier(estimator) else estimator.target_scale_
    has_noise = isinstance(head.likelihood, GaussianLikelihood)
    noise = head.likelihood.noise_variance.numpy() if has_noise else None
    shares = head.expert_occupancy()
    summaries = []
    for i, (unit, lengthscales, kl) in enumerate(
        zip(descriptions, head.lengthscales(), head.prior_kl().numpy(), strict=True)
    ):
        if unit.expert is not None and unit.expert not in shares:
            continue
        inverse = 1.0 / lengthscales
        summaries.append(
            UnitSummary(
                name=unit.name,
                num_inducing=unit.num_inducing,
                share=None if unit.expert is None else shares[unit.expert],
                lengthscales=lengthscales * estimator.input_scale_,
                relevance=np.mean(inverse / inverse.sum(axis=1, keepdims=True), axis=0),
                kernel_deviation=np.sqrt(unit.kernel_variance) * target_scale,
                noise_deviation=None if noise is None else float(np.sqrt(noise[i])) * target_scale,
                kl=float(kl),
            )
        )
    return tuple(summaries)


def _range(values: FloatArray) -> str:
    """Return one number, or the smallest and the largest of several."""
    low, high = (f"{value:.4g}" for value in (np.min(values), np.max(values)))
    return low if low == high else f"{low} to {high}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table whose columns start under each other.

    Example:
        >>> aligned([["unit", "KL"], ["a", "1.5"]])
        ['unit  KL', 'a     1.5']
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
