"""Random functions of the inputs whose products approach a kernel: trigonometric and arc-cosine.

R draws ω ~ N(0, I) and lengthscales ℓ give features Φ(h) with Φ(h) · Φ(h') -> κ(h, h') as R grows:

    squared exponential     Φ(h) = √(σ²/R) [cos(ωᵀ(h/ℓ)), sin(ωᵀ(h/ℓ))],     F = 2R
    arc-cosine, degree d    Φ(h) = √(2σ²/R) max(0, ωᵀ[h/ℓ, b])ᵈ,             F = R

The first approaches σ² exp(-|h - h'|²/(2ℓ²)) (Rahimi and Recht, 2007), the second
σ²/π |x|ᵈ|x'|ᵈ J_d of x = [h/ℓ, b] (Cho and Saul, 2009); b lets the function differ from 0 at h = 0. Cutajar
et al. (2017) print the second without the 2, which halves the kernel.
"""

from typing import Any, NamedTuple

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.units.transforms import exponential

DEGREES = {"arc_cosine0": 0, "arc_cosine1": 1, "arc_cosine2": 2}
FEATURE_KERNELS = ("squared_exponential", *DEGREES)
FREQUENCIES = ("fixed", "learned")


class FeatureMap(NamedTuple):
    """What the features of an input are computed from.

    Attributes:
        projection: ω/ℓ, `[D, R]`.
        offset: b times the last row of ω, `[R]`; 0 for the squared exponential.
        variance: σ², a scalar.
    """

    projection: tf.Tensor
    offset: tf.Tensor
    variance: tf.Tensor


@check_shapes("inputs: [N, D]", "return: [N, F]")
def random_features(feature_map: FeatureMap, inputs: tf.Tensor, kernel: str) -> tf.Tensor:
    """Return Φ(h) of inputs h.

    Args:
        feature_map: ω, ℓ and σ².
        inputs: h.
        kernel: One of `FEATURE_KERNELS`.

    Example:
        >>> parts = FeatureMap(tf.ones([1, 1]), tf.zeros([1]), tf.constant(2.0))
        >>> random_features(parts, tf.constant([[3.0], [-3.0]]), "arc_cosine1").numpy().ravel().tolist()
        [6.0, 0.0]
    """
    projected = tf.matmul(inputs, feature_map.projection) + feature_map.offset  # [N, R]
    size = projected.shape[1]
    if kernel == "squared_exponential":
        both = tf.concat([tf.cos(projected), tf.sin(projected)], axis=1)
        return tf.sqrt(feature_map.variance / size) * both
    positive = tf.nn.relu(projected)
    # Of degree 0 a step, which has no slope.
    powers = {0: tf.sign, 1: tf.identity, 2: tf.square}
    return tf.sqrt(2.0 * feature_map.variance / size) * powers[DEGREES[kernel]](positive)


class RandomFeatures(gpflow.Module):
    """Lengthscales, variance and frequencies of a feature map.

    Args:
        num_inputs: D.
        num_draws: R.
        kernel: One of `FEATURE_KERNELS`.
        frequencies: `"fixed"`: ω is drawn once, and only ℓ is learned. `"learned"`: q(ω) is Gaussian, with ω
            = μ + s ε for one draw of ε, and its divergence from N(0, I) counts.
        kernel_variance: σ² at the start.
        seed: Seed of the draw.
        dtype: `"float32"` or `"float64"`.

    Attributes:
        lengthscales: ℓ, `[D]`.
        variance: σ².
        size: F.
    """

    def __init__(
        self,
        *,
        num_inputs: int,
        num_draws: int,
        kernel: str,
        frequencies: str,
        kernel_variance: float,
        seed: Any,
        dtype: str,
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.size = num_draws * (2 if kernel == "squared_exponential" else 1)
        shape = (num_inputs + (kernel in DEGREES), num_draws)
        self._is_learned = frequencies == "learned"

        def parameter(value: Any, label: str, *, positive: bool = False, trainable: bool = True) -> Any:
            return gpflow.Parameter(
                np.asarray(value, dtype),
                transform=exponential() if positive else None,
                dtype=dtype,
                trainable=trainable,
                name=label,
            )

        self.lengthscales = parameter(np.ones(num_inputs), "lengthscales", positive=True)
        self.variance = parameter(kernel_variance, "variance", positive=True)
        self.draws = parameter(np.random.default_rng(seed).standard_normal(shape), "draws", trainable=False)
        self.bias = parameter(1.0, "bias", positive=True) if kernel in DEGREES else None
        if self._is_learned:
            self.frequency_mean = parameter(np.zeros(shape), "frequency_mean")
            self.frequency_root = parameter(np.ones(shape), "frequency_root", positive=True)

    def feature_map(self) -> FeatureMap:
        """Return ω/ℓ, the offsets and σ²."""
        omega = tf.convert_to_tensor(self.draws)
        if self._is_learned:
            omega = tf.convert_to_tensor(self.frequency_mean) + self.frequency_root * omega
        num_inputs = self.lengthscales.shape[0]
        projection = omega[:num_inputs] / tf.convert_to_tensor(self.lengthscales)[:, None]
        offset = tf.zeros_like(omega[0]) if self.bias is None else self.bias * omega[-1]
        return FeatureMap(projection, offset, tf.convert_to_tensor(self.variance))

    def prior_kl(self) -> tf.Tensor:
        """Return KL(q(ω) ‖ N(0, I)) = Σ ½(μ² + s² - 1) - log s, nats; 0 of fixed frequencies."""
        if not self._is_learned:
            return tf.zeros([], self.draws.dtype)
        mean, root = tf.convert_to_tensor(self.frequency_mean), tf.convert_to_tensor(self.frequency_root)
        return tf.reduce_sum(0.5 * (tf.square(mean) + tf.square(root) - 1.0) - tf.math.log(root))

    def place(self, lengthscales: npt.NDArray[np.floating[Any]], seed: int) -> None:
        """Set ℓ `[D]`, and draw the frequencies anew."""
        self.lengthscales.assign(lengthscales)
        rng = np.random.default_rng(seed)
        self.draws.assign(rng.standard_normal(self.draws.shape))
        if self._is_learned:
            self.frequency_mean.assign(tf.zeros_like(self.frequency_mean))
            self.frequency_root.assign(tf.ones_like(self.frequency_root))
