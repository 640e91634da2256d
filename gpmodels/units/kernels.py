"""Kernels with automatic relevance determination, evaluated for many units at once.

GPflow's kernel objects hold one set of hyper-parameters each; a head has one per expert. Here the units are a
leading axis, so that what is done to each number is one operation for all of them. The formulas are GPflow's
and are tested against it.

Symbols: `r² = Σ_d (x_d - u_d)² / ℓ_d²` is the scaled squared distance, `h = -r²/2`.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf
from check_shapes import check_shapes, inherit_check_shapes

from gpmodels.units.arc_cosine import length_part, normalised_kernel
from gpmodels.units.counts import check_counts
from gpmodels.units.gradients import custom_gradient
from gpmodels.units.numerics import row_products

Profile = Callable[[tf.Tensor], tf.Tensor]
"""Maps `h = -r²/2` to the correlation κ(r)/σ²."""


def _squared_exponential(h: tf.Tensor) -> tf.Tensor:
    """Return κ(r) = exp(-r²/2)."""
    return tf.exp(h)


def _distance(h: tf.Tensor) -> tf.Tensor:
    """Return r = √(-2h), with a finite gradient at r = 0."""
    return tf.sqrt(tf.maximum(-2.0 * h, 1e-12))


def _matern12(h: tf.Tensor) -> tf.Tensor:
    """Return κ(r) = exp(-r)."""
    return tf.exp(-_distance(h))


def _matern32(h: tf.Tensor) -> tf.Tensor:
    """Return κ(r) = (1 + √3 r) exp(-√3 r)."""
    s = 3.0**0.5 * _distance(h)
    return (1.0 + s) * tf.exp(-s)


def _matern52(h: tf.Tensor) -> tf.Tensor:
    """Return κ(r) = (1 + √5 r + 5 r²/3) exp(-√5 r)."""
    s = 5.0**0.5 * _distance(h)
    return (1.0 + s + s * s / 3.0) * tf.exp(-s)


_PROFILES: dict[str, Profile] = {
    "squared_exponential": _squared_exponential,
    "matern12": _matern12,
    "matern32": _matern32,
    "matern52": _matern52,
}


def kernel_profile(name: str) -> Profile:
    """Return the correlation as a function of `h = -r²/2`.

    Args:
        name: `"squared_exponential"` (the papers' choice), `"matern12"`, `"matern32"` or
            `"matern52"`.

    Raises:
        ValueError: The name is not known.

    Example:
        >>> float(kernel_profile("squared_exponential")(tf.constant(0.0)))
        1.0
    """
    if name not in _PROFILES:
        raise ValueError(f"Kernel {name!r} is not known; choose one of {', '.join(sorted(_PROFILES))}.")
    return _PROFILES[name]


@check_shapes("x: [batch..., N, D]", "u: [batch..., M, D]", "return: [batch..., N, M]")
def half_negative_squared_distance(x: tf.Tensor, u: tf.Tensor) -> tf.Tensor:
    """Return `h[n, m] = -|x_n - u_m|²/2` from one matrix product; rounding may leave it a little above 0.

    Args:
        x: Points, already divided by the lengthscales (and best centred near the inducing points, since the
            product loses digits far from the origin).
        u: Inducing inputs, scaled and centred likewise.

    Example:
        >>> float(half_negative_squared_distance(tf.constant([[0.0]]), tf.constant([[2.0]]))[0, 0])
        -2.0
    """
    products = row_products(x, u)
    return products - tf.expand_dims(_half_squares(x), -1) - tf.expand_dims(_half_squares(u), -2)


@check_shapes("u: [batch..., M, D]", "return: [batch..., M, M]")
def pairwise_half_negative_squared_distance(u: tf.Tensor) -> tf.Tensor:
    """Return `h[i, j] = -|u_i - u_j|²/2` among the inducing inputs, in float64 whatever the type of `u`.

    Computed in float32, the covariance would lose its positive definiteness to rounding. Only the value needs
    the digits: the gradient is one product in the type of `u`.

    Args:
        u: Inducing inputs, scaled and centred.

    Example:
        >>> pairwise_half_negative_squared_distance(tf.constant([[0.0], [2.0]])).numpy().tolist()
        [[0.0, -2.0], [-2.0, 0.0]]
    """

    @custom_gradient
    def distances(u: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        exact = tf.cast(u, tf.float64)

        def gradient(h_bar: tf.Tensor) -> tf.Tensor:
            # ū_i = -Σ_j (h̄_ij + h̄_ji)(u_i - u_j)
            weights = tf.cast(h_bar + tf.linalg.matrix_transpose(h_bar), u.dtype)
            return tf.matmul(weights, u) - tf.reduce_sum(weights, axis=-1, keepdims=True) * u

        return half_negative_squared_distance(exact, exact), gradient

    return distances(u)


class Kernel(abc.ABC):
    """A kernel of variance σ² = 1 as a function of scaled inputs; get one by `make_kernel`.

    Attributes:
        is_centred: Whether inputs are shifted to the mean of the inducing inputs before they are scaled,
            which changes nothing but the rounding of a stationary kernel, and another kernel altogether.
        has_bias: Whether a learned constant joins the scaled inputs as a further column.
    """

    is_centred: bool
    has_bias: bool

    @check_shapes("x: [batch..., N, D]", "u: [batch..., M, D]", "return: [batch..., N, M]")
    def cross(self, x: tf.Tensor, u: tf.Tensor) -> tf.Tensor:
        """Return κ(x_n, u_m) of scaled points and inducing inputs, from one matrix product."""
        return self.from_products(row_products(x, u), self.lengths(x), tf.expand_dims(self.lengths(u), -2))

    @abc.abstractmethod
    @check_shapes("points: [batch..., N, D]", "return: [batch..., N]")
    def lengths(self, points: tf.Tensor) -> tf.Tensor:
        """Return what the kernel needs of scaled points apart from products: a multiple of |x|²."""

    @abc.abstractmethod
    @check_shapes(
        "products: [batch..., N, M]",
        "x_lengths: [batch..., N]",
        "u_lengths: [batch..., n, M]",
        "return: [batch..., N, M]",
    )
    def from_products(self, products: tf.Tensor, x_lengths: tf.Tensor, u_lengths: tf.Tensor) -> tf.Tensor:
        """Return κ(x_n, u_m) from x_n·u_m and the `lengths` of both.

        Args:
            products: x_n·u_m.
            x_lengths: Of the points.
            u_lengths: Of the inducing inputs: the same of all points (n = 1), or of each point's own (n = N).
        """

    @abc.abstractmethod
    @check_shapes("u: [batch..., M, D]", "return: [batch..., M, M]")
    def gram(self, u: tf.Tensor) -> tf.Tensor:
        """Return κ(u_i, u_j) of scaled inducing inputs, in float64 whatever their type."""

    @abc.abstractmethod
    @check_shapes("x: [batch..., N, D]", "return: [batch..., n]")
    def diagonal(self, x: tf.Tensor) -> tf.Tensor:
        """Return κ(x_n, x_n) of scaled points, with n = N; n = 1 where it is the same everywhere."""


@dataclass(frozen=True)
class StationaryKernel(Kernel):
    """A function of the distance alone.

    Attributes:
        profile: The correlation as a function of `h = -r²/2`.
    """

    profile: Profile
    is_centred = True
    has_bias = False

    @inherit_check_shapes
    def lengths(self, points: tf.Tensor) -> tf.Tensor:
        """Return |x|²/2."""
        return _half_squares(points)

    @inherit_check_shapes
    def from_products(self, products: tf.Tensor, x_lengths: tf.Tensor, u_lengths: tf.Tensor) -> tf.Tensor:
        """Return κ as a function of -|x_n - u_m|²/2."""
        return self.profile(products - tf.expand_dims(x_lengths, -1) - u_lengths)

    def gram(self, u: tf.Tensor) -> tf.Tensor:
        """Return κ(u_i, u_j) in float64."""
        return self.profile(pairwise_half_negative_squared_distance(u))

    def diagonal(self, x: tf.Tensor) -> tf.Tensor:
        """Return 1 for all points."""
        return tf.ones_like(x[..., :1, 0])


@dataclass(frozen=True)
class ArcCosineKernel(Kernel):
    """The kernel of an infinitely wide network of L layers, see `gpmodels.units.arc_cosine`.

    A bias joins the inputs, x̃ = [x/ℓ, b]: without it an input of zeros, such as a black image, has no angle.

    Attributes:
        degree: d: 0 for steps, 1 for rectified linear units, 2 for their squares.
        depth: L.
    """

    degree: int
    depth: int
    is_centred = False
    has_bias = True

    @inherit_check_shapes
    def lengths(self, points: tf.Tensor) -> tf.Tensor:
        """Return |x|²."""
        return _squares(points)

    def gram(self, u: tf.Tensor) -> tf.Tensor:
        """Return κ(u_i, u_j) in float64; its diagonal has the exact angle 0."""
        exact = tf.cast(u, tf.float64)
        squares = _squares(exact)
        products = tf.matmul(exact, exact, transpose_b=True)
        kernel = self.from_products(products, squares, tf.expand_dims(squares, -2))
        return tf.linalg.set_diag(kernel, length_part(squares, self.degree, self.depth))

    def diagonal(self, x: tf.Tensor) -> tf.Tensor:
        """Return κ(x_n, x_n)."""
        return length_part(_squares(x), self.degree, self.depth)

    @inherit_check_shapes
    def from_products(self, products: tf.Tensor, x_lengths: tf.Tensor, u_lengths: tf.Tensor) -> tf.Tensor:
        """Return κ from the angle between x_n and u_m, and their lengths."""
        x_squares, u_squares = tf.expand_dims(x_lengths, -1), u_lengths
        cosine = products * tf.math.rsqrt(x_squares) * tf.math.rsqrt(u_squares)
        normalised = normalised_kernel(cosine, self.degree, self.depth)
        if self.degree == 0:
            return normalised
        x_length, u_length = (
            tf.sqrt(length_part(part, self.degree, self.depth)) for part in (x_squares, u_squares)
        )
        return normalised * x_length * u_length


def _squares(x: tf.Tensor) -> tf.Tensor:
    """Return |x|² over the last axis."""
    return tf.reduce_sum(tf.square(x), axis=-1)


def _half_squares(x: tf.Tensor) -> tf.Tensor:
    """Return |x|²/2 over the last axis."""
    return 0.5 * _squares(x)


_DEGREES = {f"arc_cosine{degree}": degree for degree in range(3)}

KERNELS = (*_PROFILES, *_DEGREES)
"""Names of all kernels."""


def make_kernel(name: str, depth: int = 1, dtype: str = "float64") -> Kernel:
    """Return a kernel by its name.

    Args:
        name: One of `KERNELS`: `"squared_exponential"` (the papers' choice), `"matern12"`, `"matern32"`,
            `"matern52"`, or `"arc_cosine0"`, `"arc_cosine1"`, `"arc_cosine2"`.
        depth: L, layers of an arc-cosine kernel; 1 for the others.
        dtype: `"float32"` or `"float64"`, in which the kernel of points is computed.

    Raises:
        ValueError: The name is not known, the depth is below 1 or means nothing to the kernel, or the kernel
            cannot be computed: degree 2 grows beyond all numbers above depth 2, and degree 0 loses its
            digits in float32.

    Example:
        >>> kernel = make_kernel("arc_cosine1", depth=3)
        >>> float(kernel.diagonal(tf.constant([[2.0]]))[0])
        4.0
    """
    check_counts(kernel_depth=depth)
    if name in _DEGREES:
        degree = _DEGREES[name]
        if degree == 2 and depth > 2:
            raise ValueError(
                f"Kernel 'arc_cosine2' is limited to kernel_depth 2, but it is {depth}: its variance is "
                "the input's length to the power 2^(depth + 1). Choose 'arc_cosine1' for greater depths."
            )
        if degree == 0 and dtype != "float64":
            raise ValueError(
                f"Kernel 'arc_cosine0' needs dtype='float64', but it is {dtype!r}, in which it is too "
                "inexact near its inducing inputs. Pass dtype='float64', or choose 'arc_cosine1'."
            )
        return ArcCosineKernel(degree, depth)
    if name not in _PROFILES:
        raise ValueError(f"Kernel {name!r} is not known; choose one of {', '.join(sorted(KERNELS))}.")
    if depth != 1:
        raise ValueError(
            f"kernel_depth is for the arc-cosine kernels alone, but is {depth} with {name!r}. Leave it at 1, "
            "or choose 'arc_cosine0', 'arc_cosine1' or 'arc_cosine2'."
        )
    return StationaryKernel(kernel_profile(name))
