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

π is averaged over a grid by what leaving out says of each value, times its prior (docs/theory.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.special import softmax

from gpmodels.transfer.features import DomainFeatures, place
from gpmodels.transfer.nodes import MixingGrid
from gpmodels.transfer.rows import DomainRows, FloatArray, LeftOut, TransferRows
from gpmodels.transfer.score_scale import fit_score_scale, log_densities


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
        score_scale: What scores are multiplied by before a softmax; 1 of real targets.
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
        """Return log p of each target row of the fit by the others, nats, `[N_t]`."""
        return log_densities(self.left_out, rows.target, self.score_scale, is_classifier=rows.is_classifier)

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
        spread = np.einsum("j,jnc->nc", self.node_weight, np.square(by_node - self.mean(x)))
        return np.maximum(within, 0.0)[:, None] + spread

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


class _Seen(NamedTuple):
    """What the rows of a source leave of its weights.

    Attributes:
        mean: m, `[P, C]`.
        root: R with R Rᵀ = V, `[P, P]`.
    """

    mean: FloatArray
    root: FloatArray


@dataclass(frozen=True)
class _Target:
    """The target's rows as the nodes see them.

    Attributes:
        codes: `[N_t, C]`.
        weight: `[N_t]`.
        groups: Rows that are left out together.
        means: Φ_k m_k of each source, `[K, N_t, C]`.
        roots: Φ_k R_k of each source and Φ_t, in which C is a sum of squares, `[N_t, P_i]` each.
    """

    codes: FloatArray
    weight: FloatArray
    groups: tuple[npt.NDArray[np.intp], ...]
    means: FloatArray
    roots: tuple[FloatArray, ...]


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
    seen = [_seen(*pair, noise) for pair in zip(rows.sources, features[:-1], strict=True)]
    target = _target(rows.target, features, seen, groups)
    by_node = [_left_out(target, node, noise) for node in nodes.values]
    log_weight = nodes.log_weight + [
        _log_density(rows, one, _scale(rows, [one], np.ones(1))) for one in by_node
    ]
    node_weight = softmax(log_weight)
    left_out = _averaged(by_node, node_weight)
    score_scale = _scale(rows, by_node, node_weight)
    weights, source_weights, covariance = _weights(target, nodes.values, node_weight, features, seen, noise)
    return ExactTransfer(
        features,
        nodes.values,
        node_weight,
        weights,
        source_weights,
        covariance,
        noise,
        left_out,
        score_scale,
        -_log_density(rows, left_out, score_scale) / float(rows.target.weight.sum()),
    )


def _seen(rows: DomainRows, features: DomainFeatures, noise: float) -> _Seen:
    """Return what the rows of a source leave of its weights: V = (I + Φᵀ D Φ/σ²)⁻¹, m = V Φᵀ D y/σ²."""
    phi = features(rows.x)
    scaled = phi * (rows.weight / noise)[:, None]
    precision = np.eye(features.size) + phi.T @ scaled
    factor = cholesky(precision, lower=True)
    root = solve_triangular(factor, np.eye(features.size), lower=True).T
    return _Seen(cho_solve((factor, True), scaled.T @ rows.codes), root)


def _target(
    rows: DomainRows,
    features: Sequence[DomainFeatures],
    seen: Sequence[_Seen],
    groups: npt.NDArray[np.intp] | None,
) -> _Target:
    phis = [one(rows.x) for one in features]
    means = [phi @ one.mean for phi, one in zip(phis[:-1], seen, strict=True)]
    roots = [phi @ one.root for phi, one in zip(phis[:-1], seen, strict=True)]
    names = np.arange(len(rows)) if groups is None else groups
    return _Target(
        rows.codes,
        rows.weight,
        tuple(np.flatnonzero(names == name) for name in np.unique(names)),
        np.array(means).reshape(len(seen), *rows.codes.shape),
        (*roots, phis[-1]),
    )


class _Inverse(NamedTuple):
    """C⁻¹ = diag(d) ± Q Qᵀ, whichever of the target's rows and the features are fewer.

    Attributes:
        diagonal: d, `[N_t]`.
        factor: Q, `[N_t, min(N_t, F)]`.
        sign: 1 or -1.
    """

    diagonal: FloatArray
    factor: FloatArray
    sign: float

    def block(self, group: npt.NDArray[np.intp]) -> FloatArray:
        """Return the rows and columns of a group."""
        part = self.factor[group]
        block: FloatArray = self.sign * (part @ part.T)
        block[np.diag_indices_from(block)] += self.diagonal[group]
        return block

    def times(self, right: FloatArray) -> FloatArray:
        """Return C⁻¹ times a matrix `[N_t, any]`."""
        product: FloatArray = self.factor @ (self.factor.T @ right)
        return self.diagonal[:, None] * right + self.sign * product


def _solved(target: _Target, node: FloatArray, noise: float) -> tuple[_Inverse, FloatArray]:
    """Return C⁻¹ and r at a node; with more rows than features by Woodbury's identity."""
    root = np.concatenate([share * one for share, one in zip(node, target.roots, strict=True)], axis=1)
    precision = target.weight / noise
    if len(root) <= root.shape[1]:
        covariance = root @ root.T
        covariance[np.diag_indices_from(covariance)] += 1.0 / precision
        factor = solve_triangular(cholesky(covariance, lower=True), np.eye(len(root)), lower=True).T
        inverse = _Inverse(np.zeros(len(root)), factor, 1.0)
    else:
        inner = root.T @ (precision[:, None] * root)
        inner[np.diag_indices_from(inner)] += 1.0
        scaled = (precision[:, None] * root).T
        factor = solve_triangular(cholesky(inner, lower=True), scaled, lower=True).T
        inverse = _Inverse(precision, factor, -1.0)
    return inverse, target.codes - np.einsum("k,knc->nc", node[:-1], target.means)


def _left_out(target: _Target, node: FloatArray, noise: float) -> LeftOut:
    inverse, residual = _solved(target, node, noise)
    alpha = inverse.times(residual)
    mean, variance = np.empty_like(target.codes), np.empty(len(target.codes))
    for group in target.groups:
        block = np.linalg.inv(inverse.block(group))
        mean[group] = target.codes[group] - block @ alpha[group]
        variance[group] = np.diag(block) + noise * (1.0 - 1.0 / target.weight[group])  # of one new code
    return LeftOut(mean, variance)


def _averaged(by_node: Sequence[LeftOut], node_weight: FloatArray) -> LeftOut:
    """Return the moments of the mixture over the nodes."""
    means = np.array([one.mean for one in by_node])
    mean = np.einsum("j,jnc->nc", node_weight, means)
    spread = np.einsum("j,jnc->n", node_weight, np.square(means - mean)) / mean.shape[1]
    within = node_weight @ np.array([one.variance for one in by_node])
    return LeftOut(mean, within + spread)


def _scale(rows: TransferRows, by_node: Sequence[LeftOut], node_weight: FloatArray) -> float:
    """Return what the left-out scores, averaged over the nodes, are best multiplied by; 1 of real targets."""
    if not rows.is_classifier:
        return 1.0
    return fit_score_scale(_averaged(by_node, node_weight), rows.target.codes, rows.target.weight)


def _log_density(rows: TransferRows, left_out: LeftOut, scale: float) -> float:
    each = log_densities(left_out, rows.target, scale, is_classifier=rows.is_classifier)
    return float(rows.target.weight @ each)


def _weights(
    target: _Target,
    nodes: FloatArray,
    node_weight: FloatArray,
    features: Sequence[DomainFeatures],
    seen: Sequence[_Seen],
    noise: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the posterior weights at all nodes, those of the sources, and the average covariance.

    With R_i the roots (the identity for the target) and B_i = Φ_i R_i, the weights are
    w_i = m_i + π_i R_i B_iᵀ C⁻¹ r, and their covariance R_i (δ_ij I - π_i π_j B_iᵀ C⁻¹ B_j) R_jᵀ.
    """
    roots = [one.root for one in seen]
    sizes = [one.size for one in features]
    num_sources = sum(sizes[:-1])
    total = sum(sizes)
    weights = np.zeros([len(nodes), total, target.codes.shape[1]])
    source_weights = np.zeros([num_sources, target.codes.shape[1]])
    inner = np.zeros([total, total])  # in the coordinates of the roots
    stacked = np.concatenate(target.roots, axis=1)  # B, [N_t, F]
    for number, (node, share) in enumerate(zip(nodes, node_weight, strict=True)):
        inverse, residual = _solved(target, node, noise)
        mixing = np.repeat(node, sizes)  # π_i of each feature
        moved = mixing[:, None] * (stacked.T @ inverse.times(residual))
        start = 0
        for k, one in enumerate(seen):
            block = slice(start, start + sizes[k])
            own = one.mean + one.root @ moved[block]
            source_weights[block] += share * own
            weights[number, block] = node[k] * own
            start += sizes[k]
        weights[number, start:] = node[-1] * moved[start:]
        if share > 1e-12:
            open_part = -np.square(mixing)[:, None] * (stacked.T @ inverse.times(stacked)) * np.square(mixing)
            open_part[np.diag_indices(total)] += np.square(mixing)
            inner += share * open_part
    covariance = inner
    start = 0
    for root in roots:
        block = slice(start, start + len(root))
        covariance[block] = root @ covariance[block]
        covariance[:, block] = covariance[:, block] @ root.T
        start += len(root)
    return weights, source_weights, covariance
