"""The AutoGP head: one sparse GP unit with a mixture of Gaussians as posterior, learned without sampling."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.autogp.left_out import diagonal_without_sites, precision_roots
from gpmodels.autogp.posterior import ENTROPIES, POSTERIORS, MixturePosterior
from gpmodels.heads.base import Latent, UnitDescription
from gpmodels.heads.conjugate import HeadFeatures, Sites, UnitFeatures, sites_at
from gpmodels.heads.gp import GPHead, Points
from gpmodels.heads.leave_one_out import prior_variance, without_site
from gpmodels.heads.left_out_logits import (
    Slopes,
    logit_means,
    mean_changes,
    moves_logits_together,
    slopes_at,
)
from gpmodels.likelihoods import mixture
from gpmodels.units.counts import check_counts
from gpmodels.units.folded import compact_functions, compact_marginal
from gpmodels.units.linear_mean import MeanMarginal
from gpmodels.units.placement import place_global
from gpmodels.units.sparse import InducingUnits, Whitening, whitened_features

LARGEST_SHARE = 0.99
"""β v_g of a training point stays below this while q is held and the kernel learns by leaving out."""

START_DEVIATION = 0.1
"""How far several components' means are set apart, in deviations of q; equal ones would stay equal."""


class HeldPosterior(NamedTuple):
    """q of the inducing values u themselves, which stays where it is while the kernel moves.

    Attributes:
        mean: L m, `[J, Q, M]`, Q functions of each of J kernels.
        roots: L L_S, `[J, Q, M, M]`.
    """

    mean: tf.Tensor
    roots: tf.Tensor


class ComponentMarginals(NamedTuple):
    """Marginals of the components at some points, `[K, B, P]` each, the parts of the variance apart.

    Attributes:
        mean: bᵀm.
        inducing_variance: bᵀSb.
        conditional_variance: κ(x, x) - |b|².
    """

    mean: tf.Tensor
    inducing_variance: tf.Tensor
    conditional_variance: tf.Tensor


@keras.saving.register_keras_serializable("gpimaging")
class AutoGPHead(GPHead):
    """Sparse variational GP whose q(v) is a mixture of Gaussians, as a Keras layer.

    With one component of full covariance it is `SVGPHead`. Several make a difference where the posterior has
    several modes; with the likelihoods here it has one, so that the default is one component.

    In `fit` of Keras it maximises the bound; `gpmodels.AutoGPClassifier` can also learn by leaving out.

    Args:
        num_inducing: M, inducing points of the unit.
        num_components: K, Gaussians in the mixture.
        posterior: `"full"` or `"diagonal"` covariance of each, diagonal in the whitened inducing values.
        entropy: `"pairwise"`, the bound of the mixture's entropy that is exact for one component, or
            `"jensen"`, the paper's, see `gpmodels.autogp.posterior`.
        kernel_variance: σ² at the start; None takes 0.1 beside a linear mean, else 1.
        lengthscale_spread: How far the lengthscales' logarithms are expected to lie apart, see
            `gpmodels.units.priors`; None leaves each of them free.
        **kwargs: `kernel`, `kernel_depth`, `num_classes`, `likelihood`, `class_kernels`, `mean` and `dtype`
            of `GPHead`; the rest of `keras.layers.Layer`.

    Raises:
        ValueError: A setting is out of range; the message names it.

    Source:
        Krauth, Bonilla, Cutajar and Filippone (2017), AutoGP, (9) to (13).

    Example:
        >>> outputs = AutoGPHead(num_inducing=5, num_components=2)(tf.zeros([2, 7, 3]))
        >>> outputs["probability"].shape
        TensorShape([2, 7])
    """

    def __init__(
        self,
        *,
        num_inducing: int = 50,
        num_components: int = 1,
        posterior: str = "full",
        entropy: str = "pairwise",
        kernel_variance: float | None = None,
        lengthscale_spread: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_counts(num_inducing=num_inducing, num_components=num_components)
        for name, choice, choices in (
            ("posterior", posterior, POSTERIORS),
            ("entropy", entropy, ENTROPIES),
        ):
            if choice not in choices:
                raise ValueError(f"{name} must be one of {choices}, but is {choice!r}.")
        if kernel_variance is not None and not 0.0 < kernel_variance < math.inf:
            raise ValueError(f"kernel_variance must be positive and finite, but is {kernel_variance}.")
        self.num_inducing = num_inducing
        self.num_components = num_components
        self.posterior_name = posterior
        self.entropy = entropy
        self.kernel_variance = kernel_variance
        self.lengthscale_spread = lengthscale_spread

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for features `[..., input_shape[-1]]`."""
        num_latents = self.likelihood.num_latents
        self.unit = InducingUnits(
            num_units=1,
            num_inducing=self.num_inducing,
            num_features=self._num_features(input_shape),
            num_kernels=1 if self.class_kernels == "shared" else num_latents,
            kernel=self.kernel_name,
            kernel_depth=self.kernel_depth,
            lengthscale_spread=self.lengthscale_spread,
            kernel_variance=self.start_variance(self.kernel_variance),
            dtype=self.variable_dtype,
            role=f"unit of {self.name}",
        )
        self.posterior = MixturePosterior(
            num_latents=num_latents,
            num_components=self.num_components,
            num_inducing=self.num_inducing,
            covariance=self.posterior_name,
            dtype=self.variable_dtype,
        )
        self.adopt(self.unit, "unit")
        self.adopt(self.posterior, "posterior")
        super().build(input_shape)

    @property
    def unit_names(self) -> tuple[str, ...]:
        """`"global"`, the name of the only unit."""
        return ("global",)

    @property
    def posterior_units(self) -> tuple[MixturePosterior, ...]:
        """The posterior, whose parameters stay while the kernel learns by leaving out."""
        return (self.posterior,)

    def describe(self) -> tuple[UnitDescription, ...]:
        """Return a description of the unit."""
        return (UnitDescription("global", self.num_inducing, self.unit.variance.numpy()[0]),)

    def lengthscales(self) -> npt.NDArray[np.floating[Any]]:
        """Return ℓ of the unit, `[1, J, D]`."""
        return self.unit.lengthscales.numpy()

    def initialize(self, features: npt.NDArray[np.floating[Any]], *, seed: int = 0) -> None:
        """Place inducing inputs and lengthscales by `features [N, D]`; set several means apart."""
        rng = np.random.default_rng(seed)
        self.unit.place(*place_global(features, self.num_inducing, rng))
        if self.num_components > 1:
            self.posterior.q_mean.assign(np.zeros(self.posterior.q_mean.shape))
            self.set_apart(rng)

    def set_apart(self, rng: np.random.Generator) -> None:
        """Move the means of several components apart, by little where q is sure: m + 0.1 L_S ε."""
        if self.num_components > 1:
            mean = self.posterior.q_mean
            steps = tf.constant(START_DEVIATION * rng.standard_normal(mean.shape), self.variable_dtype)
            mean.assign(mean + tf.linalg.matvec(self.posterior.dense_roots(), steps))

    def prior_kl(self) -> tf.Tensor:
        """Return -H[q] - E_q[log p(v)] with a lower bound of the entropy H, nats, `[1]`."""
        return self.posterior.prior_kl(self.entropy)[None]

    def penalty(self) -> tf.Tensor:
        """Return what the objective subtracts from the points' terms: KL and the prior of lengthscales."""
        return super().penalty() + tf.reduce_sum(self.unit.lengthscale_penalty())

    def fold(self) -> Any:
        """Return the whitening of the unit, with the factor of its kernel matrix."""
        return self.unit.whitening()

    def folded_residual(self, folded: Any, features: tf.Tensor) -> Latent:
        """Return the marginals (11), (12) of the components by the whitening that `fold` returned."""
        marginals = self._component_marginals(folded, features)
        return self._latent(marginals.mean, marginals.inducing_variance + marginals.conditional_variance)

    def _latent(self, mean: tf.Tensor, variance: tf.Tensor) -> Latent:
        """Return marginals `[K, B, P]` as the likelihood takes them."""
        variance = tf.maximum(variance, self.variance_floor)
        if self.num_components == 1:
            return Latent(tf.squeeze(mean, 0), tf.squeeze(variance, 0))
        log_weight = tf.broadcast_to(self.posterior.log_weights()[:, None], tf.shape(mean)[:2])
        return Latent(mean, variance, log_weight)

    def component_marginals(
        self, features: tf.Tensor, held: HeldPosterior | None = None
    ) -> ComponentMarginals:
        """Return the marginals of each component at features `[B, D]`.

        Args:
            features: The points.
            held: q(u) to use instead of the head's q(v).
        """
        return self._component_marginals(self.unit.whitening(), features, held)

    def _component_marginals(
        self, whitening: Whitening, features: tf.Tensor, held: HeldPosterior | None = None
    ) -> ComponentMarginals:
        b, conditional = whitened_features(whitening, 0, features, self.unit.kernel)  # [J, B, M], [J, B]
        if held is None and self.posterior.is_diagonal:
            mean = self._by_kernel(self.posterior.q_mean)
            variances = tf.square(self._by_kernel(self.posterior.q_sqrt))
            inducing = tf.matmul(tf.square(b), variances, transpose_b=True)  # [J, B, Q]
        else:
            if held is None:
                mean, roots = (
                    self._by_kernel(part) for part in (self.posterior.q_mean, self.posterior.q_sqrt)
                )
            else:
                factor = whitening.factor[0][:, None]  # G, [J, 1, M, M]
                mean = tf.linalg.matvec(factor, held.mean)
                roots = tf.matmul(factor, held.roots)
            inducing = _squared_lengths(b, roots)
        mean = tf.matmul(b, mean, transpose_b=True)
        conditional = tf.repeat(tf.expand_dims(conditional, -1), mean.shape[-1], axis=-1)
        return ComponentMarginals(*(self._by_component(part) for part in (mean, inducing, conditional)))

    def _by_kernel(self, values: Any) -> tf.Tensor:
        """Return parameters `[P, K, ...]` as those of each kernel's Q = P K/J functions, `[J, Q, ...]`."""
        values = tf.convert_to_tensor(values)
        return tf.reshape(values, [self.unit.num_kernels, -1, *values.shape[2:]])

    def _by_component(self, values: tf.Tensor) -> tf.Tensor:
        """Return values of each kernel's functions `[J, B, Q]` as those of components, `[K, B, P]`."""
        j, k = self.unit.num_kernels, self.num_components
        parts = tf.reshape(values, [j, -1, self.likelihood.num_latents // j, k])  # [J, B, P/J, K]
        parts = tf.transpose(parts, [3, 1, 0, 2])
        return tf.reshape(parts, [k, -1, self.likelihood.num_latents])

    def for_inference(self) -> Callable[[tf.Tensor], Latent]:
        """Return `latent` with unit and posterior folded once."""
        mean, roots = (
            self._by_kernel(part) for part in (self.posterior.q_mean, self.posterior.dense_roots())
        )
        units = compact_functions(self.unit, mean.numpy()[None], roots.numpy()[None])
        log_weight = tf.constant(self.posterior.log_weights().numpy())

        def latent(features: tf.Tensor) -> Latent:
            parts = compact_marginal(units, tf.expand_dims(features, 0), self.unit.kernel)
            mean, variance = (self._folded_by_component(part[0]) for part in parts)
            variance = tf.maximum(variance, self.variance_floor)
            if self.num_components == 1:
                return Latent(tf.squeeze(mean, 0), tf.squeeze(variance, 0))
            return Latent(mean, variance, tf.broadcast_to(log_weight[:, None], tf.shape(mean)[:2]))

        return self._with_constant_mean(latent)

    def _folded_by_component(self, values: tf.Tensor) -> tf.Tensor:
        """Return values `[B, J Q]` as those of components, `[K, B, P]`."""
        parts = tf.reshape(values, [-1, self.likelihood.num_latents, self.num_components])
        return tf.transpose(parts, [2, 0, 1])

    # Leaving out, and learning by it

    def leaving_out(self, points: Points) -> Callable[[Points], Latent]:
        """Return a function from some training points to their marginals without their own labels.

        It is for the best q of the points. One Gaussian under a softmax leaves its logits out together, see
        `gpmodels.heads.left_out_logits`; components leave each out alone. Of several components each loses
        its own site, and their weights stay.
        """
        roots, means = None, None
        if self.posterior.is_diagonal:
            b, _ = self._features_by_function(points.x)
            roots = precision_roots(b, self._sites(self.component_marginals(points.x), points).precision)
        if self.num_components == 1 and moves_logits_together(
            self.likelihood, self.num_inducing, len(points.y)
        ):
            means = logit_means(self._whitened(points.x), None, self._slopes(points))

        def left_out(part: Points) -> Latent:
            marginals = self.component_marginals(part.x)
            mean, variance = self._without_sites(marginals, part, roots)
            if means is not None:
                _, change = mean_changes(self._whitened(part.x), means, None, self._slopes(part))
                mean = marginals.mean - change
            latent = self._latent(mean, variance + marginals.conditional_variance)
            return self.shifted(latent, self.mean_at(part))

        return left_out

    def _without_sites(
        self, marginals: ComponentMarginals, points: Points, roots: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return means and inducing variances at some training points without their sites, `[K, B, P]`.

        Args:
            marginals: At the points.
            points: Some of the training points.
            roots: From `precision_roots` of all training points for diagonal covariances; None for full ones.
        """
        site = self._sites(marginals, points)
        b, most = self._features_by_function(points.x)
        if roots is None:
            return without_site(marginals.mean, marginals.inducing_variance, site, most)
        variances = tf.square(tf.convert_to_tensor(self.posterior.q_sqrt))
        return diagonal_without_sites(b, marginals.mean, variances, site, roots)

    def _features_by_function(self, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return b of each latent function, `[P, B, M]`, and |b|², `[B, P]`."""
        b, _ = whitened_features(self.unit.whitening(), 0, x, self.unit.kernel)
        b = tf.repeat(b, self.likelihood.num_latents // self.unit.num_kernels, axis=0)
        return b, prior_variance(b)

    def _sites(self, marginals: ComponentMarginals, points: Points) -> Sites:
        """Return the sites of each component's g at its own marginals, `[K, B, P]` each."""
        shape, shift = tf.shape(marginals.mean), self.mean_at(points)
        total = self._total(marginals, shift)
        mean, variance = (tf.reshape(part, [-1, part.shape[-1]]) for part in (total.mean, total.variance))
        label, weight = (tf.tile(part, [self.num_components]) for part in (points.y, points.weight))
        found = sites_at(self.likelihood, mean, variance, label, weight, tf.zeros_like(label, tf.int32))
        sites = Sites(*(tf.reshape(part, shape) for part in found))
        if shift is None:
            return sites
        return sites._replace(linear=sites.linear - sites.precision * shift.mean)

    def _total(self, marginals: ComponentMarginals, mean: MeanMarginal | None) -> Latent:
        """Return the marginals of f = m + g, `[K, B, P]`."""
        variance = tf.maximum(
            marginals.inducing_variance + marginals.conditional_variance, self.variance_floor
        )
        return self.shifted(Latent(marginals.mean, variance), mean)

    def _whitened(self, x: tf.Tensor) -> HeadFeatures:
        b, conditional = whitened_features(self.unit.whitening(), 0, x, self.unit.kernel)
        return HeadFeatures(UnitFeatures(b, conditional, tf.range(tf.shape(x)[0])), ())

    def _slopes(self, points: Points) -> Slopes:
        """Return the slopes of the only component's expected log-likelihood."""
        total = self._total(self.component_marginals(points.x), self.mean_at(points))
        return slopes_at(self.likelihood, total.mean[0], total.variance[0], points.y, points.weight)

    @check_shapes("features: [B, D]", "label: [B]", "weight: [B]", "return: [B]")
    def leave_one_out_terms(
        self, features: tf.Tensor, label: tf.Tensor, weight: tf.Tensor, held: HeldPosterior | None = None
    ) -> tf.Tensor:
        """Return log p(y) of each training point by what the others say, nats, while the kernel learns by it.

        q is not the best one of the present kernel: β v_g can be above 1, and stays below `LARGEST_SHARE`. A
        diagonal covariance loses the site as a full one would, which is rough where it is not small.

        Args:
            features: The points, `[B, D]`.
            label: Their labels, `[B]`.
            weight: How often each counts, `[B]`.
            held: q(u) to use instead of the head's q(v).

        Source:
            `gpmodels.heads.leave_one_out`.
        """
        marginals = self.component_marginals(features, held)
        site = self._sites(marginals, Points(features, label, weight, tf.zeros_like(label, tf.int32)))
        most = marginals.inducing_variance / (1.0 - LARGEST_SHARE)
        mean, variance = without_site(marginals.mean, marginals.inducing_variance, site, most)
        latent = self._latent(mean, variance + marginals.conditional_variance)
        return self.log_predictive_density(self.with_mean(latent, features), label)

    @check_shapes("features: [B, D]", "label: [B]", "return: [B]")
    def paper_leave_one_out_terms(
        self, features: tf.Tensor, label: tf.Tensor, held: HeldPosterior | None = None
    ) -> tf.Tensor:
        """Return -log E_q[1/p(y | f)] of each training point, nats: the leave-one-out term of AutoGP, (16).

        Raises:
            ValueError: The likelihood's E[1/p] is infinite or has no closed form.
        """
        mean, inducing, conditional = self.component_marginals(features, held)
        latent = self.with_mean(self._latent(mean, inducing + conditional), features)
        marginals = (latent.mean, latent.variance, latent.log_weight)
        return -mixture.log_expected_inverse(
            self.likelihood, *marginals, label, self.responsible_unit(latent)
        )

    def hold(self) -> HeldPosterior:
        """Return q(u) as it is now: u = L v."""
        factor = self.unit.whitening().factor[0][:, None]  # G = L⁻¹, [J, 1, M, M]
        mean = self._by_kernel(self.posterior.q_mean)
        roots = self._by_kernel(self.posterior.dense_roots())
        identity = tf.eye(self.num_inducing, dtype=factor.dtype) + tf.zeros_like(factor)
        lower = tf.linalg.triangular_solve(factor, identity)  # L
        return HeldPosterior(tf.linalg.matvec(lower, mean), tf.matmul(lower, roots))

    def release(self, held: HeldPosterior) -> None:
        """Set q(v) to what q(u) is under the present kernel.

        A diagonal posterior keeps the diagonal of its covariance: L moves between `hold` and `release`, and
        G L L_S is no longer diagonal.
        """
        factor = self.unit.whitening().factor[0][:, None]
        mean, roots = tf.linalg.matvec(factor, held.mean), tf.matmul(factor, held.roots)
        self.posterior.q_mean.assign(tf.reshape(mean, self.posterior.q_mean.shape))
        if self.posterior.is_diagonal:
            roots = tf.linalg.norm(roots, axis=-1)
        self.posterior.q_sqrt.assign(tf.reshape(roots, self.posterior.q_sqrt.shape))


@check_shapes("b: [J, B, M]", "roots: [J, Q, M, M]", "return: [J, B, Q]")
def _squared_lengths(b: tf.Tensor, roots: tf.Tensor) -> tf.Tensor:
    """Return |L_Sᵀ b|² of each function."""
    j, q, m, _ = roots.shape
    side_by_side = tf.reshape(tf.transpose(roots, [0, 2, 1, 3]), [j, m, q * m])
    squares = tf.square(tf.matmul(b, side_by_side))  # [J, B, Q M]
    return tf.reduce_sum(tf.reshape(squares, [j, -1, q, m]), axis=-1)
