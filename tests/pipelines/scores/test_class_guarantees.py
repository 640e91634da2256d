"""Guarantees of single classes, and several at once, against risks that are known."""

from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks.simulated_classes import simulated
from pipelines.scores.class_guarantees import Limit, ReferralRule, joint_guarantee
from pipelines.scores.held_out import HeldOut

WORLD = simulated(np.random.default_rng(99), 100_000, slope=1.4)
"""So many examples that shares among them are those of the distribution."""


def risk(rule: ReferralRule, held_out: HeldOut, limit: Limit) -> float:
    """Return the share that a limit is about, written out anew."""
    kept = rule.keeps(held_out.predicted, held_out.probability, held_out.uncertainty)
    if limit.kind == "missed":
        return float(np.mean((kept & (held_out.predicted != limit.place))[held_out.truth == limit.place]))
    counted = kept if limit.kind == "error" else kept & (held_out.predicted == limit.place)
    return float(np.mean(held_out.predicted[counted] != held_out.truth[counted])) if counted.any() else 0.0


@pytest.mark.sweep("slow")
@pytest.mark.parametrize(
    ("limits", "parts"),
    [
        ([Limit("missed", 0.05, 1)], 1),
        ([Limit("false", 0.05, 1)], 1),
        ([Limit("missed", 0.05, 1), Limit("false", 0.08, 1)], 1),
        ([Limit("error", 0.05), Limit("missed", 0.08, 1)], 2),
        ([Limit("missed", 0.08, 0), Limit("false", 0.1, 1)], 2),
    ],
)
def test_all_guarantees_hold_together_in_19_of_20_draws(limits: Sequence[Limit], parts: int) -> None:
    draws, broken, kept = 150, 0, []
    for seed in range(draws):
        found = joint_guarantee(simulated(np.random.default_rng(seed), 500, slope=1.4), limits)
        assert found.parts == parts
        if found.refused:
            continue
        broken += any(risk(found.rule, WORLD, limit) > limit.share for limit in limits)
        kept.append(found.rule.keeps(WORLD.predicted, WORLD.probability, WORLD.uncertainty).mean())
    assert len(kept) > draws / 2
    assert broken <= 0.05 * draws + 3 * np.sqrt(draws * 0.05 * 0.95)
    assert np.mean(kept) > 0.6


def test_groups_are_the_units():
    """Ten examples of a group are one piece of evidence: with them as units the guarantee would break."""
    limit, world = (
        Limit("missed", 0.08, 1),
        simulated(np.random.default_rng(5), 60_000, groups=6000, slope=1.4),
    )
    broken = given = 0
    for seed in range(100):
        held_out = simulated(np.random.default_rng(seed), 900, groups=90, slope=1.4)
        found = joint_guarantee(held_out, [limit])
        given += not found.refused
        broken += not found.refused and risk(found.rule, world, limit) > limit.share
    assert given > 50
    assert broken <= 5 + 3 * np.sqrt(4.75)


def test_more_are_missed_up_to_the_next_example_alone():
    """Between two of its examples a threshold costs a class nothing, so the larger one is taken."""
    number = 400
    probability = np.tile([0.9, 0.1], (number, 1))
    truth = np.zeros(number, int)
    truth[:200] = 1
    probability[:198] = [0.2, 0.8]  # two of class 1 are taken for class 0, with 0.1 and 0.3
    probability[199] = [0.7, 0.3]
    held_out = HeldOut(np.zeros(number), np.zeros(number), np.arange(number), truth, probability)
    allowed = joint_guarantee(held_out, [Limit("missed", 0.04, 1)])
    assert allowed.rule.missed == {1: 1.0}
    strict = joint_guarantee(held_out, [Limit("missed", 0.025, 1)])
    assert 0.29999 < strict.rule.missed[1] < 0.3


def test_what_cannot_be_guaranteed_has_its_reason():
    held_out = simulated(np.random.default_rng(0), 100)
    limits = [Limit("missed", 0.001, 0), Limit("false", 0.3, 2)]
    found = joint_guarantee(held_out, limits, noun="images")
    ((limit, given),) = found.refused
    assert limit is limits[0]
    assert "3688 images of this class are needed" in given.reason  # ln(0.025) / ln(0.999)
    assert (found.rule.missed, set(found.rule.false)) == ({}, {2})
    absent = HeldOut(np.zeros(9), np.zeros(9), np.arange(9), np.zeros(9, int), np.tile([1.0, 0.0], (9, 1)))
    assert (
        "there are no images of this class"
        in joint_guarantee(absent, [Limit("missed", 0.1, 1)], noun="images").refused[0][1].reason
    )


def test_a_second_guarantee_of_another_part_takes_only_its_confidence():
    """Missed and false ones of a class are referred apart, so that each is found as if it were alone."""
    held_out, limits = (
        simulated(np.random.default_rng(3), 600),
        [Limit("missed", 0.05, 1), Limit("false", 0.1, 1)],
    )
    both = joint_guarantee(held_out, limits)
    alone = [joint_guarantee(held_out, [limit], confidence=0.975) for limit in limits]
    assert both.rule == ReferralRule(None, alone[0].rule.missed, alone[1].rule.false)
    assert {given.confidence for _, given in both.guarantees} == {0.975}


@pytest.mark.parametrize("number", [1, 2, 3])
def test_parts_without_an_example_guarantee_nothing(number):
    held_out = simulated(np.random.default_rng(0), number)
    limits = [Limit("missed", 0.9, 0), Limit("false", 0.9, 1), Limit("error", 0.9)]
    found = joint_guarantee(held_out, limits, noun="images")
    assert found.parts == 3
    assert found.refused
    assert all(given.needed > 0 or given.reason.startswith("there are no") for _, given in found.refused)


def test_a_class_that_is_never_the_most_probable_one_is_referred_where_it_may_be():
    truth = np.arange(160) % 2
    probability = np.tile([0.9, 0.1], (160, 1))
    probability[truth == 1] = np.linspace([0.8, 0.2], [0.6, 0.4], 80)
    held_out = HeldOut(np.zeros(160), truth.astype(float), np.arange(160), truth, probability)
    found = joint_guarantee(held_out, [Limit("missed", 0.05, 1)])
    assert not found.refused
    assert 0.19999 < found.rule.missed[1] < 0.2  # just below the first of the class


def test_maps_have_no_guarantees_of_classes():
    maps = HeldOut(np.zeros(2), np.zeros(2), np.arange(2), np.zeros(0, int), np.zeros(0))
    with pytest.raises(ValueError, match="no classes"):
        joint_guarantee(maps, [Limit("missed", 0.1, 0)])
