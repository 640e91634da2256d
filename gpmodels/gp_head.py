"""What the Gaussian-process heads share: their likelihood, and how their sparse units are made."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.head import Head, Latent
from gpmodels.kernels import kernel_profile
from gpmodels.likelihoods import make_likelihood
from gpmodels.numerics import precision
from gpmodels.sparse_units import SparseUnits, UnitMarginal

CLASS_KERNELS = ("shared", "separate")

DEFAULT_MULTI_CLASS = "softmax"
"""Likelihood of more than two classes; docs/results.md has the comparison with robust-max."""


class GPHead(Head):
    """Base class of the Gaussian-process heads.

    Args:
        kernel: See :func:`gpmodels.kernels.kernel_profile`.
        num_classes: C; 2 takes one latent function, more take one for each class.
        likelihood: ``"bernoulli"`` (probit) for two classes, ``"robust_max"`` or ``"softmax"`` for more,
            ``"gaussian"`` for regression; None takes ``"bernoulli"`` or ``"softmax"`` by the number of
            classes.
        class_kernels: For more than two classes, ``"shared"``: the latent functions of a unit share one
            kernel, which is faster; ``"separate"``: one for each class, as the thesis has it.
        dtype: ``"float32"`` or ``"float64"``.
        **kwargs: Passed to ``keras.layers.Layer``.

    Raises:
        ValueError: A setting is out of range; the message names it.
    """

    def __init__(
        self,
        *,
        kernel: str = "squared_exponential",
        num_classes: int = 2,
        likelihood: str | None = None,
        class_kernels: str = "shared",
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype=dtype, **kwargs)
        kernel_profile(kernel)  # an unknown name is an error here, not when the head is built
        if num_classes < 2:
            raise ValueError(f"num_classes must be at least 2, but is {num_classes}.")
        if likelihood is None:
            likelihood = "bernoulli" if num_classes == 2 else DEFAULT_MULTI_CLASS
        if class_kernels not in CLASS_KERNELS:
            raise ValueError(f"class_kernels must be one of {CLASS_KERNELS}, but is {class_kernels!r}.")
        self.kernel_name = kernel
        self.num_classes = num_classes
        self.likelihood_name = likelihood
        self.class_kernels = class_kernels
        self.variance_floor = precision(self.variable_dtype).variance_floor
        self.likelihood = make_likelihood(
            likelihood,
            num_classes=num_classes,
            num_units=self.num_likelihood_units(),
            dtype=self.variable_dtype,
        )
        self.is_classifier = self.likelihood.is_classifier
        self.label_requirement = self.likelihood.label_requirement

    def num_likelihood_units(self) -> int:
        """Number of GP units that have a noise variance of their own under a Gaussian likelihood."""
        return 1

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal head."""
        return {
            **super().get_config(),
            "kernel": self.kernel_name,
            "num_classes": self.num_classes,
            "likelihood": self.likelihood_name,
            "class_kernels": self.class_kernels,
        }

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for features ``[..., input_shape[-1]]``."""
        self.adopt(self.likelihood, "likelihood")
        super().build(input_shape)

    def initialize(self, features: npt.NDArray[np.floating[Any]], *, seed: int = 0) -> None:
        """Subclasses place their units by a sample of feature vectors ``[N, D]``."""

    def _make_units(self, num_units: int, num_inducing: int, num_features: int, role: str) -> SparseUnits:
        return SparseUnits(
            num_units=num_units,
            num_inducing=num_inducing,
            num_features=num_features,
            num_latents=self.likelihood.num_latents,
            shared_kernel=self.class_kernels == "shared",
            kernel=self.kernel_name,
            dtype=self.variable_dtype,
            role=f"{role} of {self.name}",
        )

    def total_variance(self, marginal: UnitMarginal) -> tf.Tensor:
        """Both parts of a unit's variance; rounding can take either sum a little below 0."""
        return tf.maximum(marginal.conditional_variance + marginal.inducing_variance, self.variance_floor)

    def responsible_unit(self, latent: Latent) -> tf.Tensor:
        """Index of the unit whose noise applies to each point, int32 ``[B]``."""
        return latent.expert

    def expected_log_likelihood(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """E[log p(y | f)] of each point, nats, ``[B]``."""
        unit = self.responsible_unit(latent)
        return self.likelihood.expected_log_likelihood(latent.mean, latent.variance, label, unit)

    def log_predictive_density(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """log E[p(y | f)] of each point, nats, ``[B]``."""
        unit = self.responsible_unit(latent)
        return self.likelihood.log_predictive_density(latent.mean, latent.variance, label, unit)

    def valid_labels(self, label: tf.Tensor) -> tf.Tensor:
        """Whether each of the labels ``[B]`` is one that the likelihood knows, bool ``[B]``."""
        return self.likelihood.valid_labels(label)

    def predictions(self, latent: Latent) -> dict[str, tf.Tensor]:
        """What the likelihood says of each point: probabilities and entropies, or mean and variance."""
        return self.likelihood.predictions(latent.mean, latent.variance, self.responsible_unit(latent))
