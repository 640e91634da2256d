"""GPflow's own SVGP: full batch, L-BFGS, whitened, SE-ARD, inducing inputs from k-means."""

from __future__ import annotations

from collections.abc import Sequence

import gpflow
import numpy as np
import tensorflow as tf

from benchmarks.tabular.problem import (
    RECORDING_INTERVAL,
    FloatArray,
    Predict,
    Problem,
    kmeans_centres,
)

MAX_ITERATIONS = 1000


def fit_gpflow_svgp(problem: Problem) -> Predict:
    """Train until L-BFGS stops or after 1000 iterations."""
    inputs, labels = problem.inputs, problem.targets.astype(np.float64)[:, None]
    model = gpflow.models.SVGP(
        gpflow.kernels.SquaredExponential(lengthscales=np.full(inputs.shape[1], np.sqrt(inputs.shape[1]))),
        _likelihood(problem.num_classes),
        kmeans_centres(problem),
        num_latent_gps=problem.num_classes if problem.num_classes > 2 else 1,
        whiten=True,
    )

    def predict(points: FloatArray) -> FloatArray:
        return _predict(model, points, problem.num_classes)

    def step_callback(step: int, variables: Sequence[tf.Variable], values: Sequence[tf.Tensor]) -> None:
        if problem.record is not None and step % RECORDING_INTERVAL == 0:
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)  # the last point tried need not be the one accepted
            problem.record(step, predict)

    result = gpflow.optimizers.Scipy().minimize(
        model.training_loss_closure((inputs, labels)),
        model.trainable_variables,
        options={"maxiter": problem.max_iterations or MAX_ITERATIONS},
        step_callback=step_callback if problem.record is not None else None,
    )
    problem.notes.update(
        iterations=int(result.nit), evaluations=int(result.nfev), stopped=str(result.message)
    )
    return predict


def _likelihood(num_classes: int) -> gpflow.likelihoods.Likelihood:
    if num_classes == 0:
        return gpflow.likelihoods.Gaussian(variance=0.1)
    return gpflow.likelihoods.Bernoulli() if num_classes == 2 else gpflow.likelihoods.MultiClass(num_classes)


def _predict(model: gpflow.models.SVGP, inputs: FloatArray, num_classes: int) -> FloatArray:
    blocks = np.array_split(inputs, -(-len(inputs) // 5000))
    parts = [model.predict_y(block) for block in blocks]
    mean, variance = (np.concatenate([part[k].numpy() for part in parts]) for k in range(2))
    if num_classes == 2:
        return np.concatenate([1.0 - mean, mean], axis=1)
    return mean if num_classes else np.concatenate([mean, variance], axis=1)
