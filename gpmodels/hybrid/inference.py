"""What an export runs: the network, and the head folded into constants."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from gpmodels.familiarity.nearest import Familiarity
from gpmodels.heads.base import Head
from gpmodels.hybrid.sampling import mixture_of_samples, samples
from gpmodels.hybrid.targets import in_unit_of_targets
from gpmodels.likelihoods.tempering import tempered


def inference_function(
    network: Any,
    head: Head,
    *,
    trunk: keras.Model | None = None,
    familiarity: Familiarity | None = None,
    moments: tuple[float, float] | None = None,
    returns_distance: bool = False,
) -> Callable[[Any], dict[str, tf.Tensor]]:
    """Return `inputs -> predictions` with the head folded into constants.

    Args:
        network: Inputs to features.
        head: A built head.
        trunk: Maps what is given to the network's inputs; None where that is the same.
        familiarity: Adds an output `familiarity`; None adds nothing.
        moments: Mean and scale of real targets; None for classes.
        returns_distance: Also return the `familiarity_distance` that each familiarity ranks.
    """
    latent, temperature, readout = head.for_inference(), head.prediction_temperature, head.readout()

    def infer(inputs: Any) -> dict[str, tf.Tensor]:
        if trunk is not None:
            inputs = trunk(inputs, training=False)
        if samples(network):
            shared = network.shared(inputs)
            features = network.averaged(shared) if familiarity is not None else None
            outputs = mixture_of_samples(network, shared, head, latent, readout)
        else:
            features = network(inputs, training=False)
            outputs = head.predict_with(latent, features)
        outputs = tempered(outputs, temperature)
        if moments is not None:
            outputs = in_unit_of_targets(outputs, *moments)
        if familiarity is None:
            return outputs
        distance = familiarity.distance(inputs if familiarity.of_inputs else features)
        further = {"familiarity_distance": distance} if returns_distance else {}
        return {**outputs, "familiarity": familiarity.of_distance(distance), **further}

    return tf.autograph.experimental.do_not_convert(infer)
