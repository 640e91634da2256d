"""Whitened sparse Gaussian processes: parameters, KL divergence, and marginals through folded matrices.

One unit has inducing inputs U and P latent functions, one for each class (one in all for two classes and for
regression). Each latent function is a sparse GP with `q(v) = N(m, S)`, `S = L_S L_Sᵀ`, on the whitened
inducing values (u = L v); all share U, and either one ARD kernel κ or each its own. A `SparseUnits`
holds several such units side by side as a leading axis `K`: the same operations fold all of them, and what is
done to each number of their points is one operation for all; only products are one for each unit.

Axes: K units, J kernels of a unit (1 where its latent functions share one, else P), Q latent functions of a
kernel, P = J Q, M inducing points, D features.

Folding: `G = L⁻¹`, `R = L_Sᵀ G` and `α = Gᵀ m` turn every marginal into one product of the kernel
vector k with a matrix of `(1 + Q) M + Q` rows (docs/theory.md):

    mean = kᵀα                      aᵀm of thesis (4.18), (4.19), a = K⁻¹k
    conditional variance = κ(x, x) - |Gk|²          κ - kᵀK⁻¹k
    inducing variance    = |Rk|²                    aᵀSa

The same code serves training (folded in every step, differentiable) and inference (folded once). K is
factorised in float64 always: it costs K·M³, nothing per point, and float32 then loses digits only in the
application.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_probability as tfp
from check_shapes import check_shapes

from gpmodels.units.groups import Groups
from gpmodels.units.kernels import Kernel, make_kernel
from gpmodels.units.numerics import inverse_cholesky, precision
from gpmodels.units.priors import lengthscale_penalty
from gpmodels.units.projection import (
    Projected,
    by_point,
    project_blocks,
    project_groups,
    scaled_points,
    squares_per_latent,
    with_bias_column,
)
from gpmodels.units.transforms import exponential, lower_triangle


class FoldedUnits(NamedTuple):
    """What a marginal needs of K units, and nothing else.

    Attributes:
        inducing: U, centred and divided by the lengthscales, `[K, J, M, E]`, E = D, or D + 1 with a bias.
        centre: Mean of U, `[K, E]`, taken off before scaling so that distances keep their digits; 0 for a
            kernel that is not stationary.
        inverse_lengthscales: 1/ℓ, `[K, J, E]`, and the bias as the last column of a kernel that has one.
        variance: σ² = κ(x, x) of a stationary kernel, `[K, J]`.
        projection: Rows `σ² [G; R_1; ..; R_Q; α_1ᵀ; ..; α_Qᵀ]`, `[K, J, (1 + Q) M + Q, M]`: k = σ² times
            the correlation, and the factor costs nothing here.
    """

    inducing: tf.Tensor
    centre: tf.Tensor
    inverse_lengthscales: tf.Tensor
    variance: tf.Tensor
    projection: tf.Tensor


class UnitMarginal(NamedTuple):
    """Marginal of a unit at some points, its variance in the two parts that the HGP combines.

    Attributes:
        mean: aᵀm, `[..., P]`.
        conditional_variance: κ(x, x) - kᵀK⁻¹k, what the inducing values leave open, `[..., P]`.
        inducing_variance: aᵀSa, what is open about the inducing values, `[..., P]`.
    """

    mean: tf.Tensor
    conditional_variance: tf.Tensor
    inducing_variance: tf.Tensor


class Whitening(NamedTuple):
    """K units as `whitened_features` takes them; the posterior q plays no part.

    Attributes:
        inducing: U, centred and divided by the lengthscales, `[K, J, M, E]`.
        centre: Mean of U, `[K, E]`.
        inverse_lengthscales: 1/ℓ, `[K, J, E]`.
        variance: σ², `[K, J]`.
        factor: G, `[K, J, M, M]`.
    """

    inducing: tf.Tensor
    centre: tf.Tensor
    inverse_lengthscales: tf.Tensor
    variance: tf.Tensor
    factor: tf.Tensor


@check_shapes("x: [N, D]", "return[0]: [J, N, M]", "return[1]: [J, N]")
def whitened_features(
    whitening: Whitening, unit: int, x: tf.Tensor, kernel: Kernel
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return b = G k of one unit at its points, and the conditional variance κ(x, x) - |b|².

    The function at x is bᵀv plus the conditional part, so that q(v) enters through b alone.
    """
    inducing, centre, inverse_lengthscales, variance, g = (part[unit] for part in whitening)
    scaled = tf.squeeze(
        scaled_points(tf.expand_dims(x, 0), centre[None], inverse_lengthscales[None], kernel), 0
    )
    k_ux = variance[:, None, None] * kernel.cross(scaled, inducing)
    b = tf.matmul(k_ux, g, transpose_b=True)
    return b, variance[:, None] * kernel.diagonal(scaled) - tf.reduce_sum(tf.square(b), axis=-1)


class InducingUnits(gpflow.Module):
    """Kernels and inducing inputs of K units of equal size, without any posterior.

    Args:
        num_units: K.
        num_inducing: M inducing points for each unit.
        num_features: D.
        num_kernels: J, kernels of each unit.
        kernel: Name of the kernel, see `gpmodels.units.kernels.make_kernel`.
        kernel_depth: Layers of an arc-cosine kernel.
        lengthscale_spread: s of the prior that holds the lengthscales of a kernel together, see
            `gpmodels.units.priors`; None leaves each of them free.
        kernel_variance: σ² at the start.
        dtype: `"float32"` or `"float64"`.
        role: What messages call these units, e.g. `"global unit"`.
        fixed: Names of the parameters (as below) that training leaves alone.

    Attributes:
        inducing_inputs: U, `[K, M, D]`.
        lengthscales: ℓ, `[K, J, D]`, kept positive by a log transform: one step of an optimiser is then a
            relative change whatever the scale of the features.
        variance: σ², `[K, J]`, likewise.
        bias: b of an arc-cosine kernel, `[K, J]`, likewise; None of the others.
        typical_lengthscales: t, `[K, D]`, where the lengthscales were placed; None without a prior.

    Example:
        >>> units = InducingUnits(num_units=1, num_inducing=2, num_features=3, num_kernels=1)
        >>> units.whitening().factor.shape
        TensorShape([1, 1, 2, 2])
    """

    def __init__(  # noqa: PLR0913 - so many things make a unit
        self,
        *,
        num_units: int,
        num_inducing: int,
        num_features: int,
        num_kernels: int,
        kernel: str = "squared_exponential",
        kernel_depth: int = 1,
        lengthscale_spread: float | None = None,
        kernel_variance: float = 1.0,
        dtype: str = "float64",
        role: str = "inducing units",
        fixed: Collection[str] = (),
    ) -> None:
        super().__init__()
        self.role = role
        self.num_units = num_units
        self.num_inducing = num_inducing
        self.num_kernels = num_kernels
        self.kernel = make_kernel(kernel, kernel_depth, dtype)
        self.jitter = precision(dtype).jitter
        self._dtype = dtype
        self._fixed = fixed
        k, m, d, j = num_units, num_inducing, num_features, num_kernels
        # Distinct placeholders until `place` is called: coincident inducing inputs would make K singular.
        spread = np.linspace(-1.0, 1.0, m)[None, :, None] * np.ones((k, 1, d))
        self.inducing_inputs = self._parameter(spread, "inducing_inputs")
        self.lengthscales = self._parameter(np.ones((k, j, d)), "lengthscales", exponential())
        self.lengthscale_spread = lengthscale_spread
        self.typical_lengthscales = (
            None
            if lengthscale_spread is None
            else self._parameter(np.ones((k, d)), "typical_lengthscales", trainable=False)
        )
        variance = np.full((k, j), kernel_variance)
        self.variance = self._parameter(variance, "variance", exponential())
        self.bias = self._parameter(np.ones((k, j)), "bias", exponential()) if self.kernel.has_bias else None

    def _parameter(
        self,
        value: npt.NDArray[np.floating[Any]],
        label: str,
        transform: tfp.bijectors.Bijector | None = None,
        *,
        trainable: bool = True,
    ) -> gpflow.Parameter:
        """Return a parameter; its type is set here, since a variable on several devices takes none later."""
        return gpflow.Parameter(
            value.astype(self._dtype),
            transform=transform,
            dtype=self._dtype,
            trainable=trainable and label not in self._fixed,
            name=label,
        )

    def lengthscale_penalty(self) -> tf.Tensor:
        """Return what the lengthscales' prior subtracts from the objective, nats, `[K]`; 0 without one."""
        if self.lengthscale_spread is None or self.typical_lengthscales is None:
            return tf.zeros([self.num_units], self.lengthscales.dtype)
        lengthscales = tf.convert_to_tensor(self.lengthscales)
        typical = tf.convert_to_tensor(self.typical_lengthscales)
        return lengthscale_penalty(lengthscales, typical, self.lengthscale_spread)

    def whitening(self) -> Whitening:
        """Return what `whitened_features` needs of all units, with one factorisation for all."""
        scaled, centre, inverse_lengthscales, g = self._factorised()
        return Whitening(scaled, centre, inverse_lengthscales, tf.convert_to_tensor(self.variance), g)

    def _factorised(self) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return U scaled and centred, its centre, 1/ℓ, and G."""
        inputs = tf.convert_to_tensor(self.inducing_inputs)
        inverse_lengthscales = 1.0 / tf.convert_to_tensor(self.lengthscales)
        if self.bias is not None:
            bias = tf.convert_to_tensor(self.bias)[..., None]
            inverse_lengthscales = tf.concat([inverse_lengthscales, bias], axis=-1)
        centre = tf.reduce_mean(with_bias_column(inputs, self.kernel), axis=1)
        if not self.kernel.is_centred:
            centre = tf.zeros_like(centre)
        scaled = scaled_points(inputs, centre, inverse_lengthscales, self.kernel)
        # K = κ(U, U);  G = chol(K + jitter)⁻¹
        variance = tf.cast(tf.convert_to_tensor(self.variance), tf.float64)
        k_uu = variance[..., None, None] * self.kernel.gram(scaled)
        g = inverse_cholesky(k_uu, jitter=self.jitter, unit=self.role, dtype=inputs.dtype)
        return scaled, centre, inverse_lengthscales, g

    def place(
        self, inducing_inputs: npt.NDArray[np.floating[Any]], lengthscales: npt.NDArray[np.floating[Any]]
    ) -> None:
        """Set the inducing inputs `[K, M, D]` and the lengthscales `[K, D]` of all kernels of a unit.

        The lengthscales are from then on the typical ones of their prior, if there is one.
        """
        self.inducing_inputs.assign(inducing_inputs)
        self.lengthscales.assign(np.repeat(lengthscales[:, None], self.num_kernels, axis=1))
        if self.typical_lengthscales is not None:
            self.typical_lengthscales.assign(lengthscales)


class SparseUnits(InducingUnits):
    """Parameters of K whitened sparse GP units of equal size.

    Args:
        num_latents: P latent functions of each unit.
        shared_kernel: Whether the latent functions of a unit share one kernel (J = 1) or have one each
            (J = P), which costs P factorisations instead of one.
        **kwargs: See `InducingUnits`, whose attributes these units have too.

    Attributes:
        q_mean: m, `[K, P, M]`.
        q_sqrt: L_S, `[K, P, M, M]`, lower triangular.

    Example:
        >>> units = SparseUnits(num_units=1, num_inducing=2, num_features=3)
        >>> float(units.prior_kl()[0])
        0.0
    """

    def __init__(self, *, num_latents: int = 1, shared_kernel: bool = True, **kwargs: Any) -> None:
        super().__init__(num_kernels=1 if shared_kernel else num_latents, **kwargs)
        self.num_latents = num_latents
        k, p, m = self.num_units, num_latents, self.num_inducing
        self.q_mean = self._parameter(np.zeros((k, p, m)), "q_mean")
        triangle = lower_triangle()
        self.q_sqrt = self._parameter(np.tile(np.eye(m), (k, p, 1, 1)), "q_sqrt", triangle)
        with tf.init_scope():  # Keras may be tracing when it builds a layer
            positions = triangle.forward(np.arange(m * (m + 1) // 2, dtype=np.int32)).numpy()
        self._diagonal_of_packed = np.diag(positions)

    @property
    def posterior_parameters(self) -> tuple[gpflow.Parameter, ...]:
        """The parameters of q(v)."""
        return self.q_mean, self.q_sqrt

    @check_shapes("return: [K]")
    def prior_kl(self) -> tf.Tensor:
        """Return KL(q(v) ‖ N(0, I)) = Σ ½(|m|² + |L_S|²_F - M - log|S|) of each unit, nats."""
        # L_S by its packed entries: half as many as the matrix has.
        packed = tf.convert_to_tensor(self.q_sqrt.unconstrained_variable)
        diagonal = tf.gather(packed, self._diagonal_of_packed, axis=-1)
        log_det = tf.reduce_sum(tf.math.log(tf.square(diagonal)), axis=[-2, -1])
        trace = tf.reduce_sum(tf.square(packed), axis=[-2, -1])
        mahalanobis = tf.reduce_sum(tf.square(tf.convert_to_tensor(self.q_mean)), axis=[-2, -1])
        dimension = tf.cast(self.num_latents * self.num_inducing, trace.dtype)
        return 0.5 * (mahalanobis + trace - dimension - log_det)

    def fold(self) -> FoldedUnits:
        """Return the matrices of the marginals: K and its factor in float64, all else in the units' dtype.

        Raises:
            tf.errors.InvalidArgumentError: A covariance cannot be factorised; the message names the unit.
        """
        scaled, centre, inverse_lengthscales, g = self._factorised()
        variance = tf.convert_to_tensor(self.variance)
        projection = variance[..., None, None] * tf.concat([g, *self._project_posterior(g)], axis=2)
        return FoldedUnits(scaled, centre, inverse_lengthscales, variance, projection)

    def _project_posterior(self, g: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return R = L_Sᵀ G `[K, J, Q M, M]` and αᵀ = mᵀ G `[K, J, Q, M]` from G `[K, J, M, M]`."""
        k, j, m = self.num_units, self.num_kernels, self.num_inducing
        q = self.num_latents // j
        # R = L_Sᵀ G: the Q transposed roots of a kernel, one below the other
        roots = tf.linalg.matrix_transpose(tf.convert_to_tensor(self.q_sqrt))
        r = tf.matmul(tf.reshape(roots, [k, j, q * m, m]), g)
        # αᵀ = mᵀ G
        alpha = tf.matmul(tf.reshape(tf.convert_to_tensor(self.q_mean), [k, j, q, m]), g)
        return r, alpha

    def marginal(self, folded: FoldedUnits, x: tf.Tensor) -> UnitMarginal:
        """Return the marginals at `x` under these units' kernel; see `folded_marginal`."""
        return folded_marginal(folded, x, self.kernel)


@check_shapes("x: [K, N, D]")
def folded_marginal(folded: FoldedUnits, x: tf.Tensor, kernel: Kernel) -> UnitMarginal:
    """Return the marginal of unit `i` at the points `x[i]`, in two matrix products for each unit and kernel.

    Args:
        folded: The units.
        x: One block of points for each unit, `[K, N, D]`.
        kernel: The units' kernel.

    Returns:
        Mean and the two parts of the variance, each `[K, N, P]`. The conditional variance is not floored
        here.

    Source:
        Thesis (4.18) and (4.19) with a = K⁻¹k, whitened.
    """
    return _marginal(folded, project_blocks(folded, x, kernel))


@check_shapes("x: [B, D]")
def grouped_marginal(folded: FoldedUnits, x: tf.Tensor, groups: Groups, kernel: Kernel) -> UnitMarginal:
    """Return the marginal at each point of the unit that answers for it, as `folded_marginal` does.

    Args:
        folded: The units.
        x: Points, sorted by unit.
        groups: How they are sorted.
        kernel: The units' kernel.

    Returns:
        Mean and the two parts of the variance, each `[B, P]`, sorted as the points are.
    """
    marginal = _marginal(folded, project_groups(folded, x, groups, kernel))
    return UnitMarginal(*(tf.squeeze(part, 0) for part in marginal))


def _marginal(folded: FoldedUnits, projected: Projected) -> UnitMarginal:
    """Return the marginals from the projected points, `[K, N, P]`."""
    num_kernels, m = folded.inducing.shape[1:3]
    q = (folded.projection.shape[2] - m) // (m + 1)
    # [Gk | R_1 k .. R_Q k | α_1ᵀk .. α_Qᵀk]; split, not sliced: its gradient is a single concatenation.
    gk, rk, mean = tf.split(projected.rows, [m, q * m, q], axis=-1)
    explained = tf.reduce_sum(tf.square(gk), axis=-1, keepdims=True)
    conditional_variance = projected.prior_variance - explained
    inducing_variance = squares_per_latent(rk, q)
    if q > 1:
        conditional_variance = tf.repeat(conditional_variance, q, axis=-1)
    parts = (mean, conditional_variance, inducing_variance)
    return UnitMarginal(*(by_point(part, num_kernels) for part in parts))
