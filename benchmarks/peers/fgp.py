"""FGP, the fast allocated mixture of GP experts (Nguyen and Bonilla, 2014), as thesis 3.5 compares it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from benchmarks.peers.base import Array, Report, SparseRegressor, Trained, check_count
from benchmarks.peers.fitc import fitc_posterior, make_fitc
from benchmarks.peers.lbfgs import LBFGS
from benchmarks.peers.posterior import SparsePosterior
from gpmodels.estimators.fitting.sizes import default_num_inducing
from gpmodels.hgp.experts import Gate, assign_experts, make_gate
from gpmodels.units.numerics import precision
from gpmodels.units.placement import place_experts

ITERATIONS_PER_ROUTING = 25
"""Length of a run with fixed routing: shorter ones lose L-BFGS' memory, longer ones follow stale routing."""


@dataclass(repr=False, eq=False)
class FGPRegressor(SparseRegressor):
    """Experts that share nothing but the gate: each is FITC on its own points.

    A point belongs to the expert whose mean inducing input is nearest in the pooled variance of the inducing
    inputs. Training alternates between this routing and L-BFGS on the sum of the experts' FITC log evidences
    (hard EM); the best consistent state is kept. An expert without points is dropped. Each expert has its own
    inducing inputs, lengthscales, variance and noise.

    Args:
        num_experts: T at the start.
        num_inducing: M for each expert, or `"auto"` for 2.5 % of all points, within 50 and 250.
        max_iterations: Most iterations of L-BFGS in all rounds together.
        random_state: Seed of the k-means.
        verbose: 1 shows a progress bar.

    Attributes:
        log_evidence_: Sum of the experts' log evidences of the standardised targets, in nats.
        n_experts_: Number of experts in use.
        n_features_in_: D.
        n_iter_: Iterations made.

    Source:
        Gate: thesis (3.15) to (3.17); routing: (3.42); evidence of an expert: (3.2).

    Example:
        >>> X = np.linspace(0.0, 6.0, 60)[:, None]
        >>> model = FGPRegressor(2, num_inducing=8, random_state=0).fit(X, np.sin(X[:, 0]))
        >>> bool(abs(model.predict([[1.5]])[0] - np.sin(1.5)) < 0.01)
        True
    """

    num_experts: int = 3
    num_inducing: int | Literal["auto"] = "auto"

    def _train(self, x: Array, y: Array, rng: np.random.Generator, report: Report) -> Trained:
        num_experts = check_count("num_experts", self.num_experts, least=1)
        mixture = FGPMixture(
            x, y, *place_experts(x, num_experts, default_num_inducing(self.num_inducing, len(x)), rng)
        )
        optimiser = LBFGS(lambda: -mixture.log_evidence(), mixture.trainable_variables)
        best_evidence, best = -np.inf, None
        num_iterations, converged = 0, False
        while True:
            rerouted = mixture.route()
            evidence = float(mixture.log_evidence())
            if best is None or evidence > best_evidence:
                best_evidence, best = evidence, mixture.posterior()
            if num_iterations >= self.max_iterations or (converged and not rerouted):
                break
            report_run = partial(_report_run, report, num_iterations, mixture)
            remaining = self.max_iterations - num_iterations
            made, converged = optimiser.run(min(ITERATIONS_PER_ROUTING, remaining), report_run)
            num_iterations += made
        self.n_experts_ = len(best.experts)
        return Trained(best, best_evidence, num_iterations)


def _report_run(report: Report, done: int, mixture: FGPMixture, iteration: int, loss: float) -> None:
    """Count the iterations of the runs before this one."""
    report(done + iteration, -loss, mixture.posterior)


class FGPMixture(gpflow.Module):
    """T FITC models and the routing of the training points to them.

    Args:
        x: Standardised inputs, `[N, D]`.
        y: Standardised targets, `[N]`.
        inducing_inputs: `[T, M, D]`.
        lengthscales: `[T, D]`.

    Attributes:
        expert: Expert of each point, `[N]`, after `route`.
        active: Whether each expert is in use, `[T]`.

    Example:
        >>> x = np.array([[0.0], [1.0], [9.0]])
        >>> mixture = FGPMixture(x, np.zeros(3), np.array([[[0.0]], [[8.0]]]), np.ones((2, 1)))
        >>> mixture.route(), mixture.expert.tolist()
        (True, [0, 0, 1])
    """

    def __init__(self, x: Array, y: Array, inducing_inputs: Array, lengthscales: Array) -> None:
        super().__init__()
        self.x, self.y = x, y[:, None]
        # Variables of unknown length, so that new routing needs no new graph.
        self.experts = [
            make_fitc((_rows(x.shape[1]), _rows(1)), *start)
            for start in zip(inducing_inputs, lengthscales, strict=True)
        ]
        for model in self.experts:
            model.num_data = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        self.expert: npt.NDArray[np.int32] = np.full(len(x), -1, np.int32)
        self.active: npt.NDArray[np.bool_] = np.ones(len(self.experts), bool)

    def log_evidence(self) -> tf.Tensor:
        """Return the sum of the experts' FITC log evidences, nats; without points it is 0."""
        return tf.add_n([model.maximum_log_likelihood_objective() for model in self.experts])

    def route(self) -> bool:
        """Give each point to its expert and drop experts without points.

        Returns:
            Whether any point changed its expert.
        """
        inducing_inputs = np.stack([model.inducing_variable.Z.numpy() for model in self.experts])
        expert, self.active, self.gate = route(self.x, inducing_inputs, self.active)
        rerouted = bool((expert != self.expert).any())
        self.expert = expert
        for k, model in enumerate(self.experts):
            members = expert == k
            for variable, values in zip(model.data, (self.x, self.y), strict=True):
                variable.assign(values[members])
            model.num_data.assign(members.sum())
        return rerouted

    def posterior(self) -> FGPPosterior:
        """Return the arrays that predict, by the present routing."""
        gate = Gate(
            self.gate.offset.numpy(),
            self.gate.weights.numpy()[:, self.active],
            self.gate.bias.numpy()[self.active],
        )
        return FGPPosterior(gate, [fitc_posterior(self.experts[k]) for k in np.flatnonzero(self.active)])


def route(
    x: Array, inducing_inputs: Array, active: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_], Gate]:
    """Assign points until every expert left has some: dropping one changes the pooled variance of the gate.

    Args:
        x: `[N, D]`.
        inducing_inputs: `[T, M, D]`.
        active: Experts in use so far, `[T]`.

    Returns:
        Expert of each point `[N]`, the experts in use `[T]`, and the gate.

    Example:
        >>> route(np.zeros((1, 1)), np.array([[[9.0]], [[1.0]]]), np.array([True, True]))[1].tolist()
        [False, True]
    """
    floor = precision("float64").gate_variance_floor
    while True:
        gate = make_gate(tf.constant(inducing_inputs), tf.constant(active, tf.float64), floor)
        expert = assign_experts(gate, tf.constant(x)).numpy()
        occupied = np.bincount(expert, minlength=len(active)) > 0
        if (occupied == active).all():
            return expert, active, gate
        active = occupied


def _rows(num_columns: int) -> tf.Variable:
    """Return the data of a model whose number of rows may change."""
    return tf.Variable(
        tf.zeros([0, num_columns], tf.float64), shape=tf.TensorShape([None, num_columns]), trainable=False
    )


@dataclass(frozen=True)
class FGPPosterior:
    """The gate, in arrays, and the posterior of each expert in use."""

    gate: Gate
    experts: Sequence[SparsePosterior]

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Return mean and variance of the noisy target, `[N]` each, by the expert that the gate chooses."""
        mean, variance = np.empty(len(x)), np.empty(len(x))
        expert = assign_experts(self.gate, x).numpy()
        for k in np.unique(expert):
            members = expert == k
            mean[members], variance[members] = self.experts[k].predict(x[members])
        return mean, variance
