"""Speed: bound and gradient against the peers, time to a peer's bound, transform against fit, and memory."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.cell_runner import Cell
from benchmarks.common import peak_memory, resident_memory
from benchmarks.latent_variables import oil_flow

FloatArray = npt.NDArray[np.float64]

ROUNDS, CALLS = 7, 5


def compute(cell: Cell, data: Path) -> dict[str, Any]:
    """Measure one thing."""
    import tensorflow as tf  # noqa: PLC0415 - one thread, before anything runs

    if cell.method != "memory":
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    x = oil_flow.standardised(oil_flow.load(data)["X_train"])
    if cell.method == "evaluation":
        return _evaluations(x)
    if cell.method == "gpy":
        return _time_to_bound(x)
    if cell.method == "transform":
        return _transform(oil_flow.load(data))
    return _memory(data)


def _evaluations(x: FloatArray) -> dict[str, Any]:
    """Return milliseconds of one bound and gradient of each library, in turn on the same processor."""
    calls: dict[str, Callable[[], Any]] = {"ours": _own_evaluation(x), "gpflow": _gpflow_evaluation(x)}
    if importlib.util.find_spec("GPy") is not None:
        calls["gpy"] = _gpy_evaluation(x)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            started = time.process_time()
            for _ in range(CALLS):
                call()
            times[name].append(1000.0 * (time.process_time() - started) / CALLS)
    return {f"{name}_ms": float(np.median(values)) for name, values in times.items()}


def _own_start(x: FloatArray) -> tuple[Any, Any]:
    from gpmodels.gplvm.data import seen_rows  # noqa: PLC0415 - after the number of threads is set
    from gpmodels.gplvm.training import latent_start_parameters  # noqa: PLC0415 - after the number of threads is set

    parameters = latent_start_parameters(
        x,
        num_dimensions=oil_flow.DIMENSIONS,
        num_inducing=oil_flow.INDUCING,
        kernel="rbf",
        is_point=False,
        rng=np.random.default_rng(0),
    )
    return parameters, seen_rows(x)


def _own_evaluation(x: FloatArray) -> Callable[[], Any]:
    from gpmodels.gplvm.training import LatentObjective  # noqa: PLC0415 - after the number of threads is set

    parameters, rows = _own_start(x)
    objective, flat = LatentObjective(parameters, rows), parameters.flat()
    count = [0]

    def call() -> Any:
        count[0] += 1
        return objective(flat + 1e-9 * count[0])

    return call


def _gpflow_evaluation(x: FloatArray) -> Callable[[], Any]:
    import gpflow  # noqa: PLC0415
    import tensorflow as tf  # noqa: PLC0415

    parameters, _ = _own_start(x)
    kernel = gpflow.kernels.SquaredExponential(1.0, np.ones(oil_flow.DIMENSIONS))
    model = gpflow.models.BayesianGPLVM(
        x, parameters.mean, np.exp(parameters.log_variances), kernel, inducing_variable=parameters.inducing
    )

    @tf.function(autograph=False)
    def call() -> Any:
        with tf.GradientTape() as tape:
            loss = -model.elbo()
        return loss, tape.gradient(loss, model.trainable_variables)

    return lambda: float(call()[0])


def _gpy_evaluation(x: FloatArray) -> Callable[[], Any]:
    model = oil_flow.gpy_model(x, 0)
    start = model.optimizer_array.copy()
    count = [0]

    def call() -> Any:
        count[0] += 1
        return model._objective_grads(start + 1e-9 * count[0])

    return call


def _time_to_bound(x: FloatArray) -> dict[str, Any]:
    """Return processor seconds of GPy's 1000 iterations, and of ours to the bound that they reach."""
    model = oil_flow.gpy_model(x, 0)
    started = time.process_time()
    model.likelihood.variance.fix()
    model.optimize("lbfgs", max_iters=100)
    model.likelihood.variance.unfix()
    model.likelihood.variance.constrain_positive()
    model.optimize("lbfgs", max_iters=900)
    theirs = time.process_time() - started
    target = float(np.ravel(model.log_likelihood())[0])
    return {"gpy_seconds": theirs, "gpy_bound": target, **own_time_to(target, x)}


def own_time_to(target: float, x: FloatArray, max_iterations: int = 3000) -> dict[str, Any]:
    """Return processor seconds until the bound reaches a target, and whether it did.

    Args:
        target: Nats.
        x: Standardised rows.
        max_iterations: Iterations after which training ends, the target reached or not.
    """
    from gpmodels.gplvm.training import maximise  # noqa: PLC0415 - after the number of threads is set

    started = time.process_time()
    parameters, rows = _own_start(x)
    reached: list[float] = []

    class Reached(Exception):  # noqa: N818 - no error
        pass

    def iteration_done(bound: float, _: Any) -> None:
        reached.append(bound * len(x))
        if reached[-1] >= target:
            raise Reached

    with contextlib.suppress(Reached):
        maximise(
            parameters, rows, max_iterations=max_iterations, tolerance=0.0, iteration_done=iteration_done
        )
    return {
        "ours_reached_it": reached[-1] >= target,
        "ours_seconds": time.process_time() - started,
        "ours_iterations": len(reached),
        "ours_bound": reached[-1],
    }


def _transform(oil: dict[str, npt.NDArray[Any]]) -> dict[str, Any]:
    from gpmodels import BayesianGPLVM  # noqa: PLC0415

    started = time.process_time()
    model = BayesianGPLVM(num_dimensions=10, num_inducing=50, random_state=0).fit(oil["X_train"])
    fit = time.process_time() - started
    model.transform(oil["X_valid"][:50])
    started = time.process_time()
    model.transform(oil["X_test"])
    return {"fit_seconds": fit, "transform_seconds": time.process_time() - started}


def _memory(data: Path) -> dict[str, Any]:
    """Return the peak above the data of a fit of 60,000 x 196 by mini-batches, MiB."""
    from benchmarks.latent_variables.missing_pixels import digits  # noqa: PLC0415
    from gpmodels import BayesianGPLVM  # noqa: PLC0415

    # Everything is imported and compiled once, on a few rows, before the data come.
    small = np.random.default_rng(0).normal(size=(300, 196))
    settings: dict[str, Any] = {
        "num_dimensions": 10,
        "num_inducing": 100,
        "optimizer": "adam",
        "random_state": 0,
    }
    BayesianGPLVM(max_iterations=3, **settings).fit(small)
    x = digits(data, "x_train").astype(np.float64)
    before = resident_memory()  # not the peak, which is that of reading the digits
    started = time.process_time()
    model = BayesianGPLVM(max_iterations=300, **settings).fit(x)
    return {
        "peak_above_mib": peak_memory() - before,
        "data_mib": x.nbytes / 2**20,
        "shape": json.dumps(list(x.shape)),
        "seconds": time.process_time() - started,
        "bound_first": float(np.mean([point.bound_per_point for point in model.learning_curve_[:20]])),
        "bound_last": float(np.mean([point.bound_per_point for point in model.learning_curve_[-20:]])),
    }
