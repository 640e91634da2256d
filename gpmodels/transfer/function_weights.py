"""Weights of the exact limit's functions: their means at each value of π, and what stays open of them.

With R_i the roots (the identity for the target), B_i = Φ_i R_i and A_i = R_i B_iᵀ, the weights of the
functions are w_i = m_i + π_i A_i C⁻¹ r, and their covariance is δ_ij R_i R_jᵀ - π_i π_j A_i C⁻¹ A_jᵀ.
"""

from collections.abc import Sequence

import numpy as np
from scipy.linalg import cholesky

from gpmodels.transfer.rows import FloatArray
from gpmodels.transfer.seen_rows import SeenSource, SeenTarget, inverse_factor

NO_WEIGHT = 1e-12
"""Nodes with less posterior weight are left out of the covariance."""


def function_weights(
    target: SeenTarget, seen: Sequence[SeenSource], nodes: FloatArray, node_weight: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what is known of the weights of all functions.

    Args:
        target: The target's rows.
        seen: What the rows of each source leave of its weights.
        nodes: π of each node, `[J, K + 1]`.
        node_weight: Posterior weight of each node, `[J]`.

    Returns:
        The mean weights of the target's functions for features of each domain, side by side, π included,
        `[J, F, C]`; those of the sources' own, averaged over the nodes, `[F_s, C]`; and the covariance of the
        first, averaged over the nodes, `[F, F]`.
    """
    sizes = [one.shape[1] for one in target.roots]
    ends = np.cumsum(sizes)
    blocks = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    roots = [*(one.root for one in seen), None]
    weights = np.zeros([len(nodes), ends[-1], target.codes.shape[1]])
    source_weights = np.zeros([ends[-1] - sizes[-1], target.codes.shape[1]])
    if target.has_few_rows:
        moved, covariance = _open_by_rows(target, nodes, node_weight, roots)
    else:
        moved, covariance = _open_by_features(target, nodes, node_weight, roots)
    for number, (node, share) in enumerate(zip(nodes, node_weight, strict=True)):
        for block, one, part in zip(blocks[:-1], seen, node, strict=False):
            own = one.mean + moved[number, block]
            source_weights[block] += share * own
            weights[number, block] = part * own
        weights[number, blocks[-1]] = node[-1] * moved[number, blocks[-1]]
    return weights, source_weights, covariance


def _open_by_rows(
    target: SeenTarget,
    nodes: FloatArray,
    node_weight: FloatArray,
    roots: Sequence[FloatArray | None],
) -> tuple[FloatArray, FloatArray]:
    """Return π_i A_i C⁻¹ r at each node, `[J, F, C]`, and the average covariance of π_i w_i, `[F, F]`.

    The nodes differ in matrices over rows alone: block (i, j) of the covariance is Σ_n p_n π_i² R_i R_iᵀ
    where i = j, minus A_i (Σ_n p_n π_i² π_j² C_n⁻¹) A_jᵀ, so that products with features are formed once.
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
        inverse = target.inverse(node)
        solved = inverse.times(target.residual(node))
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
    target: SeenTarget,
    nodes: FloatArray,
    node_weight: FloatArray,
    roots: Sequence[FloatArray | None],
) -> tuple[FloatArray, FloatArray]:
    """Return π_i A_i C⁻¹ r at each node and the average covariance, where there are more rows than features.

    With H = I + Π Bᵀ (D/σ²) B Π, π_i B_iᵀ C⁻¹ r is a part of H⁻¹ Π Bᵀ (D/σ²) r, and I - Π Bᵀ C⁻¹ B Π = H⁻¹.
    """
    sizes = [one.shape[1] for one in target.roots]
    ends = np.cumsum(sizes)
    weighted = np.concatenate(target.roots, axis=1) * (target.weight / target.noise)[:, None]
    moved = np.empty([len(nodes), ends[-1], target.codes.shape[1]])
    inner = np.zeros([ends[-1]] * 2)
    for number, (node, share) in enumerate(zip(nodes, node_weight, strict=True)):
        mixing = np.repeat(node, sizes)
        half = inverse_factor(cholesky(target.inner(node), lower=True, overwrite_a=True))
        pull = mixing[:, None] * (weighted.T @ target.residual(node))
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
