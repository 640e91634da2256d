"""Training a lane run: one pretrained network, then every head from that checkpoint."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any, get_args

import tensorflow as tf
from rich.console import Console

from data_prep.errors import InputError
from data_prep.lane_dataset import lane_dataset
from data_prep.lane_manifest import LaneManifest
from data_prep.manifest import MANIFEST_NAME, file_sha256, load_manifest
from data_prep.splits import Splits, manifest_splits
from gpmodels import HybridModel
from pipelines.config import CONFIG_NAME, dump_settings, load_settings
from pipelines.divergence import factorisation_errors, require_finite
from pipelines.lane_evaluation import selection_scores, selection_temperature
from pipelines.lane_models import make_model, momentum_for
from pipelines.lane_panels import LanePanels
from pipelines.lane_settings import HeadName, LaneRun, TrainSettings
from pipelines.progress import EpochProgress
from pipelines.runs import head_folder, load_run
from pipelines.tensorboard import TensorBoardHook
from pipelines.training import (
    EpochHook,
    EpochReport,
    StageData,
    StageSettings,
    has_checkpoint,
    require_same_schedule,
    train_stage,
)

PRETRAINING = "pretraining"

_FIXED = ("network", "batch_size", "selection_fraction", "fold", "augmentation", "seed")
_FIXED_BY_A_HEAD = ("pretraining_epochs", "learning_rate")
_FIXED_BY_A_GP_HEAD = (
    "num_experts",
    "num_inducing",
    "kernel",
    "global_weight",
    "expert_variance",
    "points_per_image",
)


class LaneTraining:
    """One run: the network with a linear head first, then every head from there (thesis 4.4.3.2).

    Args:
        settings: Of the run.
        data: Prepared folder.
        out: Run folder.
        resume: Continue an interrupted run; finished stages are not repeated.
        console: For progress.

    Raises:
        InputError: The data cannot be used, or the run to resume was started on other data or settings.
    """

    def __init__(
        self, settings: TrainSettings, *, data: Path, out: Path, resume: bool, console: Console
    ) -> None:
        self.settings, self.data, self.out, self.resume, self.console = settings, data, out, resume, console
        self.manifest = load_manifest(data, LaneManifest)
        self.splits = manifest_splits(
            self.manifest, fold=settings.fold, selection_fraction=settings.selection_fraction
        )
        if not self.splits.train:
            raise InputError(
                f"{data} holds no training example for fold {settings.fold}. Prepare it with more images."
            )
        self.steps_per_epoch = math.ceil(len(self.splits.train) / settings.batch_size)
        self.run = describe_run(self.manifest, self.splits, data, self.steps_per_epoch)
        if resume and (out / "run.json").exists():
            self.run = continued_run(out, self.run, settings)

    def train(self) -> LaneRun:
        """Run all stages and write the run's description."""
        self.out.mkdir(parents=True, exist_ok=True)
        dump_settings(self.settings, self.out / CONFIG_NAME)
        self.run.save(self.out)
        pretrained = self.pretrain()
        for name in self.settings.heads:
            self.train_head(name, pretrained)
        return self.run

    def pretrain(self) -> HybridModel:
        """The network with a linear head."""
        model = make_model("linear", self.settings, self.run)
        self._stage(PRETRAINING, model)
        return model

    def train_head(self, name: HeadName, pretrained: HybridModel) -> HybridModel:
        """A head placed on the pretrained network's features, then trained with it (thesis algorithm 4)."""
        model = make_model(name, self.settings, self.run)
        if name == "linear":
            model.set_weights(pretrained.get_weights())
        else:
            model.network.set_weights(pretrained.network.get_weights())
            if not (self.resume and has_checkpoint(head_folder(self.out, name))):
                self._place(model)
        self._stage(name, model)
        if name == "linear":
            self._fit_temperature(model)
        if name not in self.run.heads:
            trained = {*self.run.heads, name}
            self._update_run(heads=tuple(head for head in get_args(HeadName) if head in trained))
        return model

    def _place(self, model: HybridModel) -> None:
        """Put the head's units where the features lie, and train the head alone for a start."""
        settings = self.settings
        where = f"while the {model.head.name} head was trained alone"
        remedy = "Lower head_step_learning_rate and start again with --resume."
        with factorisation_errors(model, where, remedy):
            model.initialize(
                self._batches(0, augmented=False),
                seed=settings.seed,
                head_steps=settings.head_steps,
                head_learning_rate=settings.head_step_learning_rate,
            )
        require_finite(model, {}, where, remedy)

    def _fit_temperature(self, linear: HybridModel) -> None:
        temperature = selection_temperature(linear, self.data, self.manifest, self.splits.selection)
        self._update_run(temperature=temperature)
        self.console.print(
            f"Temperature of the linear head, fitted on the selection images: {temperature:.3f}"
        )

    def _stage(self, name: str, model: HybridModel) -> None:
        schedule = stage_settings(name, self.settings)
        progress = EpochProgress(self.console, name, schedule.epochs, self.steps_per_epoch)
        panels = LanePanels(self.data, self.manifest, self.splits.selection, self.settings.panel_images)
        board = TensorBoardHook(self.out / "tensorboard" / name, num_data=self.run.num_data, panels=panels)
        try:
            state = train_stage(
                model,
                schedule,
                self._stage_data(),
                folder=head_folder(self.out, name),
                resume=self.resume,
                hooks=[board, self._say(name)],
                callbacks=[progress],
            )
        finally:
            progress.close()
        self._update_run(seconds={**self.run.seconds, name: round(state.seconds, 1)})
        if state.best is not None:
            self.console.print(
                f"{name}: best epoch {state.best_epoch}, selection bound per pixel {-state.best:.4f}"
            )

    def _stage_data(self) -> StageData:
        selection = self.splits.selection
        return StageData(
            batches=self._batches,
            steps_per_epoch=self.steps_per_epoch,
            routing=self._batches(0, augmented=False),
            selection=lane_dataset(self.data, self.manifest, selection, batch_size=self.settings.batch_size),
            scores=partial(selection_scores, data=self.data, manifest=self.manifest, names=selection),
        )

    def _batches(self, epoch: int, *, augmented: bool = True) -> tf.data.Dataset:
        return lane_dataset(
            self.data,
            self.manifest,
            self.splits.train,
            batch_size=self.settings.batch_size,
            seed=self.settings.seed,
            epoch=epoch,
            shuffle=True,
            augmentation=self.settings.augmentation if augmented else None,
        )

    def _update_run(self, **changes: Any) -> None:
        self.run = self.run.model_copy(update=changes)
        self.run.save(self.out)

    def _say(self, name: str) -> EpochHook:
        def say(report: EpochReport) -> None:
            numbers = report.numbers
            shown = {
                "loss": "loss",
                "selection_loss": "selection loss",
                "selection_nll": "NLL",
                "selection_accuracy": "accuracy",
                "selection_f_measure": "F-measure",
                "selection_ece": "ECE",
            }
            values = ", ".join(
                f"{title} {numbers[key]:.4f}" for key, title in shown.items() if key in numbers
            )
            self.console.print(f"{name} epoch {report.epoch}: {values}{' *' if report.is_best else ''}")

        return say


def stage_settings(name: str, settings: TrainSettings) -> StageSettings:
    """How a stage is trained: the pretraining, or the one of a head."""
    if name == PRETRAINING:
        return StageSettings(settings.pretraining_epochs, settings.learning_rate, settings.patience)
    return StageSettings(
        settings.head_epochs,
        settings.head_epoch_learning_rate,
        settings.patience,
        learning_rate_setting="head_epoch_learning_rate",
    )


def describe_run(manifest: LaneManifest, splits: Splits, data: Path, steps_per_epoch: int) -> LaneRun:
    """What a run knows before it starts."""
    train = set(splits.train)
    return LaneRun(
        application="lane",
        size=manifest.size,
        num_data=sum(example.labelled_pixels for example in manifest.examples if example.name in train),
        batch_norm_momentum=momentum_for(steps_per_epoch),
        counts={"train": len(splits.train), "selection": len(splits.selection), "test": len(splits.test)},
        manifest_sha256=file_sha256(data / MANIFEST_NAME),
    )


def continued_run(out: Path, now: LaneRun, settings: TrainSettings) -> LaneRun:
    """The description of a run to resume: what it has reached, checked against the data and settings of now.

    Epochs, learning rates and heads may change for what has not begun; a stage under way would mix models.
    Only its learning rate may be lowered, for that helps one that diverged.

    Raises:
        InputError: The run was started on other data, or a setting changed that what is trained depends on.
    """
    before = load_run(out, LaneRun)
    data_facts = ("manifest_sha256", "size", "num_data", "counts", "batch_norm_momentum")
    changed = [name for name in data_facts if getattr(before, name) != getattr(now, name)]
    if not (out / CONFIG_NAME).is_file():
        raise InputError(
            f"{out} cannot be resumed: its {CONFIG_NAME}, which tells what it was started with, is gone. "
            "Put it back, or train into another --out."
        )
    former = load_settings(TrainSettings, config=out / CONFIG_NAME)
    fixed = _fixed_settings(out)
    changed += [name for name in fixed if getattr(former, name) != getattr(settings, name)]
    if changed:
        raise InputError(
            f"{out} cannot be resumed: {', '.join(changed)} changed since it was started. Resume with the "
            "data and settings it was started with, or train into another --out."
        )
    for name in (PRETRAINING, *settings.heads):
        require_same_schedule(head_folder(out, name), stage_settings(name, settings))
    return before


def _fixed_settings(out: Path) -> tuple[str, ...]:
    """Settings that what the run has trained so far depends on."""
    gp_head = any(has_checkpoint(head_folder(out, name)) for name in ("svgp", "hgp"))
    head = gp_head or has_checkpoint(head_folder(out, "linear"))
    return _FIXED + (_FIXED_BY_A_HEAD if head else ()) + (_FIXED_BY_A_GP_HEAD if gp_head else ())
