"""The layers of a deep feed-forward GP (DFGP): hidden sparse GPs, and an output sparse GP on their values.

Hidden unit r = 1..ν sees its view of the features (all of them, or columns of its own for multiple-kernel
learning) and gives `b_nr ~ N(μ_nr, s_nr)`, q(a_r) = N(c_r, D_r) on its inducing values; the units are a
`gpmodels.units.sparse.SparseUnits` with kernels of variance 1, since a scale would only undo the
lengthscale of the output kernel. The output unit has inducing inputs Z in the space of b and q(u) = N(m, S).
With A = K_ZZ⁻¹ and the Ψ statistics of the output kernel under b_n (docs/theory.md)

    μ_n = Ψ1_nᵀ A m        v_n = Ψ0_n - tr(A Ψ2_n) + tr(A Ψ2_n A (S + m mᵀ)) - μ_n²

the mean and the variance of f_n under q, exactly. Both are linear in the statistics: with K_ZZ = L Lᵀ,
G = L⁻¹ and u whitened (u = L v, v ~ N(m, S)), α = Gᵀm and Q = Gᵀ(I - S - m mᵀ)G are all there is to
fold: μ = Ψ1ᵀα, v = Ψ0 - tr(Ψ2 Q) - μ².
"""

from typing import Any, NamedTuple

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.dfgp.output_kernels import make_output_kernel
from gpmodels.units.kernels import Kernel, StationaryKernel
from gpmodels.units.numerics import inverse_cholesky, precision
from gpmodels.units.projection import scaled_points
from gpmodels.units.psi_statistics import PsiStatistics, closed_form, pack_inner
from gpmodels.units.sparse import FoldedUnits, SparseUnits
from gpmodels.units.transforms import lower_triangle
from gpmodels.units.views import Views, padded_columns, view_blocks

HIDDEN_POSTERIORS = ("gaussian", "point")
HIDDEN_LENGTHSCALES = ("learned", "median")


class HiddenMarginal(NamedTuple):
    """`b_nr ~ N(mean, variance)` of N points, each `[N, ν]`."""

    mean: tf.Tensor
    variance: tf.Tensor


class FoldedHidden(NamedTuple):
    """Hidden units folded for prediction, with half the rows that training needs.

    With the eigenvectors V and eigenvalues λ of I - S the variance is `κ - Σ_i sign(λ_i) (√|λ_i| v_iᵀG k)²`,
    M squares for the 2M of `|Gk|²` and `|L_SᵀGk|²`, whose difference it is. Unlike
    `gpmodels.units.folded.CompactUnits` all rows are kept: their number does not depend on q, so that an
    estimator's functions are traced once for all fits.

    Attributes:
        inducing: U, centred and divided by the lengthscales, `[ν, 1, M, E]`.
        centre: Mean of U, `[ν, E]`.
        inverse_lengthscales: 1/ℓ, `[ν, 1, E]`.
        variance: σ², `[ν, 1]`.
        projection: Rows `σ² √|λ_i| v_iᵀG`, and αᵀ = σ² mᵀG, `[ν, 1, M + 1, M]`.
        sign: That of each λ, `[ν, 1, M]`.
    """

    inducing: tf.Tensor
    centre: tf.Tensor
    inverse_lengthscales: tf.Tensor
    variance: tf.Tensor
    projection: tf.Tensor
    sign: tf.Tensor


class HiddenUnits(gpflow.Module):
    """The hidden layer.

    Args:
        num_features: D.
        num_hidden: ν; with views there is one unit for each.
        num_inducing: M of each unit.
        views: Columns of each unit, None for all columns everywhere.
        kernel: See `gpmodels.units.kernels.make_kernel`.
        kernel_depth: Layers of an arc-cosine kernel.
        posterior: `"gaussian"` for q(a_r) = N(c_r, D_r), which makes the objective a bound on the evidence.
            `"point"` for the paper's q(a_r) = δ(c_r): the objective then contains log N(c_r | 0, K_r) and
            bounds log p(y, A = C), and inducing inputs and lengthscales stay where they are placed, since
            that density grows without limit as K_r becomes singular.
        lengthscales: `"learned"`, or `"median"` to leave them at the median distance, where they are
            placed.
        dtype: `"float32"` or `"float64"`.
        role: What messages call these units.

    Attributes:
        units: Their parameters.

    Example:
        >>> hidden = HiddenUnits(num_features=3, num_hidden=2, num_inducing=4, views=((0, 1), (2,)))
        >>> hidden.marginal(hidden.units.fold(), tf.zeros([5, 3], tf.float64)).mean.shape
        TensorShape([5, 2])
    """

    def __init__(  # noqa: PLR0913 - so many things make a hidden layer
        self,
        *,
        num_features: int,
        num_hidden: int,
        num_inducing: int,
        views: Views | None = None,
        kernel: str = "squared_exponential",
        kernel_depth: int = 1,
        posterior: str = "gaussian",
        lengthscales: str = "learned",
        dtype: str = "float64",
        role: str = "hidden units",
    ) -> None:
        super().__init__()
        self.num_hidden = num_hidden
        self.is_point = posterior == "point"
        self.width = num_features if views is None else max(len(view) for view in views)
        # Short views are filled up with a column of zeros, and their inducing inputs too: there is no
        # difference there, and no gradient that would make one.
        self._columns = None if views is None else padded_columns(views, num_features)
        self.view_sizes = [self.width] * num_hidden if views is None else [len(view) for view in views]
        self.variance_floor = precision(dtype).variance_floor
        fixed = {"variance"}
        if lengthscales == "median":
            fixed |= {"lengthscales"}
        if self.is_point:
            fixed |= {"q_sqrt", "inducing_inputs", "lengthscales"}
        self.units = SparseUnits(
            num_units=num_hidden,
            num_inducing=num_inducing,
            num_features=self.width,
            kernel=kernel,
            kernel_depth=kernel_depth,
            dtype=dtype,
            role=role,
            fixed=fixed,
        )
        within = np.arange(self.width) < np.array(self.view_sizes)[:, None, None]
        self.units.inducing_inputs.assign(self.units.inducing_inputs.numpy() * within)
        if self.is_point:
            self.units.q_sqrt.assign(np.zeros(self.units.q_sqrt.shape))

    @check_shapes("x: [N, D]", "return: [any, N, W]")
    def blocks(self, x: tf.Tensor) -> tf.Tensor:
        """Return what each unit sees of the features, `[ν, N, width]`, or `[1, N, D]` where all see all."""
        return x[None] if self._columns is None else view_blocks(x, self._columns)

    def marginal(self, folded: FoldedUnits, x: tf.Tensor) -> HiddenMarginal:
        """Return the marginals of all units at features `[N, D]`, variances above the dtype's floor."""
        m = self.units.num_inducing
        projected, diagonal = _projected(folded, self.blocks(x), self.units.kernel)
        gk, rk, mean = tf.split(projected, [m, m, 1], axis=1)
        explained = tf.reduce_sum(tf.square(gk), axis=1) - tf.reduce_sum(tf.square(rk), axis=1)
        return self._by_point(mean[:, 0], folded.variance * diagonal - explained)

    @check_shapes("x: [N, D]", "return: [R, N, M]")
    def basis(self, x: tf.Tensor) -> tf.Tensor:
        """Return G k of each unit at the features; a hidden mean is it times whitened inducing values."""
        projected, _ = _projected(self.units.fold(), self.blocks(x), self.units.kernel)
        return tf.linalg.matrix_transpose(projected[:, : self.units.num_inducing])

    def fold(self) -> FoldedHidden:
        """Return the units folded for prediction.

        Raises:
            tf.errors.InvalidArgumentError: A covariance cannot be factorised; the message names the units.
        """
        whitening = self.units.whitening()
        variance, factor, mean, root = (
            tf.cast(tf.convert_to_tensor(part), tf.float64)
            for part in (whitening.variance, whitening.factor, self.units.q_mean, self.units.q_sqrt)
        )
        g = variance[..., None, None] * factor  # σ² G, [ν, 1, M, M]
        i_minus_s = tf.eye(self.units.num_inducing, dtype=tf.float64) - tf.matmul(
            root, root, transpose_b=True
        )
        eigenvalues, vectors = tf.linalg.eigh(i_minus_s)  # λ, [ν, 1, M]; V, [ν, 1, M, M]
        rows = tf.sqrt(tf.abs(eigenvalues))[..., None] * tf.matmul(vectors, g, transpose_a=True)
        projection = tf.concat([rows, tf.matmul(mean[:, :, None], g)], axis=2)
        dtype = whitening.variance.dtype
        return FoldedHidden(*whitening[:4], tf.cast(projection, dtype), tf.cast(tf.sign(eigenvalues), dtype))

    def folded_marginal(self, folded: FoldedHidden, x: tf.Tensor) -> HiddenMarginal:
        """Return `marginal` from the units that `fold` returned; for prediction, not for its gradient."""
        projected, diagonal = _projected(folded, self.blocks(x), self.units.kernel)
        rows, mean = tf.split(projected, [self.units.num_inducing, 1], axis=1)
        explained = tf.matmul(folded.sign, tf.square(rows))[:, 0]
        return self._by_point(mean[:, 0], folded.variance * diagonal - explained)

    def _by_point(self, mean: tf.Tensor, variance: tf.Tensor) -> HiddenMarginal:
        return HiddenMarginal(tf.transpose(mean), tf.maximum(tf.transpose(variance), self.variance_floor))

    @check_shapes("return: [R]")
    def prior_kl(self) -> tf.Tensor:
        """Return KL(q(a_r) ‖ p(a_r)), or -log N(c_r | 0, K_r) of point posteriors, nats."""
        if not self.is_point:
            return self.units.prior_kl()
        factor = self.units.whitening().factor[:, 0]  # G = L⁻¹, and c = L v
        half_log_det = -tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)), axis=-1)
        mahalanobis = tf.reduce_sum(tf.square(self.units.q_mean), axis=[1, 2])
        constant = 0.5 * self.units.num_inducing * np.log(2.0 * np.pi)
        return 0.5 * mahalanobis + half_log_det + constant

    def lengthscales(self) -> list[npt.NDArray[np.floating[Any]]]:
        """Return ℓ of each unit, `[1, columns of its view]`."""
        values = self.units.lengthscales.numpy()
        return [value[:, :size] for value, size in zip(values, self.view_sizes, strict=True)]


def _projected(
    units: FoldedUnits | FoldedHidden, blocks: tf.Tensor, kernel: Kernel
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the units' projections of their kernels with the points `[ν, rows, N]`, and κ(x, x)/σ² there."""
    if isinstance(kernel, StationaryKernel):
        correlation = _stationary_correlation(units, blocks, kernel)
        diagonal = tf.ones([1, 1], correlation.dtype)
    else:
        scaled = scaled_points(blocks, units.centre, units.inverse_lengthscales, kernel)[:, 0]
        correlation = kernel.cross(units.inducing[:, 0], scaled)
        diagonal = kernel.diagonal(scaled)
    return tf.matmul(units.projection[:, 0], correlation), diagonal


def _stationary_correlation(
    units: FoldedUnits | FoldedHidden, blocks: tf.Tensor, kernel: StationaryKernel
) -> tf.Tensor:
    """Return the units' correlations with the points, `[ν, M, N]`.

    The points come last, so that no large matrix is transposed; and no difference of each point with each
    unit is stored, by the expansion

        -½ Σ_d (x - u)²/ℓ² = [x, 1]·[u/ℓ², -½ u²·1/ℓ²] - ½ x²·1/ℓ²
    """
    inverse = units.inverse_lengthscales[:, 0]  # [ν, W]
    # About one centre for all units where they share the points, else about each unit's own.
    centre = units.centre if blocks.shape[0] != 1 else tf.reduce_mean(units.centre, axis=0, keepdims=True)
    inducing = units.inducing[:, 0] + ((units.centre - centre) * inverse)[:, None]  # [ν, M, W]
    half_norm = 0.5 * tf.reduce_sum(tf.square(inducing), axis=-1, keepdims=True)
    weights = tf.concat([inducing * inverse[:, None], -half_norm], axis=-1)
    points = blocks - centre[:, None]
    with_one = tf.pad(points, [[0, 0], [0, 0], [0, 1]], constant_values=1.0)
    scales = 0.5 * tf.square(inverse)
    if blocks.shape[0] == 1:  # one large product instead of one for each unit
        flat = tf.reshape(weights, [-1, weights.shape[-1]])
        products = tf.matmul(flat, with_one[0], transpose_b=True)
        products = tf.reshape(products, [*weights.shape[:2], -1])
        norms = tf.matmul(scales, tf.square(points[0]), transpose_b=True)
    else:
        products = tf.matmul(weights, with_one, transpose_b=True)
        norms = tf.linalg.matvec(tf.square(points), scales)
    return kernel.profile(products - norms[:, None])


class FoldedOutputs(NamedTuple):
    """What a marginal of the output functions needs, in float64.

    Attributes:
        inducing: Z, `[P, M, ν]`.
        hyper_parameters: Parameters of the kernel, as its closed form takes them.
        alpha: α = Gᵀm, `[P, M]`.
        inner: Q = Gᵀ(I - S - m mᵀ)G, packed for a product with Ψ2, `[P, M (M + 1)/2]`.
    """

    inducing: tf.Tensor
    hyper_parameters: tuple[tf.Tensor, ...]
    alpha: tf.Tensor
    inner: tf.Tensor


class OutputUnits(gpflow.Module):
    """The output layer: P functions, each a sparse GP with its own inducing inputs and q(u).

    Args:
        num_outputs: P.
        num_inducing: M; a linear kernel has Z = I_ν, M = ν, which loses nothing.
        num_hidden: ν.
        kernel: See `gpmodels.dfgp.output_kernels.make_output_kernel`.
        shared_kernel: Whether the functions share one kernel.
        dtype: Type of the parameters; what is computed is float64.
        role: What messages call these units.

    Attributes:
        inducing_inputs: Z, `[P, M, ν]`.
        kernel: The output kernel.
        q_mean: m, whitened, `[P, M]`.
        q_sqrt: L_S, lower triangular, `[P, M, M]`.

    Example:
        >>> outputs = OutputUnits(num_outputs=1, num_inducing=2, num_hidden=3)
        >>> float(outputs.prior_kl()[0])
        0.0
    """

    def __init__(
        self,
        *,
        num_outputs: int,
        num_inducing: int,
        num_hidden: int,
        kernel: str = "ard",
        shared_kernel: bool = True,
        dtype: str = "float64",
        role: str = "output unit",
    ) -> None:
        super().__init__()
        self.role = role
        self.num_outputs = num_outputs
        self.is_linear = kernel == "linear"
        self.num_inducing = num_hidden if self.is_linear else num_inducing
        self.jitter = precision("float64").jitter
        self.kernel = make_output_kernel(
            kernel, num_kernels=1 if shared_kernel else num_outputs, num_hidden=num_hidden, dtype=dtype
        )
        p, m = num_outputs, self.num_inducing
        spread = np.linspace(-1.0, 1.0, m)[:, None] * np.ones(num_hidden)  # distinct until they are placed
        start = np.eye(m) if self.is_linear else spread
        self.inducing_inputs = gpflow.Parameter(
            np.tile(start, (p, 1, 1)).astype(dtype),
            dtype=dtype,
            trainable=not self.is_linear,
            name="inducing_inputs",
        )
        self.q_mean = gpflow.Parameter(np.zeros((p, m), dtype), dtype=dtype, name="q_mean")
        self.q_sqrt = gpflow.Parameter(
            np.tile(np.eye(m, dtype=dtype), (p, 1, 1)),
            transform=lower_triangle(),
            dtype=dtype,
            name="q_sqrt",
        )

    @property
    def posterior_parameters(self) -> tuple[gpflow.Parameter, ...]:
        """The parameters of q(u)."""
        return self.q_mean, self.q_sqrt

    def double_inducing(self) -> tf.Tensor:
        """Return Z in float64."""
        return tf.cast(tf.convert_to_tensor(self.inducing_inputs), tf.float64)

    @check_shapes("return: [P, M, M]")
    def inverse_root(self) -> tf.Tensor:
        """Return G = chol(K_ZZ + jitter)⁻¹, in float64.

        Raises:
            tf.errors.InvalidArgumentError: K_ZZ cannot be factorised; the message names the unit.
        """
        covariance = self.kernel.covariance(self.double_inducing())
        return inverse_cholesky(covariance, jitter=self.jitter, unit=self.role)

    @check_shapes("return: [P]")
    def prior_kl(self) -> tf.Tensor:
        """Return KL(q(v) ‖ N(0, I)) of each function, nats, in the parameters' dtype."""
        mean, root = tf.convert_to_tensor(self.q_mean), tf.convert_to_tensor(self.q_sqrt)
        log_det = tf.reduce_sum(tf.math.log(tf.square(tf.linalg.diag_part(root))), axis=-1)
        squares = tf.reduce_sum(tf.square(root), axis=[1, 2]) + tf.reduce_sum(tf.square(mean), axis=1)
        return 0.5 * (squares - float(self.num_inducing) - log_det)

    def fold(self) -> FoldedOutputs:
        """Return the matrices of the marginals at the present parameters."""
        g = self.inverse_root()
        mean, root = (tf.cast(tf.convert_to_tensor(q), tf.float64) for q in (self.q_mean, self.q_sqrt))
        # I - S - m mᵀ
        open_part = tf.eye(self.num_inducing, dtype=tf.float64) - tf.matmul(root, root, transpose_b=True)
        open_part -= mean[:, :, None] * mean[:, None, :]
        inner = tf.matmul(g, tf.matmul(open_part, g), transpose_a=True)
        return FoldedOutputs(
            self.double_inducing(),
            self.kernel.hyper_parameters(self.num_outputs),
            tf.linalg.matvec(g, mean, transpose_a=True),
            pack_inner(inner),
        )

    def psi(self, hidden: HiddenMarginal) -> PsiStatistics:
        """Return Ψ statistics of points of the hidden layer at the present parameters, float64."""
        return self._psi(self.double_inducing(), self.kernel.hyper_parameters(self.num_outputs), hidden)

    @check_shapes("return[0]: [N, P]", "return[1]: [N, P]")
    def marginal(self, folded: FoldedOutputs, hidden: HiddenMarginal) -> tuple[tf.Tensor, tf.Tensor]:
        """Return μ = Ψ1ᵀα and v = Ψ0 - tr(Ψ2 Q) - μ² of each function at hidden points, float64."""
        psi = self._psi(folded.inducing, folded.hyper_parameters, hidden)
        mean = tf.linalg.matvec(psi.psi1, folded.alpha)
        variance = psi.psi0 - tf.linalg.matvec(psi.psi2, folded.inner) - tf.square(mean)
        return tf.transpose(mean), tf.transpose(variance)

    def _psi(
        self, inducing: tf.Tensor, hyper_parameters: tuple[tf.Tensor, ...], hidden: HiddenMarginal
    ) -> PsiStatistics:
        mean, variance = (tf.cast(part, tf.float64) for part in hidden)
        return closed_form(self.kernel.kernel_name)(mean, variance, inducing, *hyper_parameters)
