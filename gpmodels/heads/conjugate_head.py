"""The heads whose best q solves the linear system of `gpmodels.heads.conjugate`."""

import abc
import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from gpmodels.heads.base import Latent
from gpmodels.heads.conjugate import (
    GlobalLocalHead,
    SitePair,
    assign_posterior,
    best_posterior,
    collapsed_bound,
    gaussian_posterior,
    head_features,
    matching_sites,
    tied_bound,
)
from gpmodels.heads.gp import BestPosterior, Points
from gpmodels.heads.leave_one_out import joint_means, left_out_latent
from gpmodels.heads.left_out_logits import LeftOutLogits, moves_logits_together
from gpmodels.likelihoods.gaussian import GaussianLikelihood
from gpmodels.units.sparse import SparseUnits


class ConjugateHead(GlobalLocalHead, abc.ABC):
    """Base class of the heads whose best q solves this linear system: a global unit, experts, or both.

    A subclass with a global unit has `shared_units`, one with gated experts `expert_units`.

    Args:
        lengthscale_spread: s, how far the logarithms of a kernel's lengthscales are expected to lie from
            their mean, see `gpmodels.units.priors`: small keeps them together, as few rows need it. None
            leaves each free, which many rows allow.
        **kwargs: See `GPHead`.

    Raises:
        ValueError: A setting is out of range; the message names it.
    """

    def __init__(self, *, lengthscale_spread: float | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if lengthscale_spread is not None and not 0.0 < lengthscale_spread < math.inf:
            raise ValueError(f"lengthscale_spread must be positive or None, but is {lengthscale_spread!r}.")
        self.lengthscale_spread = lengthscale_spread

    def _make_units(
        self,
        num_units: int,
        num_inducing: int,
        num_features: int,
        role: str,
        *,
        kernel_variance: float | None = None,
    ) -> SparseUnits:
        return SparseUnits(
            num_units=num_units,
            num_inducing=num_inducing,
            num_features=num_features,
            num_latents=self.likelihood.num_latents,
            shared_kernel=self.class_kernels == "shared",
            kernel=self.kernel_name,
            kernel_depth=self.kernel_depth,
            lengthscale_spread=self.lengthscale_spread,
            kernel_variance=self.start_variance(kernel_variance),
            dtype=self.variable_dtype,
            role=f"{role} of {self.name}",
        )

    @property
    def best_posterior_by(self) -> BestPosterior:
        """How the best q is found: under Gaussian noise in closed form, else by sites."""
        return "closed_form" if isinstance(self.likelihood, GaussianLikelihood) else "sites"

    @property
    def posterior_units(self) -> tuple[SparseUnits, ...]:
        """All units: each q(v) follows from inducing inputs and hyper-parameters."""
        return tuple(units for units in (self.shared_units, self.expert_units) if units is not None)

    def collapsed_bound(self, points: Points, warm_up: tf.Tensor) -> tf.Tensor:  # noqa: ARG002 - the base class has it
        """Return max_q of the objective under a Gaussian likelihood, nats, a scalar; see the function."""
        return collapsed_bound(self, points) - self.lengthscale_penalty()

    def lengthscale_penalty(self) -> tf.Tensor:
        """Return what the prior of the lengthscales subtracts from the objective, nats, a scalar."""
        return tf.add_n([tf.reduce_sum(units.lengthscale_penalty()) for units in self.posterior_units])

    def penalty(self) -> tf.Tensor:
        """Return what the objective subtracts from the points' terms, nats: KL and `lengthscale_penalty`."""
        return super().penalty() + self.lengthscale_penalty()

    def set_best_posterior(self, points: Points) -> None:
        """Set q to the best under a Gaussian likelihood, at all points."""
        gaussian_posterior(self, points)

    def tied_bound(self, points: Points, sites: SitePair) -> tuple[tf.Tensor, Latent]:
        """Return the objective at the best q for given sites, nats, and the marginals under that q."""
        bound, latent = tied_bound(self, points, sites)
        return bound - self.lengthscale_penalty(), latent

    def matching_sites(self, latent: Latent, points: Points) -> SitePair:
        """Return the sites that match the expected log-likelihood at the present marginals."""
        mean = self.mean_at(points)
        shift = None if mean is None else mean.mean
        return matching_sites(self, latent, points.y, points.weight, shift)

    def set_posterior_of_sites(self, points: Points, sites: SitePair) -> None:
        """Set q to the best for given sites."""
        assign_posterior(self, best_posterior(head_features(self, points.x, points.expert), *sites))

    def leaving_out(self, points: Points) -> Callable[[Points], Latent]:
        """Return a function from some of all training points to their marginals without their own labels."""
        num_inducing = max(units.num_inducing for units in self.posterior_units)
        if moves_logits_together(self.likelihood, num_inducing, len(points.y)):
            return LeftOutLogits(self, points)
        means = None
        if self.expert_units is not None:
            latent = self.latent_at(points)
            means = joint_means(self, points, self.matching_sites(latent, points))

        def left_out(part: Points) -> Latent:
            sites = self.matching_sites(self.latent_at(part), part)
            return self.shifted(left_out_latent(self, part, sites, means), self.mean_at(part))

        return left_out
