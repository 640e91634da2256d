"""The mixture of Gaussians that AutoGP takes for q(v), and its divergence from the prior.

    q(v) = Σ_k π_k Π_p N(v_p | m_kp, S_kp)                                                   AutoGP, (9)

over the whitened inducing values v of P latent functions, with prior N(0, I). Its cross term is exact,

    E_q[log p(v)] = -½ Σ_k π_k Σ_p (M log 2π + |m_kp|² + tr S_kp)

and its entropy has no closed form for K > 1. Two lower bounds of it make the objective a bound:

    pairwise   Σ_k π_k [H_k - log Σ_l π_l exp(-C_kl)]                   Kolchinsky and Tracey (2017), (10)
               H_k the entropy of component k, C_kl its Bhattacharyya distance from component l,
               C_kl = Σ_p [⅛ dᵀP⁻¹d + ½ log|P| - ¼ log|S_kp| - ¼ log|S_lp|],
               d = m_kp - m_lp, P = (S_kp + S_lp)/2
    jensen     -Σ_k π_k log Σ_l π_l Π_p N(m_kp | m_lp, S_kp + S_lp)     Dezfouli and Bonilla (2015)

The first is exact for K = 1, for equal components, and for components far apart. The second, which is the
paper's, falls short by M P (1 - log 2)/2 even for K = 1. So the first is the default.
"""

import math
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_probability as tfp
from check_shapes import check_shapes

from gpmodels.units.transforms import exponential, lower_triangle

POSTERIORS = ("full", "diagonal")
ENTROPIES = ("pairwise", "jensen")

_LOG_TWO_PI = math.log(2.0 * math.pi)


class MixturePosterior(gpflow.Module):
    """Parameters of q(v).

    Args:
        num_latents: P.
        num_components: K.
        num_inducing: M.
        covariance: `"full"`, or `"diagonal"` in the whitened values v, where it mostly loses less than in the
            values u = L v of the paper.
        dtype: `"float32"` or `"float64"`.

    Attributes:
        q_mean: m, `[P, K, M]`.
        q_sqrt: Root of S: lower triangular `[P, K, M, M]`, or deviations `[P, K, M]` of a diagonal one.
        logits: Whose softmax is π, `[K]`; None for one component.

    Example:
        >>> posterior = MixturePosterior(num_latents=2, num_components=3, num_inducing=4)
        >>> posterior.dense_roots().shape
        TensorShape([2, 3, 4, 4])
    """

    def __init__(
        self,
        *,
        num_latents: int,
        num_components: int,
        num_inducing: int,
        covariance: str = "full",
        dtype: str = "float64",
    ) -> None:
        super().__init__()
        self.is_diagonal = covariance == "diagonal"
        p, k, m = num_latents, num_components, num_inducing

        def parameter(value: Any, label: str, transform: tfp.bijectors.Bijector | None = None) -> Any:
            return gpflow.Parameter(value.astype(dtype), transform=transform, dtype=dtype, name=label)

        self.q_mean = parameter(np.zeros((p, k, m)), "q_mean")
        if self.is_diagonal:
            self.q_sqrt = parameter(np.ones((p, k, m)), "q_sqrt", exponential())
        else:
            triangle = lower_triangle()
            self.q_sqrt = parameter(np.tile(np.eye(m), (p, k, 1, 1)), "q_sqrt", triangle)
        self.logits = parameter(np.zeros(k), "logits") if k > 1 else None

    @property
    def posterior_parameters(self) -> tuple[gpflow.Parameter, ...]:
        """The parameters of q(v): all there are."""
        weights = () if self.logits is None else (self.logits,)
        return (self.q_mean, self.q_sqrt, *weights)

    def log_weights(self) -> tf.Tensor:
        """Return log π, `[K]`."""
        if self.logits is None:
            return tf.zeros([1], self.q_mean.dtype)
        return tf.nn.log_softmax(tf.convert_to_tensor(self.logits))

    def dense_roots(self) -> tf.Tensor:
        """Return roots L_S of S as matrices, `[P, K, M, M]`."""
        roots = tf.convert_to_tensor(self.q_sqrt)
        return tf.linalg.diag(roots) if self.is_diagonal else roots

    def prior_kl(self, entropy: str) -> tf.Tensor:
        """Return -H[q] - E_q[log p(v)] with a lower bound of the entropy H, nats, a scalar.

        Args:
            entropy: `"pairwise"` or `"jensen"`.
        """
        mean, roots = tf.convert_to_tensor(self.q_mean), tf.convert_to_tensor(self.q_sqrt)
        log_weight = self.log_weights()
        log_det = log_determinants(roots, is_diagonal=self.is_diagonal)
        squares = tf.reduce_sum(tf.square(mean), axis=-1) + _squares(roots, is_diagonal=self.is_diagonal)
        dimension = tf.cast(tf.shape(mean)[-1], mean.dtype)
        # KL(N_k ‖ p), summed over the latent functions, [K]
        divergence = 0.5 * tf.reduce_sum(squares - dimension - log_det, axis=0)
        if entropy == "pairwise":
            distance = bhattacharyya_distances(mean, roots, is_diagonal=self.is_diagonal)
            overlap = tf.reduce_logsumexp(log_weight - distance, axis=-1)  # log Σ_l π_l exp(-C_kl)
        else:
            density = log_overlap_densities(mean, roots, is_diagonal=self.is_diagonal)
            own = 0.5 * tf.reduce_sum(dimension * (1.0 + _LOG_TWO_PI) + log_det, axis=0)  # H_k
            overlap = tf.reduce_logsumexp(log_weight + density, axis=-1) + own
        return tf.reduce_sum(tf.exp(log_weight) * (divergence + overlap))


def _squares(roots: tf.Tensor, *, is_diagonal: bool) -> tf.Tensor:
    """Return tr S, `[P, K]`."""
    return tf.reduce_sum(tf.square(roots), axis=-1 if is_diagonal else [-2, -1])


def log_determinants(roots: tf.Tensor, *, is_diagonal: bool) -> tf.Tensor:
    """Return log|S| of each component, `[P, K]`, from the roots of `MixturePosterior`."""
    diagonal = roots if is_diagonal else tf.linalg.diag_part(roots)
    return tf.reduce_sum(tf.math.log(tf.square(diagonal)), axis=-1)


@check_shapes("mean: [P, K, M]", "return: [K, K]")
def bhattacharyya_distances(mean: tf.Tensor, roots: tf.Tensor, *, is_diagonal: bool) -> tf.Tensor:
    """Return C_kl, summed over the latent functions; 0 on the diagonal.

    Args:
        mean: m.
        roots: Roots of S, `[P, K, M, M]`, or `[P, K, M]` of diagonal covariances.
        is_diagonal: Which of the two.

    Source:
        Kolchinsky and Tracey (2017), Estimating mixture entropy with pairwise distances, (11).
    """
    dtype = mean.dtype
    mean, roots = _in_float64(mean, roots)
    log_det = log_determinants(roots, is_diagonal=is_diagonal)  # [P, K]
    first, second = _pairs(mean)
    quadratic, log_det_pooled = _of_pairs(mean, roots, first, second, 0.5, is_diagonal=is_diagonal)
    own = 0.25 * (tf.gather(log_det, first, axis=1) + tf.gather(log_det, second, axis=1))
    distance = tf.reduce_sum(0.125 * quadratic + 0.5 * log_det_pooled - own, axis=0)
    return tf.cast(_symmetric(distance, first, second, mean.shape[1]), dtype)


@check_shapes("mean: [P, K, M]", "return: [K, K]")
def log_overlap_densities(mean: tf.Tensor, roots: tf.Tensor, *, is_diagonal: bool) -> tf.Tensor:
    """Return log Π_p N(m_kp | m_lp, S_kp + S_lp); arguments as for `bhattacharyya_distances`."""
    dtype = mean.dtype
    mean, roots = _in_float64(mean, roots)
    first, second = _pairs(mean)
    quadratic, log_det = _of_pairs(mean, roots, first, second, 1.0, is_diagonal=is_diagonal)
    dimension = tf.cast(tf.shape(mean)[-1], mean.dtype)
    apart = -0.5 * tf.reduce_sum(quadratic + log_det + dimension * _LOG_TWO_PI, axis=0)
    # N(m_k | m_k, 2 S_k)
    own = log_determinants(roots, is_diagonal=is_diagonal) + dimension * (_LOG_TWO_PI + math.log(2.0))
    densities = _symmetric(apart, first, second, mean.shape[1])
    return tf.cast(tf.linalg.set_diag(densities, -0.5 * tf.reduce_sum(own, axis=0)), dtype)


def _in_float64(mean: tf.Tensor, roots: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return them in float64: S_k + S_l of little noise has no factor in float32, and large terms cancel."""
    return tf.cast(mean, tf.float64), tf.cast(roots, tf.float64)


def _pairs(mean: tf.Tensor) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the components k < l of all pairs, `[K (K - 1)/2]` each."""
    return np.triu_indices(int(mean.shape[1]), k=1)


def _symmetric(
    values: tf.Tensor, first: npt.NDArray[np.intp], second: npt.NDArray[np.intp], size: int
) -> tf.Tensor:
    """Return the symmetric matrix `[K, K]` of values of all pairs, with a diagonal of zeros."""
    upper = tf.scatter_nd(np.stack([first, second], axis=1), values, [size, size])
    return upper + tf.transpose(upper)


def _of_pairs(
    mean: tf.Tensor,
    roots: tf.Tensor,
    first: npt.NDArray[np.intp],
    second: npt.NDArray[np.intp],
    factor: float,
    *,
    is_diagonal: bool,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return dᵀP⁻¹d and log|P| of pairs of components, P = factor (S_k + S_l), `[P, pairs]` each."""

    def sum_of(values: tf.Tensor) -> tf.Tensor:
        return factor * (tf.gather(values, first, axis=1) + tf.gather(values, second, axis=1))

    difference = tf.gather(mean, first, axis=1) - tf.gather(mean, second, axis=1)  # [P, pairs, M]
    if is_diagonal:
        pooled = sum_of(tf.square(roots))
        quadratic = tf.reduce_sum(tf.square(difference) / pooled, axis=-1)
        return quadratic, tf.reduce_sum(tf.math.log(pooled), axis=-1)
    pooled = tf.linalg.cholesky(sum_of(tf.matmul(roots, roots, transpose_b=True)))
    solved = tf.linalg.triangular_solve(pooled, difference[..., None])[..., 0]
    log_det = 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(pooled)), axis=-1)
    return tf.reduce_sum(tf.square(solved), axis=-1), log_det
