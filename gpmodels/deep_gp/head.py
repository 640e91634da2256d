"""The deep Gaussian process head (Salimbeni and Deisenroth): layers of sparse processes."""

from typing import Any

import keras

from gpmodels.deep_gp.layers import SparseLayer
from gpmodels.heads.gp import CLASS_KERNELS
from gpmodels.heads.layered import LayeredHead
from gpmodels.units.counts import check_counts


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
