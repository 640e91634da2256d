"""Posterior of a sparse GP through its whitened inducing values, and the kernel it uses.

Symbols: `G = chol(K_UU + jitter I)⁻¹`, `V = G K_UX`, Λ the covariance that a block of points has beside
`VᵀV`, noise included, `A = I + V Λ⁻¹ Vᵀ`, `H = chol(A)⁻¹`, `b = A⁻¹ V Λ⁻¹ y`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.units.kernels import half_negative_squared_distance, kernel_profile
from gpmodels.units.numerics import precision

Array = npt.NDArray[np.float64]

VARIANCE_FLOOR = precision("float64").variance_floor


@check_shapes("x: [N, D]", "u: [M, D]", "lengthscales: [D]", "variance: []", "return: [N, M]")
def squared_exponential(
    x: tf.Tensor, u: tf.Tensor, lengthscales: tf.Tensor, variance: tf.Tensor
) -> tf.Tensor:
    """Return κ(x_n, u_m) of the squared exponential kernel with a lengthscale for each feature.

    Example:
        >>> unit = np.ones(1)
        >>> float(squared_exponential(np.zeros((1, 1)), np.ones((1, 1)), unit, 2.0)[0, 0]) == 2 * np.exp(-0.5)
        True
    """
    scaled_x, scaled_u = (tf.convert_to_tensor(points) / lengthscales for points in (x, u))
    return variance * kernel_profile("squared_exponential")(
        half_negative_squared_distance(scaled_x, scaled_u)
    )


@dataclass(frozen=True)
class SparsePosterior:
    """What the inducing values say about a new target: the FITC prediction.

    Attributes:
        inducing_inputs: U, `[M, D]`.
        lengthscales: ℓ, `[D]`.
        variance: κ(x, x).
        noise_variance: σ².
        g: G, `[M, M]`.
        h: H, `[M, M]`.
        b: Mean of the whitened inducing values, `[M]`.
    """

    inducing_inputs: Array
    lengthscales: Array
    variance: float
    noise_variance: float
    g: Array
    h: Array
    b: Array

    def covariance(self, x: Array, u: Array) -> Array:
        """Return κ(x_n, u_m), `[N, M]`."""
        return squared_exponential(x, u, self.lengthscales, self.variance).numpy()

    def project(self, x: Array) -> Array:
        """Return V at new points, `[M, N]`."""
        return self.g @ self.covariance(self.inducing_inputs, x)

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Return the mean Vᵀb and variance κ(x, x) - |v|² + |Hv|² + σ² of the noisy target, `[N]` each."""
        v = self.project(x)
        latent = self.variance - (v**2).sum(axis=0) + ((self.h @ v) ** 2).sum(axis=0)
        return self.b @ v, np.maximum(latent, VARIANCE_FLOOR) + self.noise_variance
