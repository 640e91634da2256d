"""The deep Gaussian process head (Salimbeni and Deisenroth): layers of sparse processes."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from gpmodels.heads.gp import CLASS_KERNELS
from gpmodels.heads.joint import unit_covariance
from gpmodels.heads.layered import LayeredHead
from gpmodels.heads.layers import Basis, FloatArray, Layer, LayerMarginal, Marginals, ridge_coefficients
from gpmodels.units.counts import check_counts
from gpmodels.units.folded import compact, compact_marginal
from gpmodels.units.sparse import SparseUnits, whitened_features

INNER_ROOT = 1e-5
"""Root of q's covariance with which inner layers start: nearly certain, so that the mean function decides."""

BLOCK_VALUES = 4_000_000
"""Covariances of functions at points that a draw holds at a time, or those of one set of points."""


class SparseLayer(Layer):
    """Sparse variational processes side by side: one set of inducing inputs, a q for each function.

    Args:
        num_inputs: D.
        num_outputs: W, functions of the layer.
        num_inducing: M.
        kernel: Name of the kernel.
        kernel_depth: Layers of an arc-cosine kernel.
        shared_kernel: Whether all functions share one kernel.
        kernel_variance: σ² at the start.
        dtype: `"float32"` or `"float64"`.
        role: What messages call the layer.

    Attributes:
        units: The one unit that the layer is.
    """

    def __init__(  # noqa: PLR0913 - so many things make a layer
        self,
        *,
        num_inputs: int,
        num_outputs: int,
        num_inducing: int,
        kernel: str,
        kernel_depth: int,
        shared_kernel: bool,
        kernel_variance: float,
        dtype: str,
        role: str,
    ) -> None:
        super().__init__()
        self.num_inputs = num_inputs
        self.units = SparseUnits(
            num_units=1,
            num_inducing=num_inducing,
            num_features=num_inputs,
            num_latents=num_outputs,
            shared_kernel=shared_kernel,
            kernel=kernel,
            kernel_depth=kernel_depth,
            kernel_variance=kernel_variance,
            dtype=dtype,
            role=role,
        )
        self.q_mean, self.q_sqrt = self.units.q_mean, self.units.q_sqrt

    def marginals(self) -> Marginals:
        """Return the marginals as a function of inputs `[N, D]`, with one factorisation for all calls."""
        folded = self.units.fold()

        def evaluate(inputs: tf.Tensor) -> LayerMarginal:
            marginal = self.units.marginal(folded, tf.expand_dims(inputs, 0))
            variance = marginal.conditional_variance + marginal.inducing_variance
            return LayerMarginal(tf.squeeze(marginal.mean, 0), tf.squeeze(variance, 0))

        return evaluate

    def constant_marginals(self) -> Marginals:
        """Return the marginals with folded constants."""
        units = compact(self.units)

        def evaluate(inputs: tf.Tensor) -> LayerMarginal:
            mean, variance = compact_marginal(units, tf.expand_dims(inputs, 0), self.units.kernel)
            return LayerMarginal(tf.squeeze(mean, 0), tf.squeeze(variance, 0))

        return evaluate

    def basis(self) -> Callable[[tf.Tensor], Basis]:
        """Return b = G k and κ(h, h) - |b|² as a function of inputs."""
        whitening = self.units.whitening()
        return lambda inputs: Basis(*whitened_features(whitening, 0, inputs, self.units.kernel))

    def drawn(self, inputs: tf.Tensor, rng: np.random.RandomState) -> FloatArray:
        """Draw all functions at the N points of each of S sets of inputs; time grows with S N³."""
        mean = self.marginals()(tf.reshape(inputs, [-1, self.num_inputs])).mean.numpy()
        draws: FloatArray = mean.reshape([*inputs.shape[:2], -1]).astype(np.float64)
        noise = rng.standard_normal([draws.shape[2], *draws.shape[:2]])  # [W, S, N]
        whitening = self.units.whitening()
        step = max(BLOCK_VALUES // (draws.shape[2] * draws.shape[1] ** 2), 1)
        for start in range(0, len(draws), step):
            block = slice(start, start + step)
            covariance = tf.add_n(unit_covariance(self.units, whitening, 0, inputs[block]))
            value, vector = np.linalg.eigh(covariance)  # [W, S, N], [W, S, N, N] of the block
            along = np.sqrt(value.clip(0.0)) * noise[:, block]
            draws[block] += np.moveaxis((vector @ along[..., None])[..., 0], 0, 2)
        return draws

    def prior_kl(self) -> tf.Tensor:
        """Return KL(q(v) ‖ N(0, I)) of all functions, nats."""
        return self.units.prior_kl()[0]

    def lengthscale_values(self) -> FloatArray:
        """Return ℓ of the kernels, `[J, D]`."""
        return self.units.lengthscales.numpy()[0]

    def place(self, centres: FloatArray, lengthscales: FloatArray, seed: int) -> None:  # noqa: ARG002 - random features need it
        """Set the inducing inputs to the centres `[M, D]`, and the lengthscales."""
        self.units.place(centres[None], lengthscales[None])

    def start_as_inner(self, target: FloatArray | None, features: FloatArray) -> None:
        """Start q nearly certain, with mean 0, or near the `target` at the inputs `features`.

        The target's coefficients are those of a regularised least-squares fit on b.
        """
        _, outputs, size = self.q_mean.shape
        dtype = self.q_mean.dtype
        self.units.q_sqrt.assign(tf.eye(size, batch_shape=[1, outputs], dtype=dtype) * INNER_ROOT)
        if target is not None:
            b = self.basis()(tf.constant(features, dtype)).inputs.numpy().astype(np.float64)  # [J, N, M]
            bases = np.broadcast_to(b, (outputs, *b.shape[1:]))
            columns = zip(bases, target.T[..., None], strict=True)
            self.q_mean.assign(np.stack([ridge_coefficients(*column)[:, 0] for column in columns])[None])


@keras.saving.register_keras_serializable("gpimaging")
class DeepGPHead(LayeredHead):
    """Deep Gaussian process as a Keras layer, for classes or real targets.

    A layer's functions are sparse processes with common inducing inputs and kernel. With `num_layers=1` the
    head is `SVGPHead`. A prediction is a mixture over `num_prediction_samples` fixed nodes and takes so many
    times the work of an SVGP's: a head for labels of images, rather than for maps of many points.

    In Keras' `fit` all of q moves by the optimiser; `gpmodels.DeepGPClassifier` and `DeepGPRegressor` move
    that of the last layer by natural gradients.

    Args:
        num_layers: L.
        widths: Functions of each of the L - 1 inner layers; None takes D for each, at most 30.
        num_inducing: M of each layer.
        inner_kernels: `"shared"`: the functions of an inner layer have one kernel; `"separate"`: each has its
            own, which takes about twice the time and learns more in as many steps (docs/results/deep.md).
        mean_function: `"linear"`: an inner layer adds its input to what it gives, by its principal directions
            where it narrows; `"zero"` does not.
        num_samples: Samples of a training step.
        num_prediction_samples: Samples of a prediction.
        inner_noise: Whether inner layers add independent noise to each point, of a learned variance, as steps
            in the data need.
        kernel: Kernel of all layers, see `gpmodels.units.kernels.make_kernel`.
        kernel_variance: σ² of the last layer at the start.
        seed: Seed of the noise of training.
        **kwargs: `num_classes`, `likelihood`, `class_kernels` (of the last layer) and `dtype` of `GPHead`;
            the rest of `keras.layers.Layer`.

    Raises:
        ValueError: A setting is out of range; the message names it.

    Source:
        Salimbeni and Deisenroth (2017), Doubly stochastic variational inference for deep Gaussian processes.
        Departures in docs/theory.md, "Deep Gaussian processes".

    Example:
        >>> import tensorflow as tf
        >>> DeepGPHead(num_layers=2, num_inducing=5)(tf.zeros([2, 7, 3]))["probability"].shape
        TensorShape([2, 7])
    """

    def __init__(self, *, num_inducing: int = 100, inner_kernels: str = "shared", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if inner_kernels not in CLASS_KERNELS:
            raise ValueError(f"inner_kernels must be one of {CLASS_KERNELS}, but is {inner_kernels!r}.")
        self.inner_kernels = inner_kernels
        check_counts(num_inducing=num_inducing)
        self.num_inducing = num_inducing

    def _make_layer(self, number: int, num_inputs: int, num_outputs: int, *, is_last: bool) -> SparseLayer:
        return SparseLayer(
            num_inputs=num_inputs,
            num_outputs=num_outputs,
            num_inducing=self.num_inducing,
            kernel=self.kernel_name,
            kernel_depth=self.kernel_depth,
            shared_kernel=(self.class_kernels if is_last else self.inner_kernels) == "shared",
            kernel_variance=self.start_variance(self.kernel_variance) if is_last else 1.0,
            dtype=self.variable_dtype,
            role=f"layer {number} of {self.name}",
        )

    def _num_centres(self) -> int:
        """Return M: the first inducing inputs are the centres."""
        return self.num_inducing
