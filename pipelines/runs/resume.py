"""How a run begins or is resumed: its description, its stages, and what a resumed run may change."""

from typing import Any

from pydantic import BaseModel

from data_prep.errors import InputError
from data_prep.splits.divide import Splits
from gpmodels.registry import families, head_family
from pipelines.command.config import CONFIG_NAME, load_settings
from pipelines.command.folders import RUN
from pipelines.runs.application import Application, DataKind, RunKind, SettingsKind
from pipelines.runs.description import PRETRAINING, head_folder, load_run
from pipelines.runs.job import Job
from pipelines.runs.models import momentum_for
from pipelines.runs.settings import HeadTrainSettings
from pipelines.training.replicas import Replicas
from pipelines.training.stages import StageSettings, has_checkpoint, require_same_schedule

_FIXED = ("batch_size", "network_precision", "selection_fraction", "fold", "seed")
_FIXED_BY_A_HEAD = ("pretraining_epochs", "learning_rate")
_FIXED_BY_A_GP_HEAD = ("head_rate_factor",)
_FIXED_BY_A_COUNT = ("effective_observations",)

_REACHED = (
    *("heads", "temperature", "temperatures", "temperature_by_groups"),
    *(
        "weighs_every_fit",
        "starts_wide",
        "linear_means",
        "mean_posteriors",
        "wide_posteriors",
        "num_effective",
        "seconds",
        "view_weights",
        "gifts",
    ),
    *("pool_temperatures", "calibrates_pools", "choice", "refitted_folds", "interval_factors"),
    "fold_sharpness",
)
"""What a run's description says of how far the run is, and how; everything else in it is of the data."""


def stage_settings(name: str, settings: HeadTrainSettings) -> StageSettings:
    """Return how a stage is trained: the pretraining, or the one of a head."""
    if name == PRETRAINING:
        return StageSettings(
            settings.pretraining_epochs, settings.learning_rate, settings.patience, start_may_stay=False
        )
    return StageSettings(
        settings.head_epochs,
        settings.head_epoch_learning_rate,
        settings.patience,
        head_rate_factor=settings.head_rate_factor if head_family(name).is_gaussian_process else 1.0,
        learning_rate_setting="head_epoch_learning_rate",
    )


def new_run(
    application: Application[DataKind, SettingsKind, RunKind],
    data: DataKind,
    splits: Splits,
    steps_per_epoch: int,
) -> RunKind:
    """Return the description of a run before its first step."""
    return application.run(
        application=application.name,
        size=data.manifest.size,
        kinds=data.manifest.kinds,
        batch_norm_momentum=momentum_for(steps_per_epoch),
        counts={part: len(getattr(splits, part)) for part in ("train", "selection", "test")},
        manifest_sha256=data.sha256,
        temperature_by_groups=True,
        weighs_every_fit=True,
        starts_wide=True,
        linear_means=True,
        mean_posteriors=True,
        wide_posteriors=True,
        calibrates_pools=True,
        **application.inputs.all_facts(data, splits),
    )


def continued_run(job: Job[DataKind, SettingsKind, RunKind], former: SettingsKind | None) -> RunKind:
    """Return the description of the run to resume, checked against what is given now.

    Epochs, learning rates and heads may change for what has not begun; a stage under way would mix models.
    Only its learning rate may be lowered, for that helps one that diverged.

    Args:
        job: Job with the settings and the data of now.
        former: Settings that the run was started with; None reads them.

    Raises:
        InputError: The run was started on other data, or a setting changed that what is trained depends on.
    """
    out, settings, now = job.folder, job.settings, job.run
    before = load_run(out, job.application.run)
    data_facts = [name for name in job.application.run.model_fields if name not in _REACHED]
    changed = [name for name in data_facts if _differ(getattr(before, name), getattr(now, name))]
    if not (out / CONFIG_NAME).is_file():
        raise InputError(
            f"{out} cannot be resumed: its {CONFIG_NAME}, which tells what it was started with, is "
            "gone. Put it back, or train into another --out."
        )
    if former is None:
        former = load_settings(job.application.settings, config=out / CONFIG_NAME)
    changed += _changed_settings(job, former)
    if changed:
        raise InputError(
            f"{out} cannot be resumed: {', '.join(changed)} changed since it was started. Resume "
            "with the data and settings it was started with, or train into another --out."
        )
    for name in (PRETRAINING, *settings.heads):
        require_same_schedule(head_folder(out, name), stage_settings(name, settings))
    return before


def _differ(before: Any, now: Any) -> bool:
    """Whether a fact changed; what an earlier version did not write of a record is as it is now."""
    if isinstance(before, BaseModel) and type(before) is type(now):
        return any(getattr(before, name) != getattr(now, name) for name in before.model_fields_set)
    return bool(before != now)


def _changed_settings(job: Job[Any, Any, Any], former: HeadTrainSettings) -> list[str]:
    """Return the names of the settings that what the run has trained depends on and that have changed."""
    begun = [family for name, family in families().items() if has_checkpoint(head_folder(job.folder, name))]
    gp_begun = any(family.is_gaussian_process for family in begun)
    # The families that share one flat list of settings fix all of it.
    flat = dict.fromkeys(key for family in families().values() for key in family.flat_keys)
    fixed = (
        *_FIXED,
        *job.application.fixed_settings,
        *(_FIXED_BY_A_HEAD if begun else ()),
        *(_FIXED_BY_A_COUNT if any(family.counts_effective for family in begun) else ()),
        *((*flat, *_FIXED_BY_A_GP_HEAD, *job.application.fixed_gp_settings) if gp_begun else ()),
    )
    tables = [family for family in begun if family.own_table and family.settings is not None]
    return [
        *(name for name in fixed if getattr(former, name) != getattr(job.settings, name)),
        *(family.name for family in tables if family.settings_of(former) != family.settings_of(job.settings)),
    ]


def require_shareable(job: Job[Any, Any, Any], replicas: Replicas, *, resume: bool) -> None:
    """Raise an error where replicas cannot share the steps, or processes have not the same to do.

    Args:
        job: Job on the run.
        replicas: Devices that share the training steps.
        resume: Whether an interrupted run is continued.

    Raises:
        InputError: A batch has fewer examples than there are devices, or a process has other data, settings
            or progress.
    """
    if job.settings.batch_size < replicas.count:
        raise InputError(
            f"batch_size is {job.settings.batch_size}, less than the {replicas.count} devices that share "
            f"a batch. Give at least {replicas.count}, or fewer devices."
        )
    states = sorted((*job.folder.glob("**/state.json"), *job.folder.glob(f"**/{RUN}"))) if resume else []
    replicas.require_agreement(
        {
            "settings": job.settings.model_dump_json(),
            "data": job.run.manifest_sha256,
            "progress of the run": job.run.model_dump_json()
            + "".join(path.read_text(encoding="utf-8") for path in states),
        }
    )
