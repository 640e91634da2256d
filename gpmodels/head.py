"""What every output layer ("head") of a hybrid model does, whatever its mathematics.

A head maps feature vectors to a latent marginal, the marginal to predictions, and the marginal with a label
to its share of the objective. :class:`gpmodels.HybridModel` and the export need nothing else.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.bridge import GPflowLayer


class Latent(NamedTuple):
    """Marginals of the latent functions at B points.

    Attributes:
        mean: μ of the latent function that predicts, ``[B]``.
        variance: Its σ², ``[B]``.
        global_mean: μ_0 of the global unit, ``[B]``; equal to ``mean`` where there are no experts.
        global_variance: Its σ_0², ``[B]``.
        expert: Responsible expert, int32 ``[B]``, 0 where there are none.
    """

    mean: tf.Tensor
    variance: tf.Tensor
    global_mean: tf.Tensor
    global_variance: tf.Tensor
    expert: tf.Tensor


class Head(GPflowLayer, abc.ABC):
    """Base class of the heads; use :class:`HGPHead`, :class:`SVGPHead` or :class:`LinearHead`."""

    @property
    @abc.abstractmethod
    def unit_names(self) -> tuple[str, ...]:
        """Name of each GP unit, in the order of :meth:`prior_kl`."""

    @abc.abstractmethod
    def latent(self, features: tf.Tensor) -> Latent:
        """Latent marginals of feature vectors ``[B, D]``."""

    @abc.abstractmethod
    def expected_log_likelihood(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """Each point's term of the objective before the KL divergences, nats, ``[B]``."""

    @abc.abstractmethod
    def prior_kl(self) -> tf.Tensor:
        """KL(q ‖ prior) of each unit, nats, ``[units]`` in the order of :attr:`unit_names`."""

    @abc.abstractmethod
    def predictions(self, latent: Latent) -> dict[str, tf.Tensor]:
        """The named outputs of :meth:`call` from latent marginals, each ``[B]``."""

    @abc.abstractmethod
    def initialize(self, features: npt.NDArray[np.floating[Any]], *, seed: int = 0) -> None:
        """Place whatever depends on where the features lie.

        Args:
            features: A sample of feature vectors, ``[N, D]``.
            seed: Seed of the clustering.
        """

    @abc.abstractmethod
    def for_inference(self) -> Callable[[tf.Tensor], Latent]:
        """:meth:`latent` with all folded into constants, for export: no factorisation, no variables."""

    def lengthscales(self) -> npt.NDArray[np.floating[Any]]:
        """ℓ of each unit, ``[units, D]``, in the order of :attr:`unit_names`."""
        return np.zeros([0, 0])

    def record_assignments(self, latent: Latent, weight: tf.Tensor) -> None:
        """Count the points of a training batch per expert; heads without experts have nothing to count."""

    def reset_assignments(self) -> None:
        """Start the count anew, as at the beginning of an epoch."""

    @property
    def active_experts(self) -> npt.NDArray[np.intp]:
        """Indices from 0 of the experts in use; heads without experts have none."""
        return np.arange(0)

    def expert_occupancy(self) -> dict[int, float]:
        """Share of the counted points that each expert in use (index from 0) was responsible for."""
        return {}

    def call(self, features: Any) -> dict[str, tf.Tensor]:
        """Predictions for features ``[..., D]``, each of shape ``[...]``.

        Returns:
            ``probability`` of class 1, ``label`` (int32), ``latent_mean``, ``latent_variance``,
            ``predictive_entropy`` and ``mutual_information`` in nats.
        """
        return self.predict_with(self.latent, features)

    def _num_features(self, input_shape: tuple[int | None, ...]) -> int:
        """D, the last axis of the input's shape.

        Raises:
            ValueError: It is not known.
        """
        if input_shape[-1] is None:
            raise ValueError(
                f"{self.name}: the number of features must be known, but the input is {input_shape}. "
                "Give the network's last layer a fixed number of channels."
            )
        return int(input_shape[-1])

    def predict_with(self, latent: Callable[[tf.Tensor], Latent], features: Any) -> dict[str, tf.Tensor]:
        """:meth:`call` with another source of marginals, namely :meth:`for_inference`."""
        features = tf.cast(features, self.compute_dtype)
        shape, static_shape = tf.shape(features)[:-1], features.shape[:-1]
        outputs = self.predictions(latent(flatten_points(features)))
        return {
            name: tf.ensure_shape(tf.reshape(value, shape), static_shape) for name, value in outputs.items()
        }


@check_shapes("features: [batch..., D]", "return: [B, D]")
def flatten_points(features: tf.Tensor) -> tf.Tensor:
    """All feature vectors of a batch as one list; every pixel of an image is a point of its own."""
    return tf.reshape(features, [-1, features.shape[-1]])
