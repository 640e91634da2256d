"""Whitened sparse Gaussian processes: parameters, KL divergence, and marginals through folded matrices.

One unit is a sparse GP with inducing inputs U, an ARD kernel κ and ``q(v) = N(m, S)``, ``S = L_S L_Sᵀ``, on
the whitened inducing values (u = L v). A :class:`SparseUnits` holds several such units side by side as a
leading axis ``K`` (units), so that no graph grows with their number.

Folding: ``G = L⁻¹``, ``R = L_Sᵀ G`` and ``α = Gᵀ m`` turn every marginal into one product of the kernel
vector k with an ``M x (2M + 1)`` matrix (DESIGN 4.2):

    mean = kᵀα                      aᵀm of thesis (4.18), (4.19), a = K⁻¹k
    conditional variance = κ(x, x) - |Gk|²          κ - kᵀK⁻¹k
    inducing variance    = |Rk|²                    aᵀSa

The same code serves training (folded in every step, differentiable) and inference (folded once). K is
factorised in float64 always: it costs K·M³, nothing per point, and float32 then loses digits only in the
application.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_probability as tfp
from check_shapes import check_shapes

from gpmodels.kernels import (
    Profile,
    half_negative_squared_distance,
    kernel_profile,
    pairwise_half_negative_squared_distance,
)
from gpmodels.numerics import inverse_cholesky, precision


class FoldedUnits(NamedTuple):
    """What a marginal needs of K units, and nothing else.

    Attributes:
        inducing: U, centred and divided by the lengthscales, ``[K, M, D]``.
        centre: Mean of U, ``[K, D]``, taken off before scaling so that distances keep their digits.
        inverse_lengthscales: 1/ℓ, ``[K, D]``.
        variance: σ² = κ(x, x), ``[K]``.
        projection: Rows ``σ² [G; R; αᵀ]``, ``[K, 2M + 1, M]``: k = σ² times the correlation, and the factor
            costs nothing here.
    """

    inducing: tf.Tensor
    centre: tf.Tensor
    inverse_lengthscales: tf.Tensor
    variance: tf.Tensor
    projection: tf.Tensor


class UnitMarginal(NamedTuple):
    """Marginal of a unit at some points, its variance in the two parts that the HGP combines.

    Attributes:
        mean: aᵀm, ``[...]``.
        conditional_variance: κ(x, x) - kᵀK⁻¹k, what the inducing values leave open, ``[...]``.
        inducing_variance: aᵀSa, what is open about the inducing values, ``[...]``.
    """

    mean: tf.Tensor
    conditional_variance: tf.Tensor
    inducing_variance: tf.Tensor


class SparseUnits(gpflow.Module):
    """Parameters of K whitened sparse GP units of equal size.

    Args:
        num_units: K.
        num_inducing: M inducing points for each unit.
        num_features: D.
        kernel: Name of the kernel, see :func:`gpmodels.kernels.kernel_profile`.
        dtype: ``"float32"`` or ``"float64"``.
        role: What messages call these units, e.g. ``"global unit"``.

    Attributes:
        inducing_inputs: U, ``[K, M, D]``.
        lengthscales: ℓ, ``[K, D]``, kept positive by a log transform: one step of an optimiser is then a
            relative change whatever the scale of the features.
        variance: σ², ``[K]``, likewise.
        q_mean: m, ``[K, M]``.
        q_sqrt: L_S, ``[K, M, M]``, lower triangular.

    Example:
        >>> units = SparseUnits(num_units=1, num_inducing=2, num_features=3)
        >>> float(units.prior_kl()[0])
        0.0
    """

    def __init__(
        self,
        *,
        num_units: int,
        num_inducing: int,
        num_features: int,
        kernel: str = "squared_exponential",
        dtype: str = "float64",
        role: str = "sparse units",
    ) -> None:
        super().__init__()
        self.role = role
        self.num_units = num_units
        self.num_inducing = num_inducing
        self.profile = kernel_profile(kernel)
        self.jitter = precision(dtype).jitter
        k, m, d = num_units, num_inducing, num_features

        def parameter(
            value: npt.NDArray[np.floating[Any]], label: str, transform: tfp.bijectors.Bijector | None = None
        ) -> gpflow.Parameter:
            return gpflow.Parameter(value.astype(dtype), transform=transform, dtype=dtype, name=label)

        # Distinct placeholders until `place` is called: coincident inducing inputs would make K singular.
        spread = np.linspace(-1.0, 1.0, m)[None, :, None] * np.ones((k, 1, d))
        self.inducing_inputs = parameter(spread, "inducing_inputs")
        self.lengthscales = parameter(np.ones((k, d)), "lengthscales", tfp.bijectors.Exp())
        self.variance = parameter(np.ones(k), "variance", tfp.bijectors.Exp())
        self.q_mean = parameter(np.zeros((k, m)), "q_mean")
        triangular = gpflow.utilities.triangular()
        self.q_sqrt = parameter(np.tile(np.eye(m), (k, 1, 1)), "q_sqrt", triangular)
        with tf.init_scope():  # Keras may be tracing when it builds a layer
            positions = triangular.forward(np.arange(m * (m + 1) // 2, dtype=np.int32)).numpy()
        self._diagonal_of_packed = np.diag(positions)

    @check_shapes("return: [K]")
    def prior_kl(self) -> tf.Tensor:
        """KL(q(v) ‖ N(0, I)) of each unit, in nats: ½(|m|² + |L_S|²_F - M - log|S|)."""
        # L_S by its packed entries: half as many as the matrix has.
        packed = tf.convert_to_tensor(self.q_sqrt.unconstrained_variable)
        diagonal = tf.gather(packed, self._diagonal_of_packed, axis=-1)
        log_det = tf.reduce_sum(tf.math.log(tf.square(diagonal)), axis=-1)
        trace = tf.reduce_sum(tf.square(packed), axis=-1)
        mahalanobis = tf.reduce_sum(tf.square(tf.convert_to_tensor(self.q_mean)), axis=-1)
        return 0.5 * (mahalanobis + trace - tf.cast(self.num_inducing, trace.dtype) - log_det)

    def fold(self) -> FoldedUnits:
        """The matrices of the marginals: K and its factor in float64, all else in the units' dtype.

        Raises:
            tf.errors.InvalidArgumentError: A covariance cannot be factorised; the message names the unit.
        """
        inputs, lengthscales = (
            tf.convert_to_tensor(self.inducing_inputs),
            tf.convert_to_tensor(self.lengthscales),
        )
        variance = tf.convert_to_tensor(self.variance)
        centre = tf.reduce_mean(inputs, axis=1)
        inverse_lengthscales = 1.0 / lengthscales
        scaled = (inputs - centre[:, None, :]) * inverse_lengthscales[:, None, :]
        # K = κ(U, U);  G = chol(K + jitter)⁻¹
        correlation = self.profile(pairwise_half_negative_squared_distance(scaled))
        k_uu = tf.cast(variance, tf.float64)[:, None, None] * correlation
        g = inverse_cholesky(k_uu, jitter=self.jitter, unit=self.role, dtype=inputs.dtype)
        # R = L_Sᵀ G;  αᵀ = mᵀ G
        r = tf.matmul(tf.convert_to_tensor(self.q_sqrt), g, transpose_a=True)
        alpha = tf.matmul(tf.convert_to_tensor(self.q_mean)[:, None, :], g)
        projection = variance[:, None, None] * tf.concat([g, r, alpha], axis=1)
        return FoldedUnits(scaled, centre, inverse_lengthscales, variance, projection)

    def place(
        self, inducing_inputs: npt.NDArray[np.floating[Any]], lengthscales: npt.NDArray[np.floating[Any]]
    ) -> None:
        """Set the inducing inputs ``[K, M, D]`` and the lengthscales ``[K, D]``."""
        self.inducing_inputs.assign(inducing_inputs)
        self.lengthscales.assign(lengthscales)

    def marginal(self, folded: FoldedUnits, x: tf.Tensor) -> UnitMarginal:
        """Marginals at ``x`` under these units' kernel; see :func:`folded_marginal`."""
        return folded_marginal(folded, x, self.profile)


@check_shapes("x: [K, N, D]")
def folded_marginal(folded: FoldedUnits, x: tf.Tensor, profile: Profile) -> UnitMarginal:
    """Marginal of unit ``i`` at the points ``x[i]``, in two batched matrix products.

    Args:
        folded: Units, or units gathered per tile of points.
        x: One block of points for each unit, ``[K, N, D]``.
        profile: The kernel's profile.

    Returns:
        Mean and the two parts of the variance, each ``[K, N]``. The conditional variance is not floored here.

    Source:
        Thesis (4.18) and (4.19) with a = K⁻¹k, whitened.
    """
    scaled = (x - folded.centre[:, None, :]) * folded.inverse_lengthscales[:, None, :]
    correlation = profile(half_negative_squared_distance(scaled, folded.inducing))
    num_inducing = folded.inducing.shape[1]
    # [Gk | Rk | αᵀk]; split rather than sliced, because its gradient is a single concatenation.
    projected = tf.matmul(correlation, folded.projection, transpose_b=True)
    gk, rk, mean = tf.split(projected, [num_inducing, num_inducing, 1], axis=-1)
    explained = tf.reduce_sum(tf.square(gk), axis=-1)
    inducing_variance = tf.reduce_sum(tf.square(rk), axis=-1)
    return UnitMarginal(mean[..., 0], folded.variance[:, None] - explained, inducing_variance)
