"""PIC, the partially independent conditional (thesis 3.2.1; Snelson and Ghahramani, 2007)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes
from sklearn.metrics import pairwise_distances_argmin

from benchmarks.peers.base import (
    INITIAL_NOISE_VARIANCE,
    Array,
    Report,
    SparseRegressor,
    Trained,
    check_count,
)
from benchmarks.peers.lbfgs import LBFGS
from benchmarks.peers.posterior import VARIANCE_FLOOR, SparsePosterior, squared_exponential
from gpmodels.estimators.fitting.sizes import default_num_inducing
from gpmodels.units.numerics import inverse_cholesky, precision
from gpmodels.units.placement import place_global, split_into_regions
from gpmodels.units.transforms import exponential

SMALLEST_AUTOMATIC_BLOCK = 200
"""Mean number of points in a block, unless there are more inducing points than that."""


@dataclass(repr=False, eq=False)
class PICRegressor(SparseRegressor):
    """GP regression with the covariance `Q_XX + blockdiag[K_XX - Q_XX]`, `Q_XX = K_XU K_UU⁻¹ K_UX`.

    Covariances inside a block are exact; those between blocks go through the inducing points. The blocks are
    k-means clusters of the standardised inputs and stay fixed. A new point belongs to the block with the
    nearest centre and has the exact covariance with its training points. Costs O(N (B² + M²)) for blocks of
    B points; k-means does not balance the blocks, so one large cluster can dominate.

    Args:
        num_inducing: M, or `"auto"` for 2.5 % of the points, within 50 and 250.
        num_blocks: Number of blocks, or `"auto"` for blocks of max(M, 200) points on average.
        max_iterations: Most iterations of L-BFGS.
        random_state: Seed of the k-means.
        verbose: 1 shows a progress bar.

    Attributes:
        log_evidence_: log q(y) of the standardised targets, in nats.
        n_blocks_: Number of blocks that have points.
        n_features_in_: D.
        n_iter_: Iterations made.

    Source:
        Thesis (3.3); prediction: Snelson and Ghahramani (2007), "PI(T)C".

    Example:
        >>> X = np.linspace(0.0, 6.0, 60)[:, None]
        >>> model = PICRegressor(num_inducing=4, num_blocks=3, random_state=0).fit(X, np.sin(X[:, 0]))
        >>> bool(abs(model.predict([[1.5]])[0] - np.sin(1.5)) < 0.01)
        True
    """

    num_inducing: int | Literal["auto"] = "auto"
    num_blocks: int | Literal["auto"] = "auto"

    def _train(self, x: Array, y: Array, rng: np.random.Generator, report: Report) -> Trained:
        num_inducing = default_num_inducing(self.num_inducing, len(x))
        block = split_into_regions(x, self._choose_num_blocks(len(x), num_inducing), rng)
        inducing_inputs, lengthscales = place_global(x, num_inducing, rng)
        model = PICModel(x, y, block, inducing_inputs[0], lengthscales[0])
        self.n_blocks_ = model.num_blocks
        optimiser = LBFGS(lambda: -model.log_evidence(), model.trainable_variables)
        num_iterations, _ = optimiser.run(
            self.max_iterations, lambda iteration, loss: report(iteration, -loss, model.posterior)
        )
        return Trained(model.posterior(), float(model.log_evidence()), num_iterations)

    def _choose_num_blocks(self, num_points: int, num_inducing: int) -> int:
        if self.num_blocks == "auto":
            return max(1, num_points // max(num_inducing, SMALLEST_AUTOMATIC_BLOCK))
        return min(num_points, check_count("num_blocks", self.num_blocks, least=1))


class BlockTerms(NamedTuple):
    """A block of B points, whitened by `Λ = K - VᵀV + σ² I = (G_Λᵀ G_Λ)⁻¹`.

    Attributes:
        g: G_Λ, `[B, B]`.
        w: G_Λ Vᵀ, `[B, M]`.
        e: G_Λ y, `[B]`.
    """

    g: tf.Tensor
    w: tf.Tensor
    e: tf.Tensor


class BlockSums(NamedTuple):
    """Sums over the blocks, all that the evidence needs.

    Attributes:
        gram: VΛ⁻¹Vᵀ, `[M, M]`.
        projection: VΛ⁻¹y, `[M]`.
        mahalanobis: yᵀΛ⁻¹y.
        log_det: log |Λ|.
    """

    gram: tf.Tensor
    projection: tf.Tensor
    mahalanobis: tf.Tensor
    log_det: tf.Tensor


class PICModel(gpflow.Module):
    """Parameters, evidence and posterior of PIC for given blocks.

    Args:
        x: Standardised inputs, `[N, D]`.
        y: Standardised targets, `[N]`.
        block: Block of each point, `[N]` integers.
        inducing_inputs: U, `[M, D]`.
        lengthscales: ℓ, `[D]`.

    Example:
        >>> x = np.zeros((1, 1))
        >>> model = PICModel(x, np.zeros(1), np.zeros(1, int), x, np.ones(1))
        >>> round(float(model.log_evidence() + 0.5 * np.log(2.0 * np.pi * 1.1)), 6)
        0.0
    """

    def __init__(
        self,
        x: Array,
        y: Array,
        block: npt.NDArray[Any],
        inducing_inputs: Array,
        lengthscales: Array,
    ) -> None:
        super().__init__()
        order = np.argsort(block, kind="stable")
        self.x, self.y = tf.constant(x[order]), tf.constant(y[order])
        sizes = np.unique(block, return_counts=True)[1]
        self.num_blocks = len(sizes)
        self.first_point = tf.constant(np.concatenate([[0], np.cumsum(sizes)]))
        self.inducing_inputs = gpflow.Parameter(inducing_inputs, dtype=np.float64)
        self.lengthscales = gpflow.Parameter(lengthscales, transform=exponential(), dtype=np.float64)
        self.variance = gpflow.Parameter(1.0, transform=exponential(), dtype=np.float64)
        # GPflow's own lower bound for the noise of its Gaussian likelihood
        positive = gpflow.utilities.positive(lower=1e-6)
        self.noise_variance = gpflow.Parameter(INITIAL_NOISE_VARIANCE, transform=positive, dtype=np.float64)

    @check_shapes("return: []")
    def log_evidence(self) -> tf.Tensor:
        """Return log q(y) in nats, `q(y) = N(0, VᵀV + blockdiag Λ)`, in memory O(N B + N M).

        Source:
            Thesis (3.3) with noise, by the Woodbury identity.
        """
        g = self._inducing_factor()
        num_inducing = self.inducing_inputs.shape[0]

        def add_block(j: tf.Tensor, sums: BlockSums) -> tuple[tf.Tensor, BlockSums]:
            terms = self._block_terms(j, g)
            return j + 1, BlockSums(
                gram=sums.gram + tf.matmul(terms.w, terms.w, transpose_a=True),
                projection=sums.projection + tf.linalg.matvec(terms.w, terms.e, transpose_a=True),
                mahalanobis=sums.mahalanobis + tf.reduce_sum(tf.square(terms.e)),
                log_det=sums.log_det - 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(terms.g))),
            )

        zero = tf.constant(0.0, tf.float64)
        nothing = BlockSums(tf.zeros_like(g), tf.zeros([num_inducing], tf.float64), zero, zero)
        # A loop in the graph: the blocks have unequal sizes, and their number must not make the graph grow.
        _, sums = tf.while_loop(
            lambda j, _: j < self.num_blocks, add_block, (tf.constant(0), nothing), parallel_iterations=1
        )
        # |VᵀV + Λ| = |A| |Λ|;  yᵀ(VᵀV + Λ)⁻¹y = yᵀΛ⁻¹y - |chol(A)⁻¹ VΛ⁻¹y|²,  A = I + VΛ⁻¹Vᵀ
        chol_a = tf.linalg.cholesky(tf.eye(num_inducing, dtype=tf.float64) + sums.gram)
        gamma = tf.linalg.triangular_solve(chol_a, sums.projection[:, None])
        log_det = sums.log_det + 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(chol_a)))
        mahalanobis = sums.mahalanobis - tf.reduce_sum(tf.square(gamma))
        return -0.5 * (self.x.shape[0] * np.log(2.0 * np.pi) + log_det + mahalanobis)

    def posterior(self) -> PICPosterior:
        """Return the arrays that predict, O(N (B + M)) numbers."""
        g = self._inducing_factor()
        terms = [
            BlockTerms(*(part.numpy() for part in self._block_terms(tf.constant(j), g)))
            for j in range(self.num_blocks)
        ]
        a = np.eye(len(g)) + sum(block.w.T @ block.w for block in terms)
        h = tf.linalg.triangular_solve(np.linalg.cholesky(a), np.eye(len(g))).numpy()
        b = h.T @ (h @ sum(block.w.T @ block.e for block in terms))
        points = np.split(self.x.numpy(), self.first_point[1:-1])
        shared = SparsePosterior(
            inducing_inputs=self.inducing_inputs.numpy(),
            lengthscales=self.lengthscales.numpy(),
            variance=float(self.variance.numpy()),
            noise_variance=float(self.noise_variance.numpy()),
            g=g.numpy(),
            h=h,
            b=b,
        )
        blocks = [
            PICBlock(x, block.g, block.w, block.e - block.w @ b)
            for x, block in zip(points, terms, strict=True)
        ]
        return PICPosterior(shared, blocks, np.stack([x.mean(axis=0) for x in points]))

    def _inducing_factor(self) -> tf.Tensor:
        """Return G = chol(K_UU + jitter I)⁻¹, `[M, M]`."""
        k_uu = self._covariance(self.inducing_inputs, self.inducing_inputs)
        return inverse_cholesky(k_uu, jitter=precision("float64").jitter, unit="PIC")

    def _block_terms(self, j: tf.Tensor, g: tf.Tensor) -> BlockTerms:
        rows = slice(self.first_point[j], self.first_point[j + 1])
        x, y = self.x[rows], self.y[rows]
        # V = G K_UX;  Λ = K_XX - VᵀV + σ² I
        v = tf.matmul(g, self._covariance(self.inducing_inputs, x))
        explained = tf.matmul(v, v, transpose_a=True)
        noise = self.noise_variance * tf.eye(tf.shape(x)[0], dtype=tf.float64)
        factor = inverse_cholesky(self._covariance(x, x) - explained + noise, jitter=0.0, unit="a PIC block")
        return BlockTerms(factor, tf.matmul(factor, v, transpose_b=True), tf.linalg.matvec(factor, y))

    def _covariance(self, x: tf.Tensor, u: tf.Tensor) -> tf.Tensor:
        return squared_exponential(
            tf.convert_to_tensor(x),
            tf.convert_to_tensor(u),
            tf.convert_to_tensor(self.lengthscales),
            tf.convert_to_tensor(self.variance),
        )


@dataclass(frozen=True)
class PICBlock:
    """A block's training points and what they add to the inducing values.

    Attributes:
        x: `[B, D]`.
        g: G_Λ, `[B, B]`.
        w: G_Λ Vᵀ, `[B, M]`.
        residual: G_Λ (y - Vᵀb), `[B]`.
    """

    x: Array
    g: Array
    w: Array
    residual: Array


@dataclass(frozen=True)
class PICPosterior:
    """The inducing values' posterior, and for each block its points.

    Attributes:
        shared: What the inducing values say.
        blocks: The J blocks.
        centres: Mean input of each block, `[J, D]`.
    """

    shared: SparsePosterior
    blocks: list[PICBlock]
    centres: Array

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Return mean and variance of the noisy target, `[N]` each, by the block with the nearest centre."""
        mean, variance = np.empty(len(x)), np.empty(len(x))
        nearest = pairwise_distances_argmin(x, self.centres)
        for j in np.unique(nearest):
            members = np.flatnonzero(nearest == j)
            mean[members], variance[members] = self._predict_in_block(self.blocks[j], x[members])
        return mean, variance

    def _predict_in_block(self, block: PICBlock, x: Array) -> tuple[Array, Array]:
        """Condition on all points, with the exact covariance for those of the block.

        With v and the covariance `r = K_bx - V_bᵀv` that the inducing values leave open, `q = G_Λ r` and
        `t = VΛ⁻¹r = Wᵀq`: mean `bᵀv + qᵀ residual`, variance `κ - |v|² + |H(v - t)|² - |q|² + σ²`.
        """
        shared = self.shared
        v = shared.project(x)
        q = block.g @ shared.covariance(block.x, x) - block.w @ v
        unexplained = shared.h @ (v - block.w.T @ q)
        latent = shared.variance - (v**2).sum(axis=0) + (unexplained**2).sum(axis=0) - (q**2).sum(axis=0)
        return shared.b @ v + block.residual @ q, np.maximum(latent, VARIANCE_FLOOR) + shared.noise_variance
