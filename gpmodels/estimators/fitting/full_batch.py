"""Full-batch training: L-BFGS with the routing frozen in rounds (the thesis' hard EM), q in closed form.

The gate depends on the inducing inputs, so the objective jumps where a point changes sides; within a round
the routing is frozen, between rounds all points are routed anew and experts without points dropped (thesis
4.3.2.3).

Only the inducing inputs and hyper-parameters are variables of L-BFGS. The posterior q follows them: exactly
for regression (`gpmodels.heads.conjugate.collapsed_bound`) and for the output layer of a DFGP
(`gpmodels.dfgp.posterior.deep_collapsed_bound`), by sites for classification
(`gpmodels.heads.conjugate.tied_bound`), refreshed after each iteration. That saves most of the variables and
many of the iterations. With a soft E-step there is no such form and q
is optimised with all else, as in the thesis.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.estimators.fitting.engine import Engine, FloatArray
from gpmodels.estimators.fitting.lbfgs import Run, minimise_fixed, minimise_sharpened
from gpmodels.estimators.fitting.monitoring import FitMonitor
from gpmodels.heads.base import Head
from gpmodels.heads.conjugate import SitePair, Sites
from gpmodels.heads.gp import Points

WARM_UP_ITERATIONS = 30
"""Most iterations of each round of a warm-up, see `GPHead.warm_up_weights`."""

ROUND_LENGTHS = (15, 25, 40, 60, 100)
"""Iterations of the rounds; the last one repeats. The routing settles early."""

MAX_E_STEPS = 8
"""Most natural-gradient steps for q at the start of a round and at the end."""

E_STEP_TOLERANCE = 1e-6
"""Such steps end when one gains less, in nats per point."""

LOG_RANGE = 10.0
"""Logarithms of hyper-parameters stay within ± this of 0, so that a line search cannot leave the numbers."""

FAILED = 1e10
"""Value returned to the line search where a covariance could not be factorised: it shortens its step."""


@dataclass
class _Objective:
    """-bound/N as a function of one vector, for SciPy; remembers the sites at the last point evaluated."""

    engine: Engine
    points: Points
    scale: float

    minimise: ClassVar[Callable[..., Run]] = staticmethod(minimise_fixed)

    def __post_init__(self) -> None:
        self.failures = 0

    @property
    def variables(self) -> list[tf.Variable]:
        return self.engine.all_variables

    def evaluate(self, flat: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return -bound, nats, and its gradient."""
        return self.engine.joint_bound(flat, self.points)

    def settle(self, x: FloatArray) -> None:
        """Make the most of q at `x`; nothing to do where q is among the variables or maximised out."""

    def set_posterior(self) -> None:
        """Bring the head's q up to date."""

    def left_out(self) -> float:
        """Return what a warm-up leaves out of the objective at present, nats per point."""
        return 0.0

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        try:
            value, gradient = self.evaluate(tf.constant(flat, self.engine.dtype))
        except tf.errors.InvalidArgumentError:
            self.failures += 1
            if self.failures > 20:
                raise
            return FAILED, np.zeros_like(flat)
        self.failures = 0
        gradient = gradient.numpy().astype("float64") / self.scale
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return FAILED, np.zeros_like(flat)
        return float(value) / self.scale, gradient


class _Collapsed(_Objective):
    """Regression, and the DFGP: q, or that of the output layer, has been maximised out."""

    @property
    def variables(self) -> list[tf.Variable]:
        return self.engine.hyper_variables

    def evaluate(self, flat: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return self.engine.collapsed_bound(flat, self.points)

    def set_posterior(self) -> None:
        self.engine.set_best_posterior(self.points)

    def left_out(self) -> float:
        return self.engine.head.left_out(float(self.engine.warm_up)) / self.scale


class _Tied(_Objective):
    """Classification: q follows through sites, which move by natural-gradient steps that raise the bound.

    Several latent functions of a point are coupled by the likelihood, which the sites ignore; half a step is
    then what converges.
    """

    minimise = staticmethod(minimise_sharpened)

    def __post_init__(self) -> None:
        super().__post_init__()
        latents = self.engine.head.likelihood.num_latents
        self.longest_step = 1.0 if latents == 1 else 0.5
        self.step = self.longest_step
        nothing = tf.zeros([tf.shape(self.points.y)[0], latents], self.engine.dtype)
        self.sites: SitePair = (Sites(nothing, nothing), Sites(nothing, nothing))
        self.matching: SitePair = self.sites

    @property
    def variables(self) -> list[tf.Variable]:
        return self.engine.hyper_variables

    def evaluate(self, flat: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        value, gradient, self.matching = self.engine.tied_bound(flat, self.points, self.sites)
        return value, gradient

    def sharpen(self, x: FloatArray, value: float) -> tuple[float, FloatArray] | None:
        """Move the sites towards those that match the marginals at `x`, the last point evaluated."""
        sites, matching = self.sites, self.matching
        self.sites = tf.nest.map_structure(
            lambda old, new: (1.0 - self.step) * old + self.step * new, sites, matching
        )
        new_value, gradient = self(x)
        if new_value <= value:
            self.step = min(self.longest_step, 1.5 * self.step)
            return new_value, gradient
        self.step *= 0.5
        self.sites, self.matching = sites, matching
        return None

    def settle(self, x: FloatArray) -> None:
        """Take natural-gradient steps at `x` until they gain nothing more."""
        value, _ = self(x)
        for _ in range(MAX_E_STEPS):
            sharper = self.sharpen(x, value)
            if sharper is not None:
                gained, value = value - sharper[0], sharper[0]
                if gained < E_STEP_TOLERANCE:
                    break

    def set_posterior(self) -> None:
        self.engine.set_posterior(self.points, self.sites)


def fit_full_batch(
    engine: Engine,
    points: Points,
    monitor: FitMonitor,
    *,
    max_iterations: int,
    tolerance: float,
    drop_unused: bool = True,
) -> None:
    """Maximise the bound over all points.

    Args:
        engine: Its head is placed at the data; on return it holds the result.
        points: All training points.
        monitor: What every iteration is reported to.
        max_iterations: Iterations of L-BFGS, over all rounds.
        tolerance: Stop when five iterations gained less than this on average, nats per point, and the routing
            stays.
        drop_unused: Whether experts without points are dropped; not on the evidence of a sample.

    Raises:
        tf.errors.InvalidArgumentError: A covariance cannot be factorised, again and again.
        FloatingPointError: The bound is not finite where the fit starts.
    """
    scale = float(tf.reduce_sum(points.weight))
    objective = _objective_of(engine, points, scale)
    flat = engine.flat(objective.variables)
    if objective(flat)[0] == FAILED:
        raise FloatingPointError(
            "The bound is not finite at the start of the fit. Look for extreme values in the inputs or "
            "targets, or pass dtype='float64'."
        )
    flat = _warm_up(objective, flat, max_iterations, monitor, tolerance)
    converged = False
    for round_number in range(max_iterations):
        moved = _route(engine, objective, drop_unused=drop_unused)
        remaining = max_iterations - monitor.iteration
        if remaining < 1 or (converged and not moved):
            break
        objective.settle(flat)
        length = (
            ROUND_LENGTHS[min(round_number, len(ROUND_LENGTHS) - 1)] if engine.head.num_experts else remaining
        )
        flat, converged = _run(objective, flat, min(length, remaining), monitor, tolerance)
        engine.assign_flat(flat, objective.variables)
    objective.settle(flat)
    engine.assign_flat(flat, objective.variables)
    objective.set_posterior()


def refit_posterior(engine: Engine, points: Points, sites: SitePair) -> None:
    """Set q to the best at some points for the present inducing inputs and hyper-parameters, by sites.

    Args:
        engine: Its head is fitted, and its q follows from sites.
        points: Points; those of weight 0 take no part.
        sites: Where the sites start: those that match the fitted posterior.
    """
    objective = _Tied(engine, points, float(tf.reduce_sum(points.weight)))
    used = tf.cast(points.weight > 0.0, engine.dtype)[:, None]
    objective.sites = tf.nest.map_structure(lambda part: part * used, sites)
    objective.settle(engine.flat(objective.variables))
    objective.set_posterior()


def _warm_up(
    objective: _Objective, flat: FloatArray, max_iterations: int, monitor: FitMonitor, tolerance: float
) -> FloatArray:
    """Run short rounds in which a part of the penalty counts less; the whole objective is reported."""
    engine = objective.engine
    length = min(WARM_UP_ITERATIONS, max_iterations // 4)
    try:
        for kl_weight in engine.head.warm_up_weights if length else ():
            engine.warm_up.assign(kl_weight)
            flat = _run(objective, flat, length, monitor, tolerance).x
            engine.assign_flat(flat, objective.variables)
    finally:
        engine.warm_up.assign(1.0)
    return flat


def _objective_of(engine: Engine, points: Points, scale: float) -> _Objective:
    kind = {"closed_form": _Collapsed, "sites": _Tied, "optimiser": _Objective}[engine.head.best_posterior_by]
    return kind(engine, points, scale)


def _run(
    objective: _Objective, flat: FloatArray, max_iterations: int, monitor: FitMonitor, tolerance: float
) -> Run:
    """Return where one round of L-BFGS from `flat` ends."""

    def iteration_done(value: float) -> None:
        monitor.report(-value - objective.left_out(), prepare=objective.set_posterior)

    return objective.minimise(
        objective,
        flat,
        _limit(objective),
        max_iterations=max_iterations,
        tolerance=tolerance,
        iteration_done=iteration_done,
    )


def _limit(objective: _Objective) -> FloatArray:
    """Return each variable's largest magnitude: logarithms of hyper-parameters stay in range."""
    limits = []
    for variable in objective.variables:
        name = variable.name.rsplit("/", 1)[-1]
        logarithmic = any(word in name for word in ("lengthscales", "variance"))
        limits.append(np.full(int(np.prod(variable.shape)), LOG_RANGE if logarithmic else np.inf))
    return np.concatenate(limits)


def _route(engine: Engine, objective: _Objective, *, drop_unused: bool) -> bool:
    """Assign all points anew, drop experts without points if asked to; whether any point moved."""
    used = objective.points.weight.numpy() > 0
    before = objective.points.expert.numpy()

    def assignments() -> npt.NDArray[np.int32]:
        objective.points = objective.points._replace(expert=engine.assign(objective.points.x))
        return objective.points.expert.numpy()

    def count() -> npt.NDArray[np.int64]:
        return count_assignments(engine.head, assignments()[used])

    if drop_unused:
        drop_unused_experts(engine.head, count)
    else:
        counts = count()
        if engine.head.num_experts:
            engine.head.set_assignments(counts)
    return bool(np.any(before != objective.points.expert.numpy()))


def count_assignments(head: Head, expert: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """Return the number of points of each expert, `[T]`, or of all where there are no experts, `[1]`.

    Args:
        head: The head whose gate assigned them.
        expert: Responsible experts, `[N]`.
    """
    return np.bincount(expert, minlength=max(head.num_experts, 1))


def drop_unused_experts(head: Head, count: Callable[[], npt.NDArray[np.int64]]) -> None:
    """Drop experts without points, one at a time, and record the others' counts in the head (thesis 4.3.2.3).

    Dropping one changes the pooled variance of the gate, so all points are counted anew after each drop.

    Args:
        head: Any head; one without experts is left alone, but its points are still routed by `count`.
        count: Routes all training points by the present gate and counts them, `[T]`.
    """
    while True:
        counts = count()
        if not head.num_experts:
            return
        unused = [k for k in head.active_experts if not counts[k]]
        if not unused:
            head.set_assignments(counts)
            return
        head.drop_experts(np.array(unused[:1]))
