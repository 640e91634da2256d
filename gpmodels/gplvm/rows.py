"""What rows contribute with q(u) held: their bounds, and what the model expects in their columns.

With α = Gᵀ m and H_d = Gᵀ(S_d + m_d m_dᵀ - I)G, the bound of a row with the columns o is

    Σ_d o_d [-½ log 2πσ² - ½β y_d²] + β Ψ1 Σ_d o_d y_d α_d - ½β (|o| Ψ0 + tr(Ψ2 Σ_d o_d H_d)) - KL(q(x) ‖ p)

so that all columns of a row enter through one vector of M numbers and one matrix, which stay as they are
while q(x) moves.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.gplvm.bounds import JITTER, InducingPosterior
from gpmodels.gplvm.data import FloatArray, IntArray, columns_of_views, equal_patterns
from gpmodels.gplvm.kernels import LatentKernel, covariance, row_psi
from gpmodels.units.numerics import inverse_cholesky
from gpmodels.units.psi_statistics import pack_inner, pairs, unpack_pairs


class HeldModel(NamedTuple):
    """A trained model whose q(u) stays, as arrays.

    Of several views kernel, inducing inputs and noise have views as first axis, and a group lies in one view.

    Attributes:
        kernel: κ.
        inducing: Z, `[M, Q]`.
        noise_variance: σ².
        posterior: q(v).
        group: Group of each column, `[D]`.
        is_point: Whether q(x) is a point.
        view: View of each column, `[D]`; None where there is one.
    """

    kernel: LatentKernel
    inducing: FloatArray
    noise_variance: Any
    posterior: InducingPosterior
    group: IntArray
    is_point: bool
    view: IntArray | None = None

    def views(self) -> "list[HeldModel]":
        """Return the model of each view, of its columns alone."""
        if self.view is None:
            return [self]
        return [self._of_view(v, columns) for v, columns in enumerate(columns_of_views(self.view))]

    def _of_view(self, view: int, columns: IntArray) -> "HeldModel":
        groups, group = np.unique(self.group[columns], return_inverse=True)
        mean = tf.gather(self.posterior.mean, columns, axis=1)
        return self._replace(
            kernel=self.kernel.of_view(view),
            inducing=self.inducing[view],
            noise_variance=float(self.noise_variance[view]),
            posterior=InducingPosterior(mean, tf.gather(self.posterior.covariance, groups)),
            group=group,
            view=None,
        )

    def column_noise(self) -> FloatArray:
        """Return σ² of each column, `[D]`."""
        noise = np.asarray(self.noise_variance)
        return np.full(len(self.group), noise) if self.view is None else noise[self.view]

    def root(self) -> tf.Tensor:
        """Return G, `[M, M]`."""
        return inverse_cholesky(
            covariance(self.kernel, self.inducing), jitter=JITTER, unit="inducing inputs of gplvm"
        )


def joined_views(parts: Sequence[HeldModel], view: IntArray) -> HeldModel:
    """Return one model of several views, what `HeldModel.views` takes apart.

    Args:
        parts: Model of each view.
        view: View of each column, `[D]`.
    """
    kernels = zip(*(part.kernel for part in parts), strict=True)
    offsets = np.cumsum([0, *(len(part.posterior.covariance) for part in parts)])
    groups = [part.group + offset for part, offset in zip(parts, offsets[:-1], strict=True)]
    means = in_columns([np.asarray(part.posterior.mean) for part in parts], view)
    return HeldModel(
        kernel=LatentKernel(*(None if each[0] is None else tf.stack(each) for each in kernels)),
        inducing=np.stack([part.inducing for part in parts]),
        noise_variance=np.array([part.noise_variance for part in parts]),
        posterior=InducingPosterior(
            tf.constant(means), tf.concat([part.posterior.covariance for part in parts], axis=0)
        ),
        group=in_columns(groups, view),
        is_point=parts[0].is_point,
        view=view,
    )


def in_columns(parts: Sequence[npt.NDArray[Any]], view: IntArray) -> npt.NDArray[Any]:
    """Return values for the columns of each view, `[..., D_v]`, in the order of the columns, `[..., D]`.

    Example:
        >>> in_columns([np.array([2, 3]), np.array([1])], np.array([1, 0, 0])).tolist()
        [1, 2, 3]
    """
    order = np.argsort(view, kind="stable")
    return np.concatenate(parts, axis=-1)[..., np.argsort(order)]


class RowTerms(NamedTuple):
    """What the bounds of some rows are made of, apart from Ψ and the KL.

    Of several views `linear`, `quadratic` and `precision` have views as first axis.

    Attributes:
        linear: β Σ_d o_nd y_nd α_d, `[N, M]`.
        quadratic: β Σ_d o_nd H_d, packed as `gpmodels.units.psi_statistics.pack_inner`, `[R, M (M + 1)/2]`.
        pattern: Row of `quadratic` for each row, `[N]`.
        precision: β |o_n|, `[N]`.
        constant: Σ_d o_nd [-½ log 2πσ² - ½β y_nd²], `[N]`.
    """

    linear: FloatArray
    quadratic: FloatArray
    pattern: IntArray
    precision: FloatArray
    constant: FloatArray

    def subset(self, index: IntArray) -> "RowTerms":
        """Return the terms of some of the rows."""
        return RowTerms(
            self.linear[..., index, :],
            self.quadratic,
            self.pattern[index],
            self.precision[..., index],
            self.constant[index],
        )


def row_terms(model: HeldModel, standardised: FloatArray) -> RowTerms:
    """Return what the bounds of rows are made of.

    Args:
        model: Trained.
        standardised: Rows `[N, D]`; NaN where a value is missing.
    """
    is_seen = ~np.isnan(standardised)
    values = np.where(is_seen, standardised, 0.0)
    patterns, pattern = equal_patterns(is_seen)
    terms = [
        _terms_of_view(view, is_seen[:, columns], values[:, columns], patterns[:, columns], pattern)
        for view, columns in zip(model.views(), columns_of_views(model.view), strict=True)
    ]
    if model.view is None:
        return terms[0]
    linear, quadratic, _, precision, constant = (np.stack(part) for part in zip(*terms, strict=True))
    return RowTerms(linear, quadratic, pattern, precision, constant.sum(axis=0))


def _terms_of_view(
    model: HeldModel,
    is_seen: npt.NDArray[np.bool_],
    values: FloatArray,
    patterns: FloatArray,
    pattern: IntArray,
) -> RowTerms:
    beta = 1.0 / model.noise_variance
    root = model.root()
    alpha = tf.matmul(root, model.posterior.mean, transpose_a=True).numpy()
    count = is_seen.sum(axis=1).astype(np.float64)
    constant = -0.5 * (
        math.log(2.0 * math.pi * model.noise_variance) * count + beta * (values**2).sum(axis=1)
    )
    quadratic = beta * _summed_forms(model, root, patterns)
    return RowTerms(beta * values @ alpha.T, quadratic, pattern, beta * count, constant)


def _summed_forms(model: HeldModel, root: tf.Tensor, patterns: FloatArray) -> FloatArray:
    """Return Σ_d o_d H_d of each pattern `[R, D]`, packed."""
    mean, size = np.asarray(model.posterior.mean), model.inducing.shape[0]
    rows, columns = pairs(size)
    # Σ_d o_d m_d m_dᵀ, [R, M, M]
    outer = unpack_pairs(tf.matmul(patterns, (mean[rows] * mean[columns]).T), size)
    in_group = (model.group[:, None] == np.arange(len(model.posterior.covariance))).astype(np.float64)
    covariances = tf.tensordot(tf.constant(patterns @ in_group), model.posterior.covariance, 1)
    counts = tf.constant(patterns.sum(axis=1))[:, None, None]
    inner = outer + covariances - counts * tf.eye(size, dtype=tf.float64)
    forms = tf.matmul(tf.matmul(root[None], inner, transpose_a=True), root[None])
    return pack_inner(0.5 * (forms + tf.linalg.matrix_transpose(forms))).numpy()


@check_shapes(
    "mean: [N, Q]",
    "log_variance: [N, Q]",
    "inducing: [views..., M, Q]",
    "linear: [views..., N, M]",
    "quadratic: [views..., any, P]",
    "precision: [views..., N]",
    "return: [N]",
)
def row_bounds(
    kernel: LatentKernel,
    mean: tf.Tensor,
    log_variance: tf.Tensor | None,
    inducing: tf.Tensor,
    linear: tf.Tensor,
    quadratic: tf.Tensor,
    precision: tf.Tensor,
) -> tf.Tensor:
    """Return the bound of each row without its constant, nats.

    Args:
        kernel: κ.
        mean: μ of q(x).
        log_variance: log s, or None for a point, where the prior's log density takes the place of the KL.
        inducing: Z.
        linear: See `RowTerms`.
        quadratic: Of each row, or one for all.
        precision: See `RowTerms`.
    """
    variance = tf.zeros_like(mean) if log_variance is None else tf.exp(log_variance)

    def expected(*view: Any) -> tf.Tensor:
        own_kernel, own_inducing, own_linear, own_quadratic, own_precision = view
        psi = row_psi(own_kernel, mean, variance, own_inducing)
        bound = tf.reduce_sum(psi.psi1 * own_linear, axis=1) - 0.5 * own_precision * psi.psi0
        return bound - 0.5 * tf.reduce_sum(psi.psi2 * own_quadratic, axis=1)

    parts = (inducing, linear, quadratic, precision)
    if len(inducing.shape) == 2:
        bound = expected(kernel, *parts)
    else:
        views = range(inducing.shape[0])
        bound = tf.add_n([expected(kernel.of_view(v), *(part[v] for part in parts)) for v in views])
    if log_variance is None:
        return bound - 0.5 * tf.reduce_sum(tf.square(mean) + math.log(2.0 * math.pi), axis=1)
    return bound - 0.5 * tf.reduce_sum(tf.square(mean) + variance - log_variance - 1.0, axis=1)


@cache
def bounds_with_gradient(
    kernel_parts: tuple[bool, bool],
    num_inducing: int,
    num_dimensions: int,
    *,
    is_point: bool,
    views: tuple[int, ...] = (),
) -> Any:
    """Return a compiled function of positions and terms that gives bounds `[N]` and gradients `[N, n]`.

    Args:
        kernel_parts: Whether the kernel has an RBF and a linear part.
        num_inducing: M.
        num_dimensions: Q.
        is_point: Whether the position is a point: n = Q, else n = 2Q, the means and log variances.
        views: Number of views where there are several, the first axis of terms and hyper-parameters.
    """
    has_rbf, has_linear = kernel_parts
    width = num_dimensions if is_point else 2 * num_dimensions

    def matrix(*shape: int | None) -> tf.TensorSpec:
        return tf.TensorSpec(shape, tf.float64)

    of_kernel: dict[str, tf.TensorSpec] = {}
    if has_rbf:
        of_kernel |= {"variance": matrix(*views), "lengthscales": matrix(*views, num_dimensions)}
    if has_linear:
        of_kernel |= {"weights": matrix(*views, num_dimensions)}

    def function(
        kernel: dict[str, tf.Tensor],
        inducing: tf.Tensor,
        position: tf.Tensor,
        linear: tf.Tensor,
        quadratic: tf.Tensor,
        precision: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(position)
            mean = position[:, :num_dimensions]
            log_variance = None if is_point else position[:, num_dimensions:]
            bounds = row_bounds(
                LatentKernel(**kernel), mean, log_variance, inducing, linear, quadratic, precision
            )
        return bounds, tape.gradient(bounds, position)

    pairs_of = num_inducing * (num_inducing + 1) // 2
    signature = (
        of_kernel,
        matrix(*views, num_inducing, num_dimensions),
        matrix(None, width),
        matrix(*views, None, num_inducing),
        matrix(*views, None, pairs_of),
        matrix(*views, None),
    )
    return tf.function(function, input_signature=signature)


class Reconstruction(NamedTuple):
    """What the model expects in every column, in standardised units.

    Attributes:
        mean: E[y], `[N, D]`.
        variance: Variance of y with its noise, `[N, D]`.
    """

    mean: FloatArray
    variance: FloatArray


def reconstruct(model: HeldModel, mean: FloatArray, variance: FloatArray) -> Reconstruction:
    """Return the mean Ψ1 α and the variance `Ψ0 + tr(Ψ2 H_d) - mean² + σ²` of every column.

    Args:
        model: Trained.
        mean: μ of q(x), `[N, Q]`.
        variance: s, `[N, Q]`, zero for points.
    """
    if model.view is not None:
        parts = zip(*(reconstruct(view, mean, variance) for view in model.views()), strict=True)
        return Reconstruction(*(in_columns(part, model.view) for part in parts))
    root = model.root()
    alpha = tf.matmul(root, model.posterior.mean, transpose_a=True)
    num_columns = alpha.shape[1]
    forms = _summed_forms(model, root, np.eye(num_columns))  # H_d, [D, M (M + 1)/2]
    block = max(2_000_000 // forms.shape[1], 16)
    means, variances = [], []
    for start in range(0, len(mean), block):
        rows = slice(start, start + block)
        psi = row_psi(
            model.kernel, tf.constant(mean[rows]), tf.constant(variance[rows]), tf.constant(model.inducing)
        )
        expected = tf.matmul(psi.psi1, alpha)
        second = psi.psi0[:, None] + tf.matmul(psi.psi2, forms, transpose_b=True)
        means.append(expected.numpy())
        variances.append(tf.maximum(second - tf.square(expected), 0.0).numpy() + model.noise_variance)
    shape = (0, num_columns)
    return Reconstruction(
        np.concatenate([np.empty(shape), *means]), np.concatenate([np.empty(shape), *variances])
    )


def expected_values(model: HeldModel, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return the means of `reconstruct` alone, which need no Ψ2 of the columns, `[N, D]`."""
    if model.view is not None:
        return in_columns([expected_values(view, mean, variance) for view in model.views()], model.view)
    alpha = tf.matmul(model.root(), model.posterior.mean, transpose_a=True)
    blocks = []
    for start in range(0, len(mean), 2048):
        rows = slice(start, start + 2048)
        psi1 = _psi1(model.kernel, mean[rows], variance[rows], model.inducing)
        blocks.append(tf.matmul(psi1, alpha).numpy())
    return np.concatenate([np.empty((0, alpha.shape[1])), *blocks])


def _psi1(kernel: LatentKernel, mean: FloatArray, variance: FloatArray, inducing: FloatArray) -> FloatArray:
    """Return Ψ1 alone, `[N, M]`."""
    parts = np.zeros((len(mean), len(inducing)))
    if kernel.lengthscales is not None:
        squared = np.asarray(kernel.lengthscales) ** 2
        spread = squared + variance
        exponent = -0.5 * np.log(spread / squared).sum(axis=1, keepdims=True)
        exponent = exponent - 0.5 * (mean**2 / spread).sum(axis=1, keepdims=True)
        exponent = exponent + (mean / spread) @ inducing.T - 0.5 * (1.0 / spread) @ (inducing**2).T
        parts += float(kernel.variance) * np.exp(exponent)
    if kernel.weights is not None:
        parts += mean @ (inducing * np.asarray(kernel.weights)).T
    return parts
