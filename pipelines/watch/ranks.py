"""Online conformal p-values of familiarities: exactly uniform and independent while nothing changes.

The familiarity f of an image says how many of n held-out examples look at least as strange:
b = (n + 1) f - 1. It is ranked among these and the m images before it, which join them; U breaks ties:

    p = (b + #{former f_i < f} + U (#{former f_i = f} + 1)) / (n + m + 1)

Equal f means a place between the same two held-out examples, whose order U draws. Where examples and images
are exchangeable and no two are equally strange, the probability of such a place is (1 + images there) /
(n + m + 1) given all former ones (Pólya's urn). So p is uniform and independent of all former ones, whatever
the model is: a smoothed conformal p-value (Vovk, Gammerman and Shafer, "Algorithmic learning in a random
world", 2005, sections 2.2 and 7.1). Held-out examples that count by groups make places of unequal width: n is
the number of groups then, and p is only near uniform (`benchmarks/watch_delays.py` measures what that does).
With n = 0 images are compared with each other alone, which is exact for any score.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipelines.scores.definitions import FloatArray


def conformal_p_values(
    familiarity: FloatArray,
    uniform: FloatArray,
    held_out: int,
    values: Sequence[float],
    counts: Sequence[int],
) -> tuple[FloatArray, tuple[float, ...], tuple[int, ...]]:
    """Return a p-value for each new image, small where it is less familiar than the others.

    Args:
        familiarity: Of the new images in the order of time `[T]`.
        uniform: A random number from 0 to 1 for each of them `[T]`.
        held_out: n; 0 to compare images with each other alone.
        values: Distinct familiarities of the former images, ascending.
        counts: How many images had each of them.

    Returns:
        The p-values `[T]`, and values and counts of all images, the new ones included.

    Example:
        >>> p, *_ = conformal_p_values(np.array([0.1, 0.5]), np.array([0.5, 0.5]), 9, (), ())
        >>> p.round(3).tolist()
        [0.05, 0.5]
    """
    distinct = np.unique(np.concatenate([np.asarray(values, np.float64), familiarity]))
    seen = np.zeros(distinct.size, np.int64)
    seen[np.searchsorted(distinct, values)] = counts
    places = np.searchsorted(distinct, familiarity).tolist()
    stranger = np.maximum((held_out + 1) * familiarity - 1, 0.0) if held_out else np.zeros(len(places))
    number = held_out + int(seen.sum()) + 1
    p = np.empty(len(places))
    for new, place in enumerate(places):
        former = int(seen[:place].sum())
        p[new] = (stranger[new] + former + uniform[new] * (int(seen[place]) + 1)) / (number + new)
        seen[place] += 1
    return np.minimum(p, 1.0), tuple(distinct.tolist()), tuple(seen.tolist())


def tie_breakers(seed: int, first: int, number: int) -> FloatArray:
    """Return the random numbers of so many images from the one after `first` on, however a stream is cut.

    Example:
        >>> bool(tie_breakers(0, 2, 1)[0] == tie_breakers(0, 0, 3)[2])
        True
    """
    return np.random.Generator(np.random.PCG64(seed).advance(first)).random(number)
