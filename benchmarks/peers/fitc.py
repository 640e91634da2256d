"""FITC, the fully independent training conditional (thesis 3.2.1; Snelson and Ghahramani, 2006)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import gpflow
import numpy as np
import tensorflow as tf

from benchmarks.peers.base import INITIAL_NOISE_VARIANCE, Array, Report, SparseRegressor, Trained
from benchmarks.peers.lbfgs import LBFGS
from benchmarks.peers.posterior import SparsePosterior
from gpmodels.estimators.fitting.sizes import default_num_inducing
from gpmodels.units.placement import place_global
from gpmodels.units.transforms import exponential


@dataclass(repr=False, eq=False)
class FITCRegressor(SparseRegressor):
    """GP regression with the covariance `Q_XX + diag[K_XX - Q_XX]`, `Q_XX = K_XU K_UU⁻¹ K_UX`.

    GPflow's `GPRFITC` with a squared exponential kernel that has a lengthscale for each feature. Inputs and
    targets are standardised; inducing inputs start at k-means centres and are learned.

    Args:
        num_inducing: M, or `"auto"` for 2.5 % of the points, within 50 and 250.
        max_iterations: Most iterations of L-BFGS.
        random_state: Seed of the k-means.
        verbose: 1 shows a progress bar.

    Attributes:
        log_evidence_: log q(y) of the standardised targets, in nats.
        n_features_in_: D.
        n_iter_: Iterations made.

    Source:
        Thesis (3.2).

    Example:
        >>> X = np.linspace(0.0, 6.0, 60)[:, None]
        >>> model = FITCRegressor(num_inducing=10, random_state=0).fit(X, np.sin(X[:, 0]))
        >>> bool(abs(model.predict([[1.5]])[0] - np.sin(1.5)) < 0.01)
        True
    """

    num_inducing: int | Literal["auto"] = "auto"

    def _train(self, x: Array, y: Array, rng: np.random.Generator, report: Report) -> Trained:
        inducing_inputs, lengthscales = place_global(x, default_num_inducing(self.num_inducing, len(x)), rng)
        model = make_fitc((x, y[:, None]), inducing_inputs[0], lengthscales[0])
        optimiser = LBFGS(model.training_loss, model.trainable_variables)
        num_iterations, _ = optimiser.run(
            self.max_iterations,
            lambda iteration, loss: report(iteration, -loss, lambda: fitc_posterior(model)),
        )
        log_evidence = float(model.maximum_log_likelihood_objective())
        return Trained(fitc_posterior(model), log_evidence, num_iterations)


def make_fitc(
    data: tuple[Array | tf.Variable, Array | tf.Variable], inducing_inputs: Array, lengthscales: Array
) -> gpflow.models.GPRFITC:
    """Return GPflow's model for standardised targets.

    Args:
        data: Inputs `[N, D]` and targets `[N, 1]`.
        inducing_inputs: U, `[M, D]`.
        lengthscales: ℓ, `[D]`.

    Example:
        >>> x = np.zeros((1, 1))
        >>> make_fitc((x, x), x, np.ones(1)).kernel.lengthscales.numpy().tolist()
        [1.0]
    """
    kernel = gpflow.kernels.SquaredExponential()
    # The log transform makes one step of the optimiser a relative change.
    kernel.variance, kernel.lengthscales = (
        gpflow.Parameter(value, transform=exponential(), dtype=np.float64) for value in (1.0, lengthscales)
    )
    return gpflow.models.GPRFITC(data, kernel, inducing_inputs, noise_variance=INITIAL_NOISE_VARIANCE)


def fitc_posterior(model: gpflow.models.GPRFITC) -> SparsePosterior:
    """Return the arrays that predict; GPflow's own `predict_f` would factorise again for each batch."""
    _, _, chol_k, chol_a, _, _, gamma = model.common_terms()
    # G = chol(K_UU)⁻¹;  H = chol(A)⁻¹;  b = chol(A)⁻ᵀγ = Hᵀγ
    identity = tf.eye(len(chol_k), dtype=chol_k.dtype)
    h = tf.linalg.triangular_solve(chol_a, identity).numpy()
    return SparsePosterior(
        inducing_inputs=model.inducing_variable.Z.numpy(),
        lengthscales=model.kernel.lengthscales.numpy(),
        variance=float(model.kernel.variance.numpy()),
        noise_variance=float(model.likelihood.variance.numpy()),
        g=tf.linalg.triangular_solve(chol_k, identity).numpy(),
        h=h,
        b=h.T @ gamma.numpy()[:, 0],
    )
