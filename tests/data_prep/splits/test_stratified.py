"""Each class is in every part as far as its groups allow, and no group is torn."""

from collections import Counter

import numpy as np
import pytest

from data_prep.errors import InputError
from data_prep.splits.divide import assign_stratified_folds, assign_stratified_fraction
from data_prep.splits.stratified import stratified_parts


def random_set(seed: int) -> tuple[dict[str, str], dict[str, int]]:
    """Groups of 1 to 6 examples, some of several classes; the last class has two groups."""
    generator = np.random.default_rng(seed)
    groups, labels = {}, {}
    for group in range(int(generator.integers(15, 40))):
        rare = group < 2
        for number in range(int(generator.integers(1, 7))):
            name = f"{group}_{number}"
            groups[name] = f"group {group}"
            labels[name] = 3 if rare else int(generator.choice([group % 3, generator.integers(3)]))
    return groups, labels


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.8, 0.2), (0.98, 0.02), (1 / 3, 1 / 3, 1 / 3)])
@pytest.mark.parametrize("seed", range(8))
def test_classes_are_in_every_part_and_groups_are_whole(shares: tuple[float, ...], seed: int) -> None:
    groups, labels = random_set(seed)
    parts = stratified_parts(groups, labels, shares, seed)
    assert parts.keys() == groups.keys()
    assert len({(groups[name], part) for name, part in parts.items()}) == len(set(groups.values()))
    for label in range(4):
        num_groups = len({groups[name] for name in groups if labels[name] == label})
        sizes = Counter(parts[name] for name in groups if labels[name] == label)
        assert len(sizes) == min(num_groups, len(shares))
    totals = Counter(parts.values())
    for part, share in enumerate(shares):
        assert totals[part] == pytest.approx(share * len(groups), abs=12)  # two groups of the largest size


def test_single_examples_are_divided_to_one() -> None:
    labels = {
        f"{label}_{number}": label for label, size in enumerate((84, 216, 97)) for number in range(size)
    }
    groups = {name: name for name in labels}
    parts = stratified_parts(groups, labels, (0.5, 0.5), seed=0)
    assert Counter(labels[name] for name, part in parts.items() if part == 1) == {0: 42, 1: 108, 2: 48}
    assert parts == stratified_parts(groups, labels, (0.5, 0.5), seed=0)
    assert parts != stratified_parts(groups, labels, (0.5, 0.5), seed=1)


@pytest.mark.parametrize("seed", range(8))
def test_every_seed_divides_anew_without_the_largest_first(seed: int) -> None:
    """Groups that all differ in size have one order by size; classes are in both parts all the same."""
    sizes = dict(enumerate((31, 17, 23, 12, 40, 8, 27, 19)))
    groups = {f"{group}_{number}": str(group) for group, size in sizes.items() for number in range(size)}
    labels = {name: int(int(group) % 2) for name, group in groups.items()}

    def halves(seed: int, *, largest_first: bool) -> tuple[tuple[str, int], ...]:
        parts = stratified_parts(groups, labels, (0.5, 0.5), seed, largest_first=largest_first)
        assert {(labels[name], part) for name, part in parts.items()} == {(0, 0), (0, 1), (1, 0), (1, 1)}
        return tuple(sorted({(groups[name], part) for name, part in parts.items()}))

    assert halves(seed, largest_first=True) == halves(0, largest_first=True)
    assert len({halves(10 * seed + other, largest_first=False) for other in range(10)}) > 3


@pytest.mark.parametrize(("fraction", "sides"), [(0.0, {"train"}), (1.0, {"test"}), (0.5, {"train", "test"})])
def test_fraction(fraction: float, sides: set[str]) -> None:
    assigned = assign_stratified_fraction(*random_set(0), fraction, seed=0)
    assert {assignment.split for assignment in assigned.values()} == sides


def test_one_group_cannot_be_divided() -> None:
    groups, labels = {"a": "line 1", "b": "line 1"}, {"a": 0, "b": 1}
    with pytest.raises(
        InputError, match=r"All 2 examples belong to one group \(line 1\).*test_fraction to 0 or 1"
    ):
        assign_stratified_fraction(groups, labels, 0.5, seed=0)
    assert {one.split for one in assign_stratified_fraction(groups, labels, 1, seed=0).values()} == {"test"}


def test_folds() -> None:
    groups, labels = random_set(1)
    assigned = assign_stratified_folds(groups, labels, 4, seed=2)
    assert {assignment.fold for assignment in assigned.values()} == {0, 1, 2, 3}
    assert all(assignment.group == groups[name] for name, assignment in assigned.items())
    with pytest.raises(InputError, match="99 folds were asked for, but there are"):
        assign_stratified_folds(groups, labels, 99, seed=0)
