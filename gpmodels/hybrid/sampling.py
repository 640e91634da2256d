"""Predictions that average over samples of a network, as where its dropout stays on (Monte Carlo dropout).

Sample s of the network gives features h_s, and the head the marginals of its latent functions there. The
prediction is that of their mixture,

    p(y) = 1/S Σ_s E[p(y | f)],   f ~ q(f | h_s)

whatever the head: with a linear one f is certain given s, with a Gaussian process it is not. The mutual
information between y and (s, f) is the entropy of p(y) less what remains if s and f are known,

    I = H[p(y)] - 1/S Σ_s E[H[p(y | f)]] = H[p(y)] - 1/S Σ_s (H_s - I_s)

where H_s and I_s are predictive entropy and mutual information of sample s alone.

Source: Gal and Ghahramani, "Dropout as a Bayesian approximation", 2016; Kendall, Badrinarayanan and Cipolla,
"Bayesian SegNet", 2015, section 3.
"""

import abc
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from gpmodels.heads.base import Head, Latent, Readout
from gpmodels.likelihoods.categorical import categorical_entropy
from gpmodels.likelihoods.probit import bernoulli_entropy

_CONDITIONAL_ENTROPY = "conditional_entropy"
_SECOND_MOMENT = "second_moment"


class SamplingNetwork(keras.Model, abc.ABC):
    """A network whose features are random: predictions average over S samples of them.

    `HybridModel` averages over the samples of such a network. What all samples have in common is computed
    once. A sample depends on its number alone: equal calls have equal results, in a SavedModel too.

    Args:
        num_samples: S; 1 for a network that samples nothing, of which the average is taken.
        **kwargs: Passed to `keras.Model`.

    Raises:
        ValueError: There is no sample.
    """

    def __init__(self, *, num_samples: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if num_samples < 1:
            raise ValueError(f"num_samples must be at least 1, but is {num_samples}.")
        self.num_samples = num_samples

    @abc.abstractmethod
    def shared(self, inputs: tf.Tensor) -> Any:
        """Return what all samples of these inputs have in common: tensors in a structure of `tf.nest`."""

    @abc.abstractmethod
    def sampled(self, shared: Any, number: tf.Tensor) -> tf.Tensor:
        """Return the features `[B, ..., D]` of sample `number`, a scalar from 0 to S - 1."""

    def read_out(self, shared: Any, number: tf.Tensor, readout: Readout) -> tf.Tensor:
        """Return Wᵀh + b of the features h of sample `number`, `[B, ..., P]`; see `Readout`.

        A network that ends with an affine map may join both maps, which costs less.
        """
        return tf.linalg.matmul(self.sampled(shared, number), readout.kernel) + readout.bias

    @abc.abstractmethod
    def averaged(self, shared: Any) -> tf.Tensor:
        """Return the features `[B, ..., D]` of a plain call, which stand for the average of all samples."""


def samples(network: keras.layers.Layer) -> bool:
    """Whether predictions of a network average over samples."""
    return isinstance(network, SamplingNetwork) and network.num_samples > 1


def mixture_of_samples(
    network: SamplingNetwork,
    shared: Any,
    head: Head,
    latent: Callable[[tf.Tensor], Latent],
    readout: Readout | None,
) -> dict[str, tf.Tensor]:
    """Return the prediction of the mixture of all samples; one of them is in memory at a time.

    Args:
        network: The network.
        shared: What its samples have in common, see `SamplingNetwork.shared`.
        head: A classifier.
        latent: `latent` of the head, or its `for_inference`.
        readout: `readout` of the head, as tensors that the caller may hold constant.

    Returns:
        Outputs under the names of `gpmodels.heads.base.Head.call`, at the temperature 1: `probability`,
        `label`, `predictive_entropy`, `latent_mean` and `latent_variance` of the mixture, and
        `mutual_information` of the class with sample and latent functions.
    """

    def predict(number: tf.Tensor) -> dict[str, tf.Tensor]:
        if readout is None:
            return head.predict_with(latent, network.sampled(shared, number))
        logits = network.read_out(shared, number, readout)
        return head.predict_with(lambda logit: Latent(logit, tf.zeros_like(logit)), logits)

    def terms(number: tf.Tensor) -> dict[str, tf.Tensor]:
        outputs = predict(number)
        mean = outputs["latent_mean"]
        return {
            "probability": outputs["probability"],
            "latent_mean": mean,
            _SECOND_MOMENT: outputs["latent_variance"] + tf.square(mean),
            _CONDITIONAL_ENTROPY: outputs["predictive_entropy"] - outputs["mutual_information"],
        }

    def add(number: tf.Tensor, sums: dict[str, tf.Tensor]) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        more = terms(number)
        return number + 1, {name: value + more[name] for name, value in sums.items()}

    _, sums = tf.while_loop(
        lambda number, _: number < network.num_samples,
        add,
        (tf.constant(1), terms(tf.constant(0))),
        parallel_iterations=1,
    )
    mean = {name: value / network.num_samples for name, value in sums.items()}
    probability = mean["probability"]
    is_of_one_class = probability.shape.rank == mean[_CONDITIONAL_ENTROPY].shape.rank
    if is_of_one_class:
        entropy, label = bernoulli_entropy(probability), tf.cast(probability > 0.5, tf.int32)
    else:
        entropy = categorical_entropy(probability)
        label = tf.argmax(probability, axis=-1, output_type=tf.int32)
    # Rounding may leave a little less than nothing.
    variance = tf.maximum(mean[_SECOND_MOMENT] - tf.square(mean["latent_mean"]), 0.0)
    return {
        "probability": probability,
        "label": label,
        "latent_mean": mean["latent_mean"],
        "latent_variance": variance,
        "predictive_entropy": entropy,
        "mutual_information": tf.clip_by_value(entropy - mean[_CONDITIONAL_ENTROPY], 0.0, entropy),
    }
