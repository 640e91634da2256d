"""Which images only judge: whole groups that a keyed hash of their names sets aside.

The side of a group depends on its name and the seed alone, so a pool that grows keeps every group where it
was. There is one exception, in pools of a handful of groups: where the hash puts all groups on one side, the
group whose hash is nearest to the threshold changes sides, so that there is something to judge by and
something to learn from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

JUDGING_FRACTION = 0.2
"""Share of the groups that only judge."""


def judging_groups(group: Sequence[str], seed: int, fraction: float = JUDGING_FRACTION) -> NDArray[np.bool_]:
    """Return whether each image belongs to a group that judges and never trains.

    Args:
        group: Name of the group of each image, `[N]`.
        seed: Key of the hash.
        fraction: Expected share of the groups that judge, between 0 and 1.

    Returns:
        Boolean array `[N]`; none of them judges where there is one group only.

    Raises:
        ValueError: The fraction is not between 0 and 1.

    Example:
        >>> names = [f"patient {number}" for number in range(10)]
        >>> judging_groups(names, seed=0).tolist() == judging_groups(names + ["other"], seed=0).tolist()[:10]
        True
    """
    if not 0.0 < fraction < 1.0:
        raise ValueError(f"the fraction of judging groups must lie between 0 and 1, but is {fraction}.")
    names = sorted(set(group))
    number = {name: _hashed(name, seed) for name in names}
    judging = {name for name in names if number[name] < fraction}
    if len(names) >= 2 and not judging:
        judging = {min(names, key=number.__getitem__)}
    elif judging and len(judging) == len(names):
        judging.remove(max(names, key=number.__getitem__))
    return np.array([name in judging for name in group], bool)


def _hashed(name: str, seed: int) -> float:
    """Return a number in [0, 1) that the name and the seed fix."""
    key = f"judging {seed}".encode()
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest()
    return int.from_bytes(digest, "big") / 2.0**64
