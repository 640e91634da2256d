"""The deep Gaussian process head by random features (Cutajar et al.)."""

from typing import Any

import keras

from gpmodels.heads.layered import LayeredHead
from gpmodels.random_features.features import FEATURE_KERNELS, FREQUENCIES
from gpmodels.random_features.layers import FeatureLayer
from gpmodels.units.counts import check_counts


@keras.saving.register_keras_serializable("gpimaging")
class RandomFeatureHead(LayeredHead):
    """Deep Gaussian process by random features as a Keras layer, for classes or real targets.

    Each layer is a Bayesian linear model on random functions of its inputs, whose products approach a kernel.
    There are no inducing inputs to place and nothing to factorise, so that many layers are cheap; but the
    model is one of `num_features` weights, certain where it should not be, far from all data.

    Args:
        num_layers: L.
        widths: Functions of each of the L - 1 inner layers; None takes D for each, at most 30.
        num_features: R draws in each layer. The squared-exponential kernel has 2R features, and the last
            layer a covariance of that size for each latent function.
        kernel: `"squared_exponential"`, `"arc_cosine0"`, `"arc_cosine1"` or `"arc_cosine2"`. That of degree 0
            is a step, through which no gradient flows: layers below it do not learn from the data.
        frequencies: `"fixed"`: drawn once, and scaled by the learned lengthscales. `"learned"`: of a Gaussian
            q with a divergence of its own, at one draw that stays.
        **kwargs: `mean_function`, `num_samples`, `num_prediction_samples`, `inner_noise`, `kernel_variance`
            and `seed` as for `gpmodels.DeepGPHead`; `num_classes`, `likelihood` and `dtype` of `GPHead`; the
            rest of `keras.layers.Layer`.

    Raises:
        ValueError: A setting is out of range; the message names it.

    Source:
        Cutajar, Bonilla, Michiardi and Filippone (2017), Random feature expansions for deep Gaussian
        processes. Departures in docs/theory.md, "Random features".

    Example:
        >>> import tensorflow as tf
        >>> RandomFeatureHead(num_features=8, num_classes=3)(tf.zeros([2, 7, 4]))["probability"].shape
        TensorShape([2, 7, 3])
    """

    def __init__(
        self,
        *,
        num_features: int = 100,
        kernel: str = "squared_exponential",
        frequencies: str = "fixed",
        **kwargs: Any,
    ) -> None:
        if kwargs.get("kernel_depth", 1) != 1:
            raise ValueError(
                f"Random features approach kernels of kernel_depth 1, but it is {kwargs['kernel_depth']!r}. "
                "For depth take more layers; DeepGPHead, or approximation='sparse', has such kernels."
            )
        super().__init__(**kwargs)
        check_counts(num_features=num_features)
        if kernel not in FEATURE_KERNELS:
            raise ValueError(f"kernel must be one of {FEATURE_KERNELS}, but is {kernel!r}.")
        if frequencies not in FREQUENCIES:
            raise ValueError(f"frequencies must be one of {FREQUENCIES}, but is {frequencies!r}.")
        if self.class_kernels != "shared":
            raise ValueError(
                "All latent functions of a layer of random features have one kernel: class_kernels must be "
                f"'shared', but is {self.class_kernels!r}."
            )
        self.num_features = num_features
        self.kernel_name = kernel
        self.frequencies = frequencies

    def _make_layer(self, number: int, num_inputs: int, num_outputs: int, *, is_last: bool) -> FeatureLayer:
        return FeatureLayer(
            num_inputs=num_inputs,
            num_outputs=num_outputs,
            num_draws=self.num_features,
            is_full=is_last,
            kernel=self.kernel_name,
            frequencies=self.frequencies,
            kernel_variance=self.start_variance(self.kernel_variance) if is_last else 1.0,
            seed=[self.seed, number],
            dtype=self.variable_dtype,
        )
