"""Training a run: one pretrained network, then every head from that checkpoint."""

import copy
import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
from rich.console import Console

from data_prep.errors import InputError
from data_prep.files.atomic import remove_partial
from data_prep.prepared.workers import Cluster
from data_prep.splits.divide import manifest_splits
from gpmodels import HybridModel
from gpmodels.heads.gp import GPHead
from gpmodels.registry import head_family, in_order, starting_head
from pipelines.command.config import CONFIG_NAME, dump_settings
from pipelines.command.console import say
from pipelines.command.folders import RUN, require_no_run
from pipelines.command.strategies import StrategyName
from pipelines.runs.application import Application, DataKind, RunKind, SettingsKind, TransferSource
from pipelines.runs.description import PRETRAINING, head_folder
from pipelines.runs.ensemble import member_job
from pipelines.runs.folds import num_folds_of, unlearned_note, untrained_folds
from pipelines.runs.guarantees import possible_guarantee
from pipelines.runs.head_records import HeadRecords
from pipelines.runs.head_start import start_in_run
from pipelines.runs.job import Job
from pipelines.runs.models import load_model, make_head, make_model
from pipelines.runs.observations import observations_of_run, require_observations
from pipelines.runs.resume import continued_run, new_run, require_shareable, stage_settings
from pipelines.runs.sources import open_sources, with_transfer_heads
from pipelines.runs.training_digests import LEARNED_NAME, write_learned
from pipelines.scores.results import much_selected_warnings, selection_warnings
from pipelines.training.divergence import require_finite, step_errors
from pipelines.training.progress import EpochProgress, epoch_lines
from pipelines.training.replicas import Replicas, Replication
from pipelines.training.stages import (
    BEST,
    LOSS,
    NLL,
    EpochHook,
    StageData,
    has_checkpoint,
    load_checkpoint,
    make_deterministic,
    save_completed,
    save_fitted,
    train_stage,
)
from pipelines.training.strategies import training_context
from pipelines.training.tensorboard import TensorBoardHook


def train(  # noqa: PLR0913 - the last three have defaults
    application: Application[DataKind, SettingsKind, RunKind],
    settings: SettingsKind,
    *,
    data: Path,
    out: Path,
    resume: bool,
    console: Console,
    former: SettingsKind | None = None,
    strategy: StrategyName = StrategyName.NONE,
    cluster: Cluster | None = None,
) -> RunKind:
    """Train the network with each head, then the methods the report compares them with; see `HeadTraining`.

    Args:
        application: Application of the run.
        settings: Settings of the run.
        data: Prepared folder.
        out: Folder of the run.
        resume: Whether to continue an interrupted run; what is complete is not repeated.
        console: Where progress is shown.
        former: Settings that a resumed run was started with; None reads them.
        strategy: By which the steps run on several devices or machines; see `docs/scaling.md`.
        cluster: Whose workers compute the features of a frozen trunk; None for this process.

    Raises:
        ClusterLost: The cluster no longer answers.
        InputError: The data cannot be used, or `out` holds another run.
        TrainingDiverged: The loss became NaN; the last good checkpoint is kept.
        ProcessLost: Another process of a training on several machines did not come, or ended.
    """
    require_no_run(out, resume=resume)
    if application.for_folder is not None:
        application = application.for_folder(data)
    application, settings = application.variant_for(settings, console)
    if application.before_training is not None:
        application.before_training()
    if resume and not (out / RUN).exists():
        say(console, f"{out} holds no run to resume: starting from the beginning")
    with training_context(strategy, out=out, resume=resume, console=console) as context:
        if resume and context.is_chief and (out / RUN).exists():
            remove_partial(out)  # of a process that was killed
        training = HeadTraining(
            application,
            settings,
            data=data,
            out=context.folder,
            resume=resume,
            console=context.console,
            former=former,
            replicas=context.replicas,
            cluster=cluster,
        )
        make_deterministic(settings.seed)
        run = training.train()
        evaluate = shlex.join(["--data", str(data), "--model", str(out), "--out", "evaluation"])
        training.job.say(
            f"Run written to {out}. Judge it with: gpimaging {application.name} evaluate {evaluate}",
        )
        if context.is_chief:
            training.train_rivals()
        training.train_ensemble()
    return run


class HeadTraining(HeadRecords[DataKind, SettingsKind, RunKind]):
    """One run: the network with a linear head first, then every head from there (thesis 4.4.3.2).

    Args:
        application: Application of the run.
        settings: Settings of the run.
        data: Prepared folder.
        out: Folder of the run.
        resume: Whether to continue an interrupted run; finished stages are not repeated.
        console: Where progress is shown.
        former: Settings that a resumed run was started with; None reads them.
        replicas: Devices that share the training steps; None for one device.
        cluster: Whose workers compute the features of a frozen trunk; None for this process.

    Attributes:
        job: The run with its data; its description grows as stages are finished.

    Raises:
        InputError: The data cannot be used, or the run to resume was started on other data or settings.
    """

    def __init__(  # noqa: PLR0913 - as `train`
        self,
        application: Application[DataKind, SettingsKind, RunKind],
        settings: SettingsKind,
        *,
        data: Path,
        out: Path,
        resume: bool,
        console: Console,
        former: SettingsKind | None = None,
        replicas: Replicas | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        self.replicas = replicas
        self.application, self.resume = application, resume
        settings = with_transfer_heads(settings)
        opened = application.inputs.encoded(application.inputs.open(data), settings, None, console, cluster)
        splits = manifest_splits(
            opened.manifest, fold=settings.fold, selection_fraction=settings.selection_fraction
        )
        if not splits.train:
            raise InputError(
                f"{data} holds no training example for fold {settings.fold}. Prepare it with more images."
            )
        self.steps_per_epoch = application.inputs.steps_per_epoch(settings, len(splits.train))
        checked = open_sources(application, settings, opened, splits, console, cluster)
        self.sources = tuple(one.source for one in checked)
        self.learned_from_sources = frozenset[str]().union(*(one.digests for one in checked))
        described_run = new_run(application, opened, splits, self.steps_per_epoch)
        super().__init__(
            Job(
                application=application,
                settings=settings,
                run=described_run.model_copy(update={"sources": tuple(one.rows for one in self.sources)}),
                folder=out,
                console=console,
                opened=(opened, splits),
            )
        )
        require_observations(self.job)
        self._print_warnings()
        if resume and (out / RUN).exists():
            self.job = replace(self.job, run=continued_run(self.job, former))
        if replicas is not None:
            require_shareable(self.job, replicas, resume=resume)

    def _not_trainable(self, error: ValueError) -> InputError:
        return InputError(f"{self.job.data.folder} cannot be trained on with these settings: {error}")

    def _print_warnings(self) -> None:
        """Print what a user should know before the training, and check what the training will need."""
        job, network = self.job, self.application.network
        selected, trained = len(job.splits.selection), len(job.splits.train)
        for warning in much_selected_warnings(selected, trained, job.settings.selection_fraction):
            job.say(f"Warning: {warning}")
        if network.require_start is not None and not self._goes_on(PRETRAINING):
            network.require_start(job.settings, job.run)
        for warning in self.application.inputs.warnings(job.data, job.splits, job.settings):
            job.say(f"Warning: {warning}")

    def _goes_on(self, stage: str) -> bool:
        """Whether a stage has a checkpoint to resume from."""
        return self.resume and has_checkpoint(head_folder(self.job.folder, stage))

    def train(self) -> RunKind:
        """Run all stages, write the run's description and return it.

        Raises:
            InputError: A network or head does not go with the data.
            TrainingDiverged: The loss became NaN; the last good checkpoint is kept.
        """
        job, out = self.job, self.job.folder
        pretrained = self._checked_model()
        out.mkdir(parents=True, exist_ok=True)
        dump_settings(job.settings, out / CONFIG_NAME)
        self._divide(pretrained)
        job = self.job
        if not (out / LEARNED_NAME).exists():
            own = self.application.judge.learned(job.data, (*job.splits.train, *job.splits.selection))
            write_learned(out, (*own, *self.learned_from_sources))
        for keep in self.application.inputs.kept:
            keep(job.data, out)
        job.say(
            f"{len(job.splits.train)} examples to train on, {len(job.splits.selection)} to choose the best "
            "epoch: * marks the lowest selection NLL until then"
        )
        self._train_folds()
        self.pretrain(pretrained)
        self._count_observations(pretrained)
        start, self._linear = pretrained.get_weights(), pretrained.head
        self._judge_former_heads()
        for name in job.settings.heads:
            starts = head_family(name).starts_network
            self.train_head(name, pretrained if starts else self._model_on(name, pretrained))
            pretrained.set_weights(start)
        self._pretrained = pretrained.network
        choice = self.job.run.choice
        if choice is not None and len(choice.nlls) > 1:
            self.job.say(choice.sentence())
        return self.job.run

    def _divide(self, model: HybridModel) -> None:
        """Write down into how many folds the training examples are divided, and what can be guaranteed."""
        job = self.job
        if self.is_whole and self.replicas is None and not job.run.heads:
            self._update_run(refitted_folds=num_folds_of(job, model))
        else:
            job.run.save(job.folder)
        if self.is_whole and job.splits.selection:
            num_selected = len(job.splits.selection)
            for warning in () if self.job.run.refitted_folds else selection_warnings(num_selected):
                job.say(f"Warning: {warning}")
            job.say(possible_guarantee(self.job))

    def _train_folds(self) -> None:
        """Train every head without each fold of the training examples."""
        folds = untrained_folds(self.job)
        for number, fold in enumerate(folds, 1):
            self.job.say(f"Heads that do not see fold {number} of {len(folds)}{unlearned_note(fold)}")
            member = self._member(replace(fold, console=Console(quiet=True)), is_fold=True)
            if self.resume and (fold.folder / RUN).exists():
                member.job = replace(member.job, run=continued_run(member.job, None))
            member.train()

    def _member(self, job: Job[DataKind, SettingsKind, RunKind], *, is_fold: bool) -> Self:
        """Return the training of a part of the run: a fold, or a member of its ensemble."""
        member = copy.copy(self)
        member.job, member.is_whole, member.is_fold, member._losses = job, False, is_fold, {}
        member.steps_per_epoch = self.application.inputs.steps_per_epoch(job.settings, len(job.splits.train))
        return member

    def _checked_model(self) -> HybridModel:
        """Return the untrained network with the linear head, and build every other head for its features.

        Raises:
            InputError: The network or a head does not go with the data; the last head would refuse it only
                after the others were trained.
        """
        job, parts = self.job, self.application.network
        try:
            model = make_model(starting_head(), self.application, job.settings, job.run)
            joint = model.network.compute_output_shape(parts.input_shape(job.run))
            columns = parts.view_columns(job.settings, job.run) or {}
            by_view = (None, max((view.stop for view in columns.values()), default=0))
            is_fixed = not model.network.trainable_weights
            self._heads = {}
            for name in (one for one in job.settings.heads if not head_family(one).starts_network):
                apart = head_family(name).needs_views and parts.by_view is not None
                head = make_head(name, self.application, job.settings, job.run, on_fixed_features=is_fixed)
                head.build(by_view if apart else joint)
                self._heads[name] = head
        except ValueError as error:
            raise self._not_trainable(error) from error
        return model

    def _model_on(self, name: str, pretrained: HybridModel) -> HybridModel:
        """Return an untrained head on the pretrained network, with what it takes from the linear head."""
        job = self.job
        model = make_model(name, self.application, job.settings, job.run, head=self._heads.pop(name))
        model.network.set_weights(pretrained.network.get_weights())
        if head_family(name).continues_linear:
            model.head.copy_weights(pretrained.head)
        return model

    def train_rivals(self) -> None:
        """Train the methods that the report compares with the heads, as far as the run has them not yet."""
        for rivals in self.application.rivals:
            rivals.train(self.job, self._pretrained)

    def train_ensemble(self) -> None:
        """Train the further members of the ensemble that the settings ask for, as far as they are not yet.

        Raises:
            InputError: A member was begun with other settings or data.
            TrainingDiverged: The loss became NaN; the last good checkpoint is kept.
        """
        count = self.job.settings.ensemble
        for number in range(2, count + 1):
            member = self._member(member_job(self.job, number), is_fold=False)
            member.train_as_member(f"Member {number} of {count} of the ensemble")

    def train_as_member(self, title: str) -> None:
        """Train the network with the linear head alone, as a member of an ensemble."""
        job = self.job
        if self.resume and (job.folder / RUN).exists():
            run = continued_run(job, None).model_copy(
                update={"refitted_folds": 0}
            )  # earlier versions had them
            self.job = job = replace(job, run=run)
        if starting_head() in job.run.heads:
            return
        job.say(title)
        make_deterministic(job.settings.seed)
        model = make_model(starting_head(), self.application, job.settings, job.run)
        job.folder.mkdir(parents=True, exist_ok=True)
        dump_settings(job.settings, job.folder / CONFIG_NAME)
        job.run.save(job.folder)
        self.pretrain(model)
        self.train_head(starting_head(), model)

    def pretrain(self, model: HybridModel) -> None:
        """Train the network with the linear head."""
        start = self.application.network.start
        if start is not None and not self._goes_on(PRETRAINING):
            examples = self.job.shuffled_batches("train")
            for source in self.sources:  # scales and components are of all that the heads learn from
                examples = examples.concatenate(source.batches())
            start(model.network, self.job.settings, examples)
        if self.job.has_real_targets:  # counts are learned as times their mean
            examples = self.job.data.manifest.select(self.job.splits.train)
            targets = np.array([example.target for example in examples])
            model.head.initialize_from_labels(np.zeros([len(targets), 0]), targets)
        self._stage(PRETRAINING, model)

    def _count_observations(self, pretrained: HybridModel) -> None:
        """Find the effective number of training points for the heads, unless all count."""
        job, wanted = self.job, self.job.settings.effective_observations
        heads = {*job.settings.heads, *job.run.heads}
        counting = [name for name in heads if head_family(name).counts_effective]
        if not counting or any(self._goes_on(name) for name in counting):
            return  # nobody asks, or those that are trained already have counted
        if wanted != "auto":
            self._update_run(num_effective=None if wanted == "all" else wanted)
            return
        effective, sentence = observations_of_run(job, pretrained)
        self._update_run(num_effective=effective)
        job.say(sentence)

    def train_head(self, name: str, model: HybridModel) -> None:
        """Train a head with the network; a GP head starts where the features lie (thesis algorithm 4)."""
        family = head_family(name)
        if family.fitted_on is not None:
            self._fit(name, model, family.fitted_on)
        else:
            started = time.perf_counter()
            if family.is_gaussian_process and not self._goes_on(name):
                self._start(name, model)
            self._stage(name, model, start_seconds=time.perf_counter() - started)
        if family.is_completed:
            self._complete(model)
            save_completed(model, head_folder(self.job.folder, name))
        self._fit_temperature(name, model)
        self._measure_familiarity(name, model)
        self._keep_guarantee(name, model)
        if family.weighs_views:
            self._weigh_views(model)
        run = self.job.run
        if name not in run.heads:
            self._update_run(heads=in_order([*run.heads, name]))
        self._choose()

    def _fit(self, name: str, model: HybridModel, stage: str) -> None:
        """Fit a head on the network of a finished stage; it takes that stage's head weights if needed."""
        job, folder = self.job, head_folder(self.job.folder, name)
        if self._goes_on(name):
            load_checkpoint(model, folder / BEST)
            return
        if stage != PRETRAINING:
            trained = load_model(job, stage)
            model.network.set_weights(trained.network.get_weights())
            model.head.copy_weights(trained.head)
        started = time.perf_counter()
        self._complete(model, self.sources if head_family(name).needs_sources else ())
        seconds = time.perf_counter() - started
        save_fitted(model, folder, seconds)
        if (contribution := model.head.source_contribution()) is not None:
            self._print_contribution(name, contribution, [source.rows.name for source in self.sources])
        self._update_run(seconds={**job.run.seconds, name: round(seconds, 1)})
        job.say(f"{name}: fitted on the network of the {stage} stage in one pass, {seconds:.1f} s")

    def _complete(self, model: HybridModel, sources: Sequence[TransferSource] = ()) -> None:
        """Let the head see all training examples once, with their groups, and those of the sources."""
        job = self.job
        model.fit_to(
            job.weighed_batches(shuffled=False),
            groups=job.groups("train"),
            sources=[source.batches() for source in sources],
            seed=job.settings.seed,
        )

    def _start(self, name: str, model: HybridModel) -> None:
        """Put the head's units where the features lie, and train the head alone for a start."""
        settings = self.job.settings
        where = f"while the {model.head.name} head was trained alone"
        remedy = "Lower head_step_learning_rate and start again with --resume."
        with step_errors(model, where, remedy):
            if isinstance(model.head, GPHead) and self.job.run.linear_means:
                start_in_run(self.job, model, None if head_family(name).needs_views else self._linear)
            else:
                model.initialize(
                    self.job.weighed_batches(shuffled=True),
                    seed=settings.seed,
                    head_steps=settings.head_steps,
                    head_learning_rate=settings.head_step_learning_rate,
                )
        require_finite(model, {}, where, remedy)

    def _stage(self, name: str, model: HybridModel, *, start_seconds: float = 0.0) -> None:
        """Train a stage, whose start took so many seconds."""
        job = self.job
        schedule = replace(stage_settings(name, job.settings), start_seconds=start_seconds)
        if not job.run.linear_means:  # a run of an earlier version goes on as it began
            schedule = replace(schedule, monitored=LOSS)
        elif isinstance(model.head, GPHead) and not model.network.trainable_weights:
            schedule = replace(schedule, epochs=0)  # there is no network to move with the head
        elif self.is_fold and name == starting_head() and model.head.is_classifier:
            # As the pretraining left it at its best; of numbers it would be less sure than that of the run.
            schedule = replace(schedule, epochs=0)
        progress = EpochProgress(job.console, name, schedule.epochs, self.steps_per_epoch)
        try:
            state = train_stage(
                model,
                schedule,
                self._stage_data(),
                folder=head_folder(job.folder, name),
                resume=self.resume,
                hooks=[] if self.is_fold else self._hooks(name, model),
                callbacks=[progress],
                replication=self._replication(name),
            )
        finally:
            progress.close()
        self._update_run(seconds={**job.run.seconds, name: round(state.seconds, 1)})
        measure = job.nll_title if schedule.monitored == NLL else "loss"
        if state.epochs_done < schedule.epochs:
            job.say(f"{name}: stopped early, after {schedule.patience} epochs without a lower {measure}")
        if state.best is not None:
            start = "" if state.best_epoch else " (as it started)"
            job.say(f"{name}: best epoch {state.best_epoch}{start}, selection {measure} {state.best:.4f}")

    def _hooks(self, name: str, model: HybridModel) -> list[EpochHook]:
        """Return the hooks that record each epoch of a stage: for TensorBoard, and as a console line."""
        job, judge_by = self.job, self.application.judge
        panels = judge_by.panels(job.data, job.splits.selection, job.settings.panel_images)
        counted = model.num_data if model.num_effective is None else model.num_effective
        board = TensorBoardHook(job.folder / "tensorboard" / name, num_data=counted, panels=panels)
        return [board, epoch_lines(name, {"nll": job.nll_title, **judge_by.epoch_scores}, job.say)]

    def _replication(self, stage: str) -> Replication | None:
        """Return how the steps of a stage are shared; None where they are not."""
        if self.replicas is None:
            return None
        job, head = self.job, starting_head() if stage == PRETRAINING else stage
        return Replication(self.replicas, lambda: make_model(head, self.application, job.settings, job.run))

    def _stage_data(self) -> StageData:
        job, inputs = self.job, self.application.inputs
        return StageData(
            batches=lambda epoch: inputs.training_batches(job.data, job.splits.train, job.settings, epoch),
            steps_per_epoch=self.steps_per_epoch,
            routing=self.job.shuffled_batches("train"),
            selection=self.job.batches("selection"),
            scores=lambda model: self.application.judge.selection_scores(
                model, job.data, job.splits.selection
            ),
        )
