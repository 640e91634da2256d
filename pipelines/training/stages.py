"""The training loop that every application shares: epochs, checkpoints, resuming, early stopping.

One call of `train_stage` trains one model in one folder. Each epoch ends with a checkpoint (weights,
optimiser, state), so a run that was stopped can resume from its last complete epoch. Data is a function of
the epoch, so that a resumed run sees what an uninterrupted one would; with `make_deterministic` it repeats
its numbers bit for bit.
"""

import io
import logging
import math
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from data_prep.errors import InputError
from data_prep.files.atomic import atomic_file
from gpmodels import HybridModel
from pipelines.command.folders import RUN
from pipelines.training.divergence import StopOnDivergence, expert_names, require_finite, step_errors
from pipelines.training.interruption import interrupted_between_steps
from pipelines.training.replicas import Replication, Twin

LOGGER = logging.getLogger(__name__)

NLL, LOSS = "selection_nll", "selection_loss"
"""What may choose the best epoch, the one where it is lowest: the NLL of the selection data, nats a point; or
the negative bound of these data, as in runs of an earlier version."""

STATE, BEST = "state.json", "best.weights.h5"
_WEIGHTS_SUFFIX = ".weights.h5"  # Keras insists on it

EpochHook = Callable[["EpochReport"], None]
"""Function called after each epoch, when its checkpoint is on disk; TensorBoard is one."""


@dataclass(frozen=True)
class StageSettings:
    """How to train one stage.

    Attributes:
        epochs: Largest number of passes over the training data.
        learning_rate: Learning rate of Adam, decayed to a hundredth by a cosine over all epochs.
        patience: Number of epochs without a lower NLL of the selection data after which training stops; 0
            never stops early.
        head_rate_factor: How many times larger the learning rate of the head's own weights is.
        learning_rate_setting: Name of the setting of this stage's learning rate, for messages.
        monitored: `NLL` or `LOSS`, what chooses the best epoch.
        start_may_stay: Whether the weights that training starts from are kept if no epoch is better. They
            should be if the model was trained before, and should not if they are random.
        start_seconds: What the start took before the first epoch; it counts as training, too.
    """

    epochs: int
    learning_rate: float
    patience: int = 0
    head_rate_factor: float = 1.0
    learning_rate_setting: str = "learning_rate"
    monitored: str = NLL
    start_may_stay: bool = True
    start_seconds: float = field(default=0.0, compare=False)  # no part of how to train


@dataclass(frozen=True)
class StageData:
    """What a stage is trained and judged on.

    Attributes:
        batches: Training batches of an epoch as a pure function of its number from 0.
        steps_per_epoch: Number of these batches, for the learning-rate schedule.
        routing: All training data unchanged, to confirm that an expert is unused before it is dropped.
        selection: Held-out training data on which the best epoch is chosen; never the judged split.
        scores: Function from the model to further numbers on the selection data.
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
    """Progress of a stage, as `state.json` holds it.

    Attributes:
        epochs_done: Complete epochs.
        best_epoch: Number from 1 of the best epoch; 0 if the start is better than all epochs.
        best: The monitored number at the best epoch; None if that of the start is not finite or not known.
        history: Numbers of each epoch.
        seconds: Wall-clock time of the start and of all complete epochs.
        weights: File with the weights and the optimiser at the end of the last complete epoch.
        epochs: Number of epochs in the stage's settings; None in a run of an earlier version.
        learning_rate: Learning rate in the stage's settings; None in a run of an earlier version.
        stage: In the file, the name of the stage, which a file of another stage has not; else None.
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
    stage: str | None = None

    @field_validator("weights")
    @classmethod
    def _check_plain_name(cls, value: str) -> str:
        if PurePath(value).name != value:
            raise ValueError(f"{value!r} is not a plain file name")
        return value

    def after_epoch(self, numbers: dict[str, float], seconds: float, monitored: str) -> "StageState":
        """Return the state after one more epoch, with its numbers and its wall-clock time."""
        epoch = self.epochs_done + 1
        improves = self.improves(numbers, monitored)
        best = {"best_epoch": epoch, "best": numbers[monitored]} if improves else {}
        return self.model_copy(
            update={
                "epochs_done": epoch,
                "history": (*self.history, numbers),
                "seconds": self.seconds + seconds,
                "weights": f"epoch_{epoch}{_WEIGHTS_SUFFIX}",
                **best,
            }
        )

    def improves(self, numbers: Mapping[str, float], monitored: str) -> bool:
        """Return whether an epoch with these numbers would be the best so far."""
        return self.best is None or numbers[monitored] < self.best

    def save(self, folder: Path) -> None:
        """Write the state to `state.json` in a folder."""
        with atomic_file(folder / STATE) as temporary:
            named = self.model_copy(update={"stage": _stage_of(folder)})
            temporary.write_text(named.model_dump_json(indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "StageState":
        """Read the state from `state.json` in a folder.

        Raises:
            InputError: The file is damaged, or that of another stage.
        """
        path = folder / STATE
        try:
            state = cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise InputError(
                f"{path} cannot be read as the state of a training: {error}. Train into another --out."
            ) from error
        if state.stage not in (None, stage := _stage_of(folder)):  # earlier versions did not say it
            raise InputError(
                f"{path} is the state of the stage {state.stage}, not of {stage}: files of the run "
                "were exchanged. Put them back, or train into another --out."
            )
        return state.model_copy(update={"stage": None})


def _stage_of(folder: Path) -> str:
    """Return the name of the stage, with its fold or member in such folders as `RUN/folds/1/heads/NAME`."""
    part = folder.resolve().parent.parent
    kind = part.parent
    is_part = kind.name in ("folds", "ensemble") and (kind.parent / RUN).is_file()
    return f"{kind.name}/{part.name}/{folder.name}" if is_part else folder.name


class TwoRateAdam(keras.optimizers.Adam):
    """Adam whose learning rate is a multiple of the usual one for some variables.

    Adam moves every weight by about the learning rate in a step, for a gradient of any size. That suits a
    network's weights of a few hundredths. It is slow for a GP's inducing values, lengthscales and variational
    covariances, which are of the order of one and have to follow the features as these move.

    Args:
        learning_rate: Rate or schedule of all other variables.
        faster: Built Keras variables with the larger rate.
        factor: Factor by which their rate is larger.

    Example:
        >>> slow, fast = keras.Variable(0.0), keras.Variable(0.0)
        >>> adam = TwoRateAdam(0.1, faster=[fast], factor=3.0)
        >>> adam.apply([keras.ops.ones(()), keras.ops.ones(())], [slow, fast])
        >>> round(float(slow.numpy()), 3), round(float(fast.numpy()), 3)
        (-0.1, -0.3)
    """

    def __init__(self, learning_rate: Any, *, faster: Iterable[keras.Variable], factor: float) -> None:
        super().__init__(learning_rate)
        # Keras hands TensorFlow's own variables to `update_step`, and under a strategy those of each replica.
        self._faster = {self._var_key(variable) for variable in faster}
        self._factor = factor

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Apply one Adam step to `variable`."""
        factor = self._factor if self._var_key(variable) in self._faster else 1.0
        super().update_step(gradient, variable, factor * learning_rate)


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
    replication: Replication | None = None,
) -> StageState:
    """Train `model` and leave it with the weights of its best epoch.

    Args:
        model: A built model; training starts from its weights.
        settings: Epochs, learning rate, patience.
        data: Data to train and to judge on.
        folder: Folder for the checkpoints: `state.json`, the weights it names, and `best.weights.h5`. It is
            created if need be.
        resume: Whether to continue from a checkpoint in `folder` if there is one; otherwise start anew.
        hooks: Functions called after each epoch.
        callbacks: Keras callbacks passed to `fit`, e.g. a progress bar.
        replication: How several devices or processes share the steps; None trains on one device. All else is
            done as on one device, and every process must call this function with the same arguments.

    Returns:
        The stage's state, with the history of its epochs.

    Raises:
        TrainingDiverged: A number stopped being finite. The last good checkpoint stays in `folder`.
        InputError: The checkpoint to resume from is damaged, or belongs to another model or other settings.
    """
    folder.mkdir(parents=True, exist_ok=True)
    total_steps = max(settings.epochs * data.steps_per_epoch, 1)
    schedule = keras.optimizers.schedules.CosineDecay(settings.learning_rate, total_steps, alpha=0.01)

    def optimizer(of: HybridModel) -> TwoRateAdam:
        faster = of.head.trainable_variables
        return TwoRateAdam(schedule, faster=faster, factor=settings.head_rate_factor)

    model.compile(optimizer=optimizer(model))
    model.optimizer.build(model.trainable_variables)
    twin = None if replication is None else replication.twin(model, optimizer)

    state = _start(model, settings, data, folder, resume=resume)
    if replication is not None:  # processes that judged the start differently would stop at different epochs
        state = _as_chief(state, replication)
    while state.epochs_done < settings.epochs:
        if 0 < settings.patience <= state.epochs_done - state.best_epoch:
            break
        started = time.perf_counter()
        numbers = _one_epoch(model, state.epochs_done, data, _remedy(folder, settings), callbacks, twin)
        if replication is not None:
            judged = replication.replicas.from_chief([numbers[settings.monitored]])
            numbers[settings.monitored] = float(judged[0])
        numbers["learning_rate"] = float(schedule(model.optimizer.iterations))
        is_best = state.improves(numbers, settings.monitored)
        state = state.after_epoch(numbers, time.perf_counter() - started, settings.monitored)
        _checkpoint(model, state, folder, is_best=is_best)
        for hook in hooks:
            hook(EpochReport(state.epochs_done, numbers, is_best, model))

    load_checkpoint(model, folder / BEST)
    return state


def require_same_schedule(folder: Path, settings: StageSettings) -> None:
    """Refuse to continue a stage with another schedule than that of its epochs so far.

    A lower learning rate is allowed: it is the remedy for a stage that diverged.

    Raises:
        InputError: The stage in `folder` has begun with other epochs, or with a lower learning rate.
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
    """Return the state to go on from; the model gets the weights and the optimiser of that state."""
    schedule: dict[str, Any] = {"epochs": settings.epochs, "learning_rate": settings.learning_rate}
    if resume and has_checkpoint(folder):
        require_same_schedule(folder, settings)
        state = StageState.load(folder)
        load_checkpoint(model, folder / state.weights)
        LOGGER.info("Resuming %s after epoch %d", folder.name, state.epochs_done)
        return state.model_copy(update=schedule)
    # Epoch 0 has a checkpoint too: an interruption in the first epoch leaves it, and a model that was trained
    # before stays as it is if no epoch makes it better.
    best = _judged_start(model, settings, data, folder) if settings.start_may_stay else None
    seconds = settings.start_seconds
    state = StageState(weights=f"epoch_0{_WEIGHTS_SUFFIX}", best=best, seconds=seconds, **schedule)
    _checkpoint(model, state, folder, is_best=True)
    return state


def _judged_start(model: HybridModel, settings: StageSettings, data: StageData, folder: Path) -> float | None:
    """Return what the monitored number is at the start; None if it is not finite."""
    with step_errors(model, "before the first epoch", _remedy(folder, settings)):
        judged = model.evaluate(data.selection, verbose=0, return_dict=True)
    least = float(judged[settings.monitored.removeprefix("selection_")])
    return least if math.isfinite(least) else None


def _one_epoch(
    model: HybridModel,
    epoch: int,
    data: StageData,
    remedy: str,
    callbacks: Sequence[keras.callbacks.Callback],
    twin: Twin | None,
) -> dict[str, float]:
    """Train for one epoch, drop unused experts, and return the epoch's numbers, all of them finite."""
    where = f"in epoch {epoch + 1}"
    model.head.reset_assignments()
    with step_errors(model, where, remedy):
        with interrupted_between_steps() as stop:
            watched = [StopOnDivergence(remedy), *callbacks, stop]
            if twin is None:
                numbers = _fit(model, data.batches(epoch), epoch, watched)
            else:
                numbers = twin.fit(data.batches(epoch), epoch=epoch, callbacks=watched)
        _drop_unused_experts(model, data.routing)
        judged = model.evaluate(data.selection, verbose=0, return_dict=True)
        numbers |= {f"selection_{name}": float(value) for name, value in judged.items()}
        require_finite(model, numbers, where, remedy)
        scores = data.scores(model)
    # An undefined score is NaN, which JSON does not have.
    return numbers | {f"selection_{name}": value for name, value in scores.items() if math.isfinite(value)}


def _fit(
    model: HybridModel,
    batches: tf.data.Dataset,
    epoch: int,
    callbacks: Sequence[keras.callbacks.Callback],
) -> dict[str, float]:
    """Train for one epoch on one device, and return its metrics."""
    history = model.fit(
        batches,
        initial_epoch=epoch,
        epochs=epoch + 1,
        shuffle=False,  # the data set has its own order
        verbose=0,
        callbacks=list(callbacks),
    )
    return {name: float(values[-1]) for name, values in history.history.items()}


def _as_chief(state: StageState, replication: Replication) -> StageState:
    """Return a state whose best NLL is the chief's."""
    (best,) = replication.replicas.from_chief([math.nan if state.best is None else state.best])
    return state.model_copy(update={"best": None if math.isnan(best) else float(best)})


def _drop_unused_experts(model: HybridModel, batches: tf.data.Dataset) -> None:
    """Drop experts that an epoch left without a point, once a pass over all training data confirms it."""
    if 0.0 not in model.head.expert_occupancy().values():
        return
    dropped = model.drop_unused_experts(batches)
    if dropped:
        LOGGER.info("Dropped %s: no training point chooses it", expert_names(dropped))


def _checkpoint(model: HybridModel, state: StageState, folder: Path, *, is_best: bool) -> None:
    """Write the weights under a new name and then the state that names them.

    Only replacing `state.json` makes the checkpoint the current one. So state and weights belong together
    after an interruption at any point.
    """
    weights = folder / state.weights
    _write_weights(model, weights)
    if is_best:
        with atomic_file(folder / BEST) as temporary:
            shutil.copyfile(weights, temporary)
    state.save(folder)
    for former in folder.glob(f"*{_WEIGHTS_SUFFIX}"):
        if former.name not in {BEST, weights.name}:
            former.unlink()


class _WeightsInMemory(io.BytesIO):
    """A file in memory with a name of the kind that Keras insists on.

    Keras documents paths alone. What it opens, `H5IOStore`, takes a `BytesIO` too, and of a path
    `save_weights` checks the text.
    """

    def __str__(self) -> str:
        return f"memory{_WEIGHTS_SUFFIX}"


def _write_weights(model: HybridModel, path: Path) -> None:
    """Write a file of weights, complete or not at all.

    HDF5 writes it in memory: where a disk is full it cannot close its own file, and ends the process by a
    segmentation fault.

    Raises:
        InputError: The file cannot be written.
    """
    content = _WeightsInMemory()
    model.save_weights(content)
    with atomic_file(path) as temporary:
        temporary.write_bytes(content.getvalue())


def save_completed(model: HybridModel, folder: Path) -> None:
    """Replace the weights of a stage's best epoch by those of the model, which a further pass completed."""
    _write_weights(model, folder / BEST)


def save_fitted(model: HybridModel, folder: Path, seconds: float) -> None:
    """Write the checkpoint of a model that has no epochs of its own, but was fitted in one pass."""
    folder.mkdir(parents=True, exist_ok=True)
    _checkpoint(model, StageState(weights=f"epoch_0{_WEIGHTS_SUFFIX}", seconds=seconds), folder, is_best=True)


def has_checkpoint(folder: Path) -> bool:
    """Return whether a stage's folder holds a checkpoint to resume from."""
    return (folder / STATE).exists()


def load_checkpoint(model: HybridModel, path: Path) -> None:
    """Load the weights of a checkpoint into a model, and its optimiser's state if both have one.

    Raises:
        InputError: The file is missing, damaged, or belongs to another model, or a weight is not finite.
    """
    try:
        model.load_weights(path)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{path} cannot be loaded into this model ({error}). Expected a checkpoint of the same network "
            "and head. Use the settings it was trained with, or train again."
        ) from error
    optimizer = getattr(model, "optimizer", None)  # only a compiled model has one
    kept = [*model.variables, *(() if optimizer is None else optimizer.variables)]
    bad = [weight.path for weight in kept if not np.isfinite(np.asarray(weight)).all()]
    if bad:
        raise InputError(
            f"{path} holds NaN or infinity in {len(bad)} weights, such as {bad[0]}, and predicts nothing. "
            f"Expected finite numbers. Remove the folder {path.parent} and train with --resume: that "
            "stage is trained anew."
        )


def _remedy(folder: Path, settings: StageSettings) -> str:
    return (
        f"The checkpoint of the last complete epoch is kept in {folder}. Start again with --resume and a "
        f"learning rate below {settings.learning_rate:g}: --set {settings.learning_rate_setting}=..."
    )
