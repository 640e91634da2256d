"""Precision settings per dtype, and the one place that factorises a covariance.

A failed Cholesky factorisation returns NaN without an exception on this stack, so every factorisation of a
prior covariance goes through `inverse_cholesky`, which grows the jitter of the matrices that fail and,
if that is not enough, stops with an error that names the unit.

Glossary: K is a covariance `[..., M, M]`, L its lower Cholesky factor, `G = L⁻¹`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.units.gradients import custom_gradient

MAX_JITTER_STEPS = 6
"""How often the jitter of a failing matrix grows by `JITTER_GROWTH` before the error."""

JITTER_GROWTH = 10.0


@dataclass(frozen=True)
class Precision:
    """Small positive constants of a floating-point type.

    Attributes:
        jitter: Added to the diagonal of a unit's inducing covariance, which is factorised in float64. The
            float32 value is larger because the factor is applied in float32, where `|Gk|²` loses `‖G‖`
            times rounding.
        variance_floor: Least variance of a latent marginal.
        gate_variance_floor: Least pooled variance of a feature in the gate, relative to the mean over
            features.
    """

    jitter: float
    variance_floor: float
    gate_variance_floor: float


@dataclass(frozen=True)
class FactorisationFailure:
    """Which covariance no jitter could make positive definite.

    Attributes:
        role: What the matrices are of, as `"experts"`.
        owner: Name of the head, `""` where only the role was given.
        matrices: Indices from 0 of the matrices that failed.
        jitter: The largest jitter tried.
    """

    role: str
    owner: str
    matrices: tuple[int, ...]
    jitter: float

    @classmethod
    def of(cls, error: tf.errors.InvalidArgumentError) -> "FactorisationFailure | None":
        """Return what `inverse_cholesky` said in an error, None where the error is another one.

        A TensorFlow graph passes nothing but text, which this takes apart again; no one else should.
        """
        found = _FAILURE.search(_MARKS.sub(" ", error.message))
        if found is None:
            return None
        role, _, owner = found["unit"].partition(" of ")
        return cls(role, owner, tuple(map(int, found["matrices"].split())), float(found["jitter"]))

    @property
    def unit(self) -> str:
        """The name under which the matrices were factorised, as `"experts of hgp"`."""
        return f"{self.role} of {self.owner}" if self.owner else self.role


# The parts of the message around unit, matrices and jitter; TensorFlow puts marks around each part.
_BEFORE_UNIT, _BEFORE_MATRICES = "The inducing covariance of", "could not be factorised: matrices"
_BEFORE_JITTER = "stay indefinite or hold NaN, even with jitter"
_MARKS = re.compile(r"(?:b'|['\[\],\s])+")
_FAILURE = re.compile(
    rf"{_BEFORE_UNIT} (?P<unit>.+?) {_BEFORE_MATRICES} (?P<matrices>[\d ]+) "
    rf"{_BEFORE_JITTER.replace(',', '')} (?P<jitter>\S+)"
)

_PRECISION = {
    "float32": Precision(jitter=1e-5, variance_floor=1e-6, gate_variance_floor=1e-6),
    "float64": Precision(jitter=1e-6, variance_floor=1e-12, gate_variance_floor=1e-12),
}


def precision(dtype: str) -> Precision:
    """Return the constants used with `dtype`.

    Args:
        dtype: `"float32"` or `"float64"`.

    Raises:
        ValueError: Another dtype was asked for; half precision loses the variances altogether.

    Example:
        >>> precision("float64").jitter
        1e-06
    """
    if dtype not in _PRECISION:
        raise ValueError(
            f"Gaussian-process layers compute in float32 or float64, but were asked for {dtype!r}. "
            "Pass dtype='float32' to the head; under a mixed policy the network may stay in half precision."
        )
    return _PRECISION[dtype]


@check_shapes("a: [batch..., N, E]", "b: [batch..., M, E]", "return: [batch..., N, M]")
def row_products(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """Return the product of each row of `a` with each row of `b`, a bᵀ.

    For a batch of one, TensorFlow takes longer than for one product of matrices, which is made of it here.

    Example:
        >>> row_products(tf.constant([[[2.0]]]), tf.constant([[[3.0]]])).numpy().tolist()
        [[[6.0]]]
    """
    if a.shape.rank == 3 and a.shape[0] == b.shape[0] == 1:
        one = tf.matmul(tf.squeeze(a, 0), tf.squeeze(b, 0), transpose_b=True)
        return tf.expand_dims(one, 0)
    return tf.matmul(a, b, transpose_b=True)


@check_shapes("covariance: [batch..., M, M]", "return: [batch..., M, M]")
def inverse_cholesky(
    covariance: tf.Tensor, *, jitter: float, unit: str, dtype: tf.DType | None = None
) -> tf.Tensor:
    """Return `G = L⁻¹` with `L Lᵀ = K + jitter I`, differentiable, robust to near-singular K.

    Matrices whose factorisation fails are retried with ten times the jitter, each on its own; the others keep
    theirs. The gradient needs only G (three products of M x M), so a retry costs nothing on the way back.

    Args:
        covariance: K, symmetric, `[..., M, M]`.
        jitter: Added to every diagonal at the first attempt.
        unit: What is being factorised, for the error, as `"experts of hgp"`: a role and its head.
        dtype: Type of the result and of the gradient's products; by default that of K, in which K is
            factorised.

    Returns:
        G, lower triangular, `[..., M, M]`, such that `K⁻¹ ≈ GᵀG`.

    Raises:
        tf.errors.InvalidArgumentError: A matrix stays indefinite with the largest jitter, or holds NaN; see
            `FactorisationFailure.of`.

    Example:
        >>> float(inverse_cholesky(tf.constant([[4.0]], tf.float64), jitter=0.0, unit="example")[0, 0])
        0.5
    """
    result_dtype = covariance.dtype if dtype is None else dtype

    @custom_gradient
    def factor(k: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        chol = _cholesky_with_growing_jitter(k, jitter, unit)
        size = tf.shape(k)[-1]
        identity = tf.eye(size, batch_shape=tf.shape(k)[:-2], dtype=k.dtype)
        g = tf.cast(tf.linalg.triangular_solve(chol, identity), result_dtype)

        def gradient(g_bar: tf.Tensor) -> tf.Tensor:
            # L̄ = -Gᵀ Ḡ Gᵀ and K̄ = Gᵀ Φ(Lᵀ L̄) G = -Gᵀ Φ(Ḡ Gᵀ) G, Φ = lower triangle with half its diagonal.
            phi = tf.linalg.band_part(tf.ones([size, size], g.dtype), -1, 0) - 0.5 * tf.eye(
                size, dtype=g.dtype
            )
            inner = phi * tf.matmul(g_bar, g, transpose_b=True)
            k_bar = -tf.matmul(g, tf.matmul(inner, g), transpose_a=True)
            return tf.cast(0.5 * (k_bar + tf.linalg.matrix_transpose(k_bar)), k.dtype)

        return g, gradient

    return factor(covariance)


def _cholesky_with_growing_jitter(k: tf.Tensor, jitter: float, unit: str) -> tf.Tensor:
    """Return L of `K + j I`, j the least of jitter·10ⁱ for which a matrix's factor is finite."""

    def factorise(jitters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        chol = tf.linalg.cholesky(tf.linalg.set_diag(k, tf.linalg.diag_part(k) + jitters[..., None]))
        return chol, tf.logical_not(tf.reduce_all(tf.math.is_finite(chol), axis=[-2, -1]))

    def grow(
        step: tf.Tensor, jitters: tf.Tensor, _: tf.Tensor, failed: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        smallest = tf.constant(1e-10, k.dtype)  # a caller may start from no jitter at all
        grown = tf.where(failed, tf.maximum(jitters, smallest) * JITTER_GROWTH, jitters)
        return step + 1, grown, *factorise(grown)

    jitters = tf.fill(tf.shape(k)[:-2], tf.constant(jitter, k.dtype))
    chol, failed = factorise(jitters)
    _, jitters, chol, failed = tf.while_loop(
        lambda step, _jitters, _chol, failed: tf.logical_and(step < MAX_JITTER_STEPS, tf.reduce_any(failed)),
        grow,
        (tf.constant(0), jitters, chol, failed),
        shape_invariants=(tf.TensorShape([]), jitters.shape, k.shape, failed.shape),
    )
    check = tf.debugging.Assert(
        tf.logical_not(tf.reduce_any(failed)),
        [
            f"{_BEFORE_UNIT} {unit} {_BEFORE_MATRICES}",
            tf.where(tf.reshape(failed, [-1]))[:, 0],  # a single matrix has no batch axis
            _BEFORE_JITTER,
            tf.reduce_max(jitters),
            (
                "on the diagonal. Lower the learning rate, standardise the features, or use fewer inducing "
                "points; if the features hold NaN, find out where the network produced it."
            ),
        ],
        summarize=10,
    )
    with tf.control_dependencies([check] if check is not None else []):
        return tf.identity(chol)
