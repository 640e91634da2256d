"""The fit of a Bayesian GPLVM: on all rows at once, or on a sample first and then by mini-batches."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from gpmodels.gplvm.data import FloatArray, IntArray, column_groups, seen_rows
from gpmodels.gplvm.inference import Starts, infer
from gpmodels.gplvm.kernels import LatentKernel
from gpmodels.gplvm.mini_batch import fit_mini_batches, most_groups, regrouped
from gpmodels.gplvm.rows import HeldModel, expected_values
from gpmodels.gplvm.training import Parameters, held_model, latent_start_parameters, maximise

SAMPLE_ROWS = 2000
"""Rows of the sample from which mini-batches start."""

SAMPLE_ITERATIONS = 300
"""Iterations of L-BFGS on the sample."""


ALL_ALIKE = 1e-3
"""Variance of the positions, under a prior of variance 1, below which nothing was learned."""


class Fitted(NamedTuple):
    """A model at some moment of its training.

    Attributes:
        parameters: Positions of all rows, and hyper-parameters.
        model: Makes the model with q(u) held.
    """

    parameters: Parameters
    model: Callable[[], HeldModel]

    def weights(self) -> dict[str, npt.NDArray[Any]]:
        """Return what was learned as arrays by name."""
        model, parameters = self.model(), self.parameters
        variance = np.zeros_like(parameters.mean)
        if parameters.log_variances is not None:
            variance = np.exp(parameters.log_variances)
        weights = {
            "inducing_inputs": model.inducing,
            "noise_variance": np.array(model.noise_variance),
            "inducing_mean": np.asarray(model.posterior.mean),
            "inducing_covariance": np.asarray(model.posterior.covariance),
            "column_group": np.asarray(model.group),
            "start_mean": np.array(parameters.mean),
            "start_variance": variance,
        }
        if model.view is not None:
            weights["column_view"] = model.view
        for name, value in model.kernel._asdict().items():
            if value is not None:
                weights[f"kernel_{name}"] = np.asarray(value)
        return weights

    def scalars(self) -> dict[str, float]:
        """Return entries for TensorBoard by tag."""
        shares = relevance_of(self.parameters)
        entries = {f"relevance/{q + 1}": float(share) for q, share in enumerate(np.sort(shares)[::-1])}
        noises = np.exp(self.parameters.log_noise)
        if not np.ndim(noises):
            return {"noise_variance": float(noises)} | entries
        return {f"noise_variance/{v}": float(noise) for v, noise in enumerate(noises)} | entries


def relevance_of(parameters: Parameters) -> FloatArray:
    """Return the share of each dimension in what the kernel sees vary, of sum 1 or all 0, `[Q]`.

    Var_n[μ_nq] (κ/ℓ_q² + w_q): a dimension whose positions are all the same, as those that switched
    themselves off are, has none, whatever its lengthscale. Where every row lies at one position none has any.
    Of several views it is the mean of the shares in the views that see anything.
    """
    shares = shares_in_views(parameters.mean, parameters.kernel(), np.exp(parameters.log_noise))
    seeing = shares[shares.any(axis=1)]
    return np.asarray(seeing.mean(axis=0)) if len(seeing) else np.zeros(shares.shape[1])


def shares_in_views(mean: FloatArray, kernel: LatentKernel, noise: FloatArray) -> FloatArray:
    """Return the share of each dimension in what each view's kernel sees vary, of sum 1 or all 0, `[V, Q]`.

    Args:
        mean: μ, `[N, Q]`.
        kernel: Of one view or of several.
        noise: σ² of each view; a view that sees less than a thousandth of it vary sees nothing.
    """
    variances = np.var(mean, axis=0)
    seen = np.atleast_2d(variances * kernel.relevance().numpy())
    sees = seen.max(axis=1) >= ALL_ALIKE * np.atleast_1d(noise)
    if len(seen) == 1:
        sees |= variances.max() >= ALL_ALIKE
    total = np.maximum(seen.sum(axis=1, keepdims=True), 1e-300)
    return np.where(sees[:, None], seen / total, 0.0)


def _is_at_one_position(parameters: Parameters) -> bool:
    """Whether all positions are the same, by the prior's scale and for the kernel beside the noise."""
    return not relevance_of(parameters).any()


def ordered(parameters: Parameters) -> Parameters:
    """Return the parameters with the dimensions in the order of their relevance."""
    order = np.argsort(-relevance_of(parameters), kind="stable")
    by_dimension = {
        name: value[..., order]
        for name, value in parameters.present().items()
        if name not in ("log_kernel_variance", "log_noise")
    }
    return parameters._replace(**by_dimension)


def _is_all_noise(parameters: Parameters, standardised: FloatArray) -> bool:
    """Whether all positions are the same though the rows are not."""
    return bool(_is_at_one_position(parameters) and np.nanvar(standardised) > 0.0)


def fit_rows(
    estimator: BaseEstimator,
    standardised: FloatArray,
    *,
    num_inducing: int,
    full_batch: bool,
    max_iterations: int,
    rng: np.random.Generator,
    iteration_done: Callable[[float, Callable[[], Fitted]], None],
    view: IntArray | None = None,
) -> Fitted:
    """Train and return the model, dimensions in the order of their relevance.

    Args:
        estimator: Its parameters are the settings.
        standardised: Rows `[N, D]`; NaN where a value is missing.
        num_inducing: M.
        full_batch: Whether all rows are taken at once.
        max_iterations: Iterations of L-BFGS, or steps of Adam after the sample's iterations.
        rng: Source of random numbers.
        iteration_done: Called after each iteration with the bound per row and a function that returns the
            model of that moment.
        view: View of each column, `[D]`; None where there is one. Several need all rows at once.
    """
    settings: dict[str, Any] = {
        "num_dimensions": estimator.num_dimensions,
        "kernel": estimator.kernel,
        "is_point": estimator.posterior == "map",
        "rng": rng,
    }
    if full_batch:
        rows = seen_rows(standardised, view)

        def fitted(parameters: Parameters) -> Fitted:
            in_order = ordered(parameters)
            return Fitted(in_order, lambda: held_model(in_order, rows))

        def trained(start: Parameters) -> Parameters:
            return maximise(
                start,
                rows,
                max_iterations=max_iterations,
                tolerance=estimator.tolerance,
                iteration_done=lambda bound, place: iteration_done(bound, lambda: fitted(place())),
            )

        start = latent_start_parameters(standardised, num_inducing=num_inducing, view=view, **settings)
        found = trained(start)
        if _is_all_noise(found, standardised) and start.log_lengthscales is not None:
            # Lengthscales of 1 were too short for so noisy columns; typical distances are √(2Q).
            longer = np.full_like(start.log_lengthscales, 0.5 * np.log(estimator.num_dimensions))
            found = trained(start._replace(log_lengthscales=longer))
        if _is_all_noise(found, standardised):
            warnings.warn(
                "All rows ended at the same position: the noise explains everything. Pass another "
                'random_state, fewer num_dimensions or kernel="linear", or look whether the columns have '
                "anything in common.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return fitted(found)
    return _fit_large(estimator, standardised, num_inducing, max_iterations, settings, iteration_done)


def _fit_large(
    estimator: BaseEstimator,
    standardised: FloatArray,
    num_inducing: int,
    max_iterations: int,
    settings: dict[str, Any],
    iteration_done: Callable[[float, Callable[[], Fitted]], None],
) -> Fitted:
    """Train a sample by L-BFGS, place all rows on its map, and go on by mini-batches of all rows."""
    rng = settings["rng"]
    chosen = np.sort(rng.choice(len(standardised), min(SAMPLE_ROWS, len(standardised)), replace=False))
    sample = standardised[chosen]
    rows = seen_rows(sample)
    found = maximise(
        latent_start_parameters(sample, num_inducing=min(num_inducing, len(sample)), **settings),
        rows,
        max_iterations=min(SAMPLE_ITERATIONS, max_iterations),
        tolerance=estimator.tolerance,
        iteration_done=lambda _bound, _place: None,
    )
    found = ordered(found)
    model = held_model(found, rows)
    variance = np.zeros_like(found.mean) if found.log_variances is None else np.exp(found.log_variances)
    starts = Starts(found.mean, variance, expected_values(model, found.mean, variance))
    placed = infer(model, starts, standardised, num_starts=1, max_iterations=20)
    mean, log_variances = placed.mean[:, 0], None
    if found.log_variances is not None:
        log_variances = np.log(placed.variance[:, 0])
    group = column_groups(~np.isnan(standardised), most_groups(len(model.inducing)))
    parameters, model = fit_mini_batches(
        found._replace(mean=mean, log_variances=log_variances),
        regrouped(model.posterior, model.group, group),
        lambda index: standardised[index],
        batch_size=estimator.batch_size,
        max_iterations=max_iterations,
        learning_rate=estimator.learning_rate,
        rng=rng,
        iteration_done=lambda bound, state: iteration_done(bound, lambda: Fitted(*state())),
    )
    return _in_order(parameters, model)


def _in_order(parameters: Parameters, model: HeldModel) -> Fitted:
    """Return the model with the dimensions in the order of their relevance."""
    found = ordered(parameters)
    # A linear kernel's inducing inputs are the identity: there q(v) changes its order instead.
    order = np.argsort(-relevance_of(parameters), kind="stable")
    posterior = model.posterior
    inducing = model.inducing[:, order]
    if found.inducing is None:
        inducing = model.inducing
        covariance = np.asarray(posterior.covariance)[:, order][:, :, order]
        posterior = posterior._replace(mean=np.asarray(posterior.mean)[order], covariance=covariance)
    changed = model._replace(kernel=found.kernel(), inducing=inducing, posterior=posterior)
    return Fitted(found, lambda: changed)
