"""The best q for given inducing inputs and hyper-parameters, in closed form.

With Gaussian factors `exp(r f - β f²/2)` at the points ("sites"), the objective L1 is quadratic in the
means and separable in the covariances of the whitened inducing values v, and its maximum over q is a linear
system. With `f_0 = b_0ᵀv_0` and `f_z = b_zᵀv_z + b_0ᵀv_0` (b = G k, see
`gpmodels.units.sparse.whitened_features`), β_z, r_z the site of a point's responsible function f_z and
β_0, r_0 that of f_0:

    A_k = I + Σ_{n in k} β_z b_k b_kᵀ        S_k = A_k⁻¹
    A_0 = I + Σ_n (β_z + β_0) b_0 b_0ᵀ       S_0 = A_0⁻¹
    C_k = Σ_{n in k} β_z b_0 b_kᵀ
    A_k m_k + C_kᵀ m_0 = Σ_{n in k} r_z b_k
    A_0 m_0 + Σ_k C_k m_k = Σ_n (r_z + r_0) b_0

Each point belongs to one expert, so the system has the shape of an arrow and costs T factorisations of M x M.

Regression: the sites are β_z = 1/σ_z², β_0 = w/σ_0², r = β y, and substituting the best q leaves a bound in
the hyper-parameters alone (`collapsed_bound`; for T = 0 that of Titsias, 2009). Classification: the
sites are those that match the gradients of the expected log-likelihood at the present marginals
(`matching_sites`), which makes solving a natural-gradient step of length one (Khan and Lin, 2017).

A head with a linear mean has f = m + g. All of the above is then of the GP's part g: sites in g, and y - m as
the target of regression; only the likelihood sees f.
"""

import abc
import math
from typing import NamedTuple

import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.heads.base import Latent
from gpmodels.heads.gp import GPHead, Points
from gpmodels.likelihoods.base import Likelihood
from gpmodels.likelihoods.gaussian import GaussianLikelihood
from gpmodels.units.sparse import SparseUnits, UnitMarginal, whitened_features


class Sites(NamedTuple):
    """Gaussian factors `exp(r f - β f²/2)`, one for each point and latent function.

    Attributes:
        precision: β, not negative, `[N, P]`.
        linear: r, `[N, P]`.
    """

    precision: tf.Tensor
    linear: tf.Tensor


SitePair = tuple[Sites, Sites]
"""Sites of each point's responsible function f_z, and those of the global function f_0."""


class UnitFeatures(NamedTuple):
    """Whitened features of one unit at the points that it answers for.

    Attributes:
        b: `[J, n, M]`.
        conditional_variance: κ(x, x) - |b|², `[J, n]`.
        index: Which of the N points these are, `[n]`.
    """

    b: tf.Tensor
    conditional_variance: tf.Tensor
    index: tf.Tensor


class HeadFeatures(NamedTuple):
    """Whitened features of a head's units; `shared` is None where there is no global unit."""

    shared: UnitFeatures | None
    experts: tuple[UnitFeatures, ...]


class Posterior(NamedTuple):
    """The best q(v) of one unit.

    Attributes:
        root: The inverse of A's Cholesky factor, so that S = rootᵀ root, `[P, M, M]`.
        mean: m, `[P, M]`.
    """

    root: tf.Tensor
    mean: tf.Tensor

    def log_det_precision(self) -> tf.Tensor:
        """Return log|A|, summed over the latent functions."""
        return -2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(self.root)))

    def prior_kl(self) -> tf.Tensor:
        """Return KL(q(v) ‖ N(0, I)), summed over the latent functions, nats."""
        dimension = tf.cast(tf.size(self.mean), self.mean.dtype)
        squares = tf.reduce_sum(tf.square(self.root)) + tf.reduce_sum(tf.square(self.mean))
        return 0.5 * (squares - dimension + self.log_det_precision())


class Solution(NamedTuple):
    """The best q of each unit, and what the collapsed bound needs of it.

    Attributes:
        shared: Posterior of the global unit, None where there is none.
        experts: Posterior of each expert.
        fit: ½ mᵀ(right-hand side), the maximum of the quadratic form, summed over latent functions, scalar.
    """

    shared: Posterior | None
    experts: tuple[Posterior, ...]
    fit: tf.Tensor

    def posteriors(self) -> list[Posterior]:
        """Return the posteriors of all units, the global one first."""
        return [*([self.shared] if self.shared is not None else []), *self.experts]


class GlobalLocalHead(GPHead, abc.ABC):
    """What the linear system needs to know of a head: a global unit, gated experts, or both."""

    @property
    def shared_units(self) -> SparseUnits | None:
        """The global unit, None where there is none."""
        return None

    @property
    def expert_units(self) -> SparseUnits | None:
        """The experts, None where there are none."""
        return None

    @property
    def shared_weight(self) -> float:
        """Weight of the global unit's likelihood: w of an HGP, 1 where there is only that unit."""
        return 1.0

    @property
    def shares_conditional_variance(self) -> bool:
        """Whether an expert's variance includes the global unit's conditional variance."""
        return False

    @abc.abstractmethod
    def unit_marginals(self, points: Points) -> tuple[UnitMarginal | None, UnitMarginal | None]:
        """Return the marginals of each point's expert alone and of the global unit, `[B, P]` each.

        Args:
            points: Points with their responsible experts.
        """

    @abc.abstractmethod
    def combined(self, local: UnitMarginal | None, shared: UnitMarginal | None, expert: tf.Tensor) -> Latent:
        """Return the marginals of f_z from the expert's own part and the global unit, `[B, P]` each.

        Args:
            local: Marginal of each point's expert alone, None without experts.
            shared: Marginal of the global unit, None without one.
            expert: Responsible expert of each point, `[B]`.
        """

    @abc.abstractmethod
    def matching_sites(self, latent: Latent, points: Points) -> SitePair:
        """Return the sites that match the expected log-likelihood at the present marginals."""

    def shared_marginals(self, latent: Latent) -> tuple[tf.Tensor, tf.Tensor] | None:  # noqa: ARG002 - others need it
        """Return mean and variance of f_0 `[B, P]` where it has sites of its own beside those of f_z."""
        return None


def head_features(head: GlobalLocalHead, x: tf.Tensor, expert: tf.Tensor) -> HeadFeatures:
    """Return the whitened features at `x [N, D]`, the experts' for their own points alone."""
    everything = tf.range(tf.shape(x)[0])
    shared = None
    units = head.shared_units
    if units is not None:
        shared = UnitFeatures(*whitened_features(units.whitening(), 0, x, units.kernel), everything)
    experts = []
    units = head.expert_units
    if units is not None:
        whitening = units.whitening()
        for k, index in enumerate(tf.dynamic_partition(everything, expert, head.num_experts)):
            own = whitened_features(whitening, k, tf.gather(x, index), units.kernel)
            experts.append(UnitFeatures(*own, index))
    return HeadFeatures(shared, tuple(experts))


def weighted_rows(b: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """Return the rows of `b [J, n, M]` times `weight [n, P]`: `[P, n, M]`."""
    return b * tf.transpose(weight)[:, :, None]


def inverse_root(gram: tf.Tensor) -> tf.Tensor:
    """Return the inverse Cholesky factor of A = I + gram, which cannot fail for want of definiteness."""
    a = tf.linalg.set_diag(gram, tf.linalg.diag_part(gram) + 1.0)
    identity = tf.eye(tf.shape(a)[-1], batch_shape=tf.shape(a)[:-2], dtype=a.dtype)
    return tf.linalg.triangular_solve(tf.linalg.cholesky(a), identity)


def _solve(root: tf.Tensor, rhs: tf.Tensor) -> tf.Tensor:
    """Return A⁻¹ rhs = rootᵀ root rhs."""
    return tf.matmul(root, tf.matmul(root, rhs), transpose_a=True)


def best_posterior(features: HeadFeatures, local: Sites, shared: Sites) -> Solution:
    """Solve for the best q, see the module's text.

    Args:
        features: From `head_features`.
        local: Sites of each point's responsible function; unused where there are no experts.
        shared: Sites of the global function; unused where there is no global unit.
    """
    grams, sides, crosses = [], [], []
    for unit in features.experts:
        precision, linear = (tf.gather(part, unit.index) for part in local)
        weighted = weighted_rows(unit.b, precision)
        grams.append(tf.matmul(weighted, unit.b, transpose_a=True))
        sides.append(tf.reduce_sum(weighted_rows(unit.b, linear), axis=1)[..., None])
        if features.shared is not None:  # C_kᵀ
            b_0 = tf.gather(features.shared.b, unit.index, axis=1)
            crosses.append(tf.matmul(weighted, b_0, transpose_a=True))
    roots = tf.unstack(inverse_root(tf.stack(grams))) if grams else []
    global_posterior = None
    fit = tf.zeros([], local.linear.dtype)
    if features.shared is not None:
        precision, linear = shared
        if features.experts:
            precision, linear = precision + local.precision, linear + local.linear
        b_0 = features.shared.b
        gram = tf.matmul(weighted_rows(b_0, precision), b_0, transpose_a=True)
        side_0 = tf.reduce_sum(weighted_rows(b_0, linear), axis=1)[..., None]
        # Schur complement of the experts' blocks: A_0 - Σ C_k A_k⁻¹ C_kᵀ
        schur, reduced = gram, side_0
        for root, side, cross in zip(roots, sides, crosses, strict=True):
            schur -= tf.matmul(cross, _solve(root, cross), transpose_a=True)
            reduced -= tf.matmul(cross, _solve(root, side), transpose_a=True)
        m_0 = _solve(inverse_root(schur), reduced)
        global_posterior = Posterior(inverse_root(gram), m_0[..., 0])
        fit += 0.5 * tf.reduce_sum(side_0 * m_0)
        open_sides = [side - tf.matmul(cross, m_0) for side, cross in zip(sides, crosses, strict=True)]
    else:
        open_sides = sides
    experts = []
    for root, side, open_side in zip(roots, sides, open_sides, strict=True):
        m_k = _solve(root, open_side)
        fit += 0.5 * tf.reduce_sum(side * m_k)
        experts.append(Posterior(root, m_k[..., 0]))
    return Solution(global_posterior, tuple(experts), fit)


def assign_posterior(head: GlobalLocalHead, solution: Solution) -> None:
    """Write a solution into the head's q; an expert without points gets its prior."""
    if solution.shared is not None:
        _assign_units(head.shared_units, [solution.shared])
    if solution.experts:
        _assign_units(head.expert_units, list(solution.experts))


def _assign_units(units: SparseUnits | None, posteriors: list[Posterior]) -> None:
    if units is None:
        raise TypeError("There is a solution for units that the head does not have; solve with its features.")
    root = tf.cast(tf.stack([posterior.root for posterior in posteriors]), tf.float64)
    lower = tf.linalg.cholesky(tf.matmul(root, root, transpose_a=True))  # S = rootᵀ root = L_S L_Sᵀ
    units.q_sqrt.assign(tf.cast(lower, units.q_sqrt.dtype))
    units.q_mean.unconstrained_variable.assign(tf.stack([posterior.mean for posterior in posteriors]))


def _without_mean(head: GlobalLocalHead, points: Points) -> tf.Tensor:
    """Return y - m, the targets of g, `[N]`."""
    mean = head.mean_at(points)
    return points.y if mean is None else points.y - mean.mean[:, 0]


class _GaussianSites(NamedTuple):
    """Sites of regression and the noise variances behind them, each `[N]`."""

    local: Sites
    shared: Sites
    local_noise: tf.Tensor
    shared_noise: tf.Tensor


def _gaussian_sites(
    head: GlobalLocalHead, y: tf.Tensor, weight: tf.Tensor, expert: tf.Tensor
) -> _GaussianSites:
    """Return the sites of targets from which the mean was taken off, `[N]`."""
    if not isinstance(head.likelihood, GaussianLikelihood):
        raise TypeError(
            f"The closed form needs likelihood='gaussian', but {head.name} has {head.likelihood_name!r}; "
            "for classes use tied_bound."
        )
    noise = tf.convert_to_tensor(head.likelihood.noise_variance)
    local_noise = tf.gather(noise, head.unit_of_expert(expert))
    shared_noise = tf.fill(tf.shape(y), noise[0])
    local_precision = (weight / local_noise)[:, None]
    shared_precision = (head.shared_weight * weight / shared_noise)[:, None]
    return _GaussianSites(
        Sites(local_precision, local_precision * y[:, None]),
        Sites(shared_precision, shared_precision * y[:, None]),
        local_noise,
        shared_noise,
    )


@check_shapes(
    "points.x: [N, D]",
    "points.y: [N]",
    "points.weight: [N]",
    "points.expert: [N]",
    "points.logits: [N, 1]",
    "return: []",
)
def collapsed_bound(head: GlobalLocalHead, points: Points) -> tf.Tensor:
    """Return max_q L1 of a head with a Gaussian likelihood, nats: a function of all but q.

    It is NaN where rounding has made it larger than any bound can be, as in float32 with little noise.

    Args:
        head: With `likelihood="gaussian"`.
        points: All training points.

    Source:
        Thesis (3.28) to (3.32) with the best q substituted; T = 0: Titsias (2009).
    """
    y, weight = _without_mean(head, points), points.weight
    sites = _gaussian_sites(head, y, weight, points.expert)
    features = head_features(head, points.x, points.expert)
    solution = best_posterior(features, sites.local, sites.shared)
    bound, peak = solution.fit, tf.zeros([], y.dtype)
    log_two_pi = math.log(2.0 * math.pi)
    if features.experts:
        density = -0.5 * weight * (log_two_pi + tf.math.log(sites.local_noise))
        peak += tf.reduce_sum(density)
        bound += tf.reduce_sum(density - 0.5 * weight * tf.square(y) / sites.local_noise)
        for unit in features.experts:
            precision = tf.gather(sites.local.precision[:, 0], unit.index)
            bound -= 0.5 * tf.reduce_sum(precision * unit.conditional_variance[0])
    if features.shared is not None:
        scale = head.shared_weight
        density = -0.5 * scale * weight * (log_two_pi + tf.math.log(sites.shared_noise))
        peak += tf.reduce_sum(density)
        bound += tf.reduce_sum(density - 0.5 * scale * weight * tf.square(y) / sites.shared_noise)
        precision = sites.shared.precision[:, 0]
        if features.experts and head.shares_conditional_variance:
            precision += sites.local.precision[:, 0]
        bound -= 0.5 * tf.reduce_sum(precision * features.shared.conditional_variance[0])
    for posterior in solution.posteriors():
        bound -= 0.5 * posterior.log_det_precision()
    # No density of the noise is larger than at its mean: above that, large terms have cancelled to rounding.
    return tf.where(bound > peak, tf.constant(math.nan, bound.dtype), bound)


def solved_latent(
    head: GlobalLocalHead, features: HeadFeatures, solution: Solution, expert: tf.Tensor
) -> Latent:
    """Return the head's marginals (4.18), (4.19) at the points of `features`, with a solution for its q."""
    shared = None
    if features.shared is not None and solution.shared is not None:
        shared = _marginal(features.shared, solution.shared)
    if not features.experts:
        return head.combined(None, shared, expert)
    parts = [
        _marginal(unit, posterior) for unit, posterior in zip(features.experts, solution.experts, strict=True)
    ]
    indices = [unit.index for unit in features.experts]
    local = UnitMarginal(*(tf.dynamic_stitch(indices, list(values)) for values in zip(*parts, strict=True)))
    return head.combined(local, shared, expert)


def _marginal(unit: UnitFeatures, posterior: Posterior) -> UnitMarginal:
    """Return bᵀm, the conditional variance and |root b|², each `[n, P]`."""
    mean = tf.matmul(unit.b, posterior.mean[..., None])[..., 0]
    inducing = tf.reduce_sum(tf.square(tf.matmul(unit.b, posterior.root, transpose_b=True)), axis=-1)
    conditional = tf.broadcast_to(unit.conditional_variance, tf.shape(mean))
    return UnitMarginal(*(tf.transpose(part) for part in (mean, conditional, inducing)))


def tied_bound(head: GlobalLocalHead, points: Points, sites: SitePair) -> tuple[tf.Tensor, Latent]:
    """Return L1 at the best q for given sites, in nats: a bound whose q follows U and the hyper-parameters.

    With the sites of `matching_sites` at its optimum it touches the bound that is maximised over q,
    with the same gradient (Adam et al., 2021). So an optimiser of U and hyper-parameters needs no variables
    for q.

    Returns:
        The bound, and the marginals of f = m + g at the points under that q.
    """
    features = head_features(head, points.x, points.expert)
    solution = best_posterior(features, *sites)
    latent = solved_latent(head, features, solution, points.expert)
    latent = head.shifted(latent, head.mean_at(points))
    terms = head.expected_log_likelihood(latent, points.y)
    kl = tf.add_n([posterior.prior_kl() for posterior in solution.posteriors()])
    return tf.reduce_sum(points.weight * terms) - kl, latent


def matching_sites(
    head: GlobalLocalHead,
    latent: Latent,
    y: tf.Tensor,
    weight: tf.Tensor,
    mean: tf.Tensor | None = None,
) -> SitePair:
    """Return sites of g_z and g_0 with the gradients of the expected log-likelihood at the marginals.

    β = -2 ∂E/∂σ², r = ∂E/∂μ + β (μ - m). Solving with them is a natural-gradient step of length one.

    Args:
        head: The head.
        latent: Marginals of f = m + g.
        y: Labels or targets, `[N]`.
        weight: How often each point counts, `[N]`.
        mean: m, `[N, P]`; None where the latent functions have mean zero.
    """
    unit = head.responsible_unit(latent)
    local = sites_at(head.likelihood, latent.mean, latent.variance, y, weight, unit)
    marginals = head.shared_marginals(latent)
    if marginals is None:
        shared = local
    else:
        weight = head.shared_weight * weight
        shared = sites_at(head.likelihood, *marginals, y, weight, tf.zeros_like(unit))
    if mean is None:
        return local, shared
    local, shared = (site._replace(linear=site.linear - site.precision * mean) for site in (local, shared))
    return local, shared


def sites_at(
    likelihood: Likelihood,
    mean: tf.Tensor,
    variance: tf.Tensor,
    y: tf.Tensor,
    weight: tf.Tensor,
    unit: tf.Tensor,
) -> Sites:
    """Return the sites of a likelihood at Gaussian marginals, `β = -2 ∂E/∂σ²`, `r = ∂E/∂μ + β μ`.

    Args:
        likelihood: The likelihood, E its expected logarithm.
        mean: μ, `[N, P]`.
        variance: σ², `[N, P]`.
        y: Labels or targets, `[N]`.
        weight: How often each point counts, `[N]`.
        unit: GP unit of each point, int32 `[N]`.
    """
    with tf.GradientTape() as tape:
        tape.watch([mean, variance])
        expected = weight * likelihood.expected_log_likelihood(mean, variance, y, unit)
    slope, curvature = tape.gradient(expected, [mean, variance])
    precision = tf.maximum(-2.0 * curvature, 0.0)  # a likelihood that is not log-concave can make it negative
    return Sites(precision, slope + precision * mean)


def gaussian_posterior(head: GlobalLocalHead, points: Points) -> None:
    """Set q of a head with a Gaussian likelihood to the best; arguments as for `collapsed_bound`."""
    sites = _gaussian_sites(head, _without_mean(head, points), points.weight, points.expert)
    features = head_features(head, points.x, points.expert)
    assign_posterior(head, best_posterior(features, sites.local, sites.shared))
