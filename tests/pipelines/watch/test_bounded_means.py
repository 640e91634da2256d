"""Whether a mean is at most a limit: both errors at any time, and how many more losses are needed."""

import numpy as np
import pytest
import scipy.stats

from pipelines.watch.bounded_means import mean_test

CONFIDENCE = 0.9


def last_verdicts(draw_losses, limit: float, number: int) -> list[str]:
    """Return what is said at the end of streams; what was said at any time stays."""
    return [
        mean_test(draw_losses(np.random.default_rng(seed)), limit, CONFIDENCE).verdict
        for seed in range(number)
    ]


def bernoulli(mean: float, length: int):
    return lambda rng: (rng.random(length) < mean).astype(np.float64)


def of_groups(mean: float, length: int):
    """Losses of groups: shares, half of which are 0."""
    return lambda rng: np.where(rng.random(length) < 0.5, 0.0, rng.beta(0.5, 0.25 / mean - 0.5, length))


@pytest.mark.parametrize(
    ("number", "length"), [(100, 300), pytest.param(600, 3000, marks=pytest.mark.slow)], ids=["few", "many"]
)
@pytest.mark.parametrize("losses", [bernoulli, of_groups])
@pytest.mark.parametrize("limit", [0.02, 0.1])
def test_at_the_limit_neither_answer_is_given_too_often(losses, limit, number, length):
    verdicts = last_verdicts(losses(limit, length), limit, number)
    for wrong in ("kept", "broken"):
        found = verdicts.count(wrong)
        assert scipy.stats.binomtest(found, number, 1 - CONFIDENCE, "greater").pvalue > 1e-3
        if length > 1000:
            assert found > 0.2 * (1 - CONFIDENCE) * number  # or more labels were asked for than needed


@pytest.mark.parametrize(
    ("mean", "limit", "right", "length"),
    [
        (0.0, 0.02, "kept", 170),
        (0.005, 0.02, "kept", 1500),
        (0.1, 0.02, "broken", 150),
        (0.4, 0.1, "broken", 60),
    ],
)
def test_the_right_answer_comes(mean, limit, right, length):
    verdicts = last_verdicts(bernoulli(mean, length), limit, 50)
    assert verdicts.count(right) >= 40


@pytest.mark.sweep("slow")
@pytest.mark.parametrize(
    ("wrong", "number", "limit"),
    [(0, 50, 0.02), (1, 30, 0.02), (2, 40, 0.02), (3, 100, 0.02), (8, 50, 0.1), (5, 60, 0.05), (1, 8, 0.1)],
)
def test_about_so_many_more_are_needed(wrong, number, limit):
    losses = np.zeros(number)
    losses[np.linspace(0, number - 1, wrong).astype(int)] = 1
    said = mean_test(losses, limit)
    assert said.verdict == "not known yet"
    if not wrong:
        assert mean_test(np.zeros(number + said.more), limit).verdict == "kept"
        assert mean_test(np.zeros(number + said.more - 3), limit).verdict != "kept"
    rng, needed = np.random.default_rng(0), []
    for _ in range(31):
        more = (rng.random(10 * said.more) < losses.mean()).astype(np.float64)
        stream = np.concatenate([losses, more])
        known, unknown = stream.size, number
        while known - unknown > 1:  # a verdict stays
            middle = (known + unknown) // 2
            is_known = mean_test(stream[:middle], limit).verdict != "not known yet"
            known, unknown = (middle, unknown) if is_known else (known, middle)
        needed.append(known - number)
    assert 0.5 <= said.more / np.median(needed) <= 2


def test_an_error_at_the_limit_needs_more_than_are_counted():
    losses = np.zeros(50)
    losses[25] = 1
    assert mean_test(losses, 0.02).more is None


def test_no_losses_need_what_the_guarantee_takes():
    said = mean_test(np.zeros(0), 0.1)
    assert np.isnan(said.mean)
    assert said.more == pytest.approx(33, abs=1)


@pytest.mark.parametrize(
    ("losses", "limit", "confidence"),
    [
        ([1.5], 0.1, 0.9),
        ([-0.1], 0.1, 0.9),
        ([np.nan], 0.1, 0.9),
        ([0], 0, 0.9),
        ([0], 1, 0.9),
        ([0], 0.1, 1),
    ],
)
def test_what_is_not_allowed(losses, limit, confidence):
    with pytest.raises(ValueError, match="must be in"):
        mean_test(np.array(losses, np.float64), limit, confidence)
