"""Full-batch training: L-BFGS on the collapsed bound, the noise held at first."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.optimize
import tensorflow as tf
from threadpoolctl import threadpool_limits

from gpmodels.gplvm.bounds import best_inducing_posterior, latent_collapsed_bound, prior_cost
from gpmodels.gplvm.data import FloatArray, IntArray, SeenRows, columns_of_views
from gpmodels.gplvm.kernels import LatentKernel
from gpmodels.gplvm.rows import HeldModel, joined_views
from gpmodels.gplvm.start import START_VARIANCE, principal_scores

START_NOISE = 0.01
"""Share of the values' variance that counts as noise while the noise is held."""

HELD_ITERATIONS = 100
"""Most iterations with the noise held: a noise that is free at once explains everything."""

MEMORY = 20
"""Pairs of steps and gradients that L-BFGS keeps."""

PATIENCE = 5
"""Iterations whose mean gain tells whether to go on."""

FAILED = 1e12
"""Value returned to the line search where the bound is not finite: it shortens its step."""

MAX_FAILURES = 40
"""Such values in a row after which training stops with the error."""

LOG_RANGES = {
    "log_variances": (-14.0, 4.0),
    "log_lengthscales": (-4.0, 4.0),
    "log_kernel_variance": (-6.0, 6.0),
    "log_weights": (-14.0, 6.0),
    "log_noise": (-16.0, 3.0),
}
"""Least and largest logarithms; a line search that leaves them runs into numbers that are not finite."""


class Parameters(NamedTuple):
    """What is optimised, as arrays; None where a model has no such part.

    Of several views all but the positions have views as first axis.

    Attributes:
        mean: μ of q(x), `[N, Q]`.
        log_variances: log s, `[N, Q]`; None for points.
        inducing: Z, `[M, Q]`; None for a linear kernel, whose Z is the identity.
        log_lengthscales: log ℓ, `[Q]`.
        log_kernel_variance: log κ, a scalar.
        log_weights: log w of the linear part, `[Q]`.
        log_noise: log σ², a scalar.
    """

    mean: Any
    log_variances: Any
    inducing: Any
    log_lengthscales: Any
    log_kernel_variance: Any
    log_weights: Any
    log_noise: Any

    def kernel(self) -> LatentKernel:
        """Return the kernel of these values, of tensors."""
        return LatentKernel(
            variance=None if self.log_kernel_variance is None else tf.exp(self.log_kernel_variance),
            lengthscales=None if self.log_lengthscales is None else tf.exp(self.log_lengthscales),
            weights=None if self.log_weights is None else tf.exp(self.log_weights),
        )

    def inducing_inputs(self) -> Any:
        """Return Z; for a linear kernel the identity, which makes the bound exact."""
        return tf.eye(self.mean.shape[1], dtype=tf.float64) if self.inducing is None else self.inducing

    def variance(self) -> tf.Tensor | None:
        """Return s, or None for points."""
        return None if self.log_variances is None else tf.exp(self.log_variances)

    def views(self) -> "list[Parameters]":
        """Return the parameters of each view, all with the same positions."""
        if len(self.log_noise.shape) == 0:
            return [self]
        of_views = {n: v for n, v in self.present().items() if n not in ("mean", "log_variances")}
        return [
            self._replace(**{name: value[v] for name, value in of_views.items()})
            for v in range(self.log_noise.shape[0])
        ]

    def bound(self, rows: SeenRows, *, prior: bool = True) -> tf.Tensor:
        """Return the collapsed bound, nats: the views' bounds, and the prior of the positions once.

        See `gpmodels.gplvm.bounds.latent_collapsed_bound`.
        """
        variance = self.variance()
        bound = tf.add_n(
            [
                latent_collapsed_bound(
                    view.kernel(),
                    view.mean,
                    variance,
                    view.inducing_inputs(),
                    tf.exp(view.log_noise),
                    seen,
                    prior=False,
                )
                for view, seen in zip(self.views(), rows.views(), strict=True)
            ]
        )
        return bound - prior_cost(self.mean, variance) if prior else bound

    def present(self) -> dict[str, Any]:
        """Return the parts that the model has, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    def flat(self) -> FloatArray:
        """Return all values in one vector."""
        return np.concatenate([np.ravel(value) for value in self.present().values()])

    def from_flat(self, flat: Any) -> "Parameters":
        """Return values of these shapes from one vector, an array or a tensor."""
        parts, start = {}, 0
        for name, value in self.present().items():
            shape = np.shape(value)
            size = int(np.prod(shape))
            piece = flat[start : start + size]
            parts[name] = tf.reshape(piece, shape) if tf.is_tensor(flat) else piece.reshape(shape)
            start += size
        return self._replace(**parts)

    def ranges(self) -> tuple[FloatArray, FloatArray]:
        """Return the least and the largest value of each entry of `flat`."""
        limits = [
            np.tile(LOG_RANGES.get(name, (-np.inf, np.inf)), (np.size(value), 1))
            for name, value in self.present().items()
        ]
        low, high = np.concatenate(limits).T
        return low, high


def latent_start_parameters(
    standardised: FloatArray,
    *,
    num_dimensions: int,
    num_inducing: int,
    kernel: str,
    is_point: bool,
    rng: np.random.Generator,
    view: IntArray | None = None,
) -> Parameters:
    """Return where training starts.

    Args:
        standardised: Rows `[N, D]`; NaN where a value is missing.
        num_dimensions: Q.
        num_inducing: M; not used by a linear kernel.
        kernel: One of `gpmodels.gplvm.kernels.KERNELS`.
        is_point: Whether q(x) is a point.
        rng: Chooses the rows that inducing inputs start from.
        view: View of each column, `[D]`; None where there is one.
    """
    mean = principal_scores(standardised, num_dimensions, rng, view)
    chosen = np.sort(rng.choice(len(mean), num_inducing, replace=False))
    totals = [max(float(np.nanvar(standardised[:, columns])), 1e-6) for columns in columns_of_views(view)]
    total = np.array(totals[0] if view is None else totals)  # a scalar, or [V]
    has_rbf, has_linear = "rbf" in kernel, "linear" in kernel

    def for_views(value: Any) -> FloatArray:
        return np.broadcast_to(value, (*total.shape, *value.shape)).copy()

    of_dimensions = np.ones(num_dimensions)
    return Parameters(
        mean=mean,
        log_variances=None if is_point else np.full(mean.shape, np.log(START_VARIANCE)),
        inducing=for_views(mean[chosen]) if has_rbf else None,
        log_lengthscales=for_views(np.zeros(num_dimensions)) if has_rbf else None,
        log_kernel_variance=np.log(total) if has_rbf else None,
        log_weights=np.log(total / num_dimensions)[..., None] * of_dimensions if has_linear else None,
        log_noise=np.log(START_NOISE * total),
    )


@dataclass
class LatentObjective:
    """-bound/N as a function of one vector, for SciPy.

    Attributes:
        shapes: Parameters of the right shapes.
        rows: Y.
        prior: Whether the prior of the positions counts.
    """

    shapes: Parameters
    rows: SeenRows
    prior: bool = True

    def __post_init__(self) -> None:
        size = len(self.shapes.flat())
        self._scale = float(len(self.rows.values))
        self._failures = 0

        # Arguments, not constants of the graph, which may hold no more than 2 GiB.
        self._data = tf.constant(self.rows.values), tf.constant(self.rows.seen)

        def value_and_gradient(
            flat: tf.Tensor, values: tf.Tensor, seen: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor]:
            rows = self.rows._replace(values=values, seen=seen)
            with tf.GradientTape() as tape:
                tape.watch(flat)
                loss = -self.shapes.from_flat(flat).bound(rows, prior=self.prior) / self._scale
            return loss, tape.gradient(loss, flat)

        shapes = ([size], *(part.shape for part in self._data))
        signature = [tf.TensorSpec(shape, tf.float64) for shape in shapes]
        self._compiled = tf.function(value_and_gradient, input_signature=signature, autograph=False)

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Return value and gradient; a large value where they are not finite."""
        try:
            value, gradient = (result.numpy() for result in self._compiled(tf.constant(flat), *self._data))
        except tf.errors.InvalidArgumentError:
            self._failures += 1
            if self._failures > MAX_FAILURES:
                raise
            return FAILED, np.zeros_like(flat)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return FAILED, np.zeros_like(flat)
        self._failures = 0
        return float(value), gradient


def maximise(
    start: Parameters,
    rows: SeenRows,
    *,
    max_iterations: int,
    tolerance: float,
    iteration_done: Callable[[float, Callable[[], Parameters]], None],
    prior: bool = True,
) -> Parameters:
    """Maximise the collapsed bound: the noise held for the first iterations, then free.

    Args:
        start: Where to start.
        rows: Y.
        max_iterations: Iterations, held ones included.
        tolerance: Training ends when five iterations gain less than this on average, nats per row.
        iteration_done: Called after each iteration with the bound per row and a function that returns the
            parameters at that moment.
        prior: Whether the prior of the positions counts.
    """
    objective = LatentObjective(start, rows, prior)
    held = min(HELD_ITERATIONS, max_iterations // 3)
    flat = start.flat()
    for count, holds_noise in ((held, True), (max_iterations - held, False)):
        if count < 1:
            continue
        low, high = start.ranges()
        if holds_noise:
            noises = slice(-np.size(start.log_noise), None)
            low[noises] = high[noises] = flat[noises]
        # L-BFGS itself has little to compute; BLAS threads that wait for each other take most of the time.
        with threadpool_limits(limits=1, user_api="blas"):
            flat = _lbfgs(objective, flat, low, high, count, tolerance, start, iteration_done)
    return start.from_flat(flat)


def _lbfgs(
    objective: LatentObjective,
    flat: FloatArray,
    low: FloatArray,
    high: FloatArray,
    max_iterations: int,
    tolerance: float,
    shapes: Parameters,
    iteration_done: Callable[[float, Callable[[], Parameters]], None],
) -> FloatArray:
    values: list[float] = []

    def after_iteration(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        values.append(float(intermediate_result.fun))
        place: npt.NDArray[Any] = np.array(intermediate_result.x)
        iteration_done(-values[-1], lambda: shapes.from_flat(place))
        if len(values) > PATIENCE and values[-1 - PATIENCE] - values[-1] < PATIENCE * tolerance:
            raise StopIteration

    result = scipy.optimize.minimize(
        objective,
        np.clip(flat, low, high),
        jac=True,
        method="L-BFGS-B",
        bounds=scipy.optimize.Bounds(low, high),
        callback=after_iteration,
        options={
            "maxiter": max_iterations,
            "maxfun": 10 * max_iterations,
            "maxcor": MEMORY,
            "maxls": 30,
            "ftol": 1e-14,
            "gtol": 1e-9,
        },
    )
    return np.asarray(result.x)


def held_model(parameters: Parameters, rows: SeenRows) -> HeldModel:
    """Return the trained model with the best q(u) held.

    Args:
        parameters: Trained.
        rows: Y.
    """
    if rows.view is not None:
        parts = zip(parameters.views(), rows.views(), strict=True)
        return joined_views([held_model(*part) for part in parts], rows.view)
    variance = parameters.variance()
    kernel, inducing = parameters.kernel(), tf.convert_to_tensor(parameters.inducing_inputs())
    noise = tf.exp(parameters.log_noise)
    posterior = best_inducing_posterior(kernel, tf.constant(parameters.mean), variance, inducing, noise, rows)
    return HeldModel(
        kernel=kernel,
        inducing=inducing.numpy(),
        noise_variance=float(noise),
        posterior=posterior,
        group=rows.group,
        is_point=variance is None,
    )
