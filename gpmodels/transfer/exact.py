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

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dtrtri
from scipy.special import softmax

from gpmodels.transfer.features import DomainFeatures, place
from gpmodels.transfer.nodes import MixingGrid
from gpmodels.transfer.rows import DomainRows, FloatArray, LeftOut, TransferRows
from gpmodels.transfer.score_scale import balanced_parts, fit_score_scale, log_densities

NO_WEIGHT = 1e-12
"""Posterior weight of a node below which what it leaves open is not asked."""


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
        return log_densities(self.left_out, rows.target, scale, is_classifier=rows.is_classifier)

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
        roots: B_i: Φ_k R_k of each source and Φ_t, in which C is a sum of squares, `[N_t, P_i]` each.
        grams: What all nodes share of C or of its counterpart in the features, whichever has fewer rows: the
            products B_i B_iᵀ, `[K + 1, N_t, N_t]`, or Bᵀ D B of all roots side by side, `[F, F]`, D the
            weights divided by σ².
    """

    codes: FloatArray
    weight: FloatArray
    groups: tuple[npt.NDArray[np.intp], ...]
    means: FloatArray
    roots: tuple[FloatArray, ...]
    grams: FloatArray

    @property
    def has_few_rows(self) -> bool:
        """Whether C is inverted as it is; else it has more rows than there are features."""
        return self.grams.ndim == 3


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
    target = _target(rows.target, features, seen, groups, noise)
    parts = _parts(rows, target)
    by_node, by_node_of_parts = [], []
    for node in nodes.values:
        inverse = _solved(target, node, noise)
        alpha = inverse.times(_residual(target, node))
        by_node.append(_left_out(target, inverse, alpha, target.groups, noise))
        if parts is not target.groups:
            by_node_of_parts.append(_left_out(target, inverse, alpha, parts, noise))
    log_weight = nodes.log_weight + [_log_density(rows, one, _scale(rows, one)) for one in by_node]
    node_weight = softmax(log_weight)
    left_out = _averaged(by_node, node_weight)
    of_parts = _averaged(by_node_of_parts, node_weight) if by_node_of_parts else left_out
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
        _scale(rows, of_parts),
        -_log_density(rows, left_out, _scale(rows, left_out)) / float(rows.target.weight.sum()),
    )


def _seen(rows: DomainRows, features: DomainFeatures, noise: float) -> _Seen:
    """Return what the rows of a source leave of its weights: V = (I + Φᵀ D Φ/σ²)⁻¹, m = V Φᵀ D y/σ²."""
    phi = features(rows.x)
    scaled = phi * (rows.weight / noise)[:, None]
    precision = np.eye(features.size) + phi.T @ scaled
    factor = cholesky(precision, lower=True)
    return _Seen(cho_solve((factor, True), scaled.T @ rows.codes), _inverse_root(factor))


def _inverse_root(factor: FloatArray) -> FloatArray:
    """Return R, upper triangular, with R Rᵀ = (L Lᵀ)⁻¹ for a Cholesky factor L."""
    inverse, _ = dtrtri(factor, lower=1)  # no element of the diagonal of a Cholesky factor is 0
    return np.ascontiguousarray(inverse.T)


def _target(
    rows: DomainRows,
    features: Sequence[DomainFeatures],
    seen: Sequence[_Seen],
    groups: npt.NDArray[np.intp] | None,
    noise: float,
) -> _Target:
    phis = [one(rows.x) for one in features]
    means = [phi @ one.mean for phi, one in zip(phis[:-1], seen, strict=True)]
    roots = [phi @ one.root for phi, one in zip(phis[:-1], seen, strict=True)]
    names = np.arange(len(rows)) if groups is None else groups
    all_roots = (*roots, phis[-1])
    if len(rows) <= sum(one.size for one in features):
        grams = np.array([root @ root.T for root in all_roots])
    else:
        stacked = np.concatenate(all_roots, axis=1)
        grams = stacked.T @ ((rows.weight / noise)[:, None] * stacked)
    return _Target(
        rows.codes,
        rows.weight,
        tuple(np.flatnonzero(names == name) for name in np.unique(names)),
        np.array(means).reshape(len(seen), *rows.codes.shape),
        all_roots,
        grams,
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


def _solved(target: _Target, node: FloatArray, noise: float) -> _Inverse:
    """Return C⁻¹ at a node; with more rows than features by Woodbury's identity."""
    precision = target.weight / noise
    if target.has_few_rows:
        covariance = np.einsum("k,knm->nm", np.square(node), target.grams)
        covariance[np.diag_indices_from(covariance)] += 1.0 / precision
        factor = _inverse_root(cholesky(covariance, lower=True, overwrite_a=True))
        return _Inverse(np.zeros(len(precision)), factor, 1.0)
    scaled = precision[:, None] * np.concatenate(
        [share * one for share, one in zip(node, target.roots, strict=True)], axis=1
    )
    factor = solve_triangular(cholesky(_inner(target, node), lower=True), scaled.T, lower=True).T
    return _Inverse(precision, factor, -1.0)


def _inner(target: _Target, node: FloatArray) -> FloatArray:
    """Return I + Π Bᵀ D B Π, Π the share of each feature at a node, `[F, F]`."""
    mixing = np.repeat(node, [root.shape[1] for root in target.roots])
    inner: FloatArray = mixing[:, None] * target.grams * mixing
    inner[np.diag_indices_from(inner)] += 1.0
    return inner


def _residual(target: _Target, node: FloatArray) -> FloatArray:
    """Return r at a node, `[N_t, C]`."""
    residual: FloatArray = target.codes - np.einsum("k,knc->nc", node[:-1], target.means)
    return residual


def _parts(rows: TransferRows, target: _Target) -> tuple[npt.NDArray[np.intp], ...]:
    """Return the rows that are left out together for the scale of scores; the groups of real targets."""
    if not rows.is_classifier:
        return target.groups
    return balanced_parts(rows.target.x, np.argmax(target.codes, axis=1), target.groups)


def _left_out(
    target: _Target,
    inverse: _Inverse,
    alpha: FloatArray,
    groups: Sequence[npt.NDArray[np.intp]],
    noise: float,
) -> LeftOut:
    """Return what is predicted of each group of rows by all others, alpha = C⁻¹ r."""
    mean, variance = np.empty_like(target.codes), np.empty(len(target.codes))
    for group in groups:
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


def _scale(rows: TransferRows, left_out: LeftOut) -> float:
    """Return what left-out scores are best multiplied by before a softmax; 1 of real targets."""
    if not rows.is_classifier:
        return 1.0
    return fit_score_scale(left_out, rows.target.codes, rows.target.weight)


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

    With R_i the roots (the identity for the target), B_i = Φ_i R_i and A_i = R_i B_iᵀ, the weights are
    w_i = m_i + π_i A_i C⁻¹ r, and their covariance is δ_ij R_i R_jᵀ - π_i π_j A_i C⁻¹ A_jᵀ.
    """
    ends = np.cumsum([one.size for one in features])
    blocks = [slice(end - one.size, end) for end, one in zip(ends, features, strict=True)]
    roots = [*(one.root for one in seen), None]
    weights = np.zeros([len(nodes), ends[-1], target.codes.shape[1]])
    source_weights = np.zeros([ends[-1] - features[-1].size, target.codes.shape[1]])
    if target.has_few_rows:
        moved, covariance = _open_by_rows(target, nodes, node_weight, roots, noise)
    else:
        moved, covariance = _open_by_features(target, nodes, node_weight, roots, noise)
    for number, (node, share) in enumerate(zip(nodes, node_weight, strict=True)):
        for block, one, part in zip(blocks[:-1], seen, node, strict=False):
            own = one.mean + moved[number, block]
            source_weights[block] += share * own
            weights[number, block] = part * own
        weights[number, blocks[-1]] = node[-1] * moved[number, blocks[-1]]
    return weights, source_weights, covariance


def _open_by_rows(
    target: _Target,
    nodes: FloatArray,
    node_weight: FloatArray,
    roots: Sequence[FloatArray | None],
    noise: float,
) -> tuple[FloatArray, FloatArray]:
    """Return π_i A_i C⁻¹ r at each node, `[J, F, C]`, and the average covariance of π_i w_i, `[F, F]`.

    The nodes differ in matrices over rows alone: block (i, j) of the covariance is Σ_n p_n π_i² R_i R_iᵀ
    where i = j, less A_i (Σ_n p_n π_i² π_j² C_n⁻¹) A_jᵀ, so that products with features are formed once.
    """
    seen_by = [
        one.T if root is None else root @ one.T for one, root in zip(target.roots, roots, strict=True)
    ]  # A_i, [P_i, N_t]
    stacked = np.concatenate(seen_by)
    mixing = np.repeat(nodes, [len(one) for one in seen_by], axis=1)  # [J, F]
    moved = np.empty([*mixing.shape, target.codes.shape[1]])
    squares = np.square(nodes)
    pairs = [(i, j) for i in range(len(roots)) for j in range(i + 1)]
    sums = {pair: np.zeros([len(target.codes)] * 2) for pair in pairs}
    everyone = np.arange(len(target.codes))
    for number, (node, share) in enumerate(zip(nodes, node_weight, strict=True)):
        inverse = _solved(target, node, noise)
        solved = inverse.times(_residual(target, node))
        moved[number] = mixing[number][:, None] * (stacked @ solved)
        if share > NO_WEIGHT:
            whole = inverse.block(everyone)
            for i, j in pairs:
                sums[i, j] += share * squares[number, i] * squares[number, j] * whole
    ends = np.cumsum([len(one) for one in seen_by])
    covariance = np.empty([ends[-1]] * 2)
    for (i, j), inner in sums.items():
        part = -seen_by[i] @ (inner @ seen_by[j].T)
        root = roots[i]
        if i == j:
            square = float(node_weight @ squares[:, i])
            part += square * (np.eye(len(part)) if root is None else root @ root.T)
        rows, columns = (slice(ends[k] - len(seen_by[k]), ends[k]) for k in (i, j))
        covariance[rows, columns], covariance[columns, rows] = part, part.T
    return moved, covariance


def _open_by_features(
    target: _Target,
    nodes: FloatArray,
    node_weight: FloatArray,
    roots: Sequence[FloatArray | None],
    noise: float,
) -> tuple[FloatArray, FloatArray]:
    """Return what `_open_by_rows` does, where the target has more rows than there are features.

    With H = I + Π Bᵀ D B Π, π_i B_iᵀ C⁻¹ r is a part of H⁻¹ Π Bᵀ D r, and I - Π Bᵀ C⁻¹ B Π = H⁻¹.
    """
    sizes = [one.shape[1] for one in target.roots]
    ends = np.cumsum(sizes)
    weighted = np.concatenate(target.roots, axis=1) * (target.weight / noise)[:, None]
    moved = np.empty([len(nodes), ends[-1], target.codes.shape[1]])
    inner = np.zeros([ends[-1]] * 2)
    for number, (node, share) in enumerate(zip(nodes, node_weight, strict=True)):
        mixing = np.repeat(node, sizes)
        half = _inverse_root(cholesky(_inner(target, node), lower=True, overwrite_a=True))
        pull = mixing[:, None] * (weighted.T @ _residual(target, node))
        moved[number] = half @ (half.T @ pull)
        if share > NO_WEIGHT:
            scaled = mixing[:, None] * half
            inner += share * (scaled @ scaled.T)
    for root, end, size in zip(roots, ends, sizes, strict=True):
        if root is not None:
            block = slice(end - size, end)
            moved[:, block] = root @ moved[:, block]
            inner[block] = root @ inner[block]
            inner[:, block] = inner[:, block] @ root.T
    return moved, inner
