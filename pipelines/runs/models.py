"""The models of a run: an application's network with a head of a registered family."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from data_prep.errors import InputError
from gpmodels import HybridModel
from gpmodels.heads.base import Head
from gpmodels.likelihoods.names import MULTILABEL, TARGET_LIKELIHOODS, VOTES
from gpmodels.registry import HeadTask, head_family, starting_head
from pipelines.command.config import CONFIG_NAME
from pipelines.command.folders import RUN
from pipelines.runs.application import Application, RunKind, SettingsKind
from pipelines.runs.description import PRETRAINING, RunDescription, head_folder
from pipelines.runs.ensemble import ensemble_predictor, trained_members
from pipelines.runs.familiarity import load_familiarity
from pipelines.runs.head_start import FEW_POINTS
from pipelines.runs.job import Job
from pipelines.runs.precision import network_arithmetic
from pipelines.runs.predictors import Predictor, predictor, tempered_title
from pipelines.runs.settings import HeadRun
from pipelines.scores.held_out import HELD_OUT, read_held_out
from pipelines.scores.held_out_groups import (
    GROUPS_JUDGED,
    group_temperature,
    lacking_groups,
    pooled_numbers,
)
from pipelines.scores.numbers import COVERAGES, HeldOutNumbers
from pipelines.training.stages import BEST, load_checkpoint

TRAINING_SECONDS = "training seconds"
"""What the report calls the time that all stages of a method took."""

VARIANCE_BESIDE_MEAN, SOFTMAX_VARIANCE_BESIDE_MEAN = 1.0, 10.0
"""σ² at the start of the global unit of a head with a linear mean, and of one whose logits go through a
softmax: held-out points end the training, so that it may begin with more than a head without them."""

SOFTMAX_VARIANCE = 100.0
"""σ² at the start of the global unit of a head without a linear mean whose logits go through a softmax.

The steps of a head alone take it from 1 to 5 only, so that all probabilities stay too even; `docs/results.md`
(few labels) compares 1, 100 and 1000."""

POINTS_PER_EXPERT, MOST_EXPERTS = 300, 3
"""By which labelled runs choose the number of experts where the settings leave it open."""


MOST_WIDE_FEATURES = 2048
"""Most features of a frozen network whose linear mean has uncertain weights; they take 16 MiB then."""


def head_task(
    application: Application[Any, SettingsKind, RunKind],
    settings: SettingsKind,
    run: RunKind,
    *,
    has_mean: bool,
    on_fixed_features: bool = False,
) -> HeadTask:
    """Return what a head of a run is made for, which has a linear mean or none.

    The weights of a mean have a posterior where the network has no weights to train and the points are few:
    the layer is then fitted by itself, and not as the last one of a network that has seen the labels.
    """
    views = application.network.view_columns(settings, run)
    likelihood = application.network.likelihood_of(settings)
    is_softmax = likelihood in ("softmax", VOTES) or (likelihood is None and run.num_classes > 2)
    is_of_classes = likelihood not in (MULTILABEL, VOTES, *TARGET_LIKELIHOODS)
    is_uncertain = has_mean and is_of_classes and on_fixed_features and run.mean_posteriors
    is_uncertain = is_uncertain and run.num_data <= FEW_POINTS
    return HeadTask(
        num_classes=run.num_classes,
        likelihood=likelihood,
        views=None if views is None else tuple(views.values()),
        seed=settings.seed,
        kernel_variance=_start_variance(run, has_mean=has_mean, is_softmax=is_softmax),
        mean_posterior=is_uncertain and (MOST_WIDE_FEATURES if run.wide_posteriors else True),
        domain_rows=(*(source.rows for source in run.sources), run.num_data) if run.sources else (),
    )


def _start_variance(run: HeadRun, *, has_mean: bool, is_softmax: bool) -> float:
    """Return σ² with which the global unit of a GP head starts."""
    if has_mean:
        return SOFTMAX_VARIANCE_BESIDE_MEAN if is_softmax else VARIANCE_BESIDE_MEAN
    return SOFTMAX_VARIANCE if is_softmax and run.starts_wide else 1.0


def num_experts_for(num_points: int) -> int:
    """Return how many experts some training points can feed: a hundred in three regions starve two of them.

    Example:
        >>> num_experts_for(100), num_experts_for(700), num_experts_for(5000)
        (1, 2, 3)
    """
    return min(max(num_points // POINTS_PER_EXPERT, 1), MOST_EXPERTS)


def make_head(
    name: str,
    application: Application[Any, SettingsKind, RunKind],
    settings: SettingsKind,
    run: RunKind,
    *,
    on_fixed_features: bool = False,
) -> Head:
    """Return an untrained head of a registered family.

    Args:
        name: Name of the family.
        application: Application of the run.
        settings: Settings of the run.
        run: Description of the run.
        on_fixed_features: Whether its network has no weights to train.

    Raises:
        ValueError: The head does not go with the settings, or needs views and there are none.
    """
    family = head_family(name)
    if getattr(settings, "num_experts", 0) is None:
        settings = settings.model_copy(update={"num_experts": num_experts_for(run.num_data)})
    own = family.settings_of(settings)
    if not run.linear_means and hasattr(own, "mean"):
        own = own.model_copy(update={"mean": "none"})
    has_mean = getattr(own, "mean", "none") == "linear"
    task = head_task(application, settings, run, has_mean=has_mean, on_fixed_features=on_fixed_features)
    return family.make(own, task)


def make_model(
    name: str,
    application: Application[Any, SettingsKind, RunKind],
    settings: SettingsKind,
    run: RunKind,
    *,
    head: Head | None = None,
) -> HybridModel:
    """Return an untrained, built model: the application's network with a head.

    Args:
        name: Name of the family.
        application: Application of the run.
        settings: Settings of the run.
        run: Description of the run.
        head: A head of that family that `make_head` has made; None makes one.

    Raises:
        ValueError: The network or the head does not go with the settings or the data.
    """
    family, parts = head_family(name), application.network
    make_network = parts.by_view if family.needs_views and parts.by_view is not None else parts.make
    # The linear head costs nothing per point, and a subset would only add noise.
    subset = parts.points_per_example if family.is_gaussian_process else None
    with network_arithmetic(settings.network_precision):
        network = make_network(settings, run)
    if not network.built:
        network.build(parts.input_shape(run))
    if head is None:
        head = make_head(name, application, settings, run, on_fixed_features=not network.trainable_weights)
    model = HybridModel(
        network,
        head,
        num_data=run.num_data,
        num_effective=run.num_effective if family.counts_effective else None,
        points_per_example=None if subset is None else subset(settings),
        seed=settings.seed,
    )
    model.compares_num_data = False  # an epoch of a few hundred images repeats them, in new orders
    model.build(parts.input_shape(run))
    return model


def load_model(job: Job[Any, Any, Any], name: str) -> HybridModel:
    """Return a trained model with the weights of its best epoch.

    Args:
        job: Job on the run.
        name: Name of the head, or `PRETRAINING` for the network with the linear head that all heads began
            with.

    Raises:
        InputError: The weights are missing, damaged, or of another model, or what describes it is.
    """
    head = starting_head() if name == PRETRAINING else name
    try:
        model = make_model(head, job.application, job.settings, job.run)
    except (ValueError, MemoryError) as error:
        raise InputError(
            f"{job.folder}: its {RUN} and {CONFIG_NAME} describe no model that can be made ({error}). "
            "Restore them, or train again."
        ) from error
    load_checkpoint(model, head_folder(job.folder, name) / BEST)
    model.familiarity = load_familiarity(head_folder(job.folder, name))
    return model


def run_predictors(job: Job[Any, Any, Any]) -> list[Predictor]:
    """Return the rows of the report: the application's rivals, the ensemble, then each head of the run.

    A head stands there with and without its temperature.

    Raises:
        InputError: What was trained is missing or damaged.
    """
    models = {name: load_model(job, name) for name in job.run.heads}
    networks = {name: model.network for name, model in models.items()}
    rows = [row for rivals in job.application.rivals for row in rivals.predictors(job, networks)]
    if members := trained_members(job):
        seconds = sum(training_seconds(member.run, starting_head()) for member in members)
        trained = [load_model(member, starting_head()) for member in members]
        rows.append(ensemble_predictor(trained, **{TRAINING_SECONDS: round(seconds, 1)}))
    for name, model in models.items():
        family = head_family(name)
        details = _head_details(model) | {TRAINING_SECONDS: round(training_seconds(job.run, name), 1)}
        if model.num_effective is not None:
            details["effective observations"] = round(model.num_effective, 1)
        if family.weighs_views:
            details["weights of the views"] = view_text(job.run.view_weights)
        if name in job.run.gifts:
            details["what the sources gave"] = job.run.gifts[name]
        pooling = _group_pooling(job, name)
        if pooling:
            details["correlation of a group's errors"] = round(pooling[0], 2)
        rows.append(replace(predictor(family.title, model, **details), head=name, group_pooling=pooling[:1]))
        temperature = job.run.temperature_of(name)
        if temperature is not None:
            model.set_temperature(temperature)
            title, of_pools = tempered_title(family.title), _pool_temperatures(job, name)
            details["temperature"] = round(temperature, 4)
            details |= {f"temperature of {noun}": round(value, 4) for noun, value in of_pools.items()}
            tempered = predictor(title, model, **details)
            rows.append(
                replace(
                    tempered,
                    head=name,
                    temperature=temperature,
                    pool_temperatures=of_pools,
                    interval_factors=job.run.interval_factors.get(name, ()),
                    group_pooling=pooling,
                )
            )
    return rows


def _pool_temperatures(job: Job[Any, Any, Any], name: str) -> Mapping[str, float]:
    """Return the temperatures of a head's pools; that of groups, where they are judged, by held-out ones.

    Raises:
        InputError: Groups are judged, and the run keeps no predictions of held-out ones.
    """
    found = job.run.pool_temperatures.get(name, {})
    if job.application.judge.judged != GROUPS_JUDGED or job.has_real_targets:
        return found
    held_out = read_held_out(head_folder(job.folder, name) / HELD_OUT)
    return {**found, GROUPS_JUDGED: group_temperature(held_out)}


def _group_pooling(job: Job[Any, Any, Any], name: str) -> tuple[float, ...]:
    """Return how a head's numbers of a group are pooled, where groups are judged; see `Predictor`.

    Raises:
        InputError: The run keeps no predictions of held-out numbers, or these have no groups of several.
    """
    if job.application.judge.judged != GROUPS_JUDGED or not job.has_real_targets:
        return ()
    held_out = HeldOutNumbers.read(head_folder(job.folder, name) / HELD_OUT)
    if lacking := lacking_groups(held_out, f"held-out images of {job.folder}"):
        raise InputError(f"by=group: groups cannot be judged, since {lacking}")
    pooling, groups, _ = pooled_numbers(held_out)
    return (pooling.correlation, pooling.scale, *map(groups.factor, COVERAGES))


def training_seconds(run: RunDescription, name: str) -> float:
    """Return the wall-clock time that a trained head took, with that of the stages it builds upon.

    Args:
        run: Description of the run.
        name: Name of the head.
    """
    built_upon = head_family(name).fitted_on
    stages = dict.fromkeys((PRETRAINING, *(() if built_upon is None else (built_upon,)), name))
    return sum(run.seconds.get(stage, 0.0) for stage in stages)


def _head_details(model: HybridModel) -> dict[str, float | int | str]:
    """Return what the report says of the head's experts; nothing for a head without any."""
    occupancy = model.head.expert_occupancy()
    if not occupancy:
        return {}
    shares = sorted(occupancy.values(), reverse=True)
    return {
        "experts": len(shares),
        "expert occupancy in training": ", ".join(f"{share:.0%}" for share in shares),
    }


def view_text(weights: Mapping[str, float]) -> str:
    """Return the weights of views in words, the largest first.

    Example:
        >>> view_text({"lbp": 0.25, "sift": 0.75})
        'sift 75%, lbp 25%'
    """
    by_weight = sorted(weights.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {weight:.0%}" for name, weight in by_weight)


def momentum_for(steps_per_epoch: int) -> float:
    """Return the batch-normalisation momentum whose averages look back over a fifth of an epoch, 0.9 to 0.99.

    Keras' 0.99 lags by epochs where an epoch has tens of steps, and validation then judges a network that
    never was.
    """
    return float(np.clip(1.0 - 5.0 / max(steps_per_epoch, 1), 0.9, 0.99))
