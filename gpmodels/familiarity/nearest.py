"""How familiar an input is: the share of held-out examples that are at least as far away.

The distance s(x) is 1 less the largest cosine similarity of x's features to those of reference examples of
the training (nearest neighbours of normalised features; Sun, Ming, Zhu and Li, "Out-of-distribution detection
with deep nearest neighbors", 2022). Features that are given, and not learned, are divided by their root mean
square first. The familiarity is its conformal p-value (Vovk, Gammerman and Shafer, 2005, section 2.2),

    p(x) = (1 + #{i : s_i >= s(x)}) / (n + 1)

over n held-out examples. Where x is exchangeable with these, P(p(x) <= a) <= a for every a, whatever the
features are worth; where it is of another kind, p(x) is small as far as the features tell it.

Examples of one group, as pixels of an image or patches of a patient, are alike, so that many of few groups
would say too much. With G groups g of n_g held-out examples it is

    p(x) = (1 + sum_g #{i in g : s_i >= s(x)} / n_g) / (G + 1)

which holds for an example of a new group (hierarchical conformal prediction; Lee, Barber and Willett,
"Distribution-free inference with hierarchical data", 2023), and is never below 1 / (G + 1).

Single pixels of a map are far wherever two things meet. What is unknown is far throughout, so that of maps s
is averaged over a square around each pixel, of held-out pixels as of new ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.heads.base import flatten_points

MAX_REFERENCES = 500
"""Training examples that each input is compared with; of 50, 200 and all, 200 told as much as all."""

_SMALLEST_NORM = 1e-9

FloatArray = npt.NDArray[np.floating[npt.NBitBase]]


@dataclass(frozen=True)
class Familiarity:
    """Familiarity by the nearest of some reference examples.

    Attributes:
        scale: What each feature is divided by `[D]`: its root mean square over the reference examples where
            the features are given, 1 where they are learned.
        reference: Features of the reference examples, scaled, of length 1, `[R, D]`.
        held_out: Distance of the held-out examples `[n]`, ascending; training examples may join them that
            were compared with those of other groups alone.
        of_inputs: Whether the features are what the network is given, as where these are features already,
            and not what it returns.
        groups: Number of the group of each of `held_out`, `[n]`; None where each is a group of its own.
        neighbourhood: Side in pixels of the square over which the distance of maps is averaged; odd, 1 for
            single pixels.
    """

    scale: npt.NDArray[np.float32]
    reference: npt.NDArray[np.float32]
    held_out: npt.NDArray[np.float32]
    of_inputs: bool = False
    groups: npt.NDArray[np.int32] | None = None
    neighbourhood: int = 1

    @property
    def num_groups(self) -> int:
        """G, how many groups the held-out examples are of."""
        return self.held_out.size if self.groups is None else np.unique(self.groups).size

    @property
    def least(self) -> float:
        """The least familiarity there can be, 1 / (G + 1); of few groups nothing is flagged."""
        return 1.0 / (self.num_groups + 1.0)

    @check_shapes("features: [batch..., D]", "return: [batch...]")
    def distance(self, features: tf.Tensor) -> tf.Tensor:
        """Return s of feature vectors `[..., D]`, 0 to 2; of maps `[B, H, W, D]` means of squares."""
        points = unit_length(tf.cast(flatten_points(features), tf.float32) / self.scale)
        nearest = tf.reduce_max(tf.matmul(points, tf.constant(self.reference), transpose_b=True), axis=-1)
        distance = tf.reshape(1.0 - nearest, tf.shape(features)[:-1])
        return distance if self.neighbourhood == 1 else _averaged(distance, self.neighbourhood)

    @check_shapes("features: [batch..., D]", "return: [batch...]")
    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        """Return the familiarity of feature vectors `[..., D]`, in (0, 1], least if not finite."""
        return self.of_distance(self.distance(features))

    @check_shapes("distance: [batch...]", "return: [batch...]")
    def of_distance(self, distance: tf.Tensor) -> tf.Tensor:
        """Return the share of held-out examples that are at least as far away, by groups as given above."""
        # The search would put NaN first, where what is most familiar is.
        distance = tf.where(tf.math.is_finite(distance), distance, np.inf)
        below = tf.searchsorted(tf.constant(self.held_out), tf.reshape(distance, [-1]), side="left")
        share = tf.gather(tf.constant(self._shares()), below)
        return tf.ensure_shape(tf.reshape(share, tf.shape(distance)), distance.shape)

    def calibrated(
        self, distance: FloatArray, groups: Sequence[str] | npt.NDArray[Any] | None = None
    ) -> "Familiarity":
        """Return this familiarity with what held-out examples say of it.

        Args:
            distance: Distance of the held-out examples `[n]`.
            groups: Group of each of them `[n]`; None where each is a group of its own.

        Raises:
            ValueError: A distance is not finite.
        """
        if not np.isfinite(distance).all():
            raise ValueError("found a feature that is not finite; did the training diverge?")
        order = np.argsort(distance, kind="stable")
        numbers = None
        if groups is not None:
            numbers = np.unique(groups, return_inverse=True)[1][order].astype(np.int32)
        return replace(self, held_out=np.asarray(distance, np.float32)[order], groups=numbers)

    def _shares(self) -> npt.NDArray[np.float32]:
        """Return p where 0, 1, ..., n of the held-out examples are nearer, `[n + 1]`."""
        weight = np.ones(self.held_out.size)
        if self.groups is not None:
            _, member, sizes = np.unique(self.groups, return_inverse=True, return_counts=True)
            weight = 1.0 / sizes[member]
        as_far = np.append(np.cumsum(weight[::-1])[::-1], 0.0)
        return ((1.0 + as_far) / (self.num_groups + 1.0)).astype(np.float32)


def refer_to(
    reference: FloatArray, *, of_inputs: bool = False, seed: int = 0, neighbourhood: int = 1
) -> Familiarity:
    """Return a familiarity that knows the distance alone: it waits for `Familiarity.calibrated`.

    Args:
        reference: Features of training examples `[R, D]`; of more than `MAX_REFERENCES` a random part counts.
        of_inputs: Whether the features are what the network is given.
        seed: Seed of the choice.
        neighbourhood: Side in pixels of the square over which the distance of maps is averaged.

    Raises:
        ValueError: A feature is not finite.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> reference, held_out = 1 + 0.1 * rng.normal(size=(2, 99, 8)).astype(np.float32)
        >>> found = refer_to(reference)
        >>> familiarity = found.calibrated(found.distance(tf.constant(held_out)).numpy())
        >>> float(familiarity(tf.constant([[1.0, -1, 1, -1, 1, -1, 1, -1]]))[0]).__round__(3)
        0.01
    """
    if not np.isfinite(reference).all():
        raise ValueError("found a feature that is not finite; did the training diverge?")
    chosen = np.random.default_rng(seed).permutation(len(reference))[:MAX_REFERENCES]
    points = np.asarray(reference, np.float64)[chosen]
    # Given features have units of their own; learned ones are as large as they matter.
    scale = np.sqrt(np.mean(np.square(points), axis=0)) if of_inputs else np.ones(points.shape[1])
    scale = np.where(scale > 0, scale, 1.0)
    points /= scale
    norms = np.maximum(np.linalg.norm(points, axis=1, keepdims=True), _SMALLEST_NORM)
    unit = (points / norms).astype(np.float32)
    nothing = np.zeros(0, np.float32)
    return Familiarity(scale.astype(np.float32), unit, nothing, of_inputs, neighbourhood=neighbourhood)


@check_shapes("points: [batch..., D]", "return: [batch..., D]")
def unit_length(points: tf.Tensor) -> tf.Tensor:
    """Return feature vectors divided by their length; those of length 0 stay 0."""
    return points / tf.maximum(tf.norm(points, axis=-1, keepdims=True), _SMALLEST_NORM)


def _averaged(maps: tf.Tensor, side: int) -> tf.Tensor:
    """Return the mean of maps `[B, H, W]` over a square around each pixel, as far as it lies in the map."""
    rows = tf.nn.avg_pool2d(maps[..., None], (side, 1), 1, "SAME")  # leaves out what lies beyond
    return tf.nn.avg_pool2d(rows, (1, side), 1, "SAME")[..., 0]
