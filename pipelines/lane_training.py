"""Training a lane run: one pretrained network, then every head from that checkpoint."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import tensorflow as tf
from rich.console import Console

from data_prep.errors import InputError
from data_prep.lane_dataset import lane_dataset
from data_prep.manifest import MANIFEST_NAME, Manifest, file_sha256, load_manifest
from data_prep.splits import Splits, manifest_splits
from gpmodels import HybridModel
from pipelines.config import CONFIG_NAME, dump_settings
from pipelines.lane_evaluation import selection_temperature
from pipelines.lane_models import make_model, momentum_for
from pipelines.lane_panels import LanePanels
from pipelines.lane_settings import HeadName, TrainSettings
from pipelines.progress import EpochProgress
from pipelines.runs import RunDescription, head_folder, load_run
from pipelines.tensorboard import TensorBoardHook
from pipelines.training import EpochHook, EpochReport, StageSettings, train_stage

PRETRAINING = "pretraining"


class LaneTraining:
    """One run: the network with a linear head first, then every head from that checkpoint (thesis 4.4.3.2).

    Args:
        settings: Of the run.
        data: Prepared folder.
        out: Run folder.
        resume: Continue an interrupted run; finished stages are not repeated.
        console: For progress.
    """

    def __init__(self, settings: TrainSettings, *, data: Path, out: Path, resume: bool, console: Console) -> None:
        self.settings, self.data, self.out, self.resume, self.console = settings, data, out, resume, console
        self.manifest = load_manifest(data)
        self.splits = manifest_splits(
            self.manifest, fold=settings.fold, selection_fraction=settings.selection_fraction
        )
        if not self.splits.train:
            raise InputError(f"{data} holds no training example for fold {settings.fold}. Prepare it with more images.")
        self.steps_per_epoch = math.ceil(len(self.splits.train) / settings.batch_size)
        self.run = describe_run(settings, self.manifest, self.splits, data, self.steps_per_epoch)
        if resume and (out / "run.json").exists():
            self.run = continued(load_run(out), self.run, out)

    def train(self) -> RunDescription:
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
        self._stage(PRETRAINING, model, self.settings.pretraining_epochs, self.settings.learning_rate)
        return model

    def train_head(self, name: HeadName, pretrained: HybridModel) -> HybridModel:
        """A head placed on the pretrained network's features, then trained with it end to end (algorithm 4)."""
        settings = self.settings
        model = make_model(name, settings, self.run)
        if name == "linear":
            model.set_weights(pretrained.get_weights())
        else:
            model.network.set_weights(pretrained.network.get_weights())
            if not (self.resume and (head_folder(self.out, name) / "state.json").exists()):
                model.initialize(
                    self._batches(0, augmented=False),
                    seed=settings.seed,
                    head_steps=settings.head_steps,
                    head_learning_rate=settings.head_step_learning_rate,
                )
        self._stage(name, model, settings.head_epochs, settings.head_epoch_learning_rate)
        if name == "linear":
            temperature = selection_temperature(model, self.data, self.manifest, self.splits.selection)
            self._update_run(temperature=temperature)
            self.console.print(f"Temperature of the linear head, fitted on the selection images: {temperature:.3f}")
        return model

    def _stage(self, name: str, model: HybridModel, epochs: int, learning_rate: float) -> None:
        progress = EpochProgress(self.console, name, epochs, self.steps_per_epoch)
        panels = LanePanels(self.data, self.manifest, self.splits.selection, self.settings.panel_images)
        board = TensorBoardHook(self.out / "tensorboard" / name, num_data=self.run.num_data, panels=panels)
        started = time.perf_counter()
        try:
            state = train_stage(
                model,
                StageSettings(epochs, learning_rate, self.settings.patience),
                folder=head_folder(self.out, name),
                training=self._batches,
                routing=self._batches(0, augmented=False),
                selection=self._selection(),
                steps_per_epoch=self.steps_per_epoch,
                resume=self.resume,
                hooks=[board, self._say(name)],
                callbacks=[progress],
            )
        finally:
            progress.close()
        seconds = self.run.seconds.get(name, 0.0) + time.perf_counter() - started
        finished = self.run.heads + ((name,) if name in self.settings.heads and name not in self.run.heads else ())
        self._update_run(seconds={**self.run.seconds, name: round(seconds, 1)}, heads=finished)
        self.console.print(f"{name}: best epoch {state.best_epoch}, selection bound per pixel {-state.best:.4f}")

    def _update_run(self, **changes: Any) -> None:
        self.run = self.run.model_copy(update=changes)
        self.run.save(self.out)

    def _say(self, name: str) -> EpochHook:
        def say(report: EpochReport) -> None:
            numbers = report.numbers
            self.console.print(
                f"{name} epoch {report.epoch}: loss {numbers['loss']:.4f}, "
                f"selection loss {numbers['selection_loss']:.4f}, nll {numbers['selection_nll']:.4f}, "
                f"accuracy {numbers['selection_accuracy']:.4f}{' *' if report.is_best else ''}"
            )

        return say

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

    def _selection(self) -> tf.data.Dataset:
        return lane_dataset(self.data, self.manifest, self.splits.selection, batch_size=self.settings.batch_size)


def describe_run(
    settings: TrainSettings, manifest: Manifest, splits: Splits, data: Path, steps_per_epoch: int
) -> RunDescription:
    """What a run knows before it starts."""
    return RunDescription(
        application="lane",
        size=manifest.size,
        num_data=sum(example.labelled_pixels for example in manifest.select(splits.train)),
        batch_norm_momentum=momentum_for(steps_per_epoch),
        counts={"train": len(splits.train), "selection": len(splits.selection), "test": len(splits.test)},
        manifest_sha256=file_sha256(data / MANIFEST_NAME),
    )


def continued(before: RunDescription, now: RunDescription, out: Path) -> RunDescription:
    """The description of a resumed run: what it has reached, checked against the data and settings of now.

    Raises:
        InputError: The run was started on other data, or with another batch size or selection part.
    """
    fixed = ("manifest_sha256", "size", "num_data", "counts", "batch_norm_momentum")
    changed = [name for name in fixed if getattr(before, name) != getattr(now, name)]
    if changed:
        raise InputError(
            f"{out} cannot be resumed: {', '.join(changed)} changed since it was started. Resume with the data and "
            "settings it was started with, or train into another --out."
        )
    return before
