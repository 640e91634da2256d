"""One training on several devices or machines, by the strategies of `tf.distribute`.

The model of a run stays where it is, on one device. What is done once on the whole data is done with it:
the start of a head, the choice of the best epoch, the experts that are dropped, temperature and familiarity.
Only the steps of an epoch are shared: a twin of the model, made under the strategy, takes its weights and its
optimiser, does the steps, and gives them back. So a checkpoint is the same with and without a strategy, and a
run can go on with another one.

All variables could have been made under the strategy instead. Then each of these other parts, the fits of
single heads too, would have to work on mirrored variables, and on several machines at once.

Keras 3.15 cannot `fit` under `MultiWorkerMirroredStrategy` (it takes the values of replicas for tensors), so
`Twin.fit` runs the model's own `train_step` by `strategy.run`, under both strategies. Every process reads the
same batches, and each replica takes its examples from them: `tf.data` shards nothing by itself.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, Final

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from data_prep.errors import InputError
from gpmodels import HybridModel
from gpmodels.hybrid.replicas import share, total
from pipelines.command.strategies import ClusterTask

Array = npt.NDArray[Any]

_FIRST: Final = 2**53 - 1
"""Whole numbers up to it are exact in float64, in which processes send each other what they have."""


@dataclass(frozen=True)
class Replicas:
    """The devices, of one machine or of several, on which one training runs.

    Attributes:
        strategy: Strategy over these devices.
        task: Part of this process among several; None where there is one.
    """

    strategy: tf.distribute.Strategy
    task: ClusterTask | None = None

    @property
    def count(self) -> int:
        """R, the number of replicas."""
        return int(self.strategy.num_replicas_in_sync)

    @property
    def is_chief(self) -> bool:
        """Whether this process is the one that writes."""
        return self.task is None or self.task.is_chief

    def from_chief(self, values: Sequence[Array | float]) -> list[Array]:
        """Return the values that the chief has, which all processes must ask for at the same place.

        Args:
            values: What this process has, of the same shapes as the chief's.

        Returns:
            The values of the chief, of the shapes and types given.
        """
        arrays = [np.asarray(value) for value in values]
        if self.task is None or not arrays:
            return arrays
        flat = np.concatenate([array.astype(np.float64).ravel() for array in arrays])
        received = self._sum(flat if self.is_chief else np.zeros_like(flat))
        parts = np.split(received, np.cumsum([array.size for array in arrays])[:-1])
        return [
            part.reshape(array.shape).astype(array.dtype) for part, array in zip(parts, arrays, strict=True)
        ]

    def wait(self) -> None:
        """Return when all processes have come here."""
        self.from_chief([np.zeros(1)])

    def require_agreement(self, facts: Mapping[str, str]) -> None:
        """Refuse to train where the processes do not have the same.

        Args:
            facts: What must be equal, by what it is called in the message.

        Raises:
            InputError: A process differs from the chief; raised in all of them.
        """
        if self.task is None:
            return
        own = np.array([int(sha256(text.encode()).hexdigest(), 16) % _FIRST for text in facts.values()])
        (chiefs,) = self.from_chief([own])
        differs = np.zeros((len(self.task.addresses), len(facts)))
        differs[self.task.number] = own != chiefs
        everywhere = self._sum(differs.ravel()).reshape(differs.shape) > 0
        if not everywhere.any():
            return
        found = "; ".join(
            f"{self.task.title_of(number)} has other {' and '.join(np.array(list(facts))[row])}"
            for number, row in enumerate(everywhere)
            if row.any()
        )
        raise InputError(
            f"The processes of one training must have the same, but {found} than the chief. Start each of "
            "them with the same command, in folders that all of them see, or with equal copies of the data."
        )

    def _sum(self, flat: Array) -> Array:
        """Return the sum over all processes of a vector of float64."""
        return np.asarray(self._summed(tf.constant(flat, tf.float64)))

    @cached_property
    def _summed(self) -> Callable[[tf.Tensor], tf.Tensor]:
        strategy = self.strategy
        processes = 1 if self.task is None else len(self.task.addresses)
        each = strategy.num_replicas_in_sync // processes

        def on_replica(flat: tf.Tensor) -> tf.Tensor:
            number = tf.distribute.get_replica_context().replica_id_in_sync_group
            # One replica speaks for its process.
            return total(tf.where(tf.equal(number % each, 0), flat, tf.zeros_like(flat)))

        @tf.function(autograph=False, reduce_retracing=True)
        def summed(flat: tf.Tensor) -> tf.Tensor:
            return strategy.experimental_local_results(strategy.run(on_replica, (flat,)))[0]

        return summed


@dataclass(frozen=True)
class Replication:
    """How the steps of one stage are shared.

    Attributes:
        replicas: The devices.
        make_model: Returns a model of the stage, untrained and built.
    """

    replicas: Replicas
    make_model: Callable[[], HybridModel]

    def twin(
        self, model: HybridModel, optimizer: Callable[[HybridModel], keras.optimizers.Optimizer]
    ) -> "Twin":
        """Return the twin that does the steps of a model.

        Args:
            model: The compiled model.
            optimizer: Returns an optimiser for a model, equal to that of `model`.
        """
        with self.replicas.strategy.scope(), _untouched_seeds():
            twin = self.make_model()
            twin.compile(optimizer=optimizer(twin))
            twin.optimizer.build(twin.trainable_variables)
        return Twin(model, twin, self.replicas)


@dataclass(frozen=True)
class Twin:
    """A model whose variables every replica holds, and which does the steps of another one.

    Attributes:
        model: The model that it does the steps of.
        twin: The model on all replicas.
        replicas: The devices.
    """

    model: HybridModel
    twin: HybridModel
    replicas: Replicas

    def fit(
        self, batches: tf.data.Dataset, *, epoch: int, callbacks: Sequence[keras.callbacks.Callback]
    ) -> dict[str, float]:
        """Train the model for one epoch on all replicas.

        Args:
            batches: Global batches, the same in every process.
            epoch: Number of the epoch from 0.
            callbacks: Keras callbacks; `loss` after a step is the mean of the epoch so far.

        Returns:
            The metrics of the epoch.
        """
        twin = self.twin
        _assign(_variables(twin), self.replicas.from_chief(_values(self.model)))
        twin.reset_metrics()
        listeners = keras.callbacks.CallbackList(list(callbacks), model=twin)
        listeners.on_train_begin()
        listeners.on_epoch_begin(epoch)
        for step, batch in enumerate(batches):
            listeners.on_train_batch_begin(step)
            listeners.on_train_batch_end(
                step, {"loss": float(self._step(filled(batch, self.replicas.count)))}
            )
        numbers = {name: float(value) for name, value in twin.get_metrics_result().items()}
        listeners.on_epoch_end(epoch, numbers)
        listeners.on_train_end(numbers)
        _assign(_variables(self.model), _values(twin))
        return numbers

    @cached_property
    def _step(self) -> Callable[[Any], tf.Tensor]:
        strategy, twin = self.replicas.strategy, self.twin

        def on_replica(batch: Any) -> tf.Tensor:
            return twin.train_step(share(batch))["loss"]

        @tf.function(autograph=False, reduce_retracing=True)
        def step(batch: Any) -> tf.Tensor:
            return strategy.experimental_local_results(strategy.run(on_replica, (batch,)))[0]

        return step


def filled(batch: Any, count: int) -> Any:
    """Return a batch that has an example for each replica.

    A smaller one, as the last of an epoch may be, is filled with copies of its first example. They weigh
    nothing, so that the bound and its gradients stay what they are; batch normalisation alone counts them.

    Args:
        batch: Inputs and labels `[B, ...]`, and weights of the labels' shape or of shape `[B]`, if any.
        count: R, the number of replicas.

    Example:
        >>> inputs, labels, weights = filled((tf.constant([5.0]), tf.constant([1])), 3)
        >>> inputs.numpy().tolist(), weights.numpy().tolist()
        ([5.0, 5.0, 5.0], [1.0, 0.0, 0.0])
    """
    inputs, labels, weights = keras.utils.unpack_x_y_sample_weight(batch)
    missing = count - int(labels.shape[0])
    if missing <= 0:
        return batch
    if weights is None:
        weights = tf.ones_like(labels, tf.float32)

    def with_copies(values: tf.Tensor) -> tf.Tensor:
        return tf.concat([values, tf.repeat(values[:1], missing, axis=0)], axis=0)

    nothing = tf.repeat(tf.zeros_like(weights[:1]), missing, axis=0)
    return (*tf.nest.map_structure(with_copies, (inputs, labels)), tf.concat([weights, nothing], axis=0))


def _variables(model: HybridModel) -> list[keras.Variable]:
    """Return all that an epoch changes: weights, moving averages and the optimiser."""
    return [*model.weights, *model.optimizer.variables]


def _values(model: HybridModel) -> list[Array]:
    return [np.asarray(variable) for variable in _variables(model)]


def _assign(variables: Sequence[keras.Variable], values: Sequence[Array]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


@contextmanager
def _untouched_seeds() -> Iterator[None]:
    """Let nothing drawn inside change what is drawn later, as a training on one device draws it."""
    python = random.getstate()  # from which Keras draws the seeds of initialisers and layers
    try:
        yield
    finally:
        random.setstate(python)
