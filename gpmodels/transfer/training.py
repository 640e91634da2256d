"""Training of transfer models: the joint start, then L-BFGS on the bound at the best q(u).

The optimiser moves the posteriors of the hidden units, the mixing weights, and the hyper-parameters of the
output layers. Inputs and lengthscales of the hidden units stay where they start: the few labelled rows of a
target cannot feed them.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.optimize
import tensorflow as tf
from threadpoolctl import threadpool_limits

from gpmodels.transfer.bounds import best_posteriors, transfer_bound
from gpmodels.transfer.outputs import DomainData, OutputPosterior
from gpmodels.transfer.parameters import Layout, ModelKind, TransferParameters
from gpmodels.transfer.rows import DomainRows, FloatArray, TransferRows
from gpmodels.transfer.start import start_parameters
from gpmodels.transfer.trained import TrainedTransfer, with_parts

NUM_INDUCING = 30
"""P by default. The paper's 10 leave so much of a hidden value open that no signal at all has the higher
bound: with ten classes, 80 source and 30 target rows in 20 columns, training then ends near chance."""

START_LATENT_NOISE = 0.1
"""Start of 1/λ and 1/α of the mean-field form, which needs them."""

OUTPUT_PRIORS = ("identity", "zero")

MEMORY = 20
"""Pairs of steps and gradients that L-BFGS keeps."""

PATIENCE = 5
"""Iterations whose mean gain tells whether to go on."""

TOLERANCE = 1e-5
"""Training ends when five iterations gain less than this on average, nats per row."""

FAILED = 1e12
"""Value returned to the line search where the bound is not finite: it shortens its step."""

Mixing = float | Sequence[float] | None


def train_transfer(  # noqa: PLR0913 - so many things make a model
    rows: TransferRows,
    *,
    form: str = "integrated",
    kind: str = "asymmetric",
    likelihood: str = "gaussian",
    mixing: Mixing = None,
    prior: Mixing = None,
    num_hidden: int | None = None,
    num_inducing: int = NUM_INDUCING,
    latent_noise: float | None = None,
    output_prior: str = "identity",
    max_iterations: int = 100,
    seed: int = 0,
    callback: Callable[[int, float], None] | None = None,
) -> TrainedTransfer:
    """Train a deep GP that lets source domains help the target's.

    Args:
        rows: Rows of all domains; without sources this trains the target's model alone.
        form: `"integrated"`, or `"mean_field"`, the paper's bound, which is so much looser that with few
            labels its maximum predicts nothing.
        kind: `"asymmetric"` (ATL-DGP) or `"symmetric"` (STL-DGP).
        likelihood: `"gaussian"` of the codes, or `"noisy_probit"`, one class against the rest. With 3 labels
            for each of ten classes the best bound of noisy probit is near the base rate: probabilities stay
            nearly even, and without the identity prior nothing is predicted at all.
        mixing: Mixing weights π that stay fixed, the target's own last; a number is the share of one source.
            None learns q(π).
        prior: a⁰ of π ~ Dir(a⁰), one number for all entries or one for each; None takes half the number of
            target rows, at least 1.
        num_hidden: R, hidden units of each domain; None takes one for each output, the least. Since the
            output layer is linear, more units add other inducing inputs and no other functions.
        num_inducing: P of each hidden unit; a domain with fewer distinct rows takes those.
        latent_noise: 1/λ and 1/α where they start. 0 leaves them out, which is the default with the
            integrated form and impossible with the other.
        output_prior: `"identity"`, by which an output starts from the units of its class, or `"zero"`.
        max_iterations: Iterations of L-BFGS; 0 leaves the joint start.
        seed: Chooses the rows that become inducing inputs.
        callback: Called after each iteration with its number from 1 and the bound.

    Raises:
        ValueError: An argument is out of range; the message names it.

    Source:
        Kandemir (2015), "Asymmetric transfer learning with deep Gaussian processes".
    """
    rows = _in_double(rows)
    model = ModelKind(form, kind, likelihood)
    model.check()
    latent_noise = _latent_noise(latent_noise, form)
    num_hidden = _num_hidden(num_hidden, rows.num_outputs)
    _check(rows, likelihood, output_prior, num_inducing, max_iterations)
    weights, concentration = _mixing(mixing, prior, rows, model)
    prior_counts = np.ones(len(weights)) if concentration is None else concentration
    start = start_parameters(
        rows,
        model,
        mixing=weights,
        concentration=concentration,
        num_hidden=num_hidden,
        num_inducing=num_inducing,
        latent_noise=latent_noise,
        rng=np.random.default_rng(seed),
        output_prior=output_prior,
    )
    fixed = {"log_lengthscales", *({"gain"} if output_prior == "zero" else ())}
    objective = Objective(start, model, rows, prior_counts, fixed)
    values = [objective.bound(start)]
    parameters = (
        start if max_iterations == 0 else _maximised(objective, start, max_iterations, values, callback)
    )
    return TrainedTransfer(
        kind=model,
        parameters=parameters.as_arrays(),
        outputs=objective.best_posteriors(parameters),
        rows=rows,
        prior=prior_counts,
        bound=objective.bound(parameters),
        curve=np.array(values),
    )


class Objective:
    """The negative bound per row as a function of one vector, for SciPy.

    Args:
        shapes: Parameters of the right shapes; those that are not trained keep these values.
        kind: Which model.
        rows: Rows of all domains.
        prior: a⁰ of the mixing weights.
        fixed: Names of parameters that are not trained.
    """

    def __init__(
        self,
        shapes: TransferParameters,
        kind: ModelKind,
        rows: TransferRows,
        prior: FloatArray,
        fixed: set[str],
    ) -> None:
        self.kind = kind
        self.layout = Layout.of(shapes, fixed)
        self.num_rows = sum(map(len, rows.domains))
        self._held = [tf.constant(part) for part in self.layout.split(shapes)[1]]
        self._data = tuple(
            DomainData(*(tf.constant(part, tf.float64) for part in (domain.x, domain.codes, domain.weight)))
            for domain in rows.domains
        )
        self._prior = tf.constant(prior, tf.float64)

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Return value and gradient; a large value where they are not finite."""
        try:
            value, gradient = self.bound_and_gradient(flat)
        except tf.errors.InvalidArgumentError:
            return FAILED, np.zeros_like(flat)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return FAILED, np.zeros_like(flat)
        return -value / self.num_rows, -gradient / self.num_rows

    def bound_and_gradient(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Return the bound, nats, and its gradient with respect to all that is trained."""
        function = _compiled(self.layout, self.kind)
        value, gradient = function(tf.constant(flat), self._held, self._data, self._prior)
        return float(value), gradient.numpy()

    def bound(self, parameters: TransferParameters) -> float:
        """Return the bound, nats; nothing is compiled for it, so that a start alone takes no time."""
        tensors = with_parts(parameters, lambda value: tf.constant(value, tf.float64))
        return float(transfer_bound(tensors, self.kind, self._data, self._prior))

    def best_posteriors(self, parameters: TransferParameters) -> tuple[OutputPosterior, ...]:
        """Return the best q(u) of each domain as arrays."""
        tensors = with_parts(parameters, lambda value: tf.constant(value, tf.float64))
        best = best_posteriors(tensors, self.kind, self._data)
        return tuple(OutputPosterior(*(part.numpy() for part in outputs)) for outputs in best)


@lru_cache(maxsize=16)
def _compiled(layout: Layout, kind: ModelKind) -> Any:
    """Return the bound with its gradient as a graph, kept for later fits of equal shapes."""

    def value_and_gradient(
        flat: tf.Tensor, held: list[tf.Tensor], data: tuple[DomainData, ...], prior: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(flat)
            bound = transfer_bound(layout.join(flat, held), kind, data, prior)
        return bound, tape.gradient(bound, flat)

    return tf.function(value_and_gradient, autograph=False, reduce_retracing=True)


def _maximised(
    objective: Objective,
    start: TransferParameters,
    max_iterations: int,
    values: list[float],
    callback: Callable[[int, float], None] | None,
) -> TransferParameters:
    """Return the parameters at the end of L-BFGS; appends each iteration's bound to `values`."""
    flat, held = objective.layout.split(start)

    def after_iteration(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        values.append(-float(intermediate_result.fun) * objective.num_rows)
        if callback is not None:
            callback(len(values) - 1, values[-1])
        gain = values[-1] - values[max(len(values) - 1 - PATIENCE, 0)]
        if len(values) > PATIENCE and gain < PATIENCE * TOLERANCE * objective.num_rows:
            raise StopIteration

    # L-BFGS itself has little to compute; BLAS threads that wait for each other take most of the time.
    with threadpool_limits(limits=1, user_api="blas"):
        result = scipy.optimize.minimize(
            objective,
            np.clip(flat, *objective.layout.ranges()),
            jac=True,
            method="L-BFGS-B",
            bounds=scipy.optimize.Bounds(*objective.layout.ranges()),
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
    best = np.asarray(result.x) if result.fun < FAILED else flat
    return objective.layout.join(best, held)


def _in_double(rows: TransferRows) -> TransferRows:
    """Return the rows as float64."""

    def double(domain: DomainRows) -> DomainRows:
        x, codes, weight = (np.asarray(part, np.float64) for part in (domain.x, domain.codes, domain.weight))
        return DomainRows(x, codes, weight, float(domain.lengthscale))

    return TransferRows(tuple(map(double, rows.sources)), double(rows.target), rows.is_classifier)


def _check(
    rows: TransferRows, likelihood: str, output_prior: str, num_inducing: int, max_iterations: int
) -> None:
    if output_prior not in OUTPUT_PRIORS:
        raise ValueError(f"output_prior must be one of {OUTPUT_PRIORS}, but is {output_prior!r}.")
    if likelihood == "noisy_probit" and not rows.is_classifier:
        raise ValueError(
            "likelihood='noisy_probit' needs classes, but the targets are real. Use likelihood='gaussian'."
        )
    if num_inducing < 1:
        raise ValueError(f"num_inducing must be at least 1, but is {num_inducing}.")
    if max_iterations < 0:
        raise ValueError(f"max_iterations must not be negative, but is {max_iterations}.")
    for number, domain in enumerate(rows.domains):
        name = "the target" if number == rows.num_sources else f"source {number + 1}"
        if not len(domain):
            raise ValueError(f"Each domain needs labelled rows, but {name} has none. Leave it out.")
        if domain.x.shape[1] != rows.target.x.shape[1] or domain.codes.shape[1] != rows.num_outputs:
            raise ValueError(
                f"All domains need the columns and outputs of the target, {rows.target.x.shape[1]} and "
                f"{rows.num_outputs}, but {name} has {domain.x.shape[1]} and {domain.codes.shape[1]}."
            )


def _latent_noise(value: float | None, form: str) -> float:
    if value is None:
        return 0.0 if form == "integrated" else START_LATENT_NOISE
    if value < 0.0 or (value == 0.0 and form == "mean_field"):
        least = "above 0 with form='mean_field'" if form == "mean_field" else "at least 0"
        raise ValueError(f"latent_noise must be {least}, but is {value}.")
    return float(value)


def _num_hidden(value: int | None, num_outputs: int) -> int:
    if value is None:
        return num_outputs
    if value < num_outputs:
        raise ValueError(
            f"num_hidden must be at least the number of outputs, {num_outputs}, so that each has a unit, but "
            f"is {value}."
        )
    return value


def _mixing(
    mixing: Mixing, prior: Mixing, rows: TransferRows, kind: ModelKind
) -> tuple[FloatArray, FloatArray | None]:
    """Return π at the start, and a of q(π) there, which is a⁰; None where π is fixed."""
    num_domains = rows.num_sources + 1
    if kind.is_symmetric:
        if mixing is not None or prior is not None:
            raise ValueError("kind='symmetric' has no mixing weights: leave mixing and prior out.")
        return np.full(num_domains, 1.0 / num_domains), None
    if rows.num_sources == 0:
        return np.ones(1), None
    if mixing is not None:
        return _fixed_mixing(mixing, num_domains), None
    if prior is None:
        prior = float(max(len(rows.target) // 2, 1))
    counts = np.broadcast_to(np.asarray(prior, np.float64), [num_domains]) if np.ndim(prior) == 0 else prior
    counts = np.array(counts, np.float64)
    if counts.shape != (num_domains,) or not np.all(counts > 0.0):
        raise ValueError(
            f"prior must be a number above 0, or {num_domains} of them (the sources, then the target), but "
            f"is {prior!r}."
        )
    return counts / counts.sum(), counts


def _fixed_mixing(mixing: float | Sequence[float], num_domains: int) -> FloatArray:
    if np.ndim(mixing) == 0 and num_domains == 2:
        weights = np.array([mixing, 1.0 - np.asarray(mixing)], np.float64)
    else:
        weights = np.array(mixing, np.float64)
    if weights.shape != (num_domains,) or np.any(weights < 0.0) or not np.isclose(weights.sum(), 1.0):
        raise ValueError(
            f"mixing must be {num_domains} numbers from 0 to 1 of sum 1 (the sources, then the target), or "
            f"with one source its share, but is {mixing!r}."
        )
    return weights
