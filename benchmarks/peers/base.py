"""What the comparison regressors share: scikit-learn's interface, standardisation, prediction in batches.

Models from the literature that the heads are compared with. Regressors: FITC, PIC and FGP (thesis 3.5), and
the Student-t process; of several targets at once, GP regression networks (`gprn`). The nested variational
deep GP is here as a bound alone (`nested_deep_gp`). Classifiers by a kernel for each view: BEMKL, MKGP, and a
support vector machine on the average of the kernels (DFGP paper, section 5.3). Classifiers that learn from
other domains too: see `transfer_base` (ATL-DGP paper, section 6). DFGP-WP is `gpmodels.DFGPRegressor` with
`output_kernel="linear"`.

The thesis' EP-FITC classifier is not among them: no well-kept Python library has it. GPy, the nearest, has
EP with DTC and Gaussian FITC; its maintained releases need numpy 2, which GPflow cannot use (seen in 2026).
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple, Protocol, Self

import gpflow
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from gpmodels.estimators.fitting.fitted import all_or_nothing
from gpmodels.units.numerics import precision

Array = npt.NDArray[np.float64]

PREDICTION_BATCH = 4096
"""Points predicted at once: a batch needs some matrices with a row for each point."""

INITIAL_NOISE_VARIANCE = 0.1
"""Of the standardised targets."""

# GPflow's models take jitter and type from its global settings, which a user may have changed.
_FLOAT64 = gpflow.config.Config(float=np.float64, jitter=precision("float64").jitter)


class Posterior(Protocol):
    """A trained model: arrays only, so that an estimator can be copied and pickled."""

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Return the mean and variance of the noisy target, `[N]` each, at standardised inputs `[N, D]`.

        Of P targets: the means `[N, P]` and the covariances `[N, P, P]`.
        """


class Trained(NamedTuple):
    """Outcome of a training.

    Attributes:
        posterior: The model to predict with.
        log_evidence: Objective in nats, of the standardised targets.
        num_iterations: Iterations of L-BFGS.
    """

    posterior: Posterior
    log_evidence: float
    num_iterations: int


Report = Callable[[int, float, Callable[[], Posterior]], None]
"""Takes the iteration, the log evidence and a function that makes the present posterior."""


@dataclass(kw_only=True, repr=False, eq=False)
class SparseRegressor(RegressorMixin, BaseEstimator, abc.ABC):
    """A regressor on standardised inputs and targets, trained by L-BFGS on an approximate evidence.

    A subclass is a dataclass of its arguments and defines `_train`. One that is a `MultiOutputMixin` takes
    targets `[N, P]` too, and has a `predict` of its own.
    """

    max_iterations: int = 200
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0

    @all_or_nothing
    def fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, *, callback: Callable[[Self, int], Any] | None = None
    ) -> Self:
        """Learn hyper-parameters and inducing inputs.

        Args:
            X: Inputs, `[N, D]`.
            y: Targets, `[N]`.
            callback: Called with the estimator and the iteration every ten iterations; the estimator can
                predict at that moment.

        Raises:
            ValueError: X or y is not finite or has a wrong shape, or a constructor argument is out of range.
        """
        several = isinstance(self, MultiOutputMixin)
        inputs, targets = validate_data(self, X, y, dtype=np.float64, y_numeric=True, multi_output=several)
        check_count("max_iterations", self.max_iterations, least=1)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        columns = targets.astype(np.float64).reshape(len(targets), -1)
        self.input_scaler_ = StandardScaler().fit(inputs)
        self.target_scaler_ = StandardScaler().fit(columns)

        def report(iteration: int, log_evidence: float, make_posterior: Callable[[], Posterior]) -> None:
            bar.update(task, completed=iteration, evidence=log_evidence)
            if callback is not None:
                self.posterior_ = make_posterior()
                callback(self, iteration)

        standardised_targets = self.target_scaler_.transform(columns).reshape(targets.shape)
        bar = Progress(
            TextColumn("fit"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("log evidence {task.fields[evidence]:.1f}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            disable=not self.verbose,
        )
        task = bar.add_task("fit", total=self.max_iterations, evidence=np.nan)
        with bar, gpflow.config.as_context(_FLOAT64):
            trained = self._train(self.input_scaler_.transform(inputs), standardised_targets, rng, report)
        self.posterior_, self.log_evidence_, self.n_iter_ = trained
        return self

    def predict(self, X: npt.ArrayLike, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Return the mean of the target.

        Args:
            X: Inputs, `[N, D]`.
            return_std: Whether to return the standard deviation of the noisy target as well.

        Returns:
            The means `[N]`, or the means and the standard deviations.
        """
        check_is_fitted(self, "posterior_")
        inputs = validate_data(self, X, dtype=np.float64, reset=False)
        mean, variance = np.empty(len(inputs)), np.empty(len(inputs))
        for start in range(0, len(inputs), PREDICTION_BATCH):
            batch = slice(start, start + PREDICTION_BATCH)
            mean[batch], variance[batch] = self.posterior_.predict(
                self.input_scaler_.transform(inputs[batch])
            )
        mean = self.target_scaler_.inverse_transform(mean[:, None])[:, 0]
        return (mean, self.target_scaler_.scale_[0] * np.sqrt(variance)) if return_std else mean

    @abc.abstractmethod
    def _train(self, x: Array, y: Array, rng: np.random.Generator, report: Report) -> Trained:
        """Train on standardised inputs `[N, D]` and targets `[N]`, or `[N, P]` if the model has several."""


def check_count(name: str, value: object, *, least: int) -> int:
    """Return the value, if it is an integer that is not too small.

    Raises:
        ValueError: It is not; the message names the argument.

    Example:
        >>> check_count("num_blocks", 20, least=1)
        20
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise ValueError(f"{name} is {value!r}, but must be an integer of at least {least}.")
    return int(value)
