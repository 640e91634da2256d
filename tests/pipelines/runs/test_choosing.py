"""Which head a run takes: the one with the lowest NLL, or the cheapest one that is as good."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import ttest_rel

from pipelines.runs.choice import HeadChoice
from pipelines.runs.choosing import choose_head, judge_selection, paired_p_value, pool_temperature
from pipelines.runs.selection import GroupLosses, SelectedPoints, SelectedPools, selected_pools


def losses_of(values: np.ndarray) -> GroupLosses:
    """Groups of one image each."""
    names = tuple(f"{number}" for number in range(len(values)))
    return GroupLosses("images", names, np.asarray(values, np.float64), np.ones(len(values)))


NOISE = np.random.default_rng(0).normal(1.0, 0.2, (2, 30))
APART = 0.1 * (-1.0) ** np.arange(30)
"""Differences without a mean, whose standard error is 0.019."""


def test_the_p_value_is_that_of_the_paired_t_test():
    first, second = losses_of(NOISE[0]), losses_of(NOISE[1] + 0.05)
    expected = ttest_rel(first.total, second.total).pvalue
    assert paired_p_value(first, second) == pytest.approx(expected)
    assert paired_p_value(second, first) == pytest.approx(expected)


def test_large_groups_count_more():
    small, large = losses_of(NOISE[0]), losses_of(NOISE[1])
    counts = np.repeat([1.0, 9.0], 15)
    weighted = [GroupLosses("images", one.names, one.total * counts, counts) for one in (small, large)]
    difference = np.average(NOISE[0] - NOISE[1], weights=counts)
    assert weighted[0].mean - weighted[1].mean == pytest.approx(difference)
    assert paired_p_value(*weighted) != pytest.approx(paired_p_value(small, large))


def test_equal_losses_and_a_single_group_are_ties():
    one = losses_of(NOISE[0])
    assert paired_p_value(one, one) == 1.0
    assert paired_p_value(losses_of([1.0]), losses_of([2.0])) is None
    assert paired_p_value(losses_of(np.ones(4)), losses_of(np.full(4, 2.0))) == 2.0**-3


def test_a_head_that_is_as_good_and_cheaper_is_taken():
    """Its NLL is larger by less than 1 % and by less than a standard error; both must hold."""
    base = NOISE[0]
    chosen = choose_head({"hgp": losses_of(base + APART - 0.005), "linear": losses_of(base)}, 9)
    assert (chosen.head, chosen.best, chosen.against) == ("linear", "hgp", "hgp")
    assert chosen.p_value == pytest.approx(0.79, abs=0.01)
    assert list(chosen.nlls) == ["linear", "hgp"]
    assert chosen.sentence().startswith(
        "Take the linear head: of the held-out images (30 groups) its NLL is "
    )
    larger = choose_head({"hgp": losses_of(base + APART - 0.015), "linear": losses_of(base)}, 9)
    assert (larger.head, larger.p_value) == ("hgp", pytest.approx(0.43, abs=0.01))
    assert larger.sentence().endswith("(p 0.43, perhaps by chance).")
    clearer = choose_head({"hgp": losses_of(base + 0.01 * APART - 0.005), "linear": losses_of(base)}, 9)
    assert (clearer.head, clearer.p_value) == ("hgp", pytest.approx(0.0, abs=1e-6))


def test_a_clear_gain_is_taken_and_compared_with_the_best_cheaper_head():
    base = NOISE[0]
    losses = {
        "linear": losses_of(base + APART + 0.5),
        "svgp": losses_of(base + APART + 0.05),
        "hgp": losses_of(base),
        "dfgp": losses_of(base + 1e-3),
    }
    chosen = choose_head(losses, 9)
    assert (chosen.head, chosen.best, chosen.against) == ("hgp", "hgp", "svgp")
    assert chosen.sentence().endswith("; the cheaper svgp head has 1.0257 (p 0.012).")


def test_of_three_the_cheapest_that_is_as_good_is_taken():
    base = NOISE[0]
    losses = {
        "linear": losses_of(base + 0.5),
        "svgp": losses_of(base + APART + 0.005),
        "hgp": losses_of(base),
    }
    chosen = choose_head(losses, 9)
    assert (chosen.head, chosen.best) == ("svgp", "hgp")


def test_after_training_on_one_group_only_a_clear_gain_is_taken():
    base = NOISE[0]
    unclear = {"hgp": losses_of(base + APART - 0.015), "linear": losses_of(base)}
    chosen = choose_head(unclear, 1)
    assert (chosen.head, choose_head(unclear, 2).head) == ("linear", "hgp")
    assert "is within one standard error, as far as can be told after training on a single group, of it" in (
        chosen.sentence()
    )
    assert choose_head({"hgp": losses_of(base + APART - 0.05), "linear": losses_of(base)}, 1).head == "hgp"
    assert choose_head({"linear": losses_of([1.0]), "hgp": losses_of([0.5])}, 1).head == "linear"


def test_a_head_without_a_finite_loss_is_not_taken():
    losses = {"linear": losses_of(np.full(30, np.nan)), "hgp": losses_of(NOISE[0])}
    chosen = choose_head(losses, 9)
    assert (chosen.head, list(chosen.nlls)) == ("hgp", ["hgp"])


def test_a_choice_by_the_rule_of_one_standard_error_says_no_more_than_is_true():
    """As runs of an earlier version have it."""
    told = {
        "judged": "images",
        "groups": 12,
        "p_value": 0.4,
        "nlls": {"linear": 0.25, "svgp": 0.22, "hgp": 0.19},
    }
    tie = HeadChoice(head="linear", best="hgp", against="hgp", **told).sentence()
    assert "the lower one of hgp, 0.1900, is within one standard error of it (p 0.4)" in tie
    clear = HeadChoice(head="hgp", best="hgp", against="linear", **told).sentence()
    assert clear.endswith(
        "the lowest NLL, 0.1900; the cheaper linear head has 0.2500 (p 0.4, perhaps by chance)."
    )


def test_the_first_and_the_only_head():
    base = NOISE[0]
    chosen = choose_head({"linear": losses_of(base), "svgp": losses_of(base + 1.0)}, 9)
    assert (chosen.head, chosen.against, chosen.p_value) == ("linear", None, None)
    assert chosen.sentence().endswith(f"the lowest NLL, {base.mean():.4f}, and no head is cheaper.")
    only = choose_head({"hgp": losses_of(base)}, 9)
    assert only.sentence().endswith("and the run has no other.")


def test_of_one_or_two_groups_the_lowest_is_taken_and_the_sentence_says_how_little_it_means():
    two = choose_head({"linear": losses_of(NOISE[0, :2]), "hgp": losses_of(NOISE[0, :2] - 0.5)}, 9)
    assert (two.head, two.p_value) == ("hgp", 0.5)
    assert "perhaps by chance" in two.sentence()
    alone = choose_head({"linear": losses_of([1.0]), "hgp": losses_of([0.5])}, 9)
    assert alone.head == "hgp"
    assert "(1 group)" in alone.sentence()
    assert "p undefined with one group, perhaps by chance" in alone.sentence()
    assert choose_head({"linear": losses_of([1.0]), "hgp": losses_of([0.995])}, 9).head == "linear"


def test_pools_of_one_group_leave_their_temperature_to_the_prior():
    probability, labels = np.tile([[0.3, 0.7]], (40, 1)), np.ones(40, int)
    own = SelectedPools(probability, labels, tuple(map(str, range(40))))
    one = SelectedPools(probability, labels, ("patient",) * 40)
    assert pool_temperature(own) < 0.6
    assert 0.9 < pool_temperature(one) < 1.0


@pytest.mark.parametrize("calibrates_pools", [True, False])
def test_a_head_is_judged_by_pools_at_their_temperature_where_pools_are_judged(calibrates_pools):
    """Two patches of each of 24 images, two images of each patient; earlier runs have no temperature."""
    examples = [
        SimpleNamespace(name=f"{image}/{number}", image=f"{image}", label=image % 2, group=f"{image // 2}")
        for image in range(24)
        for number in range(2)
    ]
    labels = np.array([example.label for example in examples])
    logits = np.random.default_rng(0).normal(2.0 * labels - 1.0, 0.5)
    points = SelectedPoints(logits, labels, np.ones(48), np.arange(48, dtype=np.int32))
    job = SimpleNamespace(
        data=SimpleNamespace(manifest=SimpleNamespace(examples=examples, select=lambda _: examples)),
        application=SimpleNamespace(
            judge=SimpleNamespace(judged="images"), pooled={"images": lambda example: example.image}
        ),
    )
    found = judge_selection(job, (), points, 1.5, calibrates_pools=calibrates_pools)
    groups = [example.group for example in examples]
    pools = selected_pools(points, 1.5, [example.image for example in examples], groups)
    temperature = pool_temperature(pools)
    assert temperature < 0.8
    assert found.pool_temperatures == ({"images": temperature} if calibrates_pools else {})
    assert (found.losses.judged, len(found.losses.names)) == ("images", 12)
    assert found.losses.count.tolist() == [2.0] * 12
    at = temperature if calibrates_pools else 1.0
    assert found.losses.mean == pytest.approx(pools.losses(at).mean())
    job.application.judge.judged = "patches"  # as where masks give the labels
    assert judge_selection(job, (), points, 1.5, calibrates_pools=True).losses.count.tolist() == [4.0] * 12
