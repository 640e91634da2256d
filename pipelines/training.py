"""The training loop that every application shares: epochs, checkpoints, resuming, early stopping.

One call of :func:`train_stage` trains one model in one folder. Each epoch ends with a checkpoint (weights,
optimiser, state); whatever stops the run, the last complete epoch is there to resume from. Data comes as a
function of the epoch, so that a resumed run sees what an uninterrupted one would, and with
:func:`make_deterministic` repeats its numbers bit for bit.
"""

from __future__ import annotations

import logging
import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import keras
import tensorflow as tf
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from data_prep.atomic import atomic_file
from data_prep.errors import InputError
from gpmodels import HybridModel
from pipelines.divergence import (
    StopOnDivergence,
    TrainingDiverged,
    expert_names,
    factorisation_errors,
    require_finite,
)
from pipelines.optimizers import TwoRateAdam

__all__ = [
    "EpochReport",
    "StageData",
    "StageSettings",
    "StageState",
    "TrainingDiverged",
    "has_checkpoint",
    "load_checkpoint",
    "make_deterministic",
    "require_same_schedule",
    "train_stage",
]

LOGGER = logging.getLogger(__name__)

MONITORED = "selection_loss"
"""The negative bound per point on the selection data; the epoch with the least is the best one."""

STATE, BEST = "state.json", "best.weights.h5"
_WEIGHTS_SUFFIX = ".weights.h5"  # Keras insists on it

EpochHook = Callable[["EpochReport"], None]
"""Called after each epoch, when its checkpoint is on disk; TensorBoard hangs here."""


@dataclass(frozen=True)
class StageSettings:
    """How to train one stage.

    Attributes:
        epochs: Passes over the training data at the most.
        learning_rate: Adam's, decayed to a hundredth by a cosine over all epochs.
        patience: Stop after so many epochs without a better bound on the selection data; 0 never stops early.
        head_rate_factor: How many times larger the learning rate of the head's own weights is.
        learning_rate_setting: What a user calls the learning rate of this stage, for messages.
        start_may_stay: Whether the weights that training starts from stay where no epoch is better, as those
            of a model that was trained before should, and random ones should not.
    """

    epochs: int
    learning_rate: float
    patience: int = 0
    head_rate_factor: float = 1.0
    learning_rate_setting: str = "learning_rate"
    start_may_stay: bool = True


@dataclass(frozen=True)
class StageData:
    """What a stage is trained and judged on.

    Attributes:
        batches: Training batches of an epoch, a pure function of its number from 0.
        steps_per_epoch: How many they are, for the learning-rate schedule.
        routing: All training data as it is, to confirm that an expert is unused before it is dropped.
        selection: Held-out training data on which the best epoch is chosen; never the judged split.
        scores: Further numbers of the model on the selection data.
    """

    batches: Callable[[int], tf.data.Dataset]
    steps_per_epoch: int
    routing: tf.data.Dataset
    selection: tf.data.Dataset
    scores: Callable[[HybridModel], Mapping[str, float]] = lambda _: {}


@dataclass(frozen=True)
class EpochReport:
    """What an epoch left behind: its number from 1, its numbers, and the model at its end."""

    epoch: int
    numbers: dict[str, float]
    is_best: bool
    model: HybridModel


class StageState(BaseModel):
    """Progress of a stage, as ``state.json`` holds it.

    Attributes:
        epochs_done: Complete epochs.
        best_epoch: Number from 1 of the best one; 0 where the start is better than all of them.
        best: Its negative bound per point; None where that of the start is not finite, or not known.
        history: Numbers of each epoch.
        seconds: Wall-clock time of all complete epochs.
        weights: File with the weights and the optimiser at the end of the last complete epoch.
        epochs: Of the stage's settings; None in a run of an earlier version.
        learning_rate: Likewise.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs_done: int = 0
    best_epoch: int = 0
    best: float | None = None
    history: tuple[dict[str, float], ...] = ()
    seconds: float = 0.0
    weights: str = f"last{_WEIGHTS_SUFFIX}"
    epochs: int | None = None
    learning_rate: float | None = None

    @field_validator("weights")
    @classmethod
    def _check_plain_name(cls, value: str) -> str:
        if PurePath(value).name != value:
            raise ValueError(f"{value!r} is not a plain file name")
        return value

    def after_epoch(self, numbers: dict[str, float], seconds: float) -> StageState:
        """The state after one more epoch, with its numbers and its wall-clock time."""
        epoch = self.epochs_done + 1
        best = {"best_epoch": epoch, "best": numbers[MONITORED]} if self.improves(numbers) else {}
        return self.model_copy(
            update={
                "epochs_done": epoch,
                "history": (*self.history, numbers),
                "seconds": self.seconds + seconds,
                "weights": f"epoch_{epoch}{_WEIGHTS_SUFFIX}",
                **best,
            }
        )

    def improves(self, numbers: Mapping[str, float]) -> bool:
        """Whether an epoch with these numbers would be the best so far."""
        return self.best is None or numbers[MONITORED] < self.best

    def save(self, folder: Path) -> None:
        """Write ``state.json``."""
        with atomic_file(folder / STATE) as temporary:
            temporary.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> StageState:
        """Read ``state.json``.

        Raises:
            InputError: It is damaged.
        """
        path = folder / STATE
        try:
            return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise InputError(
                f"{path} cannot be read as the state of a training: {error}. Train into another --out."
            ) from error


def make_deterministic(seed: int) -> None:
    """Seed Python, NumPy and TensorFlow; make every TensorFlow operation repeat its result bit for bit."""
    keras.utils.set_random_seed(seed)
    tf.config.experimental.enable_op_determinism()


def train_stage(
    model: HybridModel,
    settings: StageSettings,
    data: StageData,
    *,
    folder: Path,
    resume: bool = False,
    hooks: Sequence[EpochHook] = (),
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> StageState:
    """Train ``model`` and leave it with the weights of its best epoch.

    Args:
        model: Built; its weights are where training starts.
        settings: Epochs, learning rate, patience.
        data: What to train and to judge on.
        folder: Where the checkpoints go: ``state.json``, the weights it names, and ``best.weights.h5``.
            Created if need be.
        resume: Continue from ``folder`` if it holds a checkpoint; otherwise start anew.
        hooks: Called after each epoch.
        callbacks: Keras callbacks passed to ``fit``, e.g. a progress bar.

    Returns:
        The stage's state, with the history of its epochs.

    Raises:
        TrainingDiverged: A number stopped being finite. The last good checkpoint stays in ``folder``.
        InputError: The checkpoint to resume from is damaged, or belongs to another model or other settings.
    """
    folder.mkdir(parents=True, exist_ok=True)
    total_steps = max(settings.epochs * data.steps_per_epoch, 1)
    schedule = keras.optimizers.schedules.CosineDecay(settings.learning_rate, total_steps, alpha=0.01)
    head = model.head.trainable_variables
    model.compile(optimizer=TwoRateAdam(schedule, faster=head, factor=settings.head_rate_factor))
    model.optimizer.build(model.trainable_variables)

    state = _start(model, settings, data, folder, resume=resume)
    while state.epochs_done < settings.epochs:
        if 0 < settings.patience <= state.epochs_done - state.best_epoch:
            LOGGER.info("Stopping early: %d epochs without a better bound", settings.patience)
            break
        started = time.perf_counter()
        numbers = _one_epoch(model, state.epochs_done, data, _remedy(folder, settings), callbacks)
        numbers["learning_rate"] = float(schedule(model.optimizer.iterations))
        is_best = state.improves(numbers)
        state = state.after_epoch(numbers, time.perf_counter() - started)
        _checkpoint(model, state, folder, is_best=is_best)
        for hook in hooks:
            hook(EpochReport(state.epochs_done, numbers, is_best, model))

    load_checkpoint(model, folder / BEST)
    return state


def require_same_schedule(folder: Path, settings: StageSettings) -> None:
    """Refuse to continue a stage with another schedule than its epochs so far had.

    A lower learning rate is allowed: it is the remedy for a stage that diverged.

    Raises:
        InputError: The stage in ``folder`` has begun with other epochs, or with a lower learning rate.
    """
    if not has_checkpoint(folder):
        return
    state = StageState.load(folder)
    if not state.epochs_done or state.epochs is None or state.learning_rate is None:
        return
    begun = f"{folder} has {state.epochs_done} complete epochs"
    if settings.epochs != state.epochs:
        raise InputError(
            f"{begun} of {state.epochs}, and cannot go on to {settings.epochs}: the learning rate decays "
            f"over all epochs. Resume with {state.epochs}, or train into another --out."
        )
    if settings.learning_rate > state.learning_rate:
        raise InputError(
            f"{begun} with {settings.learning_rate_setting} {state.learning_rate:g}, and cannot go on with "
            f"{settings.learning_rate:g}. Resume with the same or a lower one, or train into another --out."
        )


def _start(
    model: HybridModel, settings: StageSettings, data: StageData, folder: Path, *, resume: bool
) -> StageState:
    """The state to go on from, with the model's weights and optimiser as they were then."""
    schedule: dict[str, Any] = {"epochs": settings.epochs, "learning_rate": settings.learning_rate}
    if resume and has_checkpoint(folder):
        require_same_schedule(folder, settings)
        state = StageState.load(folder)
        load_checkpoint(model, folder / state.weights)
        LOGGER.info("Resuming %s after epoch %d", folder.name, state.epochs_done)
        return state.model_copy(update=schedule)
    # Epoch 0: an interruption in the first epoch leaves a usable checkpoint too, and a model that the epochs
    # make no better, such as one that was trained before, stays as it is.
    best = _bound_of_start(model, data, _remedy(folder, settings)) if settings.start_may_stay else None
    state = StageState(weights=f"epoch_0{_WEIGHTS_SUFFIX}", best=best, **schedule)
    _checkpoint(model, state, folder, is_best=True)
    return state


def _bound_of_start(model: HybridModel, data: StageData, remedy: str) -> float | None:
    """The negative bound per point of the start on the selection data; None where it is not finite."""
    with factorisation_errors(model, "before the first epoch", remedy):
        least = float(model.evaluate(data.selection, verbose=0, return_dict=True)["loss"])
    return least if math.isfinite(least) else None


def _one_epoch(
    model: HybridModel,
    epoch: int,
    data: StageData,
    remedy: str,
    callbacks: Sequence[keras.callbacks.Callback],
) -> dict[str, float]:
    """Train for one epoch, drop unused experts, and return the epoch's numbers, all of them finite."""
    where = f"in epoch {epoch + 1}"
    model.head.reset_assignments()
    with factorisation_errors(model, where, remedy):
        history = model.fit(
            data.batches(epoch),
            initial_epoch=epoch,
            epochs=epoch + 1,
            shuffle=False,  # the data set has its own order
            verbose=0,
            callbacks=[StopOnDivergence(remedy), *callbacks],
        )
        numbers = {name: float(values[-1]) for name, values in history.history.items()}
        _drop_unused_experts(model, data.routing)
        judged = model.evaluate(data.selection, verbose=0, return_dict=True)
        numbers |= {f"selection_{name}": float(value) for name, value in judged.items()}
        require_finite(model, numbers, where, remedy)
        scores = data.scores(model)
    # An undefined score is NaN, which JSON does not have.
    return numbers | {f"selection_{name}": value for name, value in scores.items() if math.isfinite(value)}


def _drop_unused_experts(model: HybridModel, batches: tf.data.Dataset) -> None:
    """Drop experts that an epoch left without a point, once a pass over all training data confirms it."""
    if 0.0 not in model.head.expert_occupancy().values():
        return
    dropped = model.drop_unused_experts(batches)
    if dropped:
        LOGGER.info("Dropped %s: no training point chooses it", expert_names(dropped))


def _checkpoint(model: HybridModel, state: StageState, folder: Path, *, is_best: bool) -> None:
    """Write the weights under a name of their own and then the state that names them.

    Replacing ``state.json`` is the one step that makes the checkpoint the current one: interrupted anywhere,
    state and weights belong together.
    """
    weights = folder / state.weights
    with atomic_file(weights) as temporary:
        model.save_weights(temporary)
    if is_best:
        with atomic_file(folder / BEST) as temporary:
            shutil.copyfile(weights, temporary)
    state.save(folder)
    for former in folder.glob(f"*{_WEIGHTS_SUFFIX}"):
        if former.name not in {BEST, weights.name}:
            former.unlink()


def has_checkpoint(folder: Path) -> bool:
    """Whether a stage's folder holds something to resume from."""
    return (folder / STATE).exists()


def load_checkpoint(model: HybridModel, path: Path) -> None:
    """Give a model the weights of a checkpoint, and its optimiser's state if both have one.

    Raises:
        InputError: The file is missing, damaged, or of another model.
    """
    try:
        model.load_weights(path)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{path} cannot be loaded into this model ({error}). Expected a checkpoint of the same network "
            "and head. Use the settings it was trained with, or train again."
        ) from error


def _remedy(folder: Path, settings: StageSettings) -> str:
    return (
        f"The checkpoint of the last complete epoch is kept in {folder}. Start again with --resume and a "
        f"learning rate below {settings.learning_rate:g}: --set {settings.learning_rate_setting}=..."
    )
