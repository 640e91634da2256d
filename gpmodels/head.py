"""What every output layer ("head") of a hybrid model does, whatever its mathematics.

A head maps feature vectors to a latent marginal, the marginal to predictions, and the marginal with a label
to its share of the objective. :class:`gpmodels.HybridModel` and the export need nothing else.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.bridge import GPflowLayer


class Latent(NamedTuple):
    """Marginals of the P latent functions at B points; P = 1 for two classes and for regression.

    Attributes:
        mean: μ of the latent functions that predict, ``[B, P]``.
        variance: Their σ², ``[B, P]``.
        global_mean: μ_0 of the global unit, ``[B, P]``; equal to ``mean`` where there is only one layer.
        global_variance: Its σ_0², ``[B, P]``.
        expert: Responsible expert, int32 ``[B]``, 0 where there are none.
    """

    mean: tf.Tensor
    variance: tf.Tensor
    global_mean: tf.Tensor
    global_variance: tf.Tensor
    expert: tf.Tensor


class Head(GPflowLayer, abc.ABC):
    """Base class of the heads.

    Use :class:`HGPHead`, :class:`SVGPHead`, :class:`VMGPHead` or :class:`LinearHead`.

    Attributes:
        is_classifier: Whether labels are classes, as against real targets.
        label_requirement: What labels must be, for messages, e.g. ``"0 or 1"``.
    """

    is_classifier: bool = True
    label_requirement: str = "0 or 1"

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
    def log_predictive_density(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """log p(y) of the prediction at each point, nats, ``[B]``."""

    def valid_labels(self, label: tf.Tensor) -> tf.Tensor:
        """Whether each of the labels ``[B]`` is one that the likelihood knows, bool ``[B]``."""
        return tf.logical_or(tf.equal(label, 0), tf.equal(label, 1))

    def training_terms(self, latent: Latent, features: tf.Tensor, label: tf.Tensor) -> tf.Tensor:  # noqa: ARG002 - others need it
        """Each point's term of the objective in training, by default :meth:`expected_log_likelihood`."""
        return self.expected_log_likelihood(latent, label)

    @abc.abstractmethod
    def prior_kl(self) -> tf.Tensor:
        """KL(q ‖ prior) of each unit, nats, ``[units]`` in the order of :attr:`unit_names`."""

    def penalty(self) -> tf.Tensor:
        """What the objective subtracts from the points' terms, nats: the sum of :meth:`prior_kl`."""
        return tf.reduce_sum(self.prior_kl())

    @abc.abstractmethod
    def predictions(self, latent: Latent) -> dict[str, tf.Tensor]:
        """The named outputs of :meth:`call` from latent marginals, each ``[B]`` or ``[B, C]``."""

    @abc.abstractmethod
    def initialize(self, features: npt.NDArray[np.floating[Any]], *, seed: int = 0) -> None:
        """Place whatever depends on where the features lie.

        Args:
            features: A sample of feature vectors, ``[N, D]``.
            seed: Seed of the clustering.
        """

    def initialize_from_labels(
        self,
        features: npt.NDArray[np.floating[Any]],
        labels: npt.NDArray[np.floating[Any]],
        *,
        seed: int = 0,
    ) -> None:
        """Then start whatever depends on labels ``[N]`` as well; nothing in most heads.

        Args:
            features: The sample given to :meth:`initialize`, ``[N, D]``.
            labels: Its labels, all valid, ``[N]``.
            seed: Seed of whatever is drawn.
        """

    @abc.abstractmethod
    def for_inference(self) -> Callable[[tf.Tensor], Latent]:
        """:meth:`latent` with all folded into constants, for export: no factorisation, no variables."""

    def lengthscales(self) -> Iterable[npt.NDArray[np.floating[Any]]]:
        """ℓ of each unit's kernels, ``[J, D]`` each, in the order of :attr:`unit_names`."""
        return np.zeros([0, 1, 0])

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
        """Predictions for features ``[..., D]``, each of shape ``[...]``, or ``[..., C]`` where noted.

        Returns:
            Classification: ``probability`` of class 1 (of each class for C > 2, ``[..., C]``), ``label``
            (int32), ``latent_mean`` and ``latent_variance`` (``[..., C]`` for C > 2), ``predictive_entropy``
            and ``mutual_information`` in nats. Regression: ``mean``, ``variance`` of the noisy target,
            ``latent_variance``.
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

        def restore(value: tf.Tensor) -> tf.Tensor:
            classes = value.shape[1:]  # of a multi-class output
            restored = tf.reshape(value, tf.concat([shape, classes], axis=0))
            return tf.ensure_shape(restored, [*static_shape, *classes])

        return {name: restore(value) for name, value in outputs.items()}


@check_shapes("features: [batch..., D]", "return: [B, D]")
def flatten_points(features: tf.Tensor) -> tf.Tensor:
    """All feature vectors of a batch as one list; every pixel of an image is a point of its own."""
    return tf.reshape(features, [-1, features.shape[-1]])
