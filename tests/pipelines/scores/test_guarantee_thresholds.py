"""The guarantee of a referral threshold, on simulated data whose risk is known."""

import math

import numpy as np
import pytest
from scipy import stats

from pipelines.scores import guarantee_thresholds
from pipelines.scores.guarantee_sizes import units_needed
from pipelines.scores.guarantee_thresholds import (
    Guarantee,
    SelectiveErrors,
    _betting_p_values,
    referral_threshold,
)

DRAWS = 2000
MOST_VIOLATED = stats.binom.ppf(0.999, DRAWS, 0.05) / DRAWS
"""What a rule that is violated in 5 % of draws exceeds in one of 1,000 such simulations."""


def wrong_share(uncertainty: np.ndarray) -> np.ndarray:
    """P(wrong | u) of the simulations, for u uniform on (0, 1)."""
    return 0.002 + 0.3 * uncertainty**3


def risk(threshold: float) -> float:
    """P(wrong | u <= t): the mean of `wrong_share` up to t."""
    return 0.002 + 0.3 * threshold**3 / 4


def independent(generator: np.random.Generator, number: int) -> SelectiveErrors:
    uncertainty = generator.random(number)
    wrong = generator.random(number) < wrong_share(uncertainty)
    return SelectiveErrors(uncertainty, wrong.astype(float), np.arange(number))


def grouped(generator: np.random.Generator, groups: int, size: int) -> SelectiveErrors:
    """The examples of a group are all wrong or all right, and nearly equally uncertain."""
    of_group = generator.random(groups)
    wrong = generator.random(groups) < wrong_share(of_group)
    uncertainty = np.repeat(of_group, size) + 1e-6 * generator.random(groups * size)
    return SelectiveErrors(
        uncertainty, np.repeat(wrong, size).astype(float), np.repeat(np.arange(groups), size)
    )


def violated(guarantee: Guarantee) -> bool:
    return guarantee.threshold is not None and risk(guarantee.threshold) > guarantee.max_error


@pytest.mark.slow
@pytest.mark.parametrize(("number", "max_error"), [(300, 0.05), (1000, 0.02)])
def test_it_is_violated_in_at_most_5_percent_of_draws(number, max_error):
    generator = np.random.default_rng(number)
    guarantees = [referral_threshold(independent(generator, number), max_error) for _ in range(DRAWS)]
    assert np.mean([violated(guarantee) for guarantee in guarantees]) <= MOST_VIOLATED
    assert np.mean([guarantee.threshold is not None for guarantee in guarantees]) > 0.5


def test_with_dependent_examples_it_holds_by_groups_and_not_without():
    generator = np.random.default_rng(1)
    by_groups, ignored = [], []
    for _ in range(400):
        judged = grouped(generator, groups=120, size=15)
        by_groups.append(violated(referral_threshold(judged, 0.05)))
        alone = SelectiveErrors(judged.uncertainty, judged.error, np.arange(judged.unit.size))
        ignored.append(violated(referral_threshold(alone, 0.05)))
    assert np.mean(by_groups) <= stats.binom.ppf(0.999, 400, 0.05) / 400
    assert np.mean(ignored) > 0.2


def noisy(generator: np.random.Generator, number: int) -> SelectiveErrors:
    """Five of a hundred labels are wrong whatever the model says, and further ones where it is unsure."""
    uncertainty = generator.random(number)
    wrong = generator.random(number) < 0.05 + 0.3 * uncertainty**3
    return SelectiveErrors(uncertainty, wrong.astype(float), np.arange(number))


def test_a_few_errors_among_the_most_certain_do_not_end_it():
    generator = np.random.default_rng(5)
    found = [referral_threshold(noisy(generator, 240), 0.15).threshold for _ in range(400)]
    given = [one for one in found if one is not None]
    assert len(given) > 300  # from one start alone 164
    oracle = (4 * (0.15 - 0.05) / 0.3) ** (1 / 3)  # where the risk is .15: more than all
    assert oracle > 1
    assert np.mean(given) > 0.6


@pytest.mark.parametrize(
    ("number", "first", "asked"),
    [
        (400, 70, [(57, 0.025), (199, 0.025)]),
        (400, 200, [(57, 0.025), (199, 0.05)]),  # the first one has come to the second one's start
        (100, 100, [(57, 0.05)]),  # not enough for two
    ],
)
def test_two_sequences_share_the_level(monkeypatch, number, first, asked):
    judged = SelectiveErrors(np.arange(1.0 * number), np.zeros(number), np.arange(number))
    said = []

    def passed(_judged, _max_error, start, level):
        said.append((start, round(level, 6)))
        return first if len(said) == 1 else number

    monkeypatch.setattr(guarantee_thresholds, "_passed", passed)
    assert referral_threshold(judged, 0.1).threshold == number - 1
    assert said == asked


@pytest.mark.slow
def test_at_a_risk_just_above_the_limit_two_sequences_are_violated_in_5_percent_of_draws():
    generator = np.random.default_rng(6)
    broken = [
        referral_threshold(
            SelectiveErrors(
                generator.random(240), (generator.random(240) < 0.2).astype(float), np.arange(240)
            ),
            0.2,
        ).threshold
        is not None
        for _ in range(DRAWS)
    ]
    assert np.mean(broken) <= MOST_VIOLATED


@pytest.mark.slow
def test_maps_hold_it_with_images_as_units():
    """Shares of wrong pixels, a few images with many: the mean over images is what is guaranteed."""
    generator = np.random.default_rng(2)
    violations, found = 0, 0
    for _ in range(500):
        uncertainty = generator.random(300)
        share = generator.beta(0.3, 0.3 * (1 / wrong_share(uncertainty) - 1))
        guarantee = referral_threshold(SelectiveErrors(uncertainty, share, np.arange(300)), 0.05)
        violations += violated(guarantee)
        found += guarantee.threshold is not None
    assert violations / 500 <= stats.binom.ppf(0.999, 500, 0.05) / 500
    assert found > 250


@pytest.mark.slow
def test_with_plenty_of_examples_it_keeps_nearly_what_may_be_kept():
    generator = np.random.default_rng(3)
    oracle = (4 * (0.02 - 0.002) / 0.3) ** (1 / 3)
    assert risk(oracle) == pytest.approx(0.02)
    for judged in (independent(generator, 60_000), grouped(generator, groups=20_000, size=2)):
        guarantee = referral_threshold(judged, 0.02)
        assert guarantee.threshold is not None
        assert 0.88 * oracle < guarantee.threshold < 1.01 * oracle


def test_the_betting_p_value_is_a_p_value_and_is_small_where_the_risk_is():
    """At a risk of exactly α it is at most δ in at most a share δ of draws."""
    generator = np.random.default_rng(4)
    p_values = []
    for _ in range(DRAWS):
        error = generator.random(200) < 0.05
        judged = SelectiveErrors(np.zeros(200), error.astype(float), np.arange(200))
        p_values.append(_betting_p_values(judged.loss(0.05), 0.05)[0])
    for level in (0.05, 0.2):
        assert np.mean(np.array(p_values) <= level) <= stats.binom.ppf(0.999, DRAWS, level) / DRAWS
    certain = SelectiveErrors(np.zeros(200), np.zeros(200), np.arange(200))
    assert _betting_p_values(certain.loss(0.05), 0.05)[0] < 1e-3


@pytest.mark.parametrize("binomial", [True, False])
@pytest.mark.parametrize("max_error", [0.01, 0.02, 0.1, 0.5])
def test_the_number_needed_is_the_least_that_does(binomial, max_error):
    needed = units_needed(max_error, binomial=binomial)
    assert needed == pytest.approx(math.log(20 if binomial else 40) / max_error, rel=0.5)

    def found(units: int) -> bool:
        repeats = 1 if binomial else 2
        unit = np.repeat(np.arange(units), repeats)
        perfect = SelectiveErrors(np.zeros(unit.size), np.zeros(unit.size), unit, "groups")
        return referral_threshold(perfect, max_error).threshold is not None

    assert not found(needed - 1)
    assert found(needed)


def test_a_refusal_says_why():
    few = SelectiveErrors(np.arange(100.0), np.zeros(100), np.arange(100) // 2, "patients")
    guarantee = referral_threshold(few, 0.02)
    assert guarantee.threshold is None
    assert guarantee.reason == (
        f"at least {guarantee.needed} patients are needed, even if none of them is wrong, and there are 50"
    )
    bad = SelectiveErrors(np.arange(1000.0), (np.arange(1000) % 2).astype(float), np.arange(1000))
    said = referral_threshold(bad, 0.1).reason
    assert said.startswith("of the 10% most certain 0.495 are wrong, not clearly less than 0.1: ")


def test_reality_counts_each_unit_the_same():
    judged = SelectiveErrors(
        np.array([0.1, 0.2, 0.9, 0.1]), np.array([1.0, 0.0, 1.0, 0.0]), np.array([0, 0, 0, 1])
    )
    kept, error = judged.reality(0.5)
    assert kept == pytest.approx((2 / 3 + 1) / 2)
    assert error == pytest.approx((1 / 3) / (2 / 3 + 1))
    assert math.isnan(judged.reality(0.0)[1])


def test_a_guarantee_says_what_it_keeps_as_reality_does():
    sizes = np.repeat(np.arange(1, 101), 2)
    unit = np.repeat(np.arange(200), sizes)
    error = (unit >= 120).astype(float)
    judged = SelectiveErrors(unit / 200, error, unit)
    guarantee = referral_threshold(judged, 0.1)
    assert guarantee.kept == judged.reality(guarantee.threshold)[0]
    assert guarantee.kept > 0.6 > np.mean(judged.uncertainty <= guarantee.threshold)


def test_what_cannot_be_judged_is_refused():
    with pytest.raises(ValueError, match="must be \\[N\\]"):
        SelectiveErrors(np.zeros(0), np.zeros(0), np.zeros(0, int))
    with pytest.raises(ValueError, match="not finite"):
        SelectiveErrors(np.array([np.nan]), np.zeros(1), np.zeros(1, int))
    with pytest.raises(ValueError, match="shares"):
        SelectiveErrors(np.zeros(1), np.full(1, 1.5), np.zeros(1, int))
    with pytest.raises(ValueError, match="without gaps"):
        SelectiveErrors(np.zeros(1), np.zeros(1), np.ones(1, int))
    with pytest.raises(ValueError, match="in \\(0, 1\\)"):
        referral_threshold(SelectiveErrors(np.zeros(1), np.zeros(1), np.zeros(1, int)), 1.0)
