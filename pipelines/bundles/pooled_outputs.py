"""What several predicted examples say as one: the outputs of a pool or of a group."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpmodels.familiarity.flags import pooled_familiarity
from pipelines.bundles.metadata import FAMILIARITY
from pipelines.scores.pictures import Outputs
from pipelines.scores.pool_calibration import at_temperature, entropies

_LEAST = float(np.finfo(np.float32).tiny)


def mean_outputs(
    probability: NDArray[np.floating[Any]],
    information: NDArray[np.floating[Any]],
    familiarity: NDArray[np.floating[Any]] | None = None,
    *,
    temperature: float = 1.0,
) -> Outputs:
    """Return the outputs of a pool from those of its examples.

    The probability is the mean of theirs, at the temperature of pools; see
    `pipelines.scores.pool_calibration`. The entropy is that of this probability, and so counts how much the
    examples differ; the mutual information is the mean of theirs. Where T < 1 lowers the entropy, the mutual
    information keeps its share of it, as for `gpmodels.likelihoods.tempering.tempered`.

    Args:
        probability: Probabilities of the K examples, `[K, C]`.
        information: Mutual information of the K examples in nats, `[K]`.
        familiarity: Familiarity of the K examples `[K]`; None of a model that does not say.
        temperature: T of the pools; 1 leaves the mean as it is.

    Returns:
        `probability [C]`, `label []`, `predictive_entropy []` of the probability,
        `mutual_information []`, and `familiarity []` where it is given, see
        `gpmodels.familiarity.flags.pooled_familiarity`.
    """
    mean = probability.mean(axis=0)
    of_pool, known = at_temperature(mean, temperature), np.asarray(information.mean())
    entropy = float(entropies(of_pool))
    if temperature < 1.0:
        known = np.asarray(
            np.minimum(known * (entropy / max(float(entropies(mean)), _LEAST)), entropy), known.dtype
        )
    outputs = {
        "probability": of_pool,
        "label": np.asarray(of_pool.argmax(), np.int32),
        "predictive_entropy": np.asarray(entropy, mean.dtype),
        "mutual_information": known,
    }
    if familiarity is not None:
        outputs[FAMILIARITY] = np.asarray(pooled_familiarity(familiarity))
    return outputs
