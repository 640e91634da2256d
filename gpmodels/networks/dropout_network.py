"""Networks with an encoder and a decoder whose middle drops features, in training and in prediction."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.hybrid.sampling import SamplingNetwork
from gpmodels.units.configured import Configured

CENTRAL_UNITS = 2
"""So many of the deepest encoder units, and as many decoder units, are followed by dropout."""

PLACES = 2 * CENTRAL_UNITS
"""Places of a network where features are dropped."""

Drop = Callable[[tf.Tensor, int], tf.Tensor]
"""Returns maps `[B, H, W, C]` with features dropped at a place from 0 to `PLACES` - 1."""


@dataclass(frozen=True)
class RandomDrop:
    """Drops each feature with one probability, and enlarges the others to make up for it.

    Attributes:
        rate: The probability.
        key: Key of the stateless generator, int64 `[2]`: equal keys drop the same.
        alike: Whether the same is dropped of all images of a batch, so that what is made of one image does
            not depend on those beside it; else each image drops its own.
    """

    rate: float
    key: tf.Tensor
    alike: bool

    @check_shapes("maps: [B, H, W, C]", "return: [B, H, W, C]")
    def __call__(self, maps: tf.Tensor, place: int) -> tf.Tensor:
        """Return the maps with features dropped at a place, each place its own."""
        shape = tf.shape(maps)
        count = tf.constant(1) if self.alike else shape[0]
        key = self.key * tf.constant([1, PLACES], tf.int64) + tf.constant([0, place], tf.int64)
        uniform = tf.random.stateless_uniform(tf.concat([[count], shape[1:]], axis=0), key, dtype=maps.dtype)
        return tf.where(uniform >= self.rate, maps / (1.0 - self.rate), tf.zeros([], maps.dtype))


def nothing_dropped(maps: tf.Tensor, _place: int) -> tf.Tensor:
    """Return the maps as they are."""
    return maps


class DropoutNetwork(Configured, SamplingNetwork):
    """An encoder and a decoder with dropout after the two deepest units of each, or none.

    These are the "central four encoder and decoder units" of the Bayesian SegNet, its best variant. Training
    drops features at random; a plain call with `training=False` drops none and stands for their average; and
    each sample of `gpmodels.hybrid.sampling` drops its own, the same for all images. What lies before the
    first dropout is computed once for all samples.

    Args:
        dropout: Probability that a feature is dropped; 0 for a network without dropout.
        num_samples: S, samples that a prediction averages over where there is dropout.
        seed: Seed of all dropout.
        **kwargs: Passed to `keras.Model`.

    Raises:
        ValueError: An argument is out of range.

    Source:
        Kendall, Badrinarayanan and Cipolla, "Bayesian SegNet", 2015, section 3 and table 1.
    """

    def __init__(self, *, dropout: float = 0.0, num_samples: int = 30, seed: int = 0, **kwargs: Any) -> None:
        super().__init__(num_samples=num_samples if dropout else 1, **kwargs)
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout must be at least 0 and below 1, but is {dropout}.")
        self.dropout = dropout
        self.seed = seed
        self.steps: Any = None  # a variable where there is dropout

    def build(self, input_shape: tuple[int | None, ...]) -> None:  # noqa: ARG002 - Keras gives it
        """Create the count of training steps where there is dropout; a network creates its weights before."""
        if self.dropout:
            # What a step drops depends on its number, which a checkpoint keeps: a resumed run drops the same.
            self.steps = self.add_weight(
                name="steps", shape=(), dtype="int64", initializer="zeros", trainable=False
            )

    def call(self, images: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Return the features of images.

        Args:
            images: `[B, H, W, 3]` in 0..255.
            training: Whether to drop features at random, to normalise with the statistics of this batch and
                to update the moving averages.

        Returns:
            Features `[B, H, W, channels]`.
        """
        encoded = self.encode(images, training=bool(training))
        if not (training and self.dropout):
            return self.decode(encoded, nothing_dropped, training=bool(training))
        drop = RandomDrop(self.dropout, self._key(tf.convert_to_tensor(self.steps)), alike=False)
        features = self.decode(encoded, drop, training=True)
        self.steps.assign_add(1)
        return features

    def shared(self, inputs: tf.Tensor) -> Any:
        """Return what all samples have in common, see `SamplingNetwork`."""
        if not self.built:
            self.build(tuple(inputs.shape))
        return self.encode(inputs, training=False)

    def sampled(self, shared: Any, number: tf.Tensor) -> tf.Tensor:
        """Return the features of a sample, see `SamplingNetwork`."""
        return self.decode(shared, self.drop_of_sample(number), training=False)

    def averaged(self, shared: Any) -> tf.Tensor:
        """Return the features without dropout, see `SamplingNetwork`."""
        return self.decode(shared, nothing_dropped, training=False)

    def drop_of_sample(self, number: tf.Tensor) -> RandomDrop:
        """Return what a sample drops: training counts its steps from 0 upwards, samples go from -1 down."""
        return RandomDrop(self.dropout, self._key(-1 - tf.cast(number, tf.int64)), alike=True)

    def _key(self, number: tf.Tensor) -> tf.Tensor:
        return tf.stack([tf.constant(self.seed, tf.int64), number])

    @abc.abstractmethod
    def encode(self, images: tf.Tensor, *, training: bool) -> Any:
        """Return what lies before the first dropout: tensors in a structure of `tf.nest`."""

    @abc.abstractmethod
    def decode(self, encoded: Any, drop: Drop, *, training: bool) -> tf.Tensor:
        """Return the features of what `encode` returned, dropping at its places what `drop` drops."""
