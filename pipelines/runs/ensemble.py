"""A deep ensemble of a run: its linear head, and the same network trained again from other seeds.

    run/
      heads/               the run's own stages; its linear head is the first member
      ensemble/2/          a run of the second member: config.yaml, run.json, heads/pretraining, heads/linear
      ensemble/3/ ...

Every member has the schedule, the data and the selection part of the run; weights, order and augmentation
follow from its seed.

Source:
    Lakshminarayanan, Pritzel and Blundell (2017), Simple and scalable predictive uncertainty estimation using
    deep ensembles.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from data_prep.splits.settings import later_seed
from gpmodels import HybridModel
from gpmodels.likelihoods.logits import ensemble_predictions
from gpmodels.registry import starting_head
from pipelines.command.folders import RUN
from pipelines.runs.application import DataKind, RunKind, SettingsKind
from pipelines.runs.description import load_run
from pipelines.runs.job import Job
from pipelines.runs.predictors import Predictor

ENSEMBLE = "ensemble"
"""Folder of a run that holds its further members, and the name of the stage they are trained in."""

_SEEDS_APART = 1000
"""Distance between the members' seeds, so that runs with neighbouring seeds share no member."""


def member_job(
    job: Job[DataKind, SettingsKind, RunKind], number: int
) -> Job[DataKind, SettingsKind, RunKind]:
    """Return the job on a further member of a run's ensemble, before its training.

    Args:
        job: Job on the run.
        number: Number of the member from 2.
    """
    changes = {
        "heads": (starting_head(),),
        "ensemble": 0,
        "seed": later_seed(job.settings.seed, _SEEDS_APART * (number - 1)),
    }
    reached: dict[str, Any] = {
        "heads": (),
        "temperature": None,
        "temperatures": {},
        "fold_sharpness": {},
        "refitted_folds": 0,
        "pool_temperatures": {},
        "choice": None,
        "interval_factors": {},
        "seconds": {},
        "view_weights": {},
    }
    return replace(
        job,
        settings=job.settings.model_copy(update=changes),
        run=job.run.model_copy(update=reached),
        folder=job.folder / ENSEMBLE / str(number),
    )


def trained_members(job: Job[Any, Any, Any]) -> list[Job[Any, Any, Any]]:
    """Return the jobs on the trained members of a run's ensemble, the run itself first; none without one.

    Raises:
        InputError: The description of a member is damaged.
    """
    if not job.settings.ensemble or starting_head() not in job.run.heads:
        return []
    members = [job]
    for number in range(2, job.settings.ensemble + 1):
        member = member_job(job, number)
        if not (member.folder / RUN).is_file():
            break
        run = load_run(member.folder, job.application.run)
        if starting_head() not in run.heads:
            break
        members.append(replace(member, run=run))
    return members if len(members) > 1 else []


def ensemble_predictor(models: Sequence[HybridModel], **details: float | str) -> Predictor:
    """Return the row of the report of an ensemble.

    Args:
        models: Trained members, each with a linear head.
        **details: Facts for the report.
    """
    functions = [model.inference_function() for model in models]
    num_classes = models[0].head.num_classes

    def predict(inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        if not models[0].head.is_classifier:
            return _mixed([function(inputs) for function in functions])
        logits = tf.stack(
            [model.logits(function(inputs)) for model, function in zip(models, functions, strict=True)]
        )
        return ensemble_predictions(logits, num_classes)

    function = tf.function(predict, reduce_retracing=True, autograph=False)
    return Predictor(f"Ensemble of {len(models)}", function, details)


def _mixed(members: Sequence[dict[str, tf.Tensor]]) -> dict[str, tf.Tensor]:
    """Return mean and variance of numbers by the law of total variance; the variance of means is latent."""
    mean, variance = (tf.stack([member[name] for member in members]) for name in ("mean", "variance"))
    apart = tf.math.reduce_variance(mean, axis=0)
    return {
        "mean": tf.reduce_mean(mean, axis=0),
        "variance": tf.reduce_mean(variance, axis=0) + apart,
        "latent_variance": apart,
    }
