"""Training a head alone on fixed features until its held-out NLL stops falling.

The steps are Adam's on the bound; what is kept are the weights with the least NLL of the held-out points, the
start among them. So a head that starts as the linear layer, see `gpmodels.units.linear_mean`, predicts these
points at least as well as that layer.
"""

import math
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.heads.base import Head, Latent
from gpmodels.heads.gp import GPHead
from gpmodels.units.gradients import apply_gradients

EVALUATED_AT_ONCE = 16_384
"""Held-out points in one pass."""

FloatArray = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class HeadPoints:
    """Points that a head is trained on or judged by.

    Attributes:
        features: `[N, D]`.
        labels: Class indices or targets, `[N]`.
        weights: How often each counts, `[N]`.
        logits: What linear layers that did not see each point say of it, `[N, P]`, in place of the linear
            mean's own; None takes its own.
        logit_variance: v of the linear layer at the points, `[N, P]`, which the logits come with.
    """

    features: FloatArray
    labels: FloatArray
    weights: FloatArray
    logits: FloatArray | None = None
    logit_variance: FloatArray | None = None

    def __len__(self) -> int:
        """N."""
        return len(self.labels)


@dataclass(frozen=True)
class AloneSchedule:
    """How a head is trained alone.

    Attributes:
        steps: Most steps.
        learning_rate: Of Adam at the start. It falls to a third when so many rounds have gained nothing.
        batch_size: Points of a step.
        round_steps: Steps between two looks at the held-out points.
        patience: Rounds without a gain after which the learning rate falls and the best weights come back.
        falls: The training ends when the learning rate would fall more often.
        least_gain: Nats a held-out point that a round must gain.
        holds_linear_layer: Whether W of the linear mean stays as it is, as one that was trained already.
    """

    steps: int = 1000
    learning_rate: float = 1e-2
    batch_size: int = 2048
    round_steps: int = 100
    patience: int = 2
    falls: int = 3
    least_gain: float = 1e-4
    holds_linear_layer: bool = False


@dataclass(frozen=True)
class AloneResult:
    """What training alone gave.

    Attributes:
        steps: Steps taken.
        start: NLL of the held-out points at the start, nats; NaN without such points.
        best: The least NLL, that of the weights that are kept.
    """

    steps: int
    start: float
    best: float


def train_alone(
    head: Head,
    training: HeadPoints,
    held_out: HeadPoints | None,
    schedule: AloneSchedule,
    *,
    num_observations: float,
    seed: int = 0,
) -> AloneResult:
    """Train a head on fixed features and leave it with the weights of the least held-out NLL.

    Args:
        head: Built and placed.
        training: Points to learn from.
        held_out: Points to choose by; None takes all steps, the learning rate falling by a cosine.
        schedule: How.
        num_observations: N_eff, what the penalty is divided by.
        seed: Of the order of the points.

    Returns:
        Steps and NLL.

    Example:
        >>> from gpmodels import SVGPHead
        >>> rng = np.random.default_rng(0)
        >>> x = rng.standard_normal((100, 2)).astype("float32")
        >>> points = HeadPoints(x, (x[:, 0] > 0).astype("float32"), np.ones(100, "float32"))
        >>> head = SVGPHead(num_inducing=5)
        >>> head.build((None, 2))
        >>> head.initialize(x)
        >>> result = train_alone(head, points, points, AloneSchedule(steps=200), num_observations=100)
        >>> result.best < result.start
        True
    """
    steps = _Steps(head, training, schedule, num_observations, seed)
    if held_out is None or not held_out.weights.any():
        for step in range(schedule.steps):
            steps.take(0.5 * schedule.learning_rate * (1.0 + math.cos(math.pi * step / schedule.steps)))
        return AloneResult(schedule.steps, math.nan, math.nan)
    judged = _Judge(head, held_out)
    start = best = judged.nll()
    kept, rate, falls, done, idle = head.get_weights(), schedule.learning_rate, 0, 0, 0
    while done < schedule.steps and falls <= schedule.falls:
        count = min(schedule.round_steps, schedule.steps - done)
        for _ in range(count):
            steps.take(rate)
        done += count
        nll = judged.nll()
        idle = 0 if nll < best - schedule.least_gain else idle + 1
        if nll < best:
            best, kept = nll, head.get_weights()
        if idle == schedule.patience:
            head.set_weights(kept)
            rate, falls, idle = rate / 3.0, falls + 1, 0
    head.set_weights(kept)
    return AloneResult(done, start, best)


class _Steps:
    """Steps of Adam on random points."""

    def __init__(
        self, head: Head, points: HeadPoints, schedule: AloneSchedule, num_observations: float, seed: int
    ) -> None:
        dtype = head.compute_dtype
        self._head, self._num_observations = head, num_observations
        self._rng = np.random.default_rng(seed)
        self._size, self._count = min(schedule.batch_size, len(points)), len(points)
        self._order: npt.NDArray[np.intp] = np.arange(0)
        self._features, self._labels, self._weights = (
            tf.constant(part, dtype) for part in (points.features, points.labels, points.weights)
        )
        mean = head.linear_mean if isinstance(head, GPHead) else None
        self._mean = mean
        self._logits, self._logit_variance = (
            None if part is None or mean is None else tf.constant(part, dtype)
            for part in (points.logits, points.logit_variance)
        )
        self._holds = mean is not None and (schedule.holds_linear_layer or self._logits is not None)
        held = mean.kernel.unconstrained_variable if mean is not None and self._holds else None
        self._variables = [weight for weight in head.trainable_weights if weight.value is not held]
        self._optimizer = keras.optimizers.Adam(schedule.learning_rate)
        self._optimizer.build(self._variables)
        self._step = tf.function(self._take, autograph=False, reduce_retracing=True)

    def take(self, learning_rate: float) -> None:
        """Take one step on the next points of a random order."""
        if len(self._order) < self._size:
            self._order = np.concatenate([self._order, self._rng.permutation(self._count)])
        chosen, self._order = self._order[: self._size], self._order[self._size :]
        self._optimizer.learning_rate.assign(learning_rate)
        self._step(tf.constant(chosen, tf.int32))

    def _take(self, chosen: tf.Tensor) -> None:
        x, y, weight = (tf.gather(part, chosen) for part in (self._features, self._labels, self._weights))
        with tf.GradientTape() as tape:
            latent = self._latent(x, chosen)
            terms = self._head.training_terms(latent, x, y)
            expected = tf.math.divide_no_nan(tf.reduce_sum(weight * terms), tf.reduce_sum(weight))
            penalty = self._head.penalty()
            if self._holds and self._mean is not None:
                penalty += self._mean.scale_penalty()
            loss = penalty / self._num_observations - expected
        gradients = tape.gradient(loss, self._variables, unconnected_gradients="zero")
        finite = tf.math.is_finite(loss)  # a NaN would spread to all weights
        gradients = [tf.where(finite, gradient, tf.zeros_like(gradient)) for gradient in gradients]
        apply_gradients(self._optimizer, zip(gradients, self._variables, strict=True))
        self._head.record_assignments(latent, weight)

    def _latent(self, x: tf.Tensor, chosen: tf.Tensor) -> Latent:
        """Return the marginals of points, with the mean by their own logits if they have some."""
        if self._logits is None or self._mean is None or not isinstance(self._head, GPHead):
            return self._head.training_latent(x)
        variance = None if self._logit_variance is None else tf.gather(self._logit_variance, chosen)
        mean = self._mean.marginal_of(tf.gather(self._logits, chosen), variance)
        return self._head.shifted(self._head.training_residual(x), mean)


class _Judge:
    """The NLL of held-out points by the head as it is."""

    def __init__(self, head: Head, points: HeadPoints) -> None:
        dtype = head.compute_dtype
        self._weight = float(np.sum(points.weights))
        parts = (points.features, points.labels, points.weights)
        self._parts = [
            tuple(tf.constant(part[start : start + EVALUATED_AT_ONCE], dtype) for part in parts)
            for start in range(0, len(points), EVALUATED_AT_ONCE)
        ]

        def total(x: tf.Tensor, y: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
            return -tf.reduce_sum(weight * head.log_predictive_density(head.latent(x), y))

        self._total = tf.function(total, autograph=False, reduce_retracing=True)

    def nll(self) -> float:
        """Return the mean NLL, nats; infinite where it is not a number."""
        nll = sum(float(self._total(*part)) for part in self._parts) / self._weight
        return nll if math.isfinite(nll) else math.inf
