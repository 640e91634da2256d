"""Doubly stochastic deep Gaussian processes (Salimbeni and Deisenroth), whatever the layers are made of.

Layers l = 1..L, h^0 the features:

    h^l = h^(l-1) W_l + g^l(h^(l-1)),    g^l independent processes,    f = g^L(h^(L-1))

W_l is fixed (`mean_function`); a linear mean m(h^0) is added to f (`gpmodels.units.linear_mean`). With
q(f_n | h_n^(L-1)) and q(h_n^l | h_n^(l-1)) Gaussian, the bound is

    Σ_n E[log p(y_n | f_n)] - Σ_l KL(q(v^l) ‖ N(0, I))

and the marginal of point n depends on marginals of point n alone, so that samples need no covariance between
points: h^l = mean + √variance ε, ε ~ N(0, 1) for each point, function and sample, and the last layer by the
likelihood's own expectation (docs/theory.md, "Deep Gaussian processes").

Training draws ε anew in each step, from the seed and the number of the step, which is a weight: a resumed run
draws what an uninterrupted one would. Predictions use fixed nodes, the same for all points: equal calls give
equal outputs, the prediction is smooth in the features, and an exported graph has no random operation.
"""

import abc
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gpflow
import numpy as np
import tensorflow as tf
from sklearn.utils import check_random_state

from gpmodels.heads.base import Latent
from gpmodels.heads.gp import GPHead
from gpmodels.heads.layers import (
    Basis,
    FloatArray,
    Layer,
    LayerMarginal,
    Marginals,
    basis_marginal,
    spread_nodes,
)
from gpmodels.units.counts import check_counts, is_count
from gpmodels.units.placement import cluster_centres, column_scales, median_distance
from gpmodels.units.transforms import exponential

MEAN_FUNCTIONS = ("linear", "zero")

MAX_DEFAULT_WIDTH = 30
"""Most functions of an inner layer by default, as Salimbeni and Deisenroth have it."""

INITIAL_INNER_NOISE = 0.01
"""Variance of an inner layer's noise at the start, in the features' units squared."""

Widths = Sequence[int] | None


class TrainingSample(NamedTuple):
    """Marginals of the last layer at samples of the layer below, and what it is linear in there.

    Attributes:
        latent: Marginals of B points, a mixture over the S samples.
        basis: Of the last layer, at S * B inputs.
    """

    latent: Latent
    basis: Basis


class LayeredHead(GPHead, abc.ABC):
    """Base class of the deep heads; use `gpmodels.DeepGPHead` or `gpmodels.RandomFeatureHead`.

    Args:
        num_layers: L; 1 has no inner layer and samples nothing.
        widths: Functions of each of the L - 1 inner layers; None takes D for each, at most 30.
        mean_function: `"linear"` adds h W_l in inner layers: W_l is the identity where widths agree, the
            principal directions of what the layer first sees where it narrows, and the identity and zeros
            where it widens. `"zero"` has no such term: q starts near those means instead.
        num_samples: S of a training step.
        num_prediction_samples: S of a prediction.
        inner_noise: Whether inner layers add independent noise to each point, of a learned variance.
        kernel_variance: σ² of the last layer at the start; None takes 0.1 beside a linear mean, else 1.
        seed: Seed of the noise of training.
        **kwargs: `num_classes`, `likelihood`, `class_kernels` (of the last layer), `mean` and `dtype` of
            `GPHead`; the rest of `keras.layers.Layer`.

    Raises:
        ValueError: A setting is out of range; the message names it.
    """

    def __init__(
        self,
        *,
        num_layers: int = 2,
        widths: Widths = None,
        mean_function: str = "linear",
        num_samples: int = 1,
        num_prediction_samples: int = 16,
        inner_noise: bool = False,
        kernel_variance: float | None = None,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_layers, self.widths = checked_layers(num_layers, widths)
        check_counts(num_samples=num_samples, num_prediction_samples=num_prediction_samples)
        if mean_function not in MEAN_FUNCTIONS:
            raise ValueError(f"mean_function must be one of {MEAN_FUNCTIONS}, but is {mean_function!r}.")
        if kernel_variance is not None and not 0.0 < kernel_variance < math.inf:
            raise ValueError(f"kernel_variance must be positive and finite, but is {kernel_variance}.")
        self.mean_function = mean_function
        self.num_samples = num_samples
        self.num_prediction_samples = num_prediction_samples
        self.inner_noise = inner_noise
        self.kernel_variance = kernel_variance
        self.seed = seed

    @abc.abstractmethod
    def _make_layer(self, number: int, num_inputs: int, num_outputs: int, *, is_last: bool) -> Layer:
        """Return layer `number`, from 1."""

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for features `[..., input_shape[-1]]`."""
        num_features = self._num_features(input_shape)
        inner = self.widths or [min(num_features, MAX_DEFAULT_WIDTH)] * (self.num_layers - 1)
        sizes = [num_features, *inner, self.likelihood.num_latents]
        self.inner_widths = tuple(inner)
        self.stack = tuple(
            self._make_layer(number, sizes[number - 1], sizes[number], is_last=number == self.num_layers)
            for number in range(1, self.num_layers + 1)
        )
        for name, layer in zip(self.unit_names, self.stack, strict=True):
            self.adopt(layer, name)
        self.mean_maps = tuple(
            self.add_weight(
                name=f"mean_map_{number + 1}",
                shape=shape,
                initializer=lambda shape, dtype=None: tf.eye(*shape, dtype=dtype or self.variable_dtype),
                trainable=False,
            )
            for number, shape in enumerate(zip(sizes, inner, strict=False))
            if self.mean_function == "linear"
        )
        self.noise: gpflow.Parameter | None = None
        if self.num_layers > 1:
            # The noise of a step depends on its number, which a checkpoint keeps: a resumed run draws the
            # same.
            self.steps = self.add_weight(
                name="steps",
                shape=(),
                dtype="int64",
                initializer="zeros",
                trainable=False,
                aggregation="only_first_replica",
            )
            if self.inner_noise:
                self.noise = gpflow.Parameter(
                    np.full(len(inner), INITIAL_INNER_NOISE, self.variable_dtype),
                    transform=exponential(),
                    dtype=self.variable_dtype,
                    name="inner_noise",
                )
                self.adopt(self.noise, "inner")
        super().build(input_shape)

    @property
    def samples_per_point(self) -> int:
        """How many samples of a point are in memory in a prediction."""
        return self.num_prediction_samples if self.num_layers > 1 else 1

    @property
    def unit_names(self) -> tuple[str, ...]:
        """`"layer_1"` to `"layer_L"`."""
        return tuple(f"layer_{number}" for number in range(1, self.num_layers + 1))

    @property
    def posterior_units(self) -> tuple[Layer]:
        """The last layer, whose q natural gradients can move; q of the others is left to the optimiser."""
        return (self.stack[-1],)

    def lengthscales(self) -> list[FloatArray]:
        """Return ℓ of each layer's kernels, `[J, D_l]` each."""
        return [layer.lengthscale_values() for layer in self.stack]

    def prior_kl(self) -> tf.Tensor:
        """Return KL(q ‖ prior) of each layer, nats, `[L]`."""
        return tf.stack([layer.prior_kl() for layer in self.stack])

    def initialize(self, features: Any, *, seed: int = 0) -> None:
        """Place all layers by a sample of features `[N, D]`.

        The first inducing inputs are k-means centres; those of the next layers, and the sample that gives
        their lengthscales, are what the mean functions make of them.
        """
        super().initialize(features, seed=seed)
        rng = np.random.default_rng(seed)
        inputs = np.asarray(features, np.float64)
        scale = column_scales(inputs)
        centres = cluster_centres(inputs / scale, self._num_centres(), rng) * scale
        for number, layer in enumerate(self.stack):
            scale = column_scales(inputs)
            lengthscales = median_distance(inputs / scale, rng) * scale
            layer.place(centres, lengthscales, seed + number)
            if number < self.num_layers - 1:
                mean_map = principal_map(inputs, self.inner_widths[number])
                target = inputs @ mean_map
                if self.mean_function == "linear":
                    self.mean_maps[number].assign(mean_map)
                layer.start_as_inner(target if self.mean_function == "zero" else None, inputs)
                inputs, centres = target, centres @ mean_map

    def _num_centres(self) -> int:
        """Return how many points spread among the features the layers are placed by."""
        return 1

    def sample_layers(self, features: Any, num_samples: int = 1, *, seed: Any = 0) -> list[FloatArray]:
        """Draw h^1, ..., h^(L-1) and g^L of all points together: how layers bend the functions beneath.

        Each draw passes its own values on to the next layer. Neighbouring points vary together, other than
        in predictions, which take each point by itself. A linear mean m is not added.

        Args:
            features: Features of the points, `[N, D]`. With sparse layers time grows with W `num_samples` N³,
                memory with W N².
            num_samples: Number of draws.
            seed: Seed of the draws, or a `RandomState`.

        Returns:
            The draws of each layer, `[num_samples, N, W_l]`.

        Raises:
            ValueError: The head is not built, the number of draws is no positive whole number, or features
                are not `[N, D]` or not finite.

        Example:
            >>> from gpmodels import DeepGPHead
            >>> head = DeepGPHead(num_layers=2, num_inducing=4)
            >>> head.build((None, 3))
            >>> [layer.shape for layer in head.sample_layers(np.zeros((7, 3)), 2)]
            [(2, 7, 3), (2, 7, 1)]
        """
        if not self.built:
            raise ValueError(f"{self.name} has no layers yet to draw from. Call build or initialize first.")
        if not is_count(num_samples):
            raise ValueError(f"The number of draws must be a positive whole number, but is {num_samples!r}.")
        points, num_inputs = np.asarray(features, np.float64), self.stack[0].num_inputs
        if points.ndim != 2 or points.shape[1] != num_inputs:
            raise ValueError(
                f"Features must be [N, {num_inputs}], a row for each point, as {self.name} was built for, "
                f"but have the shape {list(points.shape)}. Give the columns that it was trained with."
            )
        if not np.isfinite(points).all():
            row = int(np.argmin(np.isfinite(points).all(axis=1)))
            raise ValueError(
                f"Features must be finite, but row {row}, counted from 0, is not. Remove it, or fill it in."
            )
        rng = check_random_state(seed)
        inputs = np.repeat(points[None], num_samples, axis=0)
        draws = []
        for number, layer in enumerate(self.stack):
            values = layer.drawn(tf.constant(inputs, self.compute_dtype), rng)
            if number < self.num_layers - 1:
                if self.mean_maps:
                    values = values + inputs @ self.mean_maps[number].numpy()
                if self.noise is not None:
                    values = values + np.sqrt(self.noise.numpy()[number]) * rng.normal(size=values.shape)
            draws.append(values)
            inputs = values
        return draws

    # Marginals

    def folded_residual(self, folded: Any, features: tf.Tensor) -> Latent:  # noqa: ARG002 - it folds nothing
        """Return the marginals of g at features `[B, D]`, of L > 1 a mixture over the nodes of prediction."""
        layers = [layer.marginals() for layer in self.stack]
        return self._mixed(features, layers, self.mean_maps, self.noise)

    def for_inference(self) -> Callable[[tf.Tensor], Latent]:
        """Return `latent` with all layers folded once."""
        layers = [layer.constant_marginals() for layer in self.stack]
        maps = [tf.constant(weight.numpy()) for weight in self.mean_maps]
        noise = None if self.noise is None else tf.constant(self.noise.numpy())
        return self._with_constant_mean(lambda features: self._mixed(features, layers, maps, noise))

    def training_residual(self, features: tf.Tensor) -> Latent:
        """Return the marginals of g at features `[B, D]` under the noise of the present step."""
        return self._training_sample(features).latent

    def training_sample(self, features: tf.Tensor) -> TrainingSample:
        """Return `training_latent` with what the last layer is linear in."""
        sample = self._training_sample(features)
        return sample._replace(latent=self.with_mean(sample.latent, features))

    def _training_sample(self, features: tf.Tensor) -> TrainingSample:
        last = self.stack[-1]
        inputs = features
        if self.num_layers > 1:
            inner = [layer.marginals() for layer in self.stack[:-1]]
            noises = self._training_noise(tf.shape(features)[0])
            inputs = self._propagated(features, inner, noises, self.num_samples, self.mean_maps, self.noise)
        basis = last.basis()(inputs)
        marginal = basis_marginal(basis, *map(tf.convert_to_tensor, last.full_posterior()))
        return TrainingSample(self._as_latent(marginal, self.num_samples), basis)

    def record_assignments(self, latent: Latent, weight: tf.Tensor) -> None:  # noqa: ARG002 - others need them
        """Count the training step, by which the next noise differs."""
        self.count_step()

    def count_step(self) -> None:
        """Go on to the noise of the next training step."""
        if self.num_layers > 1:
            self.steps.assign_add(1)

    def _training_noise(self, num_points: tf.Tensor) -> list[tf.Tensor]:
        """Return ε of each inner layer, `[S, B, W_l]`."""
        shape = [self.num_samples, num_points, sum(self.inner_widths)]
        seed = tf.stack([tf.constant(self.seed, tf.int64), tf.convert_to_tensor(self.steps)])
        noise = tf.random.stateless_normal(shape, seed, dtype=self.compute_dtype)
        return tf.split(noise, self.inner_widths, axis=-1)

    def _prediction_noise(self) -> list[tf.Tensor]:
        """Return the nodes of each inner layer, the same for all points, `[S, 1, W_l]`."""
        nodes = spread_nodes(self.num_prediction_samples, sum(self.inner_widths))
        return tf.split(tf.constant(nodes[:, None], self.compute_dtype), self.inner_widths, axis=-1)

    def _mixed(self, features: tf.Tensor, layers: Sequence[Marginals], maps: Any, noise: Any) -> Latent:
        """Return the marginals at the nodes of prediction; of one layer there are none."""
        if self.num_layers == 1:
            return self._as_latent(layers[0](features), 1)
        size = self.num_prediction_samples
        inputs = self._propagated(features, layers[:-1], self._prediction_noise(), size, maps, noise)
        return self._as_latent(layers[-1](inputs), size)

    def _propagated(
        self,
        features: tf.Tensor,
        layers: Sequence[Marginals],
        noises: Sequence[tf.Tensor],
        num_samples: int,
        maps: Any,
        inner_noise: Any,
    ) -> tf.Tensor:
        """Return the inputs of the last layer at S samples of each point, `[S * B, D_L]`."""
        inputs, repeats = features, 1
        for number, (layer, epsilon) in enumerate(zip(layers, noises, strict=True)):
            mean, variance = layer(inputs)  # of the first layer [B, W], the same for all samples
            variance = tf.maximum(variance, self.variance_floor)
            if maps:
                mean += tf.matmul(inputs, tf.convert_to_tensor(maps[number]))
            if inner_noise is not None:
                variance += tf.convert_to_tensor(inner_noise)[number]
            shape = [repeats, -1, mean.shape[-1]]
            sampled = tf.reshape(mean, shape) + tf.sqrt(tf.reshape(variance, shape)) * epsilon  # [S, B, W]
            inputs, repeats = tf.reshape(sampled, [-1, mean.shape[-1]]), num_samples
        return inputs

    def _as_latent(self, marginal: LayerMarginal, num_samples: int) -> Latent:
        """Return marginals of S * B inputs as a mixture; of one layer, or one sample, as they are."""
        variance = tf.maximum(marginal.variance, self.variance_floor)
        if self.num_layers == 1 or num_samples == 1:
            return Latent(marginal.mean, variance)
        shape = [num_samples, -1, marginal.mean.shape[-1]]
        mean = tf.reshape(marginal.mean, shape)
        log_weight = tf.fill(tf.shape(mean)[:2], tf.constant(-math.log(num_samples), mean.dtype))
        return Latent(mean, tf.reshape(variance, shape), log_weight)


def checked_layers(num_layers: int, widths: object) -> tuple[int, tuple[int, ...] | None]:
    """Return L and the widths of its inner layers as a tuple.

    Raises:
        ValueError: There is no layer, or not one width of at least 1 for each inner layer.

    Example:
        >>> checked_layers(3, [5, 2])
        (3, (5, 2))
    """
    check_counts(num_layers=num_layers)
    if widths is None:
        return num_layers, None
    if isinstance(widths, np.ndarray):
        widths = widths.tolist()  # of an array without axes a number
    if not isinstance(widths, Sequence) or isinstance(widths, str):
        raise ValueError(
            f"widths must be a list of {num_layers - 1} numbers, one for each inner layer, but is {widths!r}."
        )
    if len(widths) != num_layers - 1:
        raise ValueError(
            f"widths must hold one number for each of the {num_layers - 1} inner layers of {num_layers}, but "
            f"is {list(widths)}. The last layer's width follows from the likelihood; None takes the default."
        )
    if not all(is_count(width) for width in widths):
        raise ValueError(f"Each of widths must be at least 1, and whole, but they are {list(widths)}.")
    return num_layers, tuple(int(width) for width in widths)


def principal_map(inputs: FloatArray, width: int) -> FloatArray:
    """Return W `[D, width]` of a linear mean function for inputs `[N, D]`.

    It is the identity where the widths agree, the leading principal directions of the centred inputs where
    the layer narrows, and the identity beside zeros where it widens.

    Source:
        Salimbeni and Deisenroth (2017), section 4.1; their program takes the singular vectors of inputs that
        are not centred.

    Example:
        >>> principal_map(np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]), 1).round(3).tolist()
        [[0.707], [0.707]]
    """
    num_inputs = inputs.shape[1]
    if width >= num_inputs:
        return np.eye(num_inputs, width)
    covariance = np.cov(inputs, rowvar=False, bias=True)
    directions = np.linalg.eigh(covariance)[1][:, ::-1][:, :width]
    # The sign is arbitrary: the largest entry of each direction is positive, so that runs agree.
    largest = directions[np.abs(directions).argmax(axis=0), np.arange(width)]
    return np.asarray(directions * np.where(largest < 0.0, -1.0, 1.0))
