"""ATL-DGP with two layers: the codes of the exact limit go through a GP with a Gaussian kernel.

The first layer and the mixture stay at the solution of `gpmodels.transfer.exact`, which leaves a Gaussian for
the mixed codes of a row, q(d_n) = N(μ_n, s v_n I). The second layer has the exact limit as its linear mean,

    f_c(d) = d_c + g_c(d),    g_c ~ GP(0, a² exp(-½ |d - d'|²/ℓ²)),    y_c = f_c + N(0, s σ²)

and is a sparse GP with inducing inputs Z. With L Lᵀ = k(Z, Z) for a = 1, g_c(Z) = a L z_c, and expectations
of ψ_n = a L⁻¹k(Z, d) under q(d_n), its bound is largest at q(z_c) = N(m_c, S),

    S = (I + Σ_n ω_n/(sσ²) E[ψ_n ψ_nᵀ])⁻¹        m_c = S Σ_n ω_n/(sσ²) (y_nc E[ψ_n] - E[ψ_n d_c])

where E[d_c k(z, d)] = Ψ1 (μ_c + w (z_c - μ_c)), w = s v/(s v + ℓ²), and Ψ1 and Ψ2 are those of
`gpmodels.units.psi_statistics`. a = 0 is the exact limit.

Codes of fitted rows follow the labels and say little about codes of new rows, so the layer learns from codes
of left-out rows. Each a is judged on a further part of the rows: two parts are left out together, and neither
the layer nor its codes have seen the judged labels. The layers of all a are averaged, and the density of the
judged labels weighs them, as it weighs the values of π. s scales v and σ² to the squared distances between
left-out codes and their labels.

This judgement is optimistic. s and ℓ are found from all left-out codes, and s from all labels; all labels
weigh the nodes of the exact limit; and the rows whose density weighs the values of a also decide, without a
margin, whether the average is kept. So the layer may be kept where it predicts new rows a little worse.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from scipy.linalg import cholesky, solve_triangular
from scipy.spatial.distance import cdist
from scipy.special import softmax

from gpmodels.transfer.exact import ExactTransfer, averaged, left_out_codes, parts_for_scale
from gpmodels.transfer.features import MAX_EXACT_ROWS
from gpmodels.transfer.rows import FloatArray, LeftOut, TransferRows, mean_distance
from gpmodels.transfer.score_scale import fit_score_scale, left_out_log_densities
from gpmodels.transfer.seen_rows import see_source, see_target
from gpmodels.units.psi_statistics import rbf_psi, unpack_pairs

AMPLITUDES = (0.0, 0.05, 0.1, 0.2)
"""Values of a that are averaged; codes of classes are of size 1."""

SMOOTHNESS = 4.0
"""ℓ as a multiple of the mean distance between codes: the layer bends the identity a little."""

MAX_FOLDS = 10
"""Most parts of the target's rows that are left out in turn."""

NUM_INDUCING = 60
"""Most inducing inputs; fewer codes are all inducing inputs."""

JITTER = 1e-6
"""What is added to the diagonal of k(Z, Z), whose elements there are 1: codes may be equal."""


@dataclass(frozen=True)
class SecondLayer:
    """The second layer of each amplitude.

    Attributes:
        inducing: Z, `[M, C]`.
        lengthscale: ℓ.
        spread: s.
        amplitudes: a, `[J]`.
        weights: Weight of each amplitude in the average, `[J]`.
        mean: m of each, `[J, M, C]`.
        covariance: S of each, `[J, M, M]`.
    """

    inducing: FloatArray
    lengthscale: float
    spread: float
    amplitudes: FloatArray
    weights: FloatArray
    mean: FloatArray
    covariance: FloatArray

    @classmethod
    def fit(
        cls,
        codes: LeftOut,
        labels: FloatArray,
        weight: FloatArray,
        *,
        noise: float,
        lengthscale: float,
        spread: float = 1.0,
        amplitudes: Sequence[float] = AMPLITUDES,
    ) -> "SecondLayer":
        """Return the layers whose bounds are largest, with equal weights.

        Args:
            codes: μ `[N, C]` and v `[N]`.
            labels: y, `[N, C]`.
            weight: How often each row counts, ω, `[N]`.
            noise: σ².
            lengthscale: ℓ.
            spread: s.
            amplitudes: a.

        Example:
            >>> codes = LeftOut(np.zeros([1, 1]), np.zeros(1))
            >>> settings = {"noise": 1.0, "lengthscale": 1.0, "amplitudes": (1.0,)}
            >>> layer = SecondLayer.fit(codes, np.ones([1, 1]), np.ones(1), **settings)
            >>> layer.moments(codes)[0].round(3).tolist()
            [[0.5]]
        """
        ranked = np.lexsort(codes.mean.T)
        chosen = ranked[np.linspace(0, len(ranked) - 1, min(len(ranked), NUM_INDUCING)).astype(int)]
        inducing = codes.mean[chosen]
        precision = weight / (spread * noise)
        psi, products, with_code = _expectations(codes, inducing, lengthscale, spread)
        inner = np.einsum("n,nij->ij", precision, products)
        pull = np.einsum("n,ni,nc->ic", precision, psi, labels) - np.einsum("n,nic->ic", precision, with_code)
        sizes = np.array(amplitudes, np.float64)
        covariance = np.linalg.inv(np.eye(len(inner)) + np.square(sizes)[:, None, None] * inner)
        mean = covariance @ (sizes[:, None, None] * pull)
        weights = np.full(len(sizes), 1.0 / len(sizes))
        return cls(inducing, lengthscale, spread, sizes, weights, mean, covariance)

    def means(self, codes: LeftOut) -> FloatArray:
        """Return the mean of f at codes with μ `[N, C]` and v `[N]` for each amplitude, `[J, N, C]`."""
        return self._means(codes, _expectations(codes, self.inducing, self.lengthscale, self.spread)[0])

    def _means(self, codes: LeftOut, psi: FloatArray) -> FloatArray:
        shift: FloatArray = self.amplitudes[:, None, None] * (psi @ self.mean)
        return codes.mean + shift

    def moments(self, codes: LeftOut) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of f at codes with μ `[N, C]` and v `[N]`, averaged, `[N, C]` each."""
        psi, products, with_code = _expectations(codes, self.inducing, self.lengthscale, self.spread)
        mean = np.einsum("j,jnc->nc", self.weights, self._means(codes, psi))
        second = self.spread * codes.variance[:, None] + np.square(codes.mean) - np.square(mean)  # of d alone
        for weight, size, m, covariance in zip(
            self.weights, self.amplitudes, self.mean, self.covariance, strict=True
        ):
            with_own = 2.0 * size * np.einsum("nic,ic->nc", with_code, m)
            square = np.einsum("nij,ic,jc->nc", products, m, m, optimize=True)
            left = 1.0 + np.einsum("nij,ij->n", products, covariance - np.eye(len(covariance)))
            second = second + weight * (with_own + size**2 * (square + left[:, None]))
        return mean, np.maximum(second, 0.0)


def _expectations(
    codes: LeftOut, inducing: FloatArray, lengthscale: float, spread: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return E[ψ] `[N, M]`, E[ψψᵀ] `[N, M, M]` and E[ψ d_c] `[N, M, C]` for a = 1."""
    variance, size = spread * codes.variance, len(inducing)
    kernel = rbf_psi(
        tf.constant(codes.mean),
        tf.constant(np.repeat(variance[:, None], inducing.shape[1], axis=1)),
        tf.constant(inducing[None]),
        tf.constant(lengthscale, tf.float64, [1, inducing.shape[1]]),
        tf.ones([1], tf.float64),
    )
    psi1, psi2 = kernel.psi1[0].numpy(), unpack_pairs(kernel.psi2[0], size).numpy()
    pulled = (variance / (variance + lengthscale**2))[:, None, None]
    with_code = psi1[:, :, None] * (codes.mean[:, None] + pulled * (inducing - codes.mean[:, None]))
    between = np.exp(-0.5 * np.square(cdist(inducing, inducing) / lengthscale)) + JITTER * np.eye(size)
    root = solve_triangular(cholesky(between, lower=True), np.eye(size), lower=True)
    return psi1 @ root.T, root @ psi2 @ root.T, np.einsum("ij,njc->nic", root, with_code, optimize=True)


@dataclass(frozen=True)
class TwoLayerTransfer(ExactTransfer):
    """The exact limit with a second layer on its codes.

    `score_scale` and `noise`, s σ², are of both layers together; `left_out` and `nll`, which compare sources,
    are still the exact limit's.

    Attributes:
        second: The second layer.
    """

    second: SecondLayer

    def mean(self, x: FloatArray) -> FloatArray:
        """Return the mean of the target's functions at rows `[N, D]` of the target, `[N, C]`."""
        return self.moments(x)[0]

    def variance(self, x: FloatArray) -> FloatArray:
        """Return the variance of the target's functions at its rows `[N, D]`, without noise, `[N, C]`."""
        return self.moments(x)[1]

    def moments(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance at rows `[N, D]` of the target, `[N, C]` each."""
        return self.second.moments(LeftOut(super().mean(x), super().variance(x).mean(axis=1)))


def fit_two_layer(
    rows: TransferRows, exact: ExactTransfer, groups: npt.NDArray[np.intp] | None = None
) -> ExactTransfer | None:
    """Return the exact limit with a second layer, or as it is where left-out target rows do not gain.

    None where there are fewer than three parts to leave out, since nothing can then judge a layer.

    Args:
        rows: Rows of all domains, with codes of classes.
        exact: The exact limit of these rows.
        groups: Group of each target row, `[N_t]`, as the exact limit had it.

    Raises:
        ValueError: The target has more than `MAX_EXACT_ROWS` labelled rows.

    Source:
        Kandemir (2015), section 5, with the first layer at its exact limit (docs/theory.md).
    """
    target = rows.target
    if len(target) > MAX_EXACT_ROWS:
        raise ValueError(
            f"A second layer is for few labels, at most {MAX_EXACT_ROWS} rows of the target, but there are "
            f'{len(target)}. Take output="exact".'
        )
    folds, without = _codes_without(rows, exact, groups)
    if len(folds) < 3:  # two are left out, and the layer has to learn from something
        return None
    own = LeftOut(np.zeros_like(target.codes), np.zeros(len(target)))
    for fold, codes in zip(folds, without, strict=True):
        own.mean[fold], own.variance[fold] = codes.mean[fold], codes.variance[fold]
    of_noisy = own.variance + exact.noise
    misses = np.square(target.codes - own.mean).mean(axis=1) / of_noisy
    spread = float(np.average(misses, weights=target.weight))
    lengthscale = SMOOTHNESS * mean_distance(own.mean)

    def layer(codes: LeftOut, used: npt.NDArray[np.intp]) -> SecondLayer:
        return SecondLayer.fit(
            LeftOut(codes.mean[used], codes.variance[used]),
            target.codes[used],
            target.weight[used],
            noise=exact.noise,
            lengthscale=lengthscale,
            spread=spread,
        )

    means = np.empty([len(AMPLITUDES), *own.mean.shape])
    for fold, codes in zip(folds, without, strict=True):
        others = np.setdiff1d(np.arange(len(target)), fold)
        means[:, fold] = layer(codes, others).means(LeftOut(own.mean[fold], own.variance[fold]))

    def judged(mean: FloatArray) -> tuple[float, float]:
        left_out = LeftOut(mean, of_noisy)
        scale = fit_score_scale(left_out, target.codes, target.weight)
        each = left_out_log_densities(left_out, target, scale, is_classifier=True)
        return float(target.weight @ each), scale

    found = np.array([judged(mean)[0] for mean in means])
    weights = softmax(found)
    density, scale = judged(np.einsum("j,jnc->nc", weights, means))
    if not density > found[0]:  # that of the exact limit, a = 0
        return exact
    kept = {field.name: getattr(exact, field.name) for field in fields(exact)}
    kept |= {"noise": spread * exact.noise, "score_scale": scale}
    second = layer(own, np.arange(len(target)))
    return TwoLayerTransfer(**kept, second=replace(second, weights=weights))


def _codes_without(
    rows: TransferRows, exact: ExactTransfer, groups: npt.NDArray[np.intp] | None
) -> tuple[list[npt.NDArray[np.intp]], list[LeftOut]]:
    """Return folds of the target's rows, and for each of them codes of all rows, which have not seen it.

    Codes of rows of the fold have seen all other folds, those of another row all but the fold and its own.
    """
    seen = [see_source(*pair, exact.noise) for pair in zip(rows.sources, exact.features[:-1], strict=True)]
    target = see_target(rows.target, exact.features, seen, groups, exact.noise)
    parts = parts_for_scale(rows, target)
    folds = [np.concatenate(parts[first::MAX_FOLDS]) for first in range(min(len(parts), MAX_FOLDS))]
    inverses = [target.inverse(node) for node in exact.nodes]
    alphas = [one.times(target.residual(node)) for one, node in zip(inverses, exact.nodes, strict=True)]

    def left_out(together: Sequence[npt.NDArray[np.intp]]) -> LeftOut:
        pairs = zip(inverses, alphas, strict=True)
        by_node = [left_out_codes(target, inverse, alpha, together) for inverse, alpha in pairs]
        mean, variance = averaged(by_node, exact.node_weight)
        return LeftOut(mean, np.maximum(variance - exact.noise, 0.0))

    alone = left_out(folds)
    codes = [LeftOut(alone.mean.copy(), alone.variance.copy()) for _ in folds]
    for i, first in enumerate(folds):
        for j, second in enumerate(folds[:i]):
            both = left_out([np.concatenate([first, second])])
            for k, other in ((i, second), (j, first)):
                codes[k].mean[other], codes[k].variance[other] = both.mean[other], both.variance[other]
    return folds, codes
