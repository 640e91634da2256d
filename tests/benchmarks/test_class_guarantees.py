"""The benchmark of guarantees of classes: counts over draws, and halves of whole groups."""

import numpy as np

from benchmarks.class_guarantees import counted, halves, of_each_class
from benchmarks.simulated_classes import simulated
from pipelines.scores.class_guarantees import Limit
from pipelines.scores.guarantees import ReferralErrors


def test_no_group_is_in_both_halves():
    names = tuple(f"{number:03}" for number in range(60))
    group_of = {name: f"{int(name) // 4}" for name in names}
    number = np.arange(60.0)
    errors = ReferralErrors(names, number, np.zeros(60), np.zeros(60, int), np.ones((60, 1)))
    one, other = halves(errors, group_of, seed=0)
    assert sorted([*one.uncertainty, *other.uncertainty]) == number.tolist()
    assert not {int(value) // 4 for value in one.uncertainty} & {
        int(value) // 4 for value in other.uncertainty
    }
    assert (one.unit.max(), other.unit.max()) == (6, 7)


def test_counts_are_of_all_draws():
    world = simulated(np.random.default_rng(9), 20_000, slope=1.4)
    draws = [(simulated(np.random.default_rng(seed), 300, slope=1.4), world) for seed in range(5)]
    impossible, missed, sets = counted(
        "set", "method", draws, [[Limit("missed", 0.001, 0)], [Limit("missed", 0.1, 0)]]
    )
    assert (impossible.draws, impossible.given, impossible.value) == (5, 0, None)
    assert (missed.draws, missed.given) == (5, 5)
    assert missed.kept >= 4
    assert 0.02 < missed.value < 0.11
    assert 0.5 < missed.not_referred < 1
    assert (sets.guarantee, sets.given) == ("sets 0.9", 5)
    assert 1 <= sets.not_referred < 2
    assert len(of_each_class(3)) == 3 * 4 * 3
