"""Full-batch training: L-BFGS with the routing frozen in rounds (the thesis' hard EM), q in closed form.

The gate depends on the inducing inputs, so the objective jumps where a point changes sides; within a round the
routing is frozen, between rounds all points are routed anew and experts without points dropped (thesis 4.3.2.3).

Only the inducing inputs and hyper-parameters are variables of L-BFGS. The posterior q follows them: exactly for
regression (:func:`gpmodels.conjugate.collapsed_bound`), by sites for classification
(:func:`gpmodels.conjugate.tied_bound`), refreshed after each iteration. That saves most of the variables and most of
the iterations; benchmarks/results has the comparison. With a soft E-step there is no such form and q is optimised
with all else, as in the thesis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.optimize
import tensorflow as tf

from gpmodels.conjugate import SitePair, Sites
from gpmodels.estimators.engine import Engine, FloatArray, Points
from gpmodels.estimators.monitoring import FitMonitor
from gpmodels.estimators.routing import count_assignments, drop_unused_experts
from gpmodels.experts import ExpertsHead

ROUND_LENGTHS = (15, 25, 40, 60, 100)
"""Iterations of the rounds; the last one repeats. The routing settles early."""

MEMORY = 20
"""Pairs of steps and gradients that L-BFGS keeps."""

INITIAL_E_STEPS = 5
"""Natural-gradient steps for q before the first round."""

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

    def __post_init__(self) -> None:
        self.failures = 0

    @property
    def variables(self) -> list[tf.Variable]:
        return self.engine.all_variables

    def evaluate(self, flat: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """-bound and its gradient."""
        return self.engine.joint_bound(flat, self.points)

    def accept(self) -> None:
        """An iteration ended at the last point evaluated."""

    def set_posterior(self) -> None:
        """Bring the head's q up to date."""

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        try:
            value, gradient = self.evaluate(tf.constant(flat, self.engine.dtype))
        except tf.errors.InvalidArgumentError:
            self.failures += 1
            if self.failures > 20:
                raise
            return FAILED, np.zeros_like(flat)
        gradient = gradient.numpy().astype("float64") / self.scale
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return FAILED, np.zeros_like(flat)
        return float(value) / self.scale, gradient


class _Collapsed(_Objective):
    """Regression: q has been maximised out."""

    @property
    def variables(self) -> list[tf.Variable]:
        return self.engine.hyper_variables

    def evaluate(self, flat: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return self.engine.collapsed_bound(flat, self.points)

    def set_posterior(self) -> None:
        self.engine.set_gaussian_posterior(self.points)


class _Tied(_Objective):
    """Classification: q follows through sites, which move a damped natural-gradient step after each iteration.

    Several latent functions of a point are coupled by the likelihood, which the sites ignore; half a step is then what
    converges.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        latents = self.engine.head.likelihood.num_latents
        self.step = 1.0 if latents == 1 else 0.5
        nothing = tf.zeros([tf.shape(self.points.y)[0], latents], self.engine.dtype)
        self.sites: SitePair = (Sites(nothing, nothing), Sites(nothing, nothing))
        self.matching: SitePair = self.sites

    @property
    def variables(self) -> list[tf.Variable]:
        return self.engine.hyper_variables

    def evaluate(self, flat: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        value, gradient, self.matching = self.engine.tied_bound(flat, self.points, self.sites)
        return value, gradient

    def accept(self) -> None:
        def move(old: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
            return (1.0 - self.step) * old + self.step * new

        self.sites = tf.nest.map_structure(move, self.sites, self.matching)

    def set_posterior(self) -> None:
        self.engine.set_posterior(self.points, self.sites)


def fit_full_batch(
    engine: Engine, points: Points, monitor: FitMonitor, *, max_iterations: int, tolerance: float
) -> None:
    """Maximise the bound over all points.

    Args:
        engine: Its head is placed at the data; on return it holds the result.
        points: All training points.
        monitor: Told of every iteration.
        max_iterations: Of L-BFGS, over all rounds.
        tolerance: Stop when an iteration of the last round gained less than this on average, nats per point, and the
            routing stayed.

    Raises:
        tf.errors.InvalidArgumentError: A covariance cannot be factorised, again and again.
    """
    scale = float(tf.reduce_sum(points.weight))
    objective = _objective_of(engine, points, scale)
    flat = engine.flat(objective.variables)
    for _ in range(INITIAL_E_STEPS if isinstance(objective, _Tied) else 0):
        objective(flat)
        objective.accept()
    previous = np.inf
    for round_number in range(max_iterations):
        length = ROUND_LENGTHS[min(round_number, len(ROUND_LENGTHS) - 1)]
        length = min(length, max_iterations - monitor.iteration)
        moved = _route(engine, objective)
        flat, value, iterations = _run(objective, flat, length, monitor)
        settled = not moved and round_number >= len(ROUND_LENGTHS) - 2
        if monitor.iteration >= max_iterations or (
            (settled or not isinstance(engine.head, ExpertsHead))
            and previous - value < tolerance * max(iterations, 1)
        ):
            break
        previous = value
    for _ in range(2):  # bring the sites to where the last iteration ended
        objective(flat)
        objective.accept()
    engine.assign_flat(flat, objective.variables)
    objective.set_posterior()


def _objective_of(engine: Engine, points: Points, scale: float) -> _Objective:
    head = engine.head
    if isinstance(head, ExpertsHead) and head.num_experts and head.e_step == "soft":
        return _Objective(engine, points, scale)
    return (_Collapsed if engine.is_regressor else _Tied)(engine, points, scale)


def _run(
    objective: _Objective, flat: FloatArray, max_iterations: int, monitor: FitMonitor
) -> tuple[FloatArray, float, int]:
    """One round of L-BFGS from ``flat``: where it ended, -bound/N there, iterations done."""
    last: dict[str, float] = {}

    def value_and_gradient(x: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = objective(x)
        last["value"] = value
        return value, gradient

    def iteration_done(x: FloatArray) -> None:  # noqa: ARG001
        objective.accept()
        monitor.report(-last["value"], prepare=objective.set_posterior)

    result = scipy.optimize.minimize(
        value_and_gradient,
        flat,
        jac=True,
        method="L-BFGS-B",
        bounds=_bounds(objective),
        callback=iteration_done,
        options={"maxiter": max_iterations, "maxcor": MEMORY, "maxls": 30, "ftol": 1e-12, "gtol": 1e-7},
    )
    return result.x, float(result.fun), int(result.nit)


def _bounds(objective: _Objective) -> scipy.optimize.Bounds:
    """Logarithms of lengthscales, variances and noise are kept in range; all else is free."""
    limits = []
    for variable in objective.variables:
        name = variable.name.rsplit("/", 1)[-1]
        logarithmic = any(word in name for word in ("lengthscales", "variance"))
        limits.append(np.full(int(np.prod(variable.shape)), LOG_RANGE if logarithmic else np.inf))
    limit = np.concatenate(limits)
    return scipy.optimize.Bounds(-limit, limit)


def _route(engine: Engine, objective: _Objective) -> bool:
    """Assign all points anew and drop experts without points; whether any point moved."""
    used = objective.points.weight.numpy() > 0
    before = objective.points.expert.numpy()

    def assignments() -> npt.NDArray[np.int32]:
        objective.points = objective.points._replace(expert=engine.assign(objective.points.x))
        return objective.points.expert.numpy()

    drop_unused_experts(engine.head, lambda: count_assignments(engine.head, assignments()[used]))
    return bool(np.any(before != objective.points.expert.numpy()))
