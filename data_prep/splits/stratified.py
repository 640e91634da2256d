"""Dividing examples so that each class is found in every part, without tearing groups apart."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt


def stratified_parts(
    groups: Mapping[str, str],
    labels: Mapping[str, int],
    shares: Sequence[float],
    seed: int,
    *,
    largest_first: bool = True,
    placed: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Deal groups of examples into parts so that each part has its share of each class.

    A greedy form of iterative stratification (Sechidis et al. 2011) on groups: the classes with the fewest
    groups come first, their largest groups first, and each group goes where most examples of the class are
    still wanted. Where a class has no more groups left than there are parts without it, it goes to those: a
    class is in every part as far as the number of its groups allows, which scikit-learn's
    StratifiedGroupKFold does not ensure (and it makes equal parts only).

    Args:
        groups: Group of each name.
        labels: Class of each name.
        shares: Share of the examples of each part; they add up to 1. A part of share 0 stays empty.
        seed: Seed of the order among groups of equal size, or among all.
        largest_first: False takes the groups of a class in random order. Parts then fit their shares less
            closely, but every seed divides anew: with groups that all differ in size, the first order is
            always the same.
        placed: Number of the part of each group that has one already.

    Returns:
        Number of the part of each name.

    Example:
        >>> names = {name: name for name in "abcd"}
        >>> parts = stratified_parts(names, {"a": 0, "b": 0, "c": 1, "d": 1}, (0.5, 0.5), seed=0)
        >>> sorted([parts["a"], parts["b"]]), sorted([parts["c"], parts["d"]])
        ([0, 1], [0, 1])
    """
    keys, counts = _count(groups, labels)
    wanted = np.outer(shares, counts.sum(axis=0))
    usable = np.array(shares) > 0
    shuffled = np.random.default_rng(seed).permutation(len(keys))
    part_of = np.array([(placed or {}).get(key, -1) for key in keys])
    for key in np.flatnonzero(part_of >= 0):
        wanted[part_of[key]] -= counts[key]
    for label in np.argsort((counts > 0).sum(axis=0), kind="stable"):
        members = [key for key in shuffled if counts[key, label]]
        to_place = [key for key in members if part_of[key] < 0]
        if largest_first:
            to_place.sort(key=lambda k: -counts[k, label])
        lacking = usable & ~np.isin(np.arange(len(shares)), part_of[members])
        for number, key in enumerate(to_place):
            open_to = lacking if lacking.any() and len(to_place) - number <= lacking.sum() else usable
            part = _neediest(wanted, int(label), open_to)
            part_of[key] = part
            lacking[part] = False
            wanted[part] -= counts[key]
    part_of_group = dict(zip(keys, part_of.tolist(), strict=True))
    return {name: part_of_group[group] for name, group in groups.items()}


def _count(groups: Mapping[str, str], labels: Mapping[str, int]) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return the groups in the order of their first names, and their numbers of examples of each class."""
    keys = list(dict.fromkeys(groups[name] for name in sorted(groups)))
    position = {key: number for number, key in enumerate(keys)}
    counts = np.zeros((len(keys), max(labels.values(), default=0) + 1), np.int64)
    for name, group in groups.items():
        counts[position[group], labels[name]] += 1
    return keys, counts


def _neediest(wanted: npt.NDArray[np.float64], label: int, open_to: npt.NDArray[np.bool_]) -> int:
    """Return the part that wants most examples of a class; of equal ones the one that wants most of all."""
    parts = np.flatnonzero(open_to)
    return int(max(parts, key=lambda part: (round(wanted[part, label], 9), wanted[part].sum())))
