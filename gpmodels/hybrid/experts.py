"""Experts that no training point chooses."""

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.heads.base import Head, flatten_points
from gpmodels.hybrid.batches import batches
from gpmodels.hybrid.points import Network


def drop_unused(network: Network, head: Head, data: Any) -> list[int]:
    """Drop the experts that no point of `data` chooses, and return their indices from 0.

    Dropping one changes the pooled variance of the gate, so the others' shares are counted anew after each.

    Args:
        network: Inputs to features.
        head: A built head.
        data: As for `gpmodels.hybrid.batches.batches`.
    """
    dropped: list[int] = []
    while len(head.active_experts) > 1:
        counts = _count_assignments(network, head, data)
        unused = [k for k in head.active_experts if not counts[k]]
        if not unused:
            break
        head.drop_experts(np.array(unused[:1]))
        dropped += unused[:1]
    return dropped


def _count_assignments(network: Network, head: Head, data: Any) -> npt.NDArray[np.int64]:
    counts = np.zeros(head.num_experts, np.int64)
    for x, _, weight in batches(data):
        features = tf.cast(flatten_points(network(x)), head.compute_dtype)
        expert = head.assign(features).numpy()
        used = expert if weight is None else expert[weight.reshape(-1) > 0]
        counts += np.bincount(used, minlength=len(counts))
    return counts
