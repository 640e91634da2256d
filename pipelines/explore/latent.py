"""The map of a data set: positions, their uncertainty and a score for each example, by a Bayesian GPLVM."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from data_prep.errors import InputError
from data_prep.prepared.preparing import Progress
from gpmodels import BayesianGPLVM
from gpmodels.estimators.latent.fit import ALL_ALIKE
from gpmodels.estimators.latent.scores import held_out_scores
from pipelines.explore.examples import Features, Scale
from pipelines.explore.settings import ExploreSettings

RELEVANT = 0.01
"""A dimension counts as relevant from this share of the most relevant one's relevance on."""

MOST_AT_ONCE = 10_000
"""Of more rows the model fits batches, which take other numbers of iterations."""

MOST_BYTES = 2**31
"""TensorFlow makes no constant of so many bytes or more."""

ITERATIONS, BATCH_ITERATIONS = 300, 3000

FEWEST_HALVED, MOST_HALVED = 40, 5000
"""Numbers of rows for which each half is searched for odd rows by a model of the other half.

Fewer rows are too few for two models, more take too long."""

HALVED_ITERATIONS = 200
"""Most iterations of these models: scores of odd rows need no finished map."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LatentMap:
    """Where N examples lie, dimensions in the order of their relevance.

    Attributes:
        position: Means of the latent positions `[N, Q]`.
        std: Their standard deviations `[N, Q]`.
        relevance: Share of each dimension in what the kernel sees vary `[Q]`, falling; all 0 where nothing
            was learned, and then all positions are the same.
        score: Bound on the log density of each example `[N]`, in nats.
        seconds: How long the fit took.
    """

    position: Floats
    std: Floats
    relevance: Floats
    score: Floats
    seconds: float

    @property
    def num_relevant(self) -> int:
        """Number of relevant dimensions; 0 where nothing was learned."""
        return int((self.relevance > RELEVANT * self.relevance.max()).sum())

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know, in whole sentences."""
        if self.num_relevant:
            return ()
        note = (
            "The model found nothing that the examples have in common: all of them are at one place of the "
            "map, so distances and neighbours mean nothing, and label errors are not looked for. Choose "
            "other --features, another --size or another --seed."
        )
        return (note,)

    @property
    def scaled(self) -> tuple[Floats, Floats]:
        """Positions and standard deviations `[N, relevant]`, scaled so that dimensions count as they matter.

        A dimension's relevance is its share in what the kernel sees vary, (variance of the positions) / ℓ²:
        so the units are the lengthscales ℓ, times a factor that all dimensions share.
        """
        kept = self.num_relevant
        spread = self.position[:, :kept].std(axis=0)
        scale = np.sqrt(self.relevance[:kept]) / np.where(spread > 0, spread, 1)
        return self.position[:, :kept] * scale, self.std[:, :kept] * scale

    @property
    def oddness_rank(self) -> NDArray[np.intp]:
        """Rank of each example by its score `[N]`: 1 is the oddest."""
        rank = np.empty(len(self.score), np.intp)
        rank[np.argsort(self.score, kind="stable")] = np.arange(1, len(self.score) + 1)
        return rank


def make_latent_model(shape: tuple[int, int], scale: Scale, settings: ExploreSettings) -> BayesianGPLVM:
    """Return an unfitted model for a table of a shape: it has no more dimensions than the table allows.

    Raises:
        InputError: The table is too large.
    """
    num_bytes = 8 * shape[0] * shape[1]
    if num_bytes >= MOST_BYTES:
        raise InputError(
            f"{shape[0]} examples with {shape[1]} numbers each take {num_bytes / 2**30:.1f} GiB; expected "
            "less than 2 GiB. Give fewer examples, a smaller --size or other --features."
        )
    options: dict[str, Any] = {}
    if settings.num_inducing is not None:
        options["num_inducing"] = min(settings.num_inducing, shape[0])
    return BayesianGPLVM(
        num_dimensions=min(settings.num_dimensions, *shape),
        scale=scale,
        max_iterations=max_iterations(shape[0], settings),
        random_state=settings.seed,
        **options,
    )


def max_iterations(num_rows: int, settings: ExploreSettings) -> int:
    """Return the iterations of a fit to so many rows, at most."""
    return settings.max_iterations or (ITERATIONS if num_rows <= MOST_AT_ONCE else BATCH_ITERATIONS)


def fit_callback(progress: Progress | None) -> Callable[[BayesianGPLVM, int], None] | None:
    """Return what a fit calls from time to time to show how far it is."""
    if progress is None:
        return None
    return lambda model, iteration: progress("Fitting", iteration, int(model.max_iterations or iteration))


def fit_model(model: BayesianGPLVM, values: Floats, progress: Progress | None) -> bool:
    """Fit a model and return whether it learned anything: else all rows are at the same position.

    Args:
        model: The model.
        values: Rows `[N, D]`; NaN where a value is missing.
        progress: Function that is called with a description, iterations done and iterations at most.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(values, callback=fit_callback(progress))
    is_learned = True
    for one in caught:
        if issubclass(one.category, ConvergenceWarning):  # gives advice for Python
            is_learned = False
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return is_learned and bool(np.var(model.embedding_, axis=0).max() >= ALL_ALIKE)


def fit_map(features: Features, settings: ExploreSettings, progress: Progress | None = None) -> LatentMap:
    """Fit a Bayesian GPLVM to features and place the examples.

    Args:
        features: What the examples are compared by.
        settings: Of the step.
        progress: Function that is called with a description, iterations done and iterations at most.

    Raises:
        InputError: The features do not vary, so there is nothing to see.
    """
    values = features.values
    if np.ptp(values, axis=0).max() == 0:
        raise InputError(
            f"All {len(values)} examples are equal in their {features.words}. Expected examples that differ; "
            "choose other --features."
        )
    started = perf_counter()
    model = make_latent_model((values.shape[0], values.shape[1]), features.scale, settings)
    is_learned = fit_model(model, values, progress)
    order = np.argsort(-np.asarray(model.relevance_), kind="stable")
    return LatentMap(
        position=np.asarray(model.embedding_, np.float64)[:, order],
        std=np.asarray(model.embedding_std_, np.float64)[:, order],
        relevance=np.asarray(model.relevance_, np.float64)[order] * is_learned,
        score=oddness_scores(model, values, settings),
        seconds=perf_counter() - started,
    )


def oddness_scores(model: BayesianGPLVM, values: Floats, settings: ExploreSettings) -> Floats:
    """Return the score of each row by a model that was fitted to the other half of the rows, `[N]`.

    docs/results/deep.md (Latent variables) compares these scores with the fitted model's own.

    Args:
        model: Fitted to all rows; of fewer than `FEWEST_HALVED` rows, or more than `MOST_HALVED`, its own
            scores are returned.
        values: Rows `[N, D]`.
        settings: Of the step.
    """
    if not FEWEST_HALVED <= len(values) <= MOST_HALVED:
        return np.asarray(model.score_samples(values), np.float64)
    iterations = min(max_iterations(len(values) // 2, settings), HALVED_ITERATIONS)
    return held_out_scores(clone(model).set_params(max_iterations=iterations), values, seed=settings.seed)
