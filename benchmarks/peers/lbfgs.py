"""L-BFGS-B on TensorFlow variables, which rejects a trial point whose covariance cannot be factorised.

GPflow's `Scipy` optimiser passes NaN on to the line search, which then ends the run far from an optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from scipy.optimize import minimize

ITERATIONS_PER_REPORT = 10


class LBFGS:
    """A compiled loss with its gradient, which any number of runs may minimise further.

    Args:
        loss: The function to minimise, of the variables alone.
        variables: What is optimised; all float64.

    Example:
        >>> x = tf.Variable(3.0, dtype=tf.float64)
        >>> converged = LBFGS(lambda: (x - 1.0) ** 2, [x]).run(20)[1]
        >>> converged, round(float(x), 6)
        (True, 1.0)
    """

    def __init__(self, loss: Callable[[], tf.Tensor], variables: Sequence[tf.Variable]) -> None:
        self._variables = tuple(variables)

        def compute() -> tuple[tf.Tensor, tf.Tensor]:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(self._variables)
                value = loss()
            gradients = tape.gradient(value, self._variables, unconnected_gradients="zero")
            return value, tf.concat([tf.reshape(gradient, [-1]) for gradient in gradients], axis=0)

        self._compute = tf.function(compute, autograph=False)

    @property
    def position(self) -> npt.NDArray[np.float64]:
        """All variables in one vector."""
        return np.concatenate([variable.numpy().ravel() for variable in self._variables])

    @position.setter
    def position(self, value: npt.NDArray[np.float64]) -> None:
        ends = np.cumsum([variable.shape.num_elements() for variable in self._variables])
        for variable, part in zip(self._variables, np.split(value, ends[:-1]), strict=True):
            variable.assign(part.reshape(variable.shape))

    def value_and_gradient(
        self, position: npt.NDArray[np.float64]
    ) -> tuple[float, npt.NDArray[np.float64]] | None:
        """Return the loss and its gradient at a position, `None` where they cannot be computed."""
        self.position = position
        try:
            value, gradient = (result.numpy() for result in self._compute())
        except tf.errors.InvalidArgumentError:  # no jitter made a covariance positive definite
            return None
        return (float(value), gradient) if np.isfinite(value) and np.isfinite(gradient).all() else None

    def run(
        self, max_iterations: int, report: Callable[[int, float], None] | None = None
    ) -> tuple[int, bool]:
        """Minimise from where the variables are, and leave them at the best point found.

        Args:
            max_iterations: Most iterations of this run.
            report: Called every `ITERATIONS_PER_REPORT` iterations with their number and the loss, while
                the variables hold the current point.

        Returns:
            Number of iterations, and whether the run stopped because nothing improved any more.

        Raises:
            FloatingPointError: The loss is not finite where the run starts.
        """
        start = self.position
        first = self.value_and_gradient(start)
        if first is None:
            raise FloatingPointError(
                "The evidence cannot be computed at the start of the optimisation: an inducing covariance is "
                "singular or not finite. Use fewer inducing points, and look for extreme values in X or y."
            )
        highest = first[0]
        iteration = 0

        def objective(position: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
            nonlocal highest
            result = self.value_and_gradient(position)
            if (
                result is None
            ):  # worse than anything seen, and flat, so that the line search shortens its step
                return highest + 1.0 + abs(highest), np.zeros_like(position)
            highest = max(highest, result[0])
            return result

        def after_iteration(intermediate_result: Any) -> None:
            nonlocal iteration
            iteration += 1
            if report is not None and iteration % ITERATIONS_PER_REPORT == 0:
                self.position = intermediate_result.x
                report(iteration, float(intermediate_result.fun))

        result = minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_iterations, "maxcor": 20},
            callback=after_iteration,
        )
        self.position = result.x
        return iteration, iteration < max_iterations
