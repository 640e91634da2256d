"""Gaussian process regression networks: outputs that mix GPs with weights that are GPs themselves.

    y_p = Σ_q w_pq(x) f_q(x) + ε_p,   w_pq ~ GP(0, κ_w),   f_q ~ GP(0, κ_f),   ε_p ~ N(0, σ_p²)

P outputs, Q nodes f_q. The covariance between two outputs, Σ_q w_pq(x) w_rq(x') κ_f(x, x'), varies with the
inputs. Every weight and node has a sparse GP posterior of its own, independent of the others, under which the
expectation of log p(y | w, f) is exact.

Departures from the paper: the noise is not inside the nodes; the approximation is sparse, as in AutoGP, and
its expectations are not sampled; κ_f has variance 1, since a scale of the nodes would only undo that of the
weights.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes
from sklearn.base import MultiOutputMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from benchmarks.peers.base import (
    INITIAL_NOISE_VARIANCE,
    PREDICTION_BATCH,
    Array,
    Report,
    SparseRegressor,
    Trained,
    check_count,
)
from benchmarks.peers.lbfgs import LBFGS
from benchmarks.peers.posterior import VARIANCE_FLOOR
from gpmodels.estimators.fitting.sizes import default_num_inducing
from gpmodels.likelihoods.probit import HALF_LOG_TWO_PI
from gpmodels.units.kernels import make_kernel
from gpmodels.units.numerics import precision
from gpmodels.units.placement import place_global
from gpmodels.units.sparse import FoldedUnits, SparseUnits, folded_marginal, whitened_features
from gpmodels.units.transforms import exponential_above

KERNEL = make_kernel("squared_exponential")

SLOWER_WEIGHTS = 2.0
"""Lengthscales of the weights over those of the nodes at the start: mixing changes more slowly."""

SPREAD_AT_START = 0.1
"""Deviation of what is drawn to set the whitened means of weights and nodes apart."""


class NetworkMarginals(NamedTuple):
    """Marginals of all latent functions at some points; under q they are independent.

    Attributes:
        weight_mean: w̄_pq, `[N, P, Q]`.
        weight_variance: Variance of w_pq, `[N, P, Q]`.
        node_mean: f̄_q, `[N, Q]`.
        node_variance: Variance of f_q, `[N, Q]`.
    """

    weight_mean: tf.Tensor
    weight_variance: tf.Tensor
    node_mean: tf.Tensor
    node_variance: tf.Tensor


_MARGINALS = (
    "marginals.weight_mean: [N, P, Q]",
    "marginals.weight_variance: [N, P, Q]",
    "marginals.node_mean: [N, Q]",
    "marginals.node_variance: [N, Q]",
)


@check_shapes(*_MARGINALS, "return[0]: [N, P]", "return[1]: [N, P]")
def output_moments(marginals: NetworkMarginals) -> tuple[tf.Tensor, tf.Tensor]:
    """Return mean and variance of Σ_q w_pq f_q, without the noise.

        μ_p = Σ_q w̄_pq f̄_q        V_p = Σ_q (w̄_pq² v_fq + v_wpq f̄_q² + v_wpq v_fq)

    Args:
        marginals: Marginals of weights and nodes.

    Source:
        The moments of a sum of products of independent variables.

    Example:
        >>> part = tf.ones([1, 1, 1]), tf.ones([1, 1, 1]), tf.ones([1, 1]), tf.ones([1, 1])
        >>> [float(moment[0, 0]) for moment in output_moments(NetworkMarginals(*part))]
        [1.0, 3.0]
    """
    mean = tf.linalg.matvec(marginals.weight_mean, marginals.node_mean)  # [N, P]
    of_nodes = tf.linalg.matvec(tf.square(marginals.weight_mean), marginals.node_variance)
    return mean, of_nodes + _variance_of_weights(marginals)


@check_shapes(*_MARGINALS, "return: [N, P, P]")
def output_covariance(marginals: NetworkMarginals) -> tf.Tensor:
    """Return the covariance of the outputs at each point, without the noise.

    Outputs p ≠ r have Σ_q w̄_pq w̄_rq v_fq in common; the diagonal is the variance of `output_moments`.

    Args:
        marginals: Marginals of weights and nodes.
    """
    weighted = marginals.weight_mean * marginals.node_variance[:, None, :]  # [N, P, Q]
    shared = tf.matmul(weighted, marginals.weight_mean, transpose_b=True)  # [N, P, P]
    return shared + tf.linalg.diag(_variance_of_weights(marginals))


def _variance_of_weights(marginals: NetworkMarginals) -> tf.Tensor:
    """Return Σ_q v_wpq (f̄_q² + v_fq), what the weights add to the variance of each output, `[N, P]`."""
    squares = tf.square(marginals.node_mean) + marginals.node_variance
    return tf.linalg.matvec(marginals.weight_variance, squares)


@check_shapes(*_MARGINALS, "y: [N, P]", "noise_variance: [P]", "return: [N, P]")
def expected_log_density(marginals: NetworkMarginals, y: tf.Tensor, noise_variance: tf.Tensor) -> tf.Tensor:
    """Return E_q[log N(y_p | Σ_q w_pq f_q, σ_p²)] exactly, nats.

        -½ log 2πσ_p² - ((y_p - μ_p)² + V_p)/(2σ_p²),   μ and V as in `output_moments`

    Args:
        marginals: Marginals of weights and nodes.
        y: Targets.
        noise_variance: σ².

    Source:
        Nguyen and Bonilla (2013), Efficient variational inference for Gaussian process regression networks.
        The AutoGP paper samples the same quantity (its figure 1).
    """
    mean, variance = output_moments(marginals)
    squares = tf.square(y - mean) + variance
    return -HALF_LOG_TWO_PI - 0.5 * tf.math.log(noise_variance) - 0.5 * squares / noise_variance


@dataclass(repr=False, eq=False)
class GPRNRegressor(MultiOutputMixin, SparseRegressor):
    """A GP regression network: several outputs whose correlation depends on the input.

    All latent functions have full Gaussian posteriors on M inducing values; everything is learned by L-BFGS
    on the bound of all rows. One lengthscale for each feature, shared by all nodes, another by all weights.

    Args:
        num_nodes: Q, latent functions that the outputs mix.
        num_inducing: M of the nodes and of the weights each, or `"auto"` for 2.5 % of all points, within 50
            and 250.
        max_iterations: Most iterations of L-BFGS.
        random_state: Seed of the k-means and of the start.
        verbose: 1 shows a progress bar.

    Attributes:
        log_evidence_: A lower bound on log p(Y) of the standardised targets, in nats.
        n_features_in_: D.
        n_iter_: Iterations made.

    Source:
        Wilson, Knowles and Ghahramani (2012); the bound is that of AutoGP with one component.

    Example:
        >>> x = np.linspace(0.0, 6.0, 40)[:, None]
        >>> targets = np.hstack([np.sin(x), (1.0 + 0.1 * x) * np.sin(x)])
        >>> model = GPRNRegressor(1, num_inducing=10, max_iterations=50, random_state=0).fit(x, targets)
        >>> mean, covariance = model.predict([[1.5]], return_cov=True)
        >>> mean.shape, covariance.shape, bool(abs(mean[0, 0] - np.sin(1.5)) < 0.2)
        ((1, 2), (1, 2, 2), True)
    """

    num_nodes: int = 2
    num_inducing: int | Literal["auto"] = "auto"
    max_iterations: int = field(default=500, kw_only=True)

    def predict(
        self, X: npt.ArrayLike, return_std: bool = False, return_cov: bool = False
    ) -> Array | tuple[Array, Array]:
        """Return the means of the targets.

        Args:
            X: Inputs, `[N, D]`.
            return_std: Whether to return the standard deviations of the noisy targets as well.
            return_cov: Whether to return the covariances of the noisy targets of each row as well. (Those of
                scikit-learn's `GaussianProcessRegressor` are between rows.)

        Returns:
            The means `[N, P]`; with the standard deviations `[N, P]`; or with the covariances `[N, P, P]`.
            Fitted with targets `[N]`, means and deviations are `[N]` and covariances `[N, 1, 1]`.

        Raises:
            ValueError: Both deviations and covariances are asked for, or X has a wrong shape.
        """
        check_is_fitted(self, "posterior_")
        if return_std and return_cov:
            raise ValueError(
                "predict was asked for both return_std and return_cov, but returns one of them at a time. "
                "Ask for return_cov: the deviations are the square roots of its diagonal."
            )
        inputs = self.input_scaler_.transform(validate_data(self, X, dtype=np.float64, reset=False))
        starts = range(0, len(inputs), PREDICTION_BATCH)
        parts = [self.posterior_.predict(inputs[start : start + PREDICTION_BATCH]) for start in starts]
        mean, covariance = (np.concatenate(part) for part in zip(*parts, strict=True))
        mean = self.target_scaler_.inverse_transform(mean)
        scale = self.target_scaler_.scale_
        covariance = covariance * scale[:, None] * scale
        deviation = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        if self._is_column:
            mean, deviation = mean[:, 0], deviation[:, 0]
        if return_cov:
            return mean, covariance
        return (mean, deviation) if return_std else mean

    def _train(self, x: Array, y: Array, rng: np.random.Generator, report: Report) -> Trained:
        num_nodes = check_count("num_nodes", self.num_nodes, least=1)
        num_inducing = self.num_inducing
        if num_inducing != "auto":
            check_count("num_inducing", num_inducing, least=1)
        self._is_column = y.ndim == 1
        y = y.reshape(len(y), -1)
        network = Network(x, y, num_nodes, default_num_inducing(num_inducing, len(x)), rng)
        optimiser = LBFGS(lambda: -network.bound(), network.trainable_variables)

        def report_bound(iteration: int, loss: float) -> None:
            report(iteration, -loss, network.posterior)

        num_iterations, _ = optimiser.run(self.max_iterations, report_bound)
        return Trained(network.posterior(), float(network.bound()), num_iterations)


class Network(gpflow.Module):
    """The P Q weights and Q nodes as sparse GPs, and the bound of all rows.

    At the start the nodes follow the principal components of the targets, and the weights their loadings;
    nodes beyond the number of components are drawn. Weights and nodes at 0 would stay there, by symmetry.

    Args:
        x: Standardised inputs, `[N, D]`.
        y: Standardised targets, `[N, P]`.
        num_nodes: Q.
        num_inducing: M.
        rng: Source of randomness.

    Attributes:
        weights: The P Q weights, in the order of p and then q.
        nodes: The Q nodes.
        noise_variance: σ², `[P]`.

    Example:
        >>> x = np.linspace(-1.0, 1.0, 5)[:, None]
        >>> network = Network(x, np.hstack([x, -x]), 1, 3, np.random.default_rng(0))
        >>> network.marginals(tf.constant(x)).weight_mean.shape
        TensorShape([5, 2, 1])
    """

    def __init__(
        self, x: Array, y: Array, num_nodes: int, num_inducing: int, rng: np.random.Generator
    ) -> None:
        super().__init__()
        self._x, self._y = tf.constant(x), tf.constant(y)
        self._shape = y.shape[1], num_nodes  # P, Q
        num_features = x.shape[1]
        self.weights = SparseUnits(
            num_units=1,
            num_inducing=num_inducing,
            num_features=num_features,
            num_latents=y.shape[1] * num_nodes,
            role="weights of a network",
        )
        self.nodes = SparseUnits(
            num_units=1,
            num_inducing=num_inducing,
            num_features=num_features,
            num_latents=num_nodes,
            role="nodes of a network",
            fixed=("variance",),
        )
        inducing, lengthscales = place_global(x, num_inducing, rng)
        self.nodes.place(inducing, lengthscales)
        self.weights.place(inducing, SLOWER_WEIGHTS * lengthscales)
        floor = np.asarray(precision("float64").jitter)
        self.noise_variance = gpflow.Parameter(
            np.full(y.shape[1], INITIAL_NOISE_VARIANCE),
            transform=exponential_above(floor),
        )
        self._break_symmetry(x, y, rng)

    def _break_symmetry(self, x: Array, y: Array, rng: np.random.Generator) -> None:
        p, q = self._shape
        left, singular, right = np.linalg.svd(y, full_matrices=False)
        of_nodes, loadings = rng.normal(size=(len(x), q)), np.zeros((p, q))
        known = min(q, int(np.sum(singular > 1e-6 * max(singular[0], 1e-300))))
        of_nodes[:, :known] = left[:, :known] * np.sqrt(len(x))  # of mean square 1
        loadings[:, :known] = right[:known].T * singular[:known] / np.sqrt(len(x))
        of_weights = np.broadcast_to(loadings.reshape(-1), (len(x), p * q))
        for units, values in ((self.nodes, of_nodes), (self.weights, of_weights)):
            b = whitened_features(units.whitening(), 0, tf.constant(x), KERNEL)[0].numpy()[0]  # [N, M]
            # The posterior of v for values seen with the initial noise: S⁻¹ = I + BᵀB/σ², m = S Bᵀ values/σ²
            covariance = np.linalg.inv(np.eye(b.shape[1]) + b.T @ b / INITIAL_NOISE_VARIANCE)
            mean = covariance @ b.T @ values / INITIAL_NOISE_VARIANCE  # [M, Q] or [M, P Q]
            mean += SPREAD_AT_START * rng.normal(size=mean.shape)
            root = np.linalg.cholesky(0.5 * (covariance + covariance.T))
            units.q_mean.assign(mean.T[None])
            units.q_sqrt.assign(np.tile(root, (1, mean.shape[1], 1, 1)))

    def bound(self) -> tf.Tensor:
        """Return Σ_n Σ_p E[log p(y_np)] - Σ KL of all weights and nodes, nats."""
        noise_variance = tf.convert_to_tensor(self.noise_variance)
        data = tf.reduce_sum(expected_log_density(self.marginals(self._x), self._y, noise_variance))
        return data - self.weights.prior_kl()[0] - self.nodes.prior_kl()[0]

    def marginals(self, x: tf.Tensor) -> NetworkMarginals:
        """Return the marginals of weights and nodes at points `[N, D]`."""
        return _marginals(self.weights.fold(), self.nodes.fold(), x, self._shape)

    def posterior(self) -> NetworkPosterior:
        """Return the arrays that predict."""
        weights, nodes = (
            FoldedUnits(*(part.numpy() for part in units.fold())) for units in (self.weights, self.nodes)
        )
        return NetworkPosterior(weights, nodes, self.noise_variance.numpy(), self._shape)


def _marginals(
    weights: FoldedUnits, nodes: FoldedUnits, x: tf.Tensor, shape: tuple[int, int]
) -> NetworkMarginals:
    """Return the marginals at points `[N, D]` of folded weights and nodes; the shape is P, Q."""
    moments = []
    for folded, sizes in ((weights, shape), (nodes, shape[1:])):
        mean, conditional, inducing = (part[0] for part in folded_marginal(folded, x[None], KERNEL))
        variance = tf.maximum(conditional, VARIANCE_FLOOR) + inducing
        moments += [tf.reshape(part, [-1, *sizes]) for part in (mean, variance)]
    return NetworkMarginals(*moments)


@dataclass(frozen=True)
class NetworkPosterior:
    """A trained network.

    Attributes:
        weights: The weights, folded, in arrays.
        nodes: The nodes, likewise.
        noise_variance: σ², `[P]`.
        shape: P and Q.
    """

    weights: FoldedUnits
    nodes: FoldedUnits
    noise_variance: Array
    shape: tuple[int, int]

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Return the means `[N, P]` and covariances `[N, P, P]` of the noisy targets, by their moments."""
        marginals = self.marginals(x)
        mean, _ = output_moments(marginals)
        return mean.numpy(), output_covariance(marginals).numpy() + np.diag(self.noise_variance)

    def marginals(self, x: Array) -> NetworkMarginals:
        """Return the marginals of weights and nodes at points `[N, D]`."""
        return _marginals(
            FoldedUnits(*map(tf.constant, self.weights)),
            FoldedUnits(*map(tf.constant, self.nodes)),
            tf.constant(x),
            self.shape,
        )
