"""A likelihood by its logarithm, log p(y | f), a function of TensorFlow that the user writes."""

# ruff: noqa: ARG002 - the base class has the argument `unit`
from collections.abc import Callable
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf
from check_shapes import inherit_check_shapes

from gpmodels.likelihoods.categorical import categorical_entropy, is_class, of_label
from gpmodels.likelihoods.probit import bernoulli_entropy
from gpmodels.likelihoods.quadrature import QuadratureLikelihood

LogDensity = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
Moment = Callable[[tf.Tensor], tf.Tensor]


class DensityLikelihood(QuadratureLikelihood):
    """p(y | f) by a function that returns its logarithm; see `gpmodels.likelihoods.quadrature` for the sums.

    The functions are written with TensorFlow's operations and are registered with Keras, by whose names files
    of models remember them: whoever loads such a file imports their module first. Labels that have no finite
    density at f = 0 are refused. Parameters that are learned take a subclass of `QuadratureLikelihood`; a
    further latent function often does as well, and differs from input to input.

    Args:
        log_density: Returns log p(y | f), nats, `[B, Q]`, from labels y `[B, 1]` and latent values
            f `[B, Q, P]`, both of one floating type.
        num_latents: P, latent functions of a point.
        num_classes: C, where labels are classes 0 to C - 1, whose probabilities sum to 1; None for targets.
        mean: Returns E[y | f] `[B, Q]` from f `[B, Q, P]`: what is predicted of a target. None for classes.
        variance: Returns var[y | f] likewise.

    Raises:
        ValueError: A function is not registered with Keras, or neither classes nor both moments are given.

    Source:
        K. Krauth, E. Bonilla, K. Cutajar, M. Filippone, AutoGP, UAI 2017, equations 13 to 15.

    Example:
        >>> @keras.saving.register_keras_serializable("my_project")
        ... def log_poisson(y, f):
        ...     return y * f[..., 0] - tf.exp(f[..., 0]) - tf.math.lgamma(y + 1.0)
        >>> @keras.saving.register_keras_serializable("my_project")
        ... def rate(f):
        ...     return tf.exp(f[..., 0])
        >>> likelihood = DensityLikelihood(log_poisson, mean=rate, variance=rate)
        >>> outputs = likelihood.predictions(tf.zeros([1, 1]), tf.ones([1, 1]), unit=tf.constant([0]))
        >>> round(float(outputs["mean"][0]), 4)  # exp(1/2)
        1.6487
    """

    def __init__(
        self,
        log_density: LogDensity,
        *,
        num_latents: int = 1,
        num_classes: int | None = None,
        mean: Moment | None = None,
        variance: Moment | None = None,
    ) -> None:
        super().__init__(num_latents)
        if (num_classes is None) == (mean is None) or (mean is None) != (variance is None):
            raise ValueError(
                "A DensityLikelihood needs num_classes where labels are classes, else mean and variance of a "
                f"target by f, but got num_classes={num_classes}, mean={mean!r}, variance={variance!r}."
            )
        if num_classes is not None and num_classes < 2:
            raise ValueError(f"A classifier needs at least 2 classes, but num_classes is {num_classes}.")
        given: dict[str, Callable[..., tf.Tensor] | None] = {
            "log_density": log_density,
            "mean": mean,
            "variance": variance,
        }
        self._functions = {
            role: (_registered_name(function, role), function)
            for role, function in given.items()
            if function is not None
        }
        self.num_classes = num_classes
        self.is_classifier = num_classes is not None
        if num_classes is not None:
            self.label_requirement = f"an integer from 0 to {num_classes - 1}"

    def get_config(self) -> dict[str, Any]:
        """Return the names of the functions and the numbers that make an equal likelihood."""
        names = {role: name for role, (name, _) in self._functions.items()}
        return {**names, "num_latents": self.num_latents, "num_classes": self.num_classes}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Return the likelihood that `get_config` describes.

        Raises:
            ValueError: A function of that name is not registered with Keras.
        """
        found = {key: config[key] for key in ("num_latents", "num_classes")}
        for role in ("log_density", "mean", "variance"):
            if (name := config.get(role)) is None:
                continue
            found[role] = keras.saving.get_registered_object(name)
            if found[role] is None:
                raise ValueError(
                    f"The model's likelihood has the {role} {name!r}, which nothing has registered. Import "
                    "the module that defines it before the model is loaded."
                )
        return cls(**found)

    def log_density(self, label: tf.Tensor, f: tf.Tensor, unit: tf.Tensor) -> tf.Tensor:
        """Return log p(y | f) by the user's function, `[B, Q]`."""
        return self._of("log_density", f, label)

    def conditional_mean(self, f: tf.Tensor, unit: tf.Tensor) -> tf.Tensor:
        """Return E[y | f] by the user's function, `[B, Q]`."""
        return self._of("mean", f)

    def conditional_variance(self, f: tf.Tensor, unit: tf.Tensor) -> tf.Tensor:
        """Return var[y | f] by the user's function, `[B, Q]`."""
        return self._of("variance", f)

    def _of(self, role: str, f: tf.Tensor, *before: tf.Tensor) -> tf.Tensor:
        """Return what a function gives, which must have one value for each value of f.

        Raises:
            ValueError: It has another shape.
        """
        name, function = self._functions[role]
        found = function(*before, f)
        if found.shape.rank != 2 or not found.shape.is_compatible_with(f.shape[:2]):
            raise ValueError(
                f"{role}, {name}, gave a tensor of shape {found.shape} for f of shape {f.shape}, but must "
                f"give {f.shape[:2]}. Take f[..., 0] of one latent function, which the labels [B, 1] go with."
            )
        return found

    @inherit_check_shapes
    def log_predictive_density(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return log E[p(y | f)], of classes over the nodes of `predictions`, nats, `[B]`."""
        if self.num_classes is None:
            return super().log_predictive_density(mean, variance, label, unit)
        weights = tf.constant(np.log(self._weights), mean.dtype)[:, None]
        terms = self._log_class_densities(mean, variance, unit) + weights
        return of_label(tf.reduce_logsumexp(terms, axis=1), label)

    def _log_class_densities(self, mean: tf.Tensor, variance: tf.Tensor, unit: tf.Tensor) -> tf.Tensor:
        """Return log p(c | f) at the nodes, `[B, Q, C]`."""
        f, unit = self._latent_values(mean, variance), unit[:, None]
        labels = [tf.fill(tf.shape(unit), tf.cast(c, f.dtype)) for c in range(self.num_classes or 0)]
        return tf.stack([self.log_density(label, f, unit) for label in labels], axis=-1)

    @inherit_check_shapes
    def predictions(self, mean: tf.Tensor, variance: tf.Tensor, unit: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the outputs of `Likelihood.predictions`, with `latent_mean` of targets, too."""
        if self.num_classes is None:
            return super().predictions(mean, variance, unit)
        at_nodes = tf.exp(self._log_class_densities(mean, variance, unit))
        probability = tf.linalg.matvec(at_nodes, tf.constant(self._weights, mean.dtype), transpose_a=True)
        entropy, noise = categorical_entropy(probability), self._expectation(categorical_entropy(at_nodes))
        label = tf.argmax(probability, axis=-1, output_type=tf.int32)
        if self.num_classes == 2:
            probability = probability[:, 1]
            entropy = bernoulli_entropy(probability)
        return {
            "probability": probability,
            "label": label,
            **self._latent_moments(mean, variance),
            "predictive_entropy": entropy,
            # Jensen's inequality holds for the nodes too, but for rounding.
            "mutual_information": tf.nn.relu(entropy - noise),
        }

    @inherit_check_shapes
    def valid_labels(self, label: tf.Tensor) -> tf.Tensor:
        """Whether each label is a class, or a finite target with a density at f = 0."""
        return super().valid_labels(label) if self.num_classes is None else is_class(label, self.num_classes)


def _registered_name(function: Any, role: str) -> str:
    """Return the name by which Keras knows a function.

    Raises:
        ValueError: It is not registered.
    """
    name: str = keras.saving.get_registered_name(function)
    if keras.saving.get_registered_object(name) is not function:
        raise ValueError(
            f"{role} is {function!r}, which a file could not name. Define it by `def`, and put "
            '@keras.saving.register_keras_serializable("my_project") before it.'
        )
    return name
