"""A familiarity by reference features and held-out features, as the training of a run measures it."""

from typing import Any

import numpy as np
import tensorflow as tf

from gpmodels.familiarity.nearest import Familiarity, refer_to


def fit_familiarity(
    reference: np.ndarray, held_out: np.ndarray, *, groups: Any = None, of_inputs: bool = False
) -> Familiarity:
    """Return the familiarity that features `[R, D]` and `[n, D]` give."""
    familiarity = refer_to(reference, of_inputs=of_inputs)
    distance = familiarity.distance(tf.constant(held_out, tf.float32)).numpy()
    return familiarity.calibrated(distance, groups)
