"""Stopping a training whose numbers are not finite, with a message that names the unit or weight at fault."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels import HybridModel
from gpmodels.hybrid.checks import NotFiniteError, refusal_of
from gpmodels.units.numerics import FactorisationFailure
from pipelines.errors import TrainingDiverged

_NO_CULPRIT = "All weights are finite: the images or labels hold the cause, or a number grew out of range."


class StopOnDivergence(keras.callbacks.Callback):
    """Raise `TrainingDiverged` at the first batch whose loss is not finite.

    Args:
        remedy: Last sentences of the message.
    """

    def __init__(self, remedy: str) -> None:
        super().__init__()
        self._remedy = remedy
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:  # noqa: ARG002 - Keras calls it so
        """Remember the epoch for the message."""
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Check the epoch's mean loss so far, which a single bad batch spoils."""
        loss = float((logs or {}).get("loss", 0.0))
        if not math.isfinite(loss):
            # Moving averages of the batch normalisation take no part in a training step.
            raise TrainingDiverged(
                f"Training stopped in epoch {self._epoch + 1}, step {batch + 1}: the loss is {loss}. "
                f"{culprit(self.model, self.model.trainable_weights) or _NO_CULPRIT} {self._remedy}"
            )


@contextmanager
def step_errors(model: HybridModel, where: str, remedy: str) -> Iterator[None]:
    """Turn the errors of a Cholesky factorisation that failed, and of bad inputs, into `TrainingDiverged`.

    Args:
        model: Whose units are factorised.
        where: When it happened, for example `"in epoch 3"`.
        remedy: Last sentences of the message.
    """
    try:
        yield
    except (tf.errors.InvalidArgumentError, NotFiniteError) as error:
        if isinstance(error, NotFiniteError) or isinstance(refusal_of(error), NotFiniteError):
            raise TrainingDiverged(
                f"Training stopped {where}: the inputs hold NaN or infinity, which no learning rate mends. "
                "Leave such examples out of the data, and start again with another --out."
            ) from error
        failure = FactorisationFailure.of(error)
        if failure is None:
            raise
        unit = failure.unit
        if failure.role == "experts":
            unit = f"{expert_names(failure.matrices)} of {failure.owner}"
        weights = culprit(model, model.weights)
        raise TrainingDiverged(
            f"Training stopped {where}: the inducing covariance of {unit} could not be factorised, even with "
            f"{failure.jitter:.3g} added to its diagonal. {weights + ' ' if weights else ''}{remedy}"
        ) from error


def require_finite(model: HybridModel, numbers: dict[str, float], where: str, remedy: str) -> None:
    """Refuse numbers or weights that are not finite before they are kept.

    A NaN in a network does not always reach the loss: rectified linear units turn it into 0.

    Raises:
        TrainingDiverged: Names the first of them.
    """
    bad = [f"{name} is {value}" for name, value in numbers.items() if not math.isfinite(value)]
    if bad or not all(np.isfinite(np.asarray(weight)).all() for weight in model.weights):
        found = f"{', '.join(bad)}. " if bad else ""
        raise TrainingDiverged(
            f"Training stopped {where}: {found}{culprit(model, model.weights) or _NO_CULPRIT} {remedy}"
        )


def culprit(model: HybridModel, weights: Sequence[keras.Variable]) -> str:
    """A sentence that names the unit or the first of `weights` that is not finite; empty if all are."""
    kl = np.asarray(model.head.prior_kl())
    units = [name for name, value in zip(model.head.unit_names, kl, strict=True) if not math.isfinite(value)]
    if units:
        return f"The KL divergence of {', '.join(units)} in {model.head.name} is not finite."
    # What is trained comes first: NaN in a moving average can be the consequence of NaN in a weight.
    for weight in sorted(weights, key=lambda weight: not weight.trainable):
        finite = np.isfinite(np.asarray(weight))
        if not finite.all():
            cause = "" if weight.trainable else " It is an average of what it was given: look at the images."
            return f"The weight {weight.path}{_experts_of(weight, finite)} is not finite.{cause}"
    return ""


def _experts_of(weight: keras.Variable, finite: npt.NDArray[np.bool_]) -> str:
    """Which experts' part of a weight is not finite, where all experts share one array."""
    if "/experts_" not in weight.path:
        return ""
    return f" of {expert_names(np.flatnonzero(~finite.reshape(len(finite), -1).all(axis=1)))}"


def expert_names(indices: Iterable[int]) -> str:
    """Names as in TensorBoard, from indices from 0."""
    return ", ".join(f"expert_{k + 1}" for k in indices)
