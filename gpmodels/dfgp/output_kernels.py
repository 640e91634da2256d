"""Kernels of the DFGP's output layer: hyper-parameters, inducing covariance, and Ψ statistics.

Only kernels whose expectations under a Gaussian have a closed form, see `gpmodels.units.psi_statistics`. All
computing is in float64, whatever the type of the parameters: products with K_ZZ⁻¹ amplify the rounding of Ψ2
by the condition of K_ZZ, and there is little to compute.

Axes: P output functions, J kernels (1 where the functions share one, else P), M inducing inputs, ν hidden
units.
"""

import abc
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_probability as tfp
from check_shapes import check_shapes

from gpmodels.units.kernels import pairwise_half_negative_squared_distance
from gpmodels.units.psi_statistics import closed_form
from gpmodels.units.transforms import exponential, lower_triangle

FloatArray = npt.NDArray[np.floating[Any]]


class OutputKernel(gpflow.Module, abc.ABC):
    """Base class; get one by `make_output_kernel`.

    Args:
        name: Key of `gpmodels.units.psi_statistics.CLOSED_FORMS`.
        num_kernels: J.
        num_hidden: ν.
        dtype: Type of the parameters.
    """

    def __init__(self, name: str, num_kernels: int, num_hidden: int, dtype: str) -> None:
        super().__init__()
        self.kernel_name = name
        self.num_kernels = num_kernels
        self.num_hidden = num_hidden
        self._dtype = dtype

    def _parameter(
        self, value: FloatArray, label: str, transform: tfp.bijectors.Bijector | None = None
    ) -> gpflow.Parameter:
        return gpflow.Parameter(value.astype(self._dtype), transform=transform, dtype=self._dtype, name=label)

    @abc.abstractmethod
    @check_shapes("inducing: [P, M, R]", "return: [P, M, M]")
    def covariance(self, inducing: tf.Tensor) -> tf.Tensor:
        """Return K_ZZ of float64 inducing inputs."""

    @abc.abstractmethod
    def hyper_parameters(self, num_outputs: int) -> tuple[tf.Tensor, ...]:
        """Return the arguments of the closed form after the inducing inputs, each `[P, ...]` in float64."""

    @abc.abstractmethod
    def relevance(self) -> FloatArray:
        """Return what a squared difference in each hidden unit counts for in the kernel, `[J, ν]`."""

    @abc.abstractmethod
    def place(self, lengthscales: FloatArray) -> None:
        """Start from typical distances `[ν]` of the hidden units' values."""

    def lengthscales(self) -> FloatArray:
        """Return the difference in each hidden unit that counts as one, `[J, ν]`."""
        return 1.0 / np.sqrt(self.relevance())

    def _for_outputs(self, parameter: gpflow.Parameter, num_outputs: int) -> tf.Tensor:
        value = tf.cast(tf.convert_to_tensor(parameter), tf.float64)
        return tf.repeat(value, num_outputs // self.num_kernels, axis=0)


class _GaussianKernel(OutputKernel):
    """κ = σ² exp(-½ |W (b - z)|²), the kinds differing in W."""

    def __init__(self, name: str, num_kernels: int, num_hidden: int, dtype: str) -> None:
        super().__init__(name, num_kernels, num_hidden, dtype)
        self.variance = self._parameter(np.ones(num_kernels), "variance", exponential())

    @abc.abstractmethod
    def _scaled(self, inducing: tf.Tensor) -> tf.Tensor:
        """Return W z `[P, M, ν]`."""

    def covariance(self, inducing: tf.Tensor) -> tf.Tensor:
        """Return σ² exp(-½ |W z - W z'|²)."""
        variance = self._for_outputs(self.variance, inducing.shape[0])[:, None, None]
        return variance * tf.exp(pairwise_half_negative_squared_distance(self._scaled(inducing)))


class RBFKernel(_GaussianKernel):
    """W = diag 1/ℓ: isotropic (`"rbf"`), or with a lengthscale for each hidden unit (`"ard"`).

    Attributes:
        lengthscale: ℓ, `[J, 1]` or `[J, ν]`.
        variance: σ², `[J]`.

    Example:
        >>> RBFKernel("ard", 1, 2, "float64").covariance(tf.zeros([1, 1, 2], tf.float64)).numpy().tolist()
        [[[1.0]]]
    """

    def __init__(self, name: str, num_kernels: int, num_hidden: int, dtype: str) -> None:
        super().__init__(name, num_kernels, num_hidden, dtype)
        width = 1 if name == "rbf" else num_hidden
        self.lengthscale = self._parameter(np.ones([num_kernels, width]), "lengthscales", exponential())

    def _expanded(self, num_outputs: int) -> tf.Tensor:
        value = self._for_outputs(self.lengthscale, num_outputs)
        return tf.repeat(value, self.num_hidden // value.shape[1], axis=1)

    def _scaled(self, inducing: tf.Tensor) -> tf.Tensor:
        return inducing / self._expanded(inducing.shape[0])[:, None]

    def hyper_parameters(self, num_outputs: int) -> tuple[tf.Tensor, ...]:
        """Return the lengthscales ℓ and the variance σ²."""
        return self._expanded(num_outputs), self._for_outputs(self.variance, num_outputs)

    def relevance(self) -> FloatArray:
        """Return 1/ℓ² of each hidden unit."""
        return np.broadcast_to(1.0 / self.lengthscale.numpy() ** 2, [self.num_kernels, self.num_hidden])

    def place(self, lengthscales: FloatArray) -> None:
        """Set ℓ to the typical distances, to their geometric mean where there is one ℓ."""
        start = np.exp(np.log(lengthscales).mean()) if self.lengthscale.shape[1] == 1 else lengthscales
        self.lengthscale.assign(np.broadcast_to(start, self.lengthscale.shape))


class FullKernel(_GaussianKernel):
    """W = R⁻¹ for a full matrix J = R Rᵀ: a metric on the hidden layer, learned.

    Attributes:
        inverse_root: R⁻¹, lower triangular, `[J, ν, ν]`. It and not R is the parameter, so that nothing has
            to be inverted.
        variance: σ², `[J]`.

    Example:
        >>> FullKernel("full", 1, 2, "float64").relevance().tolist()
        [[1.0, 1.0]]
    """

    def __init__(self, name: str, num_kernels: int, num_hidden: int, dtype: str) -> None:
        super().__init__(name, num_kernels, num_hidden, dtype)
        identity = np.tile(np.eye(num_hidden), (num_kernels, 1, 1))
        self.inverse_root = self._parameter(identity, "inverse_root", lower_triangle())

    def _scaled(self, inducing: tf.Tensor) -> tf.Tensor:
        root = self._for_outputs(self.inverse_root, inducing.shape[0])
        return tf.matmul(inducing, root, transpose_b=True)

    def hyper_parameters(self, num_outputs: int) -> tuple[tf.Tensor, ...]:
        """Return the inverse root R⁻¹ and the variance σ²."""
        return tuple(self._for_outputs(value, num_outputs) for value in (self.inverse_root, self.variance))

    def relevance(self) -> FloatArray:
        """Return the diagonal of J⁻¹ = R⁻ᵀR⁻¹."""
        return np.sum(self.inverse_root.numpy() ** 2, axis=1)

    def place(self, lengthscales: FloatArray) -> None:
        """Set R to the diagonal of the typical distances."""
        start = np.diag(1.0 / lengthscales)
        self.inverse_root.assign(np.broadcast_to(start, self.inverse_root.shape))


class LinearKernel(OutputKernel):
    """κ = Σ_r w_r b_r z_r: the covariance of f is B diag(w) Bᵀ, a Wishart process for w = 1.

    Attributes:
        weights: w, `[J, ν]`.

    Source:
        Paper, theorem 1 (i). The inverse Wishart case (ii) is left out: its "kernel" between two points is an
        entry of (B Bᵀ)⁻¹, which depends on all other points too.

    Example:
        >>> LinearKernel("linear", 1, 2, "float64").covariance(tf.eye(2, dtype=tf.float64)[None])[0].numpy()
        array([[1., 0.],
               [0., 1.]])
    """

    def __init__(self, name: str, num_kernels: int, num_hidden: int, dtype: str) -> None:
        super().__init__(name, num_kernels, num_hidden, dtype)
        start = np.ones([num_kernels, num_hidden])
        self.weights = self._parameter(start, "variance", exponential())

    def covariance(self, inducing: tf.Tensor) -> tf.Tensor:
        """Return Z diag(w) Zᵀ."""
        weights = self._for_outputs(self.weights, inducing.shape[0])[:, None]
        return tf.matmul(inducing * weights, inducing, transpose_b=True)

    def hyper_parameters(self, num_outputs: int) -> tuple[tf.Tensor, ...]:
        """Return the weights w."""
        return (self._for_outputs(self.weights, num_outputs),)

    def relevance(self) -> FloatArray:
        """Return the weights w."""
        return self.weights.numpy()

    def place(self, lengthscales: FloatArray) -> None:
        """Set w = 1/(ν ℓ²), so that f starts with a variance around 1."""
        self.weights.assign(np.broadcast_to(1.0 / (self.num_hidden * lengthscales**2), self.weights.shape))


_KERNELS: dict[str, type[OutputKernel]] = {
    "rbf": RBFKernel,
    "ard": RBFKernel,
    "full": FullKernel,
    "linear": LinearKernel,
}

OUTPUT_KERNELS = tuple(_KERNELS)


def make_output_kernel(name: str, *, num_kernels: int, num_hidden: int, dtype: str) -> OutputKernel:
    """Return the output kernel of a name.

    Args:
        name: `"rbf"`, `"ard"`, `"full"` or `"linear"`.
        num_kernels: J.
        num_hidden: ν.
        dtype: `"float32"` or `"float64"`.

    Raises:
        ValueError: The kernel's expectations have no closed form.

    Example:
        >>> make_output_kernel("rbf", num_kernels=1, num_hidden=3, dtype="float64").lengthscales().tolist()
        [[1.0, 1.0, 1.0]]
    """
    closed_form(name)
    return _KERNELS[name](name, num_kernels, num_hidden, dtype)
