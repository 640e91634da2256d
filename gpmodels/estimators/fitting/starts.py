"""A fit to all rows starts from several places and continues from the best one after some iterations.

A GP beside a linear mean has an optimum without any kernel, the linear layer itself, which catches a start
near it; and one where the kernel does the work. The first start is the layer with a little kernel; the
second one is a kernel that an exact GP on a sample found (`gpmodels.estimators.fitting.kernel_start`), with
inducing inputs placed by its lengthscales, and of classes no linear mean at first. Both take some iterations,
and the bound, which holds the linear mean's part as well, says which goes on.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from threadpoolctl import threadpool_limits

from gpmodels.estimators.fitting.engine import Engine, FloatArray
from gpmodels.estimators.fitting.full_batch import fit_full_batch
from gpmodels.estimators.fitting.kernel_start import KernelStart, indicators, kernel_start
from gpmodels.estimators.fitting.mini_batch import quiet_monitor
from gpmodels.estimators.fitting.monitoring import FitMonitor
from gpmodels.heads.conjugate_head import ConjugateHead
from gpmodels.heads.gp import Points
from gpmodels.likelihoods.counts import CountLikelihood
from gpmodels.likelihoods.gaussian import GaussianLikelihood
from gpmodels.units.kernels import StationaryKernel
from gpmodels.units.placement import cluster_centres

TRIAL_ITERATIONS = 40
"""Iterations after which starts are compared."""

CLASS_VARIANCE = 4.0
"""Variance of a classifier's kernel at the second start: logits of well separated classes need some."""

EXPERT_SHARE = 0.1
"""An expert's kernel starts with so much of the global unit's variance."""


def choose_start(
    engine: Engine, points: Points, monitor: FitMonitor, *, max_iterations: int, tolerance: float, seed: int
) -> None:
    """Bring the head to the best of several starts.

    Args:
        engine: Its head is placed at the data, with the layer of its linear mean.
        points: All training points.
        monitor: What the iterations of the best start are reported to.
        max_iterations: Iterations of the whole fit; a trial takes no more.
        tolerance: As of `fit_full_batch`.
        seed: Of the sample and of k-means.
    """
    head = engine.head
    if not isinstance(head, ConjugateHead) or head.class_kernels != "shared":
        return
    with threadpool_limits(1):  # threads that wait for each other cost more than these small systems
        start = _kernel_start(head, points, np.random.default_rng([seed, 0]))
    if start is None:
        return
    first = engine.head.get_weights()

    def tried(place: Callable[[], None]) -> _Trial:
        engine.set_weights(first)
        place()
        seen: dict[int, list[FloatArray]] = {}
        look = (
            (lambda number: seen.update({number: engine.head.get_weights()})) if monitor.is_watched else None
        )
        quiet = quiet_monitor(engine, 1.0, look)
        try:
            fit_full_batch(
                engine,
                points._replace(expert=engine.assign(points.x)),
                quiet,
                max_iterations=min(TRIAL_ITERATIONS, max_iterations),
                tolerance=tolerance,
                drop_unused=False,
            )
        except (FloatingPointError, tf.errors.InvalidArgumentError):  # no bound, or a covariance without root
            return _Trial([], first, {})
        return _Trial([point.bound_per_point for point in quiet.curve], head.get_weights(), seen)

    def second() -> None:
        place_by_kernel(engine, points.x.numpy(), start, np.random.default_rng([seed, 1]))

    trials = [tried(lambda: None), tried(second)]
    best = max(trials, key=lambda trial: trial.bounds[-1] if trial.bounds else -np.inf)
    for number, bound in enumerate(best.bounds, start=1):
        if number in best.seen:  # who watches the fit sees the weights of that iteration
            engine.set_weights(best.seen[number])
        monitor.report(bound)
    engine.set_weights(best.weights)


class _Trial(NamedTuple):
    """Iterations from a start: their bounds, the last weights, and those that a watched fit shows."""

    bounds: list[float]
    weights: list[FloatArray]
    seen: dict[int, list[FloatArray]]


def place_by_kernel(engine: Engine, x: FloatArray, start: KernelStart, rng: np.random.Generator) -> None:
    """Give a head the kernel of a start, and inducing inputs that are spread by its lengthscales.

    Args:
        engine: Its head is placed at the data.
        x: Standardised inputs, `[N, D]`.
        start: Lengthscales and variances.
        rng: Of k-means.
    """
    head = engine.head
    if not isinstance(head, ConjugateHead):
        raise TypeError(f"Only heads of sparse units are placed by a kernel, but got {type(head).__name__}.")
    variance = CLASS_VARIANCE if head.is_classifier else start.variance
    expert = engine.assign(x).numpy()
    for units in head.posterior_units:
        is_shared = units is head.shared_units
        members = [x if is_shared else x[expert == k] for k in range(units.num_units)]
        members = [own if len(own) else x for own in members]
        scaled = [cluster_centres(own / start.lengthscales, units.num_inducing, rng) for own in members]
        units.inducing_inputs.assign(np.stack(scaled) * start.lengthscales)
        units.lengthscales.assign(np.broadcast_to(start.lengthscales, units.lengthscales.shape))
        share = 1.0 if is_shared or head.shared_units is None else EXPERT_SHARE
        units.variance.assign(np.full(units.variance.shape, share * variance))
    if head.linear_mean is not None and head.is_classifier:
        head.linear_mean.scale.assign(np.zeros([], head.variable_dtype))
    if isinstance(head.likelihood, GaussianLikelihood):
        noise = head.likelihood.noise_variance
        noise.assign(np.full(noise.shape, max(start.noise_variance, 1e-4)))


def _kernel_start(head: ConjugateHead, points: Points, rng: np.random.Generator) -> KernelStart | None:
    """Return the start by an exact GP on a sample; None for kernels that are no functions of a distance."""
    if not isinstance(head.posterior_units[0].kernel, StationaryKernel):
        return None
    used = points.weight.numpy() > 0
    x, y = points.x.numpy()[used].astype(np.float64), points.y.numpy()[used].astype(np.float64)
    if head.is_classifier:
        if head.mean == "none":
            return None  # its own start does not fall into the linear layer
        return kernel_start(x, indicators(y, head.num_classes), None, rng)
    if isinstance(head.likelihood, CountLikelihood):
        y = head.likelihood.latent_targets(y)
    logits = None if points.logits is None else points.logits.numpy()[used].astype(np.float64)
    return kernel_start(x, y[:, None], logits, rng)
