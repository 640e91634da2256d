"""What a trained transfer model says of each target row without that row's label, in closed form.

With inputs of the units, kernels, noises, π and the means U of the output weights held, the codes of a row
are linear in the whitened inducing values z ~ N(0, I) of all domains' units together:

    y_n = Φ_n z + ε,  ε ~ N(0, I/(β ω_n)),      Φ_n = Σ_r U_r (π_j k_nr)ᵀ,  [C, inducing values]

so that their posterior has the precision H = I + Σ_n β ω_n Φ_nᵀΦ_n over the rows of all domains. With the
posterior mean m, Q_n = Φ_n H⁻¹Φ_nᵀ and r_n = y_n - Φ_n m, leaving out all C codes of row n at once gives

    mean_n = y_n - (I - β ω_n Q_n)⁻¹ r_n      Cov_n = (I - β ω_n Q_n)⁻¹ Q_n

of the part that the inducing values know; what they leave open of the hidden layer, U diag(.) Uᵀ, is added
to the covariance. For uncertain mixing weights means and variances are those of the mixture over the nodes
of q(π).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg
import tensorflow as tf
from threadpoolctl import threadpool_limits

from gpmodels.transfer.hidden import hidden_basis
from gpmodels.transfer.mixing import MixingNodes, dirichlet_nodes
from gpmodels.transfer.parameters import ModelKind, TransferParameters
from gpmodels.transfer.rows import FloatArray, TransferRows


class _Block(NamedTuple):
    """Whitened kernel vectors of one domain's units at the rows of one domain.

    Attributes:
        basis: `[N, R P]`.
        unit: Which column of the output weights each of them belongs to, `[R P]`.
        open_variance: 1 - |k|² of each unit, what its inducing values leave open, `[N, R]`.
    """

    basis: FloatArray
    unit: npt.NDArray[np.intp]
    open_variance: FloatArray


def leave_one_out(
    parameters: TransferParameters, kind: ModelKind, weights: Sequence[FloatArray], rows: TransferRows
) -> tuple[FloatArray, FloatArray]:
    """Return means and variances of the target's output functions, each row from all rows but itself.

    Args:
        parameters: Trained.
        kind: Which model.
        weights: U, means of the output weights of each domain, `[C, R*]` each.
        rows: Rows of all domains.

    Returns:
        Means and variances, `[N_t, C]` each.

    Raises:
        NotImplementedError: The likelihood is noisy probit.
    """
    if kind.likelihood != "gaussian":
        raise NotImplementedError(
            "Leave-one-out has a closed form for likelihood='gaussian' alone, but the likelihood is "
            f"{kind.likelihood!r}. Train with the Gaussian codes, or use cross-validation."
        )
    nodes = _nodes(parameters, kind)
    target = [_block(parameters, j, rows.target.x, kind) for j in range(len(parameters.domains))]
    mean = np.zeros(rows.target.codes.shape)
    square = np.zeros_like(mean)
    # The matrices are small; BLAS threads that wait for each other take most of the time.
    with threadpool_limits(limits=1, user_api="blas"):
        precision, side = _from_sources(parameters, kind, weights, rows)
        for mixing, share in zip(*nodes, strict=True):
            means, variances = _at_node(parameters, weights[-1], rows, target, mixing, precision, side)
            mean += share * means
            square += share * (variances + np.square(means))
    return mean, square - np.square(mean)


def _nodes(parameters: TransferParameters, kind: ModelKind) -> MixingNodes:
    if kind.is_symmetric:
        return MixingNodes(np.ones([1, len(parameters.domains)]), np.ones(1))
    if parameters.log_concentration is None:
        return MixingNodes(np.asarray(parameters.mixing)[None], np.ones(1))
    return dirichlet_nodes(np.exp(parameters.log_concentration))


def _block(parameters: TransferParameters, number: int, x: FloatArray, kind: ModelKind) -> _Block:
    domain = parameters.domains[number]
    basis = hidden_basis(domain, tf.constant(x, tf.float64)).numpy()  # [R, N, P]
    first = number * domain.num_hidden if kind.is_symmetric else 0
    return _Block(
        np.swapaxes(basis, 0, 1).reshape(len(x), -1),
        first + np.repeat(np.arange(domain.num_hidden), domain.num_inducing),
        1.0 - np.sum(np.square(basis), axis=2).T,
    )


def _information(
    blocks: Sequence[_Block],
    coefficients: FloatArray,
    weights: FloatArray,
    codes: FloatArray,
    count: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return Σ_n β ω_n Φ_nᵀΦ_n and Σ_n β ω_n Φ_nᵀy_n for βω `[N]`."""
    basis = np.concatenate([c * block.basis for c, block in zip(coefficients, blocks, strict=True)], axis=1)
    unit = np.concatenate([block.unit for block in blocks])
    between = (weights.T @ weights)[np.ix_(unit, unit)]
    weighted = basis * count[:, None]
    side = np.sum(weighted * (codes @ weights)[:, unit], axis=0)
    return (basis.T @ weighted) * between, side


def _from_sources(
    parameters: TransferParameters, kind: ModelKind, weights: Sequence[FloatArray], rows: TransferRows
) -> tuple[FloatArray, FloatArray]:
    """Return precision of all inducing values from prior and source rows, and its product with the mean."""
    numbers = range(len(parameters.domains))
    ends = np.cumsum([domain.mean.size for domain in parameters.domains])
    precision, side = np.eye(ends[-1]), np.zeros(ends[-1])
    for i, data in enumerate(rows.sources):
        seen_by = list(numbers) if kind.is_symmetric else [i]
        blocks = [_block(parameters, j, data.x, kind) for j in seen_by]
        count = data.weight * np.exp(-parameters.domains[i].log_noise)
        added = _information(blocks, np.ones(len(blocks)), weights[i], data.codes, count)
        part = slice(None) if kind.is_symmetric else slice(ends[i] - parameters.domains[i].mean.size, ends[i])
        precision[part, part] += added[0]
        side[part] += added[1]
    return precision, side


def _at_node(
    parameters: TransferParameters,
    weights: FloatArray,
    rows: TransferRows,
    blocks: Sequence[_Block],
    mixing: FloatArray,
    precision: FloatArray,
    side: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return leave-one-out means and variances `[N_t, C]` for given mixing weights."""
    data, noise = rows.target, float(np.exp(parameters.target.log_noise))
    count = data.weight / noise
    information, pull = _information(blocks, mixing, weights, data.codes, count)
    factor = scipy.linalg.cho_factor(precision + information)
    mean = scipy.linalg.cho_solve(factor, side + pull)
    unit = np.concatenate([block.unit for block in blocks])
    basis = np.concatenate([c * block.basis for c, block in zip(mixing, blocks, strict=True)], axis=1)
    design = weights[:, unit] * basis[:, None]  # Φ, [N, C, inducing values]
    flat = design.reshape(-1, design.shape[2])
    solved = scipy.linalg.cho_solve(factor, flat.T).T.reshape(design.shape)
    known = solved @ np.swapaxes(design, 1, 2)  # Q, [N, C, C]
    left = np.eye(weights.shape[0]) - count[:, None, None] * known
    residual = data.codes - design @ mean
    means = data.codes - np.linalg.solve(left, residual[..., None])[..., 0]
    variances = np.diagonal(np.linalg.solve(left, known), axis1=1, axis2=2).copy()
    latent = parameters.target.log_latent_noise
    variances += 0.0 if latent is None else np.exp(latent) * np.sum(np.square(weights), axis=1)
    for c, block in zip(mixing, blocks, strict=True):
        seen = np.square(weights[:, np.unique(block.unit)])  # of this domain's units
        variances += c**2 * block.open_variance @ seen.T
    return means, variances
