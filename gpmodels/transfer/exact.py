"""The exact limit of ATL-DGP: a Gaussian process over all domains, in closed form.

With a linear output layer of identity weights, codes y as targets with noise σ², and λ⁻¹ = α⁻¹ = 0, each code
is a function of a Gaussian process with the covariances

    source-source  k_k        source-target  π_k k_k        target-target  Σ_k π_k² k_k + π_t² k_t

which is a coregionalised process. In features φ_i of each domain (`gpmodels.transfer.features`) the functions
are linear, f_k(x) = φ_k(x)ᵀw_k and f_t(x) = Σ_k π_k φ_k(x)ᵀw_k + π_t φ_t(x)ᵀw_t. The sources' rows are seen
once, whatever π is: they leave w_k ~ N(m_k, V_k), and then, with Φ_k, Φ_t at the target's rows,

    y_t ~ N(Σ_k π_k Φ_k m_k, C),    C = Σ_k π_k² Φ_k V_k Φ_kᵀ + π_t² Φ_t Φ_tᵀ + σ²I

and what is left out is found from C⁻¹ alone (Rasmussen and Williams, 2006, 5.4.2): of a group g of rows

    y_g - [C⁻¹]_gg⁻¹ [C⁻¹ r]_g,    covariance [C⁻¹]_gg⁻¹,    r = y_t - Σ_k π_k Φ_k m_k.

π is averaged over a grid by what leaving out says of each value, times its prior (docs/theory.md). The scale
of the scores of classes is fitted where rows of all classes are left out together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from gpmodels.transfer.features import DomainFeatures, place
from gpmodels.transfer.function_weights import function_weights
from gpmodels.transfer.nodes import MixingGrid
from gpmodels.transfer.rows import FloatArray, LeftOut, TransferRows
from gpmodels.transfer.score_scale import balanced_parts, fit_score_scale, left_out_log_densities
from gpmodels.transfer.seen_rows import Inverse, SeenTarget, see_source, see_target


@dataclass(frozen=True)
class ExactTransfer:
    """The fitted limit.

    Attributes:
        features: Features of each domain, the target's last.
        nodes: π of each node, `[J, K + 1]`.
        node_weight: Posterior weight of each node, `[J]`.
        target_weights: Mean weights of the target's functions for features of each domain, side by side,
            at each node, π included, `[J, F, C]`.
        source_weights: Mean weights of the sources' functions, averaged over the nodes, `[F_s, C]`.
        covariance: Covariance of the weights of the target's functions, π included, averaged over the nodes,
            `[F, F]`.
        noise: σ².
        left_out: What is predicted of each target row by the others, averaged over the nodes.
        score_scale: What scores are multiplied by before a softmax; 1 of real targets. It is fitted where one
            row of each class is left out at a time (`gpmodels.transfer.score_scale.balanced_parts`).
        nll: Mean negative log density of left-out target rows, nats.
    """

    features: tuple[DomainFeatures, ...]
    nodes: FloatArray
    node_weight: FloatArray
    target_weights: FloatArray
    source_weights: FloatArray
    covariance: FloatArray
    noise: float
    left_out: LeftOut
    score_scale: float
    nll: float

    def left_out_densities(self, rows: TransferRows) -> FloatArray:
        """Return log p of each target row of the fit by the others at their best scale, nats, `[N_t]`."""
        scale = _scale(rows, self.left_out)
        return left_out_log_densities(self.left_out, rows.target, scale, is_classifier=rows.is_classifier)

    @property
    def num_outputs(self) -> int:
        """C."""
        return int(self.target_weights.shape[2])

    @property
    def mixing(self) -> FloatArray:
        """Posterior mean of π, `[K + 1]`."""
        return self.node_weight @ self.nodes

    @property
    def mixing_deviation(self) -> FloatArray:
        """Posterior standard deviation of π, `[K + 1]`."""
        return np.sqrt(self.node_weight @ np.square(self.nodes - self.mixing))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Features of each domain, the target's last."""
        return tuple(one.size for one in self.features)

    def mean(self, x: FloatArray) -> FloatArray:
        """Return the mean of the target's functions at rows `[N, D]` of the target, `[N, C]`."""
        return self._all_features(x) @ self.mean_weights()

    def source_mean(self, x: FloatArray, source: int) -> FloatArray:
        """Return the mean of a source's functions at rows `[N, D]` of that source, `[N, C]`."""
        start = sum(self.sizes[:source])
        return self.features[source](x) @ self.source_weights[start : start + self.sizes[source]]

    def variance(self, x: FloatArray) -> FloatArray:
        """Return the variance of the target's functions at its rows `[N, D]`, without noise, `[N, C]`.

        It is that of the mixture over the nodes: what each node leaves open, and how far they disagree.
        """
        phi = self._all_features(x)
        within = np.einsum("nf,nf->n", phi @ self.covariance, phi)
        # What the inducing inputs leave open; nothing where they are all rows.
        squares = self.node_weight @ np.square(self.nodes)
        ends = np.cumsum(self.sizes)
        for square, start, end in zip(squares, [0, *ends[:-1]], ends, strict=True):
            within += square * np.maximum(1.0 - np.sum(np.square(phi[:, start:end]), axis=1), 0.0)
        by_node = np.einsum("nf,jfc->jnc", phi, self.target_weights)
        spread = np.einsum("j,jnc->nc", self.node_weight, np.square(by_node - phi @ self.mean_weights()))
        return np.maximum(within, 0.0)[:, None] + spread

    def moments(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance at rows `[N, D]` of the target, `[N, C]` each."""
        return self.mean(x), self.variance(x)

    def transfer_weights(self, x: FloatArray) -> FloatArray:
        """Return each domain's share of what the target's functions vary with at rows `[N, D]`, `[K + 1]`.

        The share of domain i is that of Σ_c Var_n[φ_i(x_n)ᵀw_ic], π included, as the weights of views are
        defined (`gpmodels.DFGPHead.view_weights`). All are equal where nothing varies.
        """
        weights, ends = self.mean_weights(), np.cumsum(self.sizes)
        varied = np.array(
            [
                float(np.sum(np.var(features(x) @ weights[start:end], axis=0)))
                for features, start, end in zip(self.features, [0, *ends[:-1]], ends, strict=True)
            ]
        )
        total = varied.sum()
        return varied / total if total > 0.0 else np.full(len(varied), 1.0 / len(varied))

    def mean_weights(self) -> FloatArray:
        """Return the mean weights of the target's functions, averaged over the nodes, `[F, C]`."""
        weights: FloatArray = np.einsum("j,jfc->fc", self.node_weight, self.target_weights)
        return weights

    def _all_features(self, x: FloatArray) -> FloatArray:
        return np.concatenate([features(x) for features in self.features], axis=1)


def fit_exact(
    rows: TransferRows,
    nodes: MixingGrid,
    *,
    noise: float,
    lengthscale_factor: float = 1.0,
    groups: npt.NDArray[np.intp] | None = None,
    seed: int = 0,
) -> ExactTransfer:
    """Fit the exact limit.

    Args:
        rows: Rows of all domains.
        nodes: Values of π and their prior weights.
        noise: σ² of the codes.
        lengthscale_factor: What the lengthscales of all domains are multiplied by.
        groups: Group of each target row, `[N_t]`; rows of one group are left out together. None: each row is
            left out alone.
        seed: Seed of the inducing inputs, where they are not all rows.

    Returns:
        The fitted limit.

    Example:
        >>> from gpmodels.transfer.nodes import fixed_mixing
        >>> from gpmodels.transfer.rows import DomainRows
        >>> x = np.linspace(-1.0, 1.0, 9)[:, None]
        >>> domain = DomainRows(x, np.sign(x), np.ones(9), lengthscale=1.0)
        >>> rows = TransferRows((), domain, is_classifier=False)
        >>> fit_exact(rows, fixed_mixing([1.0]), noise=0.1).mean(np.array([[2.0]])).shape
        (1, 1)
    """
    features = tuple(
        place(
            domain,
            None if domain is rows.target else rows.target,
            lengthscale_factor=lengthscale_factor,
            seed=seed,
        )
        for domain in rows.domains
    )
    seen = [see_source(*pair, noise) for pair in zip(rows.sources, features[:-1], strict=True)]
    target = see_target(rows.target, features, seen, groups, noise)
    parts = parts_for_scale(rows, target)
    by_node, by_node_of_parts = [], []
    for node in nodes.values:
        inverse = target.inverse(node)
        alpha = inverse.times(target.residual(node))
        by_node.append(left_out_codes(target, inverse, alpha, target.groups))
        if parts is not target.groups:
            by_node_of_parts.append(left_out_codes(target, inverse, alpha, parts))
    log_weight = nodes.log_weight + [_log_density(rows, one, _scale(rows, one)) for one in by_node]
    node_weight = softmax(log_weight)
    left_out = averaged(by_node, node_weight)
    of_parts = averaged(by_node_of_parts, node_weight) if by_node_of_parts else left_out
    weights, source_weights, covariance = function_weights(target, seen, nodes.values, node_weight)
    return ExactTransfer(
        features,
        nodes.values,
        node_weight,
        weights,
        source_weights,
        covariance,
        noise,
        left_out,
        _scale(rows, of_parts),
        -_log_density(rows, left_out, _scale(rows, left_out)) / float(rows.target.weight.sum()),
    )


def parts_for_scale(rows: TransferRows, target: SeenTarget) -> tuple[npt.NDArray[np.intp], ...]:
    """Return the rows that are left out together for the scale of scores; the groups of real targets."""
    if not rows.is_classifier:
        return target.groups
    return balanced_parts(rows.target.x, np.argmax(target.codes, axis=1), target.groups)


def left_out_codes(
    target: SeenTarget,
    inverse: Inverse,
    alpha: FloatArray,
    groups: Sequence[npt.NDArray[np.intp]],
) -> LeftOut:
    """Return what is predicted of each group of rows by all others, else 0; alpha = C⁻¹ r."""
    mean, variance = np.zeros_like(target.codes), np.zeros(len(target.codes))
    for group in groups:
        block = np.linalg.inv(inverse.block(group))
        mean[group] = target.codes[group] - block @ alpha[group]
        of_one_new_code = target.noise * (1.0 - 1.0 / target.weight[group])
        variance[group] = np.diag(block) + of_one_new_code
    return LeftOut(mean, variance)


def averaged(by_node: Sequence[LeftOut], node_weight: FloatArray) -> LeftOut:
    """Return the moments of the mixture over the nodes."""
    means = np.array([one.mean for one in by_node])
    mean = np.einsum("j,jnc->nc", node_weight, means)
    spread = np.einsum("j,jnc->n", node_weight, np.square(means - mean)) / mean.shape[1]
    within = node_weight @ np.array([one.variance for one in by_node])
    return LeftOut(mean, within + spread)


def _scale(rows: TransferRows, left_out: LeftOut) -> float:
    """Return what left-out scores are best multiplied by before a softmax; 1 of real targets."""
    if not rows.is_classifier:
        return 1.0
    return fit_score_scale(left_out, rows.target.codes, rows.target.weight)


def _log_density(rows: TransferRows, left_out: LeftOut, scale: float) -> float:
    each = left_out_log_densities(left_out, rows.target, scale, is_classifier=rows.is_classifier)
    return float(rows.target.weight @ each)
