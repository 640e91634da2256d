"""Mean and scale of real targets, by which a head learns targets of mean 0 and variance 1."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes

LOGGER = logging.getLogger(__name__)

LONE = 100.0
"""How many times the deviation of targets falls without the farthest hundredth, where those hide the rest."""

FEWEST_TARGETS = 20
"""Targets below which none is called lone."""

FEWEST_DIGITS = 1e-6
"""Share of the mean below which Keras' targets, which have 32 bits, hold too little of a deviation."""

LARGEST_SCALE = 1e15

STANDARDISED = 0.1
"""Targets whose mean is no farther from 0, and whose deviation is no farther from 1, stay as they are."""


@check_shapes("targets: [N]")
def lone_targets(targets: npt.NDArray[np.floating[Any]]) -> str | None:
    """Return a sentence about targets so far off that all others look alike beside them; None without any.

    Args:
        targets: y, finite.

    Example:
        >>> lone_targets(np.append(np.arange(50.0), 1e6))[:64]
        'A few targets, such as 1e+06, are so far from the others that th'
        >>> lone_targets(np.exp(np.linspace(0.0, 9.0, 50)))
    """
    targets = np.asarray(targets, np.float64)
    if len(targets) < FEWEST_TARGETS:
        return None
    with np.errstate(over="ignore"):
        off = np.abs(targets - np.median(targets))
        order = np.argsort(off, kind="stable")
        others = targets[order[: -max(1, len(targets) // 100)]]
        all_spread, spread = float(np.std(targets)), float(np.std(others))
    if not 0.0 < LONE * spread < all_spread < np.inf:
        return None
    return (
        f"A few targets, such as {targets[order[-1]]:g}, are so far from the others that these look alike to "
        f"the model: without the farthest hundredth the deviation is {spread:.3g}, with it {all_spread:.3g}. "
        "Correct or leave out wrong ones; of targets over many powers of ten give the logarithm."
    )


@check_shapes("targets: [N]", "weights: [N]")
def target_moments(
    targets: npt.NDArray[np.floating[Any]], weights: npt.NDArray[np.floating[Any]]
) -> tuple[float, float]:
    """Return mean and standard deviation of targets; 0 and 1 of those that are standardised already.

    Targets that are all alike have the deviation 1, so that they can be divided by it.

    Args:
        targets: y.
        weights: How often each counts; not all 0.

    Raises:
        ValueError: Their deviation is too small beside their mean, or too small or large, for 32 bits.

    Example:
        >>> target_moments(np.array([100.0, 300.0]), np.ones(2))
        (200.0, 100.0)
        >>> target_moments(np.array([-1.0, 1.01]), np.ones(2))
        (0.0, 1.0)
    """
    targets, weights = np.asarray(targets, np.float64), np.asarray(weights, np.float64)
    if sentence := lone_targets(targets[weights > 0.0]):
        LOGGER.warning(sentence)
    mean = float(np.average(targets, weights=weights))
    deviation = float(np.sqrt(np.average(np.square(targets - mean), weights=weights)))
    if 0.0 < deviation <= FEWEST_DIGITS * abs(mean) and deviation > 1e-12 * abs(mean):
        raise ValueError(
            f"The targets have the mean {mean:g} and the deviation {deviation:g}, which 32 bits cannot tell "
            "apart. Subtract a constant near the mean from them, and add it to the predictions."
        )
    if not 1.0 / LARGEST_SCALE < deviation < LARGEST_SCALE and deviation > 1e-12 * abs(mean):
        raise ValueError(
            f"The targets have the deviation {deviation:g}, whose square 32 bits cannot hold. Give them in "
            "another unit."
        )
    if abs(mean) <= STANDARDISED and abs(deviation - 1.0) <= STANDARDISED:
        return 0.0, 1.0
    return mean, deviation if deviation > 1e-12 * abs(mean) else 1.0


def in_unit_of_targets(
    outputs: Mapping[str, tf.Tensor], mean: tf.Tensor | float, scale: tf.Tensor | float
) -> dict[str, tf.Tensor]:
    """Return a head's outputs of standardised targets in the unit of the targets.

    Args:
        outputs: `mean`, `variance` and `latent_variance`.
        mean: Mean of the targets.
        scale: Their scale.

    Example:
        >>> outputs = dict.fromkeys(("mean", "variance", "latent_variance"), tf.constant([1.0]))
        >>> {name: float(value[0]) for name, value in in_unit_of_targets(outputs, 5.0, 2.0).items()}
        {'mean': 7.0, 'variance': 4.0, 'latent_variance': 4.0}
    """
    dtype = outputs["mean"].dtype
    mean, scale = tf.cast(mean, dtype), tf.cast(scale, dtype)
    return {
        name: mean + scale * value if name == "mean" else tf.square(scale) * value
        for name, value in outputs.items()
    }
