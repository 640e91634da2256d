"""The Gaussian posterior q(w) of a linear layer: how much of a linear mean's latent functions it leaves open.

    v(x) = Σ_i d_i z_i² + r |φ - V z|² + s,    z = Vᵀ φ,    φ = (x - x̄) / t

for each latent function. x̄ and t are the centre and the scale of the features, V `[D, R]` are orthonormal
directions in which the rows tell the layer something, d their variances, r the prior's variance, in all other
directions, and s the variance of the layer at x̄.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes

MOST_FEATURES = 512
"""A mean of more features has no q(w), unless a head asks. V `[D, D]` then takes at most 1 MiB of float32."""

FloatArray = npt.NDArray[np.floating[Any]]


class WeightCovariance(NamedTuple):
    """Numbers of q(w) for D features, P latent functions and R directions, R at most D, as arrays or tensors.

    Attributes:
        centre: x̄, `[D]`.
        scale: t, `[D]`.
        axes: V, `[D, R]`.
        variance: d, `[P, R]`.
        rest: r, `[P]`.
        offset: s, `[P]`.
    """

    centre: Any
    scale: Any
    axes: Any
    variance: Any
    rest: Any
    offset: Any

    def of(self, x: FloatArray) -> FloatArray:
        """Return v at features `[N, D]`, `[N, P]`, in float64."""
        centred = (x - self.centre) / self.scale
        along = centred @ self.axes
        beside = np.sum((centred - along @ self.axes.T) ** 2, axis=1)
        return np.asarray(along**2 @ self.variance.T + beside[:, None] * self.rest + self.offset)

    def between(self, x: FloatArray) -> FloatArray:
        """Return the covariance of the functions between all rows `[N, D]`, `[P, N, N]`, in float64."""
        centred = (x - self.centre) / self.scale
        along = centred @ self.axes
        beside = centred - along @ self.axes.T
        of_axes = (along * self.variance[:, None]) @ along.T
        return np.asarray(
            of_axes + self.rest[:, None, None] * (beside @ beside.T) + self.offset[:, None, None], np.float64
        )

    def times(self, factor: float) -> "WeightCovariance":
        """Return q(w) of a layer whose logits are all multiplied by a factor."""
        square = factor**2
        return self._replace(
            variance=square * self.variance, rest=square * self.rest, offset=square * self.offset
        )

    def for_latents(self, num_latents: int) -> "WeightCovariance":
        """Return the same for P latent functions.

        A softmax of two classes has the functions -f/2 and f/2 of the one logit f. The heads take them for
        independent; their difference has the variance of f where each has half of it.
        """
        if num_latents == len(self.offset):
            return self
        variance, rest, offset = (
            np.repeat(0.5 * part, num_latents, axis=0) for part in (self.variance, self.rest, self.offset)
        )
        return self._replace(variance=variance, rest=rest, offset=offset)

    def in_units_of(self, centre: FloatArray, scale: FloatArray) -> "WeightCovariance":
        """Return the same for features that are not standardised.

        Args:
            centre: What was subtracted from the features, `[D]`.
            scale: What they were divided by then, `[D]`.
        """
        return self._replace(centre=self.centre * scale + centre, scale=self.scale * scale)


class WeightPosterior(gpflow.Module):
    """v(x) of P latent functions of D features. It is 0 until `assign`, and training leaves it alone.

    Args:
        num_features: D.
        num_latents: P.
        dtype: `"float32"` or `"float64"`.

    Example:
        >>> posterior = WeightPosterior(num_features=3, num_latents=1)
        >>> posterior(tf.ones([2, 3])).numpy().tolist()
        [[0.0], [0.0]]
    """

    def __init__(self, *, num_features: int, num_latents: int, dtype: str = "float32") -> None:
        super().__init__()

        def parameter(value: Any, label: str) -> gpflow.Parameter:
            return gpflow.Parameter(
                np.asarray(value, dtype), dtype=dtype, trainable=False, name=f"posterior_{label}"
            )

        self.centre = parameter(np.zeros(num_features), "centre")
        self.scale = parameter(np.ones(num_features), "scale")
        self.axes = parameter(np.zeros([num_features, num_features]), "axes")
        self.variance = parameter(np.zeros([num_latents, num_features]), "variance")
        self.rest = parameter(np.zeros(num_latents), "rest")
        self.offset = parameter(np.zeros(num_latents), "offset")

    @check_shapes("features: [B, D]", "return: [B, P]")
    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        """Return v at features."""
        return _variance(self._numbers(), features)

    def arrays(self) -> WeightCovariance:
        """Return the numbers of q(w) as they are now."""
        return WeightCovariance(*(getattr(self, name).numpy() for name in WeightCovariance._fields))

    def _numbers(self) -> WeightCovariance:
        names = WeightCovariance._fields
        return WeightCovariance(*(tf.convert_to_tensor(getattr(self, name)) for name in names))

    def assign(self, covariance: WeightCovariance) -> None:
        """Take over a covariance of at most D directions."""
        missing = self.axes.shape[1] - covariance.axes.shape[1]
        filled = covariance._replace(
            axes=np.pad(covariance.axes, [(0, 0), (0, missing)]),
            variance=np.pad(covariance.variance, [(0, 0), (0, missing)]),
        )
        for name, value in filled._asdict().items():
            own = getattr(self, name)
            own.assign(np.asarray(value, own.dtype.as_numpy_dtype))

    def for_inference(self) -> Callable[[tf.Tensor], tf.Tensor] | None:
        """Return v with all of q(w) as constants; None where the layer is certain."""
        numbers = self.arrays()
        if not any(np.any(part) for part in (numbers.variance, numbers.rest, numbers.offset)):
            return None
        used = np.any(numbers.axes != 0.0, axis=0)
        numbers = numbers._replace(axes=numbers.axes[:, used], variance=numbers.variance[:, used])
        constants = WeightCovariance(*map(tf.constant, numbers))
        return lambda features: _variance(constants, features)


def _variance(numbers: WeightCovariance, features: tf.Tensor) -> tf.Tensor:
    """Return v, `[B, P]`."""
    centred = (features - numbers.centre) / numbers.scale
    along = tf.matmul(centred, numbers.axes)  # z, [B, R]
    beside = centred - tf.matmul(along, numbers.axes, transpose_b=True)
    rest = tf.reduce_sum(tf.square(beside), axis=-1, keepdims=True) * numbers.rest
    return tf.matmul(tf.square(along), numbers.variance, transpose_b=True) + rest + numbers.offset
