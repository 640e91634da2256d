"""A watch over training: heads that answer as if they saw no input, data that contradict `num_data`."""

import logging
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import keras
import numpy as np
import tensorflow as tf

from gpmodels.heads.base import Head
from gpmodels.hybrid.checks import warn_of_num_data
from gpmodels.hybrid.replicas import number

LOGGER = logging.getLogger(__name__)

LEAST_STEPS = 100
"""Steps before anything is said."""

LEAST_WAY = 0.1
"""Least steps times learning rate, about how far Adam moves a parameter: a slow run leaves its start late."""

NLL_GAIN = 0.01
"""Nats by which the NLL of training points must be below that of the best constant prediction."""

ERROR_GAIN = 0.02
"""What accuracy, or the share of the targets' deviation that is explained, must gain on the best constant."""

SPREAD = 0.005
"""Deviation of probabilities, or of means in deviations of the targets, below which all are alike."""


class Watched(Protocol):
    """What of a `HybridModel` the watch looks at."""

    head: Head
    num_data: int
    compares_num_data: bool
    points_per_example: int | None
    optimizer: Any

    def scale_of_targets(self) -> float:
        """Return what real targets are divided by, 1 of a classifier."""


class Constant(NamedTuple):
    """What the best prediction that knows no input reaches on the points of an epoch.

    Attributes:
        nll: Its NLL: the entropy of the classes' shares, or that of a Gaussian of the targets' moments.
        error: Its accuracy, or the deviation of the targets.
        spread: Deviation of the model's own predictions from point to point of a batch, which those of a
            model that learns the shares alone do not have, though they drift from batch to batch.
        points: Points of positive weight.
    """

    nll: float
    error: float
    spread: float
    points: int


class Sums(keras.metrics.Metric):
    """Sums over an epoch of labels and predictions, from which `Constant` follows.

    Args:
        num_classes: C; None for real targets, standardised.
        **kwargs: Passed to `keras.metrics.Metric`.
    """

    def __init__(self, num_classes: int | None, **kwargs: Any) -> None:
        super().__init__(name="watched", dtype="float64", **kwargs)
        self.num_classes = num_classes
        outputs = num_classes if num_classes is not None and num_classes > 2 else 1
        labels = num_classes or 2
        self.label_sums = self.add_variable((labels,), "zeros", name="label_sums", dtype="float64")
        self.output_sums = self.add_variable((outputs,), "zeros", name="output_sums", dtype="float64")
        self.weight = self.add_variable((), "zeros", name="weight", dtype="float64")
        self.points = self.add_variable((), "zeros", name="points", dtype="float64")

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor) -> None:
        """Add labels `[B]`, predictions `[B]` or `[B, C]` and weights `[B]`."""
        weight = tf.cast(sample_weight, tf.float64)
        counted = tf.where(weight > 0.0, tf.cast(y_true, tf.float64), tf.zeros_like(weight))
        if self.num_classes is None:
            labels = tf.stack([counted, tf.square(counted)], axis=1)
        else:
            labels = tf.one_hot(tf.cast(counted, tf.int32), self.num_classes, dtype=tf.float64)
        columns = tf.reshape(tf.cast(y_pred, tf.float64), [tf.size(weight), -1])
        # Two classes may have two columns, of which one says all.
        outputs = columns[:, -self.output_sums.shape[0] :]
        total = tf.linalg.matvec(outputs, weight, transpose_a=True)
        outputs -= tf.math.divide_no_nan(total, tf.reduce_sum(weight))
        self.label_sums.assign_add(tf.linalg.matvec(labels, weight, transpose_a=True))
        self.output_sums.assign_add(tf.linalg.matvec(tf.square(outputs), weight, transpose_a=True))
        self.weight.assign_add(tf.reduce_sum(weight))
        self.points.assign_add(tf.math.count_nonzero(weight, dtype=tf.float64))

    def result(self) -> tf.Tensor:
        """Return the number of points."""
        return tf.convert_to_tensor(self.points)

    def constant(self) -> Constant:
        """Return what the best constant prediction reaches on all that was added."""
        weight = max(float(self.weight.numpy()), 1e-12)
        labels, outputs = self.label_sums.numpy() / weight, self.output_sums.numpy() / weight
        spread = math.sqrt(float(outputs.mean()))
        points = int(self.points.numpy())
        if self.num_classes is None:
            variance = max(float(labels[1] - labels[0] ** 2), 1e-12)
            return Constant(
                0.5 * math.log(2.0 * math.pi * math.e * variance), math.sqrt(variance), spread, points
            )
        shares = labels[labels > 0.0]
        return Constant(float(-(shares * np.log(shares)).sum()), float(labels.max()), spread, points)

    def what_is_missing(self) -> str:
        """Return what points or classes the labels that were added lack; nothing where they lack none."""
        if not self.points.numpy():
            return "no point had a weight above 0, so that nothing was learned. Check the weights."
        if self.num_classes is None:
            return ""
        counts = self.label_sums.numpy()
        absent = np.flatnonzero(counts <= 0.0)
        if not len(absent):
            return ""
        listed = ", ".join(map(str, absent[:5])) + (", ..." if len(absent) > 5 else "")
        return (
            f"classes without a training point, which the model cannot learn: {listed} (of {len(counts)} "
            "classes, counted from 0). If they should have some, check that classes are numbered from 0 "
            "without gaps, and that num_classes is right."
        )


class Watch:
    """What a model notices of its own training; it belongs to the model, but not to its weights or its logs.

    Args:
        head: The model's head.
    """

    def __init__(self, head: Head) -> None:
        self._sums = Sums(int(getattr(head, "num_classes", 2)) if head.is_classifier else None)
        self._said: set[str] = set()

    def update(self, labels: tf.Tensor, weights: tf.Tensor, predicted: tf.Tensor) -> None:
        """Add a training batch.

        Args:
            labels: Class numbers or standardised targets, `[B]`.
            weights: Their weights, `[B]`.
            predicted: Probabilities, or means of standardised targets, `[B]` or `[B, C]`.
        """
        self._sums.update_state(labels, predicted, weights)

    def tell_num_data(self, model: Watched, points: int, *, of_all: bool) -> None:
        """Warn once of `num_data` that the number of points contradicts."""
        if (
            model.compares_num_data
            and "num_data" not in self._said
            and warn_of_num_data(model.num_data, points, of_all=of_all)
        ):
            self._said.add("num_data")

    def callback(self, *, reads_all: bool) -> keras.callbacks.Callback:
        """Return the callback that looks at each epoch.

        Args:
            reads_all: Whether an epoch is a pass over all data.
        """
        return _EpochWatch(self, reads_all=reads_all)

    def begin(self) -> None:
        """Start the sums anew."""
        self._sums.reset_state()

    def end(self, model: Watched, logs: Mapping[str, float], *, reads_all: bool) -> None:
        """Look at an epoch.

        Args:
            model: The model.
            logs: Metrics of the epoch.
            reads_all: Whether the epoch was a pass over all data.
        """
        if model.head.label_shape:  # no constant is compared with several labels
            return
        constant = self._sums.constant()
        if model.points_per_example is None and constant.points:
            self.tell_num_data(model, constant.points, of_all=reads_all)
        if "classes" not in self._said and reads_all and (reason := self._sums.what_is_missing()):
            self._said.add("classes")
            LOGGER.warning("%s: %s", model.head.name, reason)
        steps, rate = number(model.optimizer.iterations), number(model.optimizer.learning_rate)
        trained = steps >= LEAST_STEPS and steps * rate >= LEAST_WAY
        if "collapse" not in self._said and trained and _knows_no_input(model, logs, constant):
            self._said.add("collapse")
            _tell_collapse(model, logs, constant)


class _EpochWatch(keras.callbacks.Callback):
    """Hands the epochs of one `fit` to the watch of a model."""

    def __init__(self, watch: Watch, *, reads_all: bool) -> None:
        super().__init__()
        self._watch, self._reads_all = watch, reads_all

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 - Keras gives both
        self._watch.begin()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 - as above
        self._watch.end(self.model, logs or {}, reads_all=self._reads_all)


def _knows_no_input(model: Watched, logs: Mapping[str, float], constant: Constant) -> bool:
    """Whether predictions are alike, and no better than the best that knows no input.

    A hard task alone has predictions that differ from point to point; a good run in its first epoch, too.
    """
    nll, scale = logs.get("nll", math.nan), model.scale_of_targets()
    if model.head.is_classifier:
        gain = logs.get("accuracy", math.nan) - constant.error
        alike = constant.spread < SPREAD
        varied = constant.error < 1.0  # of one class alone nothing can be learned
    else:
        gain = 1.0 - logs.get("rmse", math.nan) / (scale * constant.error)
        alike = constant.spread < SPREAD * constant.error
        varied = constant.error > 1e-5
    return varied and alike and gain < ERROR_GAIN and nll > constant.nll + math.log(scale) - NLL_GAIN


def _tell_collapse(model: Watched, logs: Mapping[str, float], constant: Constant) -> None:
    scale = model.scale_of_targets()
    LOGGER.warning(
        "%s predicts the same for every input: its NLL is %.4f, that of the best answer without "
        "inputs %.4f, its divergence from the prior %.3g nats. Such a head seldom recovers: build "
        "network and head anew, and lower the learning rate, or train with LinearHead first.",
        model.head.name,
        logs.get("nll", math.nan),
        constant.nll + math.log(scale),
        float(tf.reduce_sum(model.head.prior_kl())),
    )
