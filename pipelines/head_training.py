"""Training a run: one pretrained network, then every head from that checkpoint."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Any, Generic, get_args

import numpy as np
import tensorflow as tf
from rich.console import Console

from data_prep.errors import InputError
from data_prep.manifest import MANIFEST_NAME, file_sha256
from data_prep.splits import Splits, manifest_splits
from gpmodels import DFGPHead, HybridModel
from pipelines.calibration import LOG_ODDS_DEVIATION, fit_temperature
from pipelines.config import CONFIG_NAME, dump_settings
from pipelines.divergence import factorisation_errors, require_finite
from pipelines.evaluation import selection_warnings
from pipelines.head_application import HeadApplication, ManifestKind, RunKind, SettingsKind
from pipelines.head_settings import HeadName, HeadTrainSettings
from pipelines.heads import momentum_for, view_text
from pipelines.progress import EpochProgress
from pipelines.runs import RUN, head_folder, load_run, require_no_run
from pipelines.tensorboard import TensorBoardHook
from pipelines.training import (
    EpochHook,
    EpochReport,
    StageData,
    StageSettings,
    has_checkpoint,
    make_deterministic,
    require_same_schedule,
    train_stage,
)

PRETRAINING = "pretraining"

_MUCH_LARGER = 2.0

_FIXED = ("batch_size", "selection_fraction", "fold", "seed")
_FIXED_BY_A_HEAD = ("pretraining_epochs", "learning_rate")
_FIXED_BY_A_GP_HEAD = (
    *("num_experts", "num_inducing", "kernel", "global_weight", "expert_variance"),
    *("output_kernel", "hidden_posterior", "hidden_lengthscales", "hidden_kl_weight"),
    "head_rate_factor",
)


def train(
    application: HeadApplication[SettingsKind, RunKind, ManifestKind],
    settings: SettingsKind,
    *,
    data: Path,
    out: Path,
    resume: bool,
    console: Console,
) -> RunKind:
    """Train the network with each head; see :class:`HeadTraining`.

    Raises:
        InputError: The data cannot be used, or ``out`` holds another run.
        TrainingDiverged: The loss became NaN; the last good checkpoint is kept.
    """
    require_no_run(out, resume=resume)
    if resume and not (out / RUN).exists():
        console.print(f"{out} holds no run to resume: starting from the beginning", markup=False)
    training = HeadTraining(application, settings, data=data, out=out, resume=resume, console=console)
    make_deterministic(settings.seed)
    run = training.train()
    evaluate = shlex.join(["--data", str(data), "--model", str(out), "--out", "evaluation"])
    console.print(
        f"Run written to {out}. Judge it with: gpimaging {application.name} evaluate {evaluate}",
        markup=False,
        soft_wrap=True,
    )
    return run


class HeadTraining(Generic[SettingsKind, RunKind, ManifestKind]):
    """One run: the network with a linear head first, then every head from there (thesis 4.4.3.2).

    Args:
        application: Whose run it is.
        settings: Of the run.
        data: Prepared folder.
        out: Run folder.
        resume: Continue an interrupted run; finished stages are not repeated.
        console: For progress.

    Raises:
        InputError: The data cannot be used, a network or head does not go with it, or the run to resume was
            started on other data or settings.
    """

    def __init__(
        self,
        application: HeadApplication[SettingsKind, RunKind, ManifestKind],
        settings: SettingsKind,
        *,
        data: Path,
        out: Path,
        resume: bool,
        console: Console,
    ) -> None:
        self.application, self.settings = application, settings
        self.out, self.resume, self.console = out, resume, console
        self.data = application.prepared(data)
        self.splits = manifest_splits(
            self.data.manifest, fold=settings.fold, selection_fraction=settings.selection_fraction
        )
        if not self.splits.train:
            raise InputError(
                f"{data} holds no training example for fold {settings.fold}. Prepare it with more images."
            )
        self.steps_per_epoch = application.steps_per_epoch(settings, len(self.splits.train))
        self.run = self._described()
        self._require_models()
        warnings = selection_warnings(len(self.splits.selection))
        if warning := selection_warning(self.splits, settings.selection_fraction):
            warnings = (*warnings, warning)
        for warning in warnings:
            console.print(f"Warning: {warning}", markup=False)
        begins = not (resume and has_checkpoint(head_folder(out, PRETRAINING)))
        for warning in application.check_training(self.data, self.splits, settings, begins=begins):
            console.print(f"Warning: {warning}", markup=False)
        if resume and (out / RUN).exists():
            self.run = self._continued(self.run)

    def _require_models(self) -> None:
        """Refuse now what the last head would only refuse after the others were trained."""
        try:
            for name in self.settings.heads:
                self.application.make_model(name, self.settings, self.run)
        except ValueError as error:
            raise InputError(
                f"{self.data.folder} cannot be trained on with these settings: {error}"
            ) from error

    def train(self) -> RunKind:
        """Run all stages and write the run's description."""
        self.out.mkdir(parents=True, exist_ok=True)
        dump_settings(self.settings, self.out / CONFIG_NAME)
        self.run.save(self.out)
        self.application.keep_with_run(self.data, self.out)
        self.console.print(
            f"{len(self.splits.train)} examples to train on, {len(self.splits.selection)} to choose the best "
            "epoch: * marks the lowest selection loss until then",
            markup=False,
        )
        pretrained = self.pretrain()
        for name in self.settings.heads:
            self.train_head(name, pretrained)
        return self.run

    def pretrain(self) -> HybridModel:
        """The network with a linear head."""
        model = self.application.make_model("linear", self.settings, self.run)
        if not (self.resume and has_checkpoint(head_folder(self.out, PRETRAINING))):
            self.application.start_network(model.network, self.settings, self._plain_batches())
        self._stage(PRETRAINING, model)
        return model

    def train_head(self, name: HeadName, pretrained: HybridModel) -> HybridModel:
        """A head placed on the pretrained network's features, then trained with it (thesis algorithm 4)."""
        model = self.application.make_model(name, self.settings, self.run)
        if name == "linear":
            model.set_weights(pretrained.get_weights())
        else:
            model.network.set_weights(pretrained.network.get_weights())
            if not (self.resume and has_checkpoint(head_folder(self.out, name))):
                self._place(model)
        self._stage(name, model)
        if name == "linear":
            self._fit_temperature(model)
        if name == "dfgp_mkl":
            self._weigh_views(model)
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
                self._plain_batches(),
                seed=settings.seed,
                head_steps=settings.head_steps,
                head_learning_rate=settings.head_step_learning_rate,
            )
        require_finite(model, {}, where, remedy)

    def _fit_temperature(self, linear: HybridModel) -> None:
        batches = self.application.plain_batches(
            self.data, self.splits.selection, self.settings, shuffle=False
        )
        temperature = selection_temperature(linear, batches)
        self._update_run(temperature=temperature)
        self.console.print(
            f"Temperature of the linear head, fitted on the selection examples: {temperature:.3f}"
        )

    def _weigh_views(self, model: HybridModel) -> None:
        """How much each view counts over the training examples."""
        views = self.application.views(self.settings, self.run)
        if views is None or not isinstance(model.head, DFGPHead):
            raise TypeError(f"Expected a DFGPHead on views, got a {type(model.head).__name__} on {views}.")
        features = [model.network(inputs, training=False).numpy() for inputs, *_ in self._plain_batches()]
        weights = model.head.view_weights(np.concatenate(features))
        self._update_run(view_weights=dict(zip(views, np.round(weights, 4).tolist(), strict=True)))
        self.console.print(f"Weights of the views: {view_text(self.run.view_weights)}")

    def _stage(self, name: str, model: HybridModel) -> None:
        schedule = stage_settings(name, self.settings)
        progress = EpochProgress(self.console, name, schedule.epochs, self.steps_per_epoch)
        panels = self.application.panels(self.data, self.splits.selection, self.settings)
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
            start = "" if state.best_epoch else " (as it started)"
            self.console.print(
                f"{name}: best epoch {state.best_epoch}{start}, selection loss {state.best:.4f}"
            )

    def _stage_data(self) -> StageData:
        application, selection = self.application, self.splits.selection
        return StageData(
            batches=partial(application.training_batches, self.data, self.splits.train, self.settings),
            steps_per_epoch=self.steps_per_epoch,
            routing=self._plain_batches(),
            selection=application.plain_batches(self.data, selection, self.settings, shuffle=False),
            scores=partial(application.selection_scores, data=self.data, names=selection),
        )

    def _plain_batches(self) -> tf.data.Dataset:
        """All training examples as they are, in one random order."""
        return self.application.plain_batches(self.data, self.splits.train, self.settings, shuffle=True)

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
                **{f"selection_{key}": title for key, title in self.application.epoch_scores.items()},
            }
            values = ", ".join(
                f"{title} {numbers[key]:.4f}" for key, title in shown.items() if key in numbers
            )
            self.console.print(f"{name} epoch {report.epoch}: {values}{' *' if report.is_best else ''}")

        return say

    def _described(self) -> RunKind:
        """What a run knows before it starts."""
        parts = {part: len(getattr(self.splits, part)) for part in ("train", "selection", "test")}
        return self.application.run_class(
            application=self.application.name,
            size=self.data.manifest.size,
            batch_norm_momentum=momentum_for(self.steps_per_epoch),
            counts=parts,
            manifest_sha256=file_sha256(self.data.folder / MANIFEST_NAME),
            **self.application.run_facts(self.data, self.splits),
        )

    def _continued(self, now: RunKind) -> RunKind:
        """The description of the run to resume: what it has reached, checked against what is given now.

        Epochs, learning rates and heads may change for what has not begun; a stage under way would mix
        models. Only its learning rate may be lowered, for that helps one that diverged.

        Raises:
            InputError: The run was started on other data, or a setting changed that what is trained depends
                on.
        """
        before = load_run(self.out, self.application.run_class)
        reached = ("heads", "temperature", "seconds", "view_weights")
        data_facts = [name for name in self.application.run_class.model_fields if name not in reached]
        changed = [name for name in data_facts if getattr(before, name) != getattr(now, name)]
        if not (self.out / CONFIG_NAME).is_file():
            raise InputError(
                f"{self.out} cannot be resumed: its {CONFIG_NAME}, which tells what it was started with, is "
                "gone. Put it back, or train into another --out."
            )
        former = self.application.run_settings(self.out)
        changed += [name for name in self._fixed() if getattr(former, name) != getattr(self.settings, name)]
        if changed:
            raise InputError(
                f"{self.out} cannot be resumed: {', '.join(changed)} changed since it was started. Resume "
                "with the data and settings it was started with, or train into another --out."
            )
        for name in (PRETRAINING, *self.settings.heads):
            require_same_schedule(head_folder(self.out, name), stage_settings(name, self.settings))
        return before

    def _fixed(self) -> tuple[str, ...]:
        """Settings that what the run has trained so far depends on."""
        begun = {name for name in get_args(HeadName) if has_checkpoint(head_folder(self.out, name))}
        head, gp_head = bool(begun), bool(begun - {"linear"})
        return (
            *_FIXED,
            *self.application.fixed_settings,
            *(_FIXED_BY_A_HEAD if head else ()),
            *((*_FIXED_BY_A_GP_HEAD, *self.application.fixed_gp_settings) if gp_head else ()),
        )


def selection_warning(splits: Splits, asked: float) -> str | None:
    """What to say where the groups are so few that the selection part became much larger than asked for."""
    selected, trained = len(splits.selection), len(splits.train)
    share = selected / (selected + trained)
    if share <= _MUCH_LARGER * asked:
        return None
    return (
        f"{selected} of {selected + trained} training examples ({share:.0%}) choose the best epoch, "
        f"not {asked:.0%}, for there are few groups. More and smaller groups leave more to train on."
    )


def selection_temperature(model: HybridModel, batches: tf.data.Dataset) -> float:
    """Temperature of a linear head that minimises the NLL of the selection points (Guo et al., 2017).

    `fit_temperature` has the prior that decides where these are few and nearly all right.

    Args:
        model: With a linear head.
        batches: Of inputs, labels and, where points may be ignored, weights.
    """
    logits, labels, weights = [], [], []
    for inputs, label, *weight in batches:
        logit = model(inputs, training=False)["latent_mean"].numpy()
        flat_label = label.numpy().ravel()
        labels.append(flat_label)
        logits.append(logit.reshape(flat_label.size, *logit.shape[label.shape.rank :]))
        weights.append(weight[0].numpy().ravel() if weight else np.ones(flat_label.size, np.float32))
    return fit_temperature(
        np.concatenate(logits),
        np.concatenate(labels),
        np.concatenate(weights),
        prior_deviation=LOG_ODDS_DEVIATION,
    )


def stage_settings(name: str, settings: HeadTrainSettings) -> StageSettings:
    """How a stage is trained: the pretraining, or the one of a head."""
    if name == PRETRAINING:
        return StageSettings(
            settings.pretraining_epochs, settings.learning_rate, settings.patience, start_may_stay=False
        )
    return StageSettings(
        settings.head_epochs,
        settings.head_epoch_learning_rate,
        settings.patience,
        head_rate_factor=1.0 if name == "linear" else settings.head_rate_factor,
        learning_rate_setting="head_epoch_learning_rate",
    )
