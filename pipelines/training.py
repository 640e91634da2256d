"""The training loop that every application shares: epochs, checkpoints, resuming, early stopping, divergence.

One call of :func:`train_stage` trains one model in one folder. At each epoch boundary it writes ``last.weights.h5``
(weights, optimiser, random states) and ``state.json``; whatever stops the run, the last complete epoch is there to
resume from. Data comes as a function of the epoch, so that a resumed run sees what an uninterrupted one would, and with
``enable_op_determinism`` repeats its numbers bit for bit.
"""

from __future__ import annotations

import json
import logging
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from data_prep.atomic import atomic_file
from gpmodels import HybridModel

LOGGER = logging.getLogger(__name__)

MONITORED = "selection_loss"
"""The negative bound per point on the selection data; the epoch with the least is the best one."""

EpochData = Callable[[int], tf.data.Dataset]
"""The training batches of an epoch, a pure function of its number from 0."""

EpochHook = Callable[["EpochReport"], None]
"""Called after each epoch, when its checkpoint is on disk; TensorBoard hangs here."""


class TrainingDiverged(RuntimeError):
    """The loss became NaN or infinite; the message says where and which checkpoint is still good."""


@dataclass(frozen=True)
class StageSettings:
    """How to train one stage.

    Attributes:
        epochs: Passes over the training data at the most.
        learning_rate: Adam's, decayed to a hundredth by a cosine over all epochs.
        patience: Stop after so many epochs without a better bound on the selection data; 0 never stops early.
    """

    epochs: int
    learning_rate: float
    patience: int = 0


@dataclass(frozen=True)
class EpochReport:
    """What an epoch left behind: its number from 1, its numbers, and the model at its end."""

    epoch: int
    numbers: dict[str, float]
    is_best: bool
    model: HybridModel


@dataclass
class StageState:
    """Progress of a stage, as ``state.json`` holds it."""

    epochs_done: int = 0
    best_epoch: int = 0
    best: float = math.inf
    history: list[dict[str, float]] = field(default_factory=list)

    def save(self, path: Path) -> None:
        numbers = {**asdict(self), "best": None if math.isinf(self.best) else self.best}
        with atomic_file(path) as temporary:
            temporary.write_text(json.dumps(numbers, indent=1, allow_nan=False))

    @classmethod
    def load(cls, path: Path) -> StageState:
        numbers = json.loads(path.read_text())
        numbers["best"] = math.inf if numbers["best"] is None else numbers["best"]
        return cls(**numbers)


def make_deterministic(seed: int) -> None:
    """Seed Python, NumPy and TensorFlow, and make every TensorFlow operation repeat its result bit for bit."""
    keras.utils.set_random_seed(seed)
    tf.config.experimental.enable_op_determinism()


def train_stage(
    model: HybridModel,
    settings: StageSettings,
    *,
    folder: Path,
    training: EpochData,
    routing: tf.data.Dataset,
    selection: tf.data.Dataset,
    steps_per_epoch: int,
    resume: bool = False,
    hooks: Sequence[EpochHook] = (),
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> StageState:
    """Train ``model`` and leave it with the weights of its best epoch.

    Args:
        model: Built; its weights are where training starts.
        settings: Epochs, learning rate, patience.
        folder: Where ``last.weights.h5``, ``best.weights.h5`` and ``state.json`` go; created if need be.
        training: Batches of an epoch.
        routing: All training data as it is, to confirm that an expert is unused before it is dropped.
        selection: Held-out training data on which the best epoch is chosen; never the judged split.
        steps_per_epoch: Batches in an epoch, for the learning-rate schedule.
        resume: Continue from ``folder`` if it holds a checkpoint; otherwise start anew.
        hooks: Called after each epoch.
        callbacks: Keras callbacks passed to ``fit``, e.g. a progress bar.

    Returns:
        The stage's state, with the history of its epochs.

    Raises:
        TrainingDiverged: The loss became NaN or infinite. The last good checkpoint stays in ``folder``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    total_steps = max(settings.epochs * steps_per_epoch, 1)
    schedule = keras.optimizers.schedules.CosineDecay(settings.learning_rate, total_steps, alpha=0.01)
    model.compile(optimizer=keras.optimizers.Adam(schedule))
    model.optimizer.build(model.trainable_variables)

    state = StageState()
    if resume and (folder / "state.json").exists():
        state = StageState.load(folder / "state.json")
        model.load_weights(folder / "last.weights.h5")
        LOGGER.info("Resuming %s after epoch %d", folder.name, state.epochs_done)
    else:
        # Epoch 0: an interruption in the first epoch leaves a usable checkpoint too.
        _checkpoint(model, state, folder, is_best=True)

    for epoch in range(state.epochs_done, settings.epochs):
        if 0 < settings.patience <= epoch - state.best_epoch:
            LOGGER.info("Stopping early: %d epochs without a better bound", settings.patience)
            break
        numbers = _one_epoch(model, epoch, training(epoch), settings, folder, callbacks)
        dropped = _drop_unused_experts(model, routing)
        numbers["learning_rate"] = float(schedule(model.optimizer.iterations))
        numbers |= {f"selection_{name}": value for name, value in _evaluate(model, selection).items()}
        is_best = numbers[MONITORED] < state.best
        state.epochs_done = epoch + 1
        state.history.append(numbers)
        if is_best:
            state.best, state.best_epoch = numbers[MONITORED], epoch + 1
        _checkpoint(model, state, folder, is_best=is_best)
        if dropped:
            LOGGER.info("Dropped experts %s: no training point chooses them", [k + 1 for k in dropped])
        for hook in hooks:
            hook(EpochReport(epoch + 1, numbers, is_best, model))

    model.load_weights(folder / "best.weights.h5")
    return state


def _one_epoch(
    model: HybridModel,
    epoch: int,
    batches: tf.data.Dataset,
    settings: StageSettings,
    folder: Path,
    callbacks: Sequence[keras.callbacks.Callback],
) -> dict[str, float]:
    """Train for one epoch and return its mean numbers."""
    model.head.reset_assignments()
    try:
        history = model.fit(
            batches,
            initial_epoch=epoch,
            epochs=epoch + 1,
            shuffle=False,  # the data set has its own order
            verbose=0,
            callbacks=[StopOnDivergence(epoch, folder), *callbacks],
        )
    except tf.errors.InvalidArgumentError as error:
        if "could not be factorised" not in error.message:
            raise
        raise TrainingDiverged(
            f"Training stopped in epoch {epoch + 1}: {error.message.splitlines()[0]} {_remedy(folder)}"
        ) from error
    return {name: float(values[-1]) for name, values in history.history.items()}


def _evaluate(model: HybridModel, selection: tf.data.Dataset) -> dict[str, float]:
    return {name: float(value) for name, value in model.evaluate(selection, verbose=0, return_dict=True).items()}


def _drop_unused_experts(model: HybridModel, batches: tf.data.Dataset) -> list[int]:
    """Drop experts that a whole epoch left without a point, once a pass over all training data confirms it."""
    occupancy = model.head.expert_occupancy()
    suspects = [k for k, share in occupancy.items() if share == 0.0]
    return model.drop_unused_experts(batches) if suspects else []


def _checkpoint(model: HybridModel, state: StageState, folder: Path, *, is_best: bool) -> None:
    """Write weights first and the state last: a state never names weights that are not there."""
    # Keras insists on the suffix of the file it writes.
    temporary = folder / "writing.weights.h5"
    model.save_weights(temporary)
    if is_best:
        best = folder / "writing_best.weights.h5"
        shutil.copyfile(temporary, best)
        best.replace(folder / "best.weights.h5")
    temporary.replace(folder / "last.weights.h5")
    state.save(folder / "state.json")


class StopOnDivergence(keras.callbacks.Callback):
    """Raise :class:`TrainingDiverged` at the first batch whose loss is not finite."""

    def __init__(self, epoch: int, folder: Path) -> None:
        super().__init__()
        self._epoch, self._folder = epoch, folder

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        loss = float((logs or {}).get("loss", 0.0))
        if not math.isfinite(loss):
            raise TrainingDiverged(
                f"Training stopped in epoch {self._epoch + 1}, step {batch + 1}: the loss is {loss}. "
                f"{_culprit(self.model)} {_remedy(self._folder)}"
            )


def _culprit(model: HybridModel) -> str:
    """Which unit or weight is not finite, in words."""
    kl = np.asarray(model.head.prior_kl())
    units = [name for name, value in zip(model.head.unit_names, kl, strict=True) if not math.isfinite(value)]
    if units:
        return f"The KL divergence of {', '.join(units)} in {model.head.name} is not finite."
    weights = [w.path for w in model.weights if not np.isfinite(np.asarray(w)).all()]
    if weights:
        return f"The weight {weights[0]} is not finite."
    return "All weights are finite; the images or labels of that step hold the cause."


def _remedy(folder: Path) -> str:
    return (
        f"The checkpoint of the last complete epoch is kept in {folder}. "
        "Lower the learning rate and start again with --resume."
    )
