"""The learner: what the labelled images say of all others, and which image to ask next.

Two designs were weighed. Laplace's approximation in the functions of the labelled images (Rasmussen and
Williams, algorithm 3.3) needs no basis, but every step costs C n³, .3 s and more for 1,000 labels of 10
classes. In the weights of a fixed basis of the pool one more answer is a few conjugate gradients, and
covariances of any two images of the pool are products of short vectors, which is what the choice of the next
image is made of. This is the second (`softmax_laplace`, `basis`, `acquisition`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.special
from numpy.typing import ArrayLike, NDArray

from pipelines.label.learning.acquisition import choose_informative
from pipelines.label.learning.basis import PoolBasis
from pipelines.label.learning.division import judging_groups
from pipelines.label.learning.progress import Curve, Progress, judged_progress, learning_curve
from pipelines.label.learning.softmax_laplace import (
    LabelPosterior,
    curvature,
    fit_posterior,
    left_out_logits,
    predicted_logits,
    variances,
)
from pipelines.label.learning.tuning import FIRST_SCALES, FIRST_TEMPERATURE, Tuned, tune

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

JUDGING_EVERY = 5
"""Every so many questions one is about a random image of the judging groups."""

RANDOM_EVERY = 5
"""Every so many questions to learn from one is about a random image of a new group.

Questions about what the model doubts never find what it is wrongly sure of: with them alone the loss on solar
cells, whose labels are noisy, rose from 100 labels on."""

_FEWEST_GROUPS = 5
"""Groups of labelled images from which on a familiarity means something."""


class _Predicted(NamedTuple):
    """Predictions of the posterior for the whole pool."""

    mean: FloatArray
    variance: FloatArray
    probability: FloatArray


class Learner:
    """Learns from each answer at once; safe to call from several threads.

    Rows are those of the features. Images of judging groups are asked for at random, judge, and never train.

    Args:
        features: Features of a frozen trunk `[N, D]`.
        group: Name of the group of each image, `[N]`.
        num_classes: C, how many classes there are.
        seed: Seed of every choice.
        is_judging: Whether each image judges and never trains, `[N]`; by `judging_groups` where None.

    Raises:
        ValueError: Features, groups or classes do not fit each other.

    Example:
        >>> features = np.repeat(np.eye(4), 5, axis=0)
        >>> learner = Learner(features, [f"image {number}" for number in range(20)], num_classes=2)
        >>> learner.update(int(learner.next(1)[0]), 1)
        >>> learner.probability().shape
        (20, 2)
    """

    def __init__(
        self,
        features: ArrayLike,
        group: Sequence[str],
        num_classes: int,
        *,
        seed: int = 0,
        is_judging: ArrayLike | None = None,
    ) -> None:
        self._basis = PoolBasis(features, seed)
        count = len(self._basis.components)
        if len(group) != count or num_classes < 1:
            raise ValueError(
                f"expected a group for each of {count} images and at least one class, but found {len(group)} "
                f"groups and {num_classes} classes."
            )
        judging = judging_groups(group, seed) if is_judging is None else np.asarray(is_judging, bool)
        if judging.shape != (count,):
            raise ValueError(f"is_judging must say yes or no of each of {count} images.")
        self._judging = judging
        self._group: IntArray = np.unique(np.asarray(group), return_inverse=True)[1]
        self._num_classes = num_classes
        rng = np.random.default_rng(seed)
        self._judging_order = rng.permutation(np.flatnonzero(judging))
        self._seed = seed
        self._lock = threading.RLock()
        self._labels = np.full(count, -1)
        self._tuned = Tuned(FIRST_SCALES, FIRST_TEMPERATURE)
        self._values = self._basis(FIRST_SCALES)
        self._curve: Curve | None = None
        self._weights: FloatArray | None = None
        self._learn()

    @property
    def judging(self) -> NDArray[np.bool_]:
        """Whether each image judges and never trains, `[N]`."""
        return self._judging

    @property
    def components(self) -> FloatArray:
        """Principal components of the features, of length 1, which the learner sees, `[N, P]`."""
        return self._basis.components

    # Answers

    def set_labels(self, labels: ArrayLike) -> None:
        """Take all labels at once.

        Args:
            labels: Class of each image `[N]`, -1 for none.

        Raises:
            ValueError: There are more or fewer of them than images, or a class is unknown.
        """
        given = np.asarray(labels, np.intp)
        if given.shape != self._labels.shape or given.min() < -1 or given.max() >= self._num_classes:
            raise ValueError(
                f"labels must be {len(self._labels)} whole numbers from -1 to {self._num_classes - 1}, but "
                f"there are {given.size}, from {given.min(initial=0)} to {given.max(initial=0)}."
            )
        with self._lock:
            self._labels = given.copy()
            self._weights = None
            self._learn()

    def update(self, row: int, label: int) -> None:
        """Take one answer and learn from it.

        Args:
            row: Of the image.
            label: Its class; -1 takes an answer back.

        Raises:
            ValueError: There is no such image or class.
        """
        if not 0 <= row < len(self._labels) or not -1 <= label < self._num_classes:
            raise ValueError(
                f"row {row} and label {label} must lie in 0 to {len(self._labels) - 1} and in -1 to "
                f"{self._num_classes - 1}."
            )
        with self._lock:
            self._labels[row] = label
            if not self._judging[row]:
                self._learn()

    def refit(self) -> None:
        """Choose hyperparameters and temperature anew, and follow what the answers bought; takes seconds.

        Answers may be given meanwhile: it works on a copy, and learns from all answers at the end.
        """
        with self._lock:
            labels = self._labels.copy()
        rows = self._training(labels)
        tuned = tune(self._basis, rows, labels[rows], self._group[rows], self._num_classes)
        values = self._basis(tuned.scales)
        judged = np.flatnonzero((labels >= 0) & self._judging)
        curve = learning_curve(
            values, rows, judged, labels, self._group, self._num_classes, tuned.temperature, seed=self._seed
        )
        with self._lock:
            if tuned.scales != self._tuned.scales:
                self._weights = None  # of another basis
            self._tuned, self._values, self._curve = tuned, values, curve
            self._learn()

    # What it says

    def probability(self) -> FloatArray:
        """Return calibrated class probabilities of all images, `[N, C]`."""
        with self._lock:
            return self._predicted().probability.copy()

    def familiarity(self, wanted: ArrayLike | None = None) -> FloatArray:
        """Return how familiar images are: small where one is unlike every labelled image.

        It is the share of labelled groups whose images are at least as unlike those of all other labelled
        groups, with one more on both sides of the fraction: the conformal p-value of
        `gpmodels.familiarity.nearest`. NaN while fewer than five groups have a labelled training image.

        Args:
            wanted: Rows of the images, `[W]`; None for all of them.

        Returns:
            Numbers between 0 and 1, `[W]` or `[N]`.
        """
        with self._lock:
            rows = self._training(self._labels)
        unit, group = self._basis.components, self._group[rows]
        asked = unit if wanted is None else unit[np.asarray(wanted, np.intp)]
        if len(np.unique(group)) < _FEWEST_GROUPS:
            return np.full(len(asked), np.nan)
        likeness = asked @ unit[rows].T
        numbers = np.arange(len(unit)) if wanted is None else np.asarray(wanted, np.intp)
        likeness[numbers[:, None] == rows[None]] = -np.inf  # an image is not its own reference
        distance = 1.0 - likeness.max(axis=1)
        among = unit[rows] @ unit[rows].T
        held_out = 1.0 - np.where(group[:, None] == group[None], -np.inf, among).max(axis=1)
        order = np.argsort(held_out, kind="stable")
        _, member, sizes = np.unique(group[order], return_inverse=True, return_counts=True)
        weight = 1.0 / sizes[member]
        as_far = np.append(np.cumsum(weight[::-1])[::-1], 0.0)
        below = np.searchsorted(held_out[order], distance, side="left")
        return np.asarray((1.0 + as_far[below]) / (len(sizes) + 1.0), np.float64)

    def nearest(self, row: int, count: int = 3) -> tuple[tuple[int, float], ...]:
        """Return the labelled training images most similar to an image, and their similarities.

        Args:
            row: Of the image, which is not among them.
            count: How many.

        Returns:
            Pairs of row and cosine similarity, from -1 to 1, the most similar first.
        """
        with self._lock:
            rows = self._training(self._labels)
        rows = rows[rows != row]
        similarity = self._basis.similarity(row, rows)
        order = np.argsort(-similarity, kind="stable")[:count]
        return tuple((int(rows[one]), float(similarity[one])) for one in order)

    def alike(self, row: int, count: int = 20) -> IntArray:
        """Return unlabelled training rows that resemble a row and get the same predicted class.

        Args:
            row: Of the image, which is not among them.
            count: How many at most.
        """
        with self._lock:
            predicted = self._predicted().probability.argmax(axis=1)
            rows = np.flatnonzero((self._labels < 0) & ~self._judging & (predicted == predicted[row]))
        rows = rows[rows != row]
        return rows[np.argsort(-self._basis.similarity(row, rows), kind="stable")[:count]]

    def next(self, count: int, skip: ArrayLike = ()) -> IntArray:
        """Return the rows to ask next.

        Every fifth question is about a random image of the judging groups, whatever the model thinks of it.
        Of the others every fifth is about a random image too, which trains; the rest is what `acquisition`
        says.

        Args:
            count: How many.
            skip: Rows that are not to be asked, as those that another browser shows; or whether each row is
                not to be asked, boolean `[N]`.

        Returns:
            At most `count` rows, fewer where fewer are left.
        """
        skipped = np.zeros(len(self._labels), bool)
        given = np.asarray(skip)
        skipped[given if given.dtype == bool else given.astype(np.intp)] = True
        with self._lock:
            asked = (self._labels >= 0) | skipped
            judging = self._judging_order[~asked[self._judging_order]]
            num_judging, num_asked = int(np.sum(asked & self._judging)), int(asked.sum())
            is_judging = _judging_turns(num_asked, num_judging, count)
            num_free = int(np.sum(~asked & ~self._judging))
            # Where one kind runs out, the other takes its turns.
            turns = min(int(is_judging.sum()), len(judging))
            wanted = min(count - turns, num_free)
            turns = min(count - wanted, len(judging))
            to_learn = self._to_learn_from(asked, wanted)
        return np.array(_merged(list(judging[:turns]), to_learn, is_judging), np.intp)

    def suspects(self, count: int) -> IntArray:
        """Return labelled training rows whose label the model without their group doubts, the worst first.

        Args:
            count: Largest number of rows. Images whose label is the most probable class are left out.
        """
        with self._lock:
            rows = self._training(self._labels)
            labels, group, posterior = self._labels[rows], self._group[rows], self._posterior
            values, temperature = self._values[rows], self._tuned.temperature
        share = scipy.special.softmax(left_out_logits(values, labels, group, posterior) / temperature, axis=1)
        own = np.take_along_axis(share, labels[:, None], 1)[:, 0]
        order = np.argsort(own, kind="stable")
        doubted = order[share[order].argmax(axis=1) != labels[order]]
        return rows[doubted[:count]]

    def unfamiliar(self, count: int) -> IntArray:
        """Return unlabelled training rows, the one least like any labelled image first.

        Args:
            count: How many at most; none while nothing is labelled.
        """
        with self._lock:
            rows = self._training(self._labels)
            free = np.flatnonzero((self._labels < 0) & ~self._judging)
        if not len(rows):
            return np.zeros(0, np.intp)
        similarity = (self._basis.components[free] @ self._basis.components[rows].T).max(axis=1)
        return free[np.argsort(similarity, kind="stable")[:count]]

    def progress(self) -> Progress:
        """Return what the answers have bought so far, judged by the labelled images of the judging groups."""
        with self._lock:
            judged = np.flatnonzero((self._labels >= 0) & self._judging)
            probability = self._predicted().probability[judged]
            labels, curve = self._labels[judged], self._curve
            num_training = len(self._training(self._labels))
        return judged_progress(probability, labels, self._group[judged], num_training, curve, seed=self._seed)

    # Within the lock

    def _training(self, labels: IntArray) -> IntArray:
        """Return the labelled rows that train."""
        return np.flatnonzero((labels >= 0) & ~self._judging)

    def _learn(self) -> None:
        rows = self._training(self._labels)
        self._posterior: LabelPosterior = fit_posterior(
            self._values[rows], self._labels[rows], self._num_classes, self._weights
        )
        self._weights = self._posterior.weights
        self._of_pool: _Predicted | None = None

    def _predicted(self) -> _Predicted:
        if self._of_pool is None:
            mean = self._values @ self._posterior.weights
            variance = variances(self._values, self._posterior.covariance)
            logits = predicted_logits(mean, variance) / self._tuned.temperature
            self._of_pool = _Predicted(mean, variance, scipy.special.softmax(logits, axis=1))
        return self._of_pool

    def _to_learn_from(self, asked: NDArray[np.bool_], count: int) -> list[int]:
        """Return rows to learn from: informative ones, and in every fifth place a random one."""
        free, num_before = ~asked & ~self._judging, int(np.sum(asked & ~self._judging))
        is_random = (num_before + 1 + np.arange(count)) % RANDOM_EVERY == 0
        rng, seen = np.random.default_rng([self._seed, num_before]), list(self._group[asked & ~self._judging])
        random: list[int] = []
        for _ in range(int(is_random.sum())):
            fresh = free & ~np.isin(self._group, seen)
            among = np.flatnonzero(fresh if fresh.any() else free)
            group = rng.choice(np.unique(self._group[among]))
            random.append(int(rng.choice(among[self._group[among] == group])))
            free[random[-1]] = False
            seen.append(group)
        return _merged(random, list(self._informative(free, count - len(random))), is_random)

    def _informative(self, allowed: NDArray[np.bool_], count: int) -> IntArray:
        """Return rows to learn from."""
        predicted = self._predicted()
        doubt = curvature(scipy.special.softmax(predicted.mean, axis=1))
        return choose_informative(
            self._values,
            doubt,
            self._posterior.covariance,
            np.where(self._judging, 0.0, doubt),  # the choice must not be made for those that judge
            allowed=allowed,
            group=self._group,
            count=count,
        )


def _judging_turns(num_asked: int, num_judging: int, count: int) -> NDArray[np.bool_]:
    """Return which of the next questions are for judging `[count]`: a fifth of all that were asked."""
    turns = np.zeros(count, bool)
    for place in range(count):
        turns[place] = num_judging < (num_asked + place + 1) // JUDGING_EVERY
        num_judging += int(turns[place])
    return turns


def _merged(some: list[int], others: list[int], is_some: NDArray[np.bool_]) -> list[int]:
    """Return both kinds of rows by turns; the rest of one kind where the other has run out."""
    merged: list[int] = []
    for turn in is_some:
        first, second = (some, others) if turn else (others, some)
        if first or second:
            merged.append(int((first or second).pop(0)))
    return merged
