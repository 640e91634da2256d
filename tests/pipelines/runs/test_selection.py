"""What a head says of the selection part: its losses by groups, and its pools."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.special
from sklearn.metrics import log_loss

from pipelines.runs.selection import (
    SelectedCounts,
    SelectedNumbers,
    SelectedPoints,
    SelectedVotes,
    group_losses,
    selected_pools,
    selection_temperature,
    usable_pools,
)
from pipelines.scores.counts import count_distribution
from pipelines.scores.pool_calibration import at_temperature


def points_of(logits: np.ndarray, labels: np.ndarray) -> SelectedPoints:
    """Examples of one point each."""
    number = len(labels)
    return SelectedPoints(logits, labels, np.ones(number, np.float32), np.arange(number, dtype=np.int32))


def test_losses_are_those_of_the_probabilities_at_a_temperature():
    rng = np.random.default_rng(0)
    two = points_of(rng.normal(0, 3, 50).astype(np.float32), rng.integers(0, 2, 50))
    assert two.losses(2.0).mean() == pytest.approx(
        log_loss(two.labels, scipy.special.expit(two.logits / 2.0).astype(np.float64))
    )
    three = points_of(rng.normal(0, 3, (50, 3)), rng.integers(0, 3, 50))
    probability = scipy.special.softmax(three.logits / 0.7, axis=1)
    assert three.losses(0.7).mean() == pytest.approx(log_loss(three.labels, probability, labels=[0, 1, 2]))
    for points in (two, three):
        chosen = points.probabilities(1.3)[np.arange(50), points.labels.astype(int)]
        np.testing.assert_allclose(points.losses(1.3), -np.log(chosen))
    assert points_of(np.array([-1e4]), np.array([1])).losses(1.0) == pytest.approx(-np.log(2.0**-23))


def test_a_pool_is_the_mean_of_its_examples_at_their_temperature():
    points = points_of(np.array([2.0, -1.0, 0.5, 3.0]), np.array([1, 0, 1, 0]))
    pools = selected_pools(points, 2.0, ["b", "a", "b", "a"], ["g", "h", "g", "h"])
    p = scipy.special.expit(points.logits / 2.0)
    expected = [(p[1] + p[3]) / 2, (p[0] + p[2]) / 2]
    np.testing.assert_allclose(pools.probability[:, 1], expected)
    assert (pools.labels.tolist(), pools.groups) == ([0, 1], ("h", "g"))
    changed = at_temperature(pools.probability, 0.5)
    np.testing.assert_allclose(pools.losses(0.5), -np.log([changed[0, 0], changed[1, 1]]))


def test_pools_and_votes_of_which_nothing_counts_are_as_if_they_were_not_there():
    rng, counts = np.random.default_rng(0), np.arange(12) < 8
    logits, labels, groups = (
        rng.normal(size=(12, 3)),
        rng.integers(0, 3, 12),
        [f"g{n // 2}" for n in range(12)],
    )
    examples = np.arange(12, dtype=np.int32)
    all_of_them = SelectedPoints(logits, labels, counts.astype(float), examples)
    rest = SelectedPoints(logits[:8], labels[:8], np.ones(8), examples[:8])
    pooled = selected_pools(all_of_them, 1.0, groups, groups)
    expected = selected_pools(rest, 1.0, groups[:8], groups[:8])
    np.testing.assert_allclose(pooled.probability, expected.probability)
    assert (pooled.labels.tolist(), pooled.groups) == (expected.labels.tolist(), expected.groups)

    shares = rng.dirichlet(np.ones(3), 12)
    number = np.arange(12) // 2
    of_all, of_rest = (
        SelectedVotes(
            np.repeat(logits[chosen], 3, axis=0),
            np.tile(np.arange(3), chosen.sum()),
            (shares * counts[:, None])[chosen].ravel(),
            np.repeat(np.arange(chosen.sum(), dtype=np.int32), 3),
        ).effective_fraction(number[chosen])
        for chosen in (np.ones(12, bool), counts)
    )
    assert of_all == pytest.approx(of_rest)


def test_groups_sum_what_counts():
    losses, weights = np.array([1.0, 2.0, 4.0, 8.0, 16.0]), np.array([1.0, 0.0, 1.0, 1.0, 0.0])
    found = group_losses("images", losses, weights, np.array([0, 0, 1, 2, 3]), ["a", "b", "a", "c"])
    assert found.names == ("a", "b")  # nothing of c counts
    assert (found.total.tolist(), found.count.tolist()) == ([9.0, 4.0], [2.0, 1.0])
    assert found.mean == pytest.approx(13 / 3)


def test_only_pools_of_one_class_and_several_examples_are_calibrated():
    examples = [
        SimpleNamespace(name=f"{image}/{number}", image=image, label=label)
        for image, label in (("a", 0), ("b", 1))
        for number in range(2)
    ]
    pooled = {"images": lambda example: example.image, "patches": lambda example: example.name}
    assert usable_pools(pooled, examples, examples[1:3]) == {"images": ["a", "b"]}
    examples[0].label = 1
    assert usable_pools(pooled, examples, examples) == {}


def numbers(stated: float, each: int, groups: int = 60) -> tuple[SelectedNumbers, list[str]]:
    """Numbers whose errors have the deviation 1, half of it of their groups, and that state another one."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(groups), each)
    truth = np.sqrt(0.5) * (rng.normal(size=groups)[group] + rng.normal(size=len(group)))
    logits = np.stack([np.zeros(len(group)), np.full(len(group), stated**2)], axis=1)
    points = SelectedNumbers(logits, truth, np.ones(len(group)), np.arange(len(group), dtype=np.int32))
    return points, [f"g{number}" for number in group]


@pytest.mark.parametrize("stated", [0.5, 2.0])
def test_a_temperature_of_numbers_mends_the_deviation_that_is_stated(stated):
    points, groups = numbers(stated, 4)
    temperature = selection_temperature(points, groups=groups)
    assert temperature == pytest.approx(1.0 / stated, rel=0.15)
    assert points.losses(temperature).mean() < points.losses(1.0).mean()
    deviation = temperature * stated
    expected = 0.5 * np.log(2.0 * np.pi) + np.log(deviation) + 0.5 * np.square(points.labels / deviation)
    np.testing.assert_allclose(points.losses(temperature), expected)


def test_numbers_whose_errors_are_not_alike_in_groups_count_each():
    """Sizes of errors are alike anywhere, as none is negative; only what groups have in common repeats."""
    rng = np.random.default_rng(1)
    points, groups = numbers(0.5, 10, groups=6)
    alone = replace(points, labels=rng.normal(size=60))
    assert selection_temperature(alone, groups=groups) == pytest.approx(
        selection_temperature(alone, groups=[str(i) for i in range(60)]), rel=0.02
    )


def test_one_group_of_numbers_moves_the_temperature_a_little():
    points, _ = numbers(0.5, 4)
    together = selection_temperature(points, groups=["one"] * len(points.labels))
    assert 1.0 < together < selection_temperature(points, groups=[str(i) for i in range(len(points.labels))])


@pytest.mark.parametrize(("ratio", "expected"), [(4.0, 2.0), (0.25, 1.0)])
def test_counts_vary_as_poissons_at_least(ratio, expected):
    """Of counts that vary less a smaller deviation would be no distribution of counts."""
    rng = np.random.default_rng(0)
    mean = np.full(400, 60.0)
    truth = np.round(mean + np.sqrt(ratio * mean) * rng.normal(size=400))
    logits = np.stack([mean, mean], axis=1)
    points = SelectedCounts(logits, truth, np.ones(400), np.arange(400, dtype=np.int32))
    temperature = selection_temperature(points, groups=[str(number) for number in range(400)])
    assert temperature == pytest.approx(expected, rel=0.1)
    expected_losses = -count_distribution(mean, temperature**2 * mean).logpmf(truth)
    np.testing.assert_allclose(points.losses(temperature), np.minimum(expected_losses, 15.9424), rtol=1e-5)


@pytest.mark.parametrize(("deviation", "expected"), [(0.5, 1.0), (1.5, 1.5), (4.0, 4.0)])
def test_a_head_less_sure_than_another_one_is_taken_to_be_as_sure(deviation, expected):
    """Of its points that trained neither, whose mean ratio is geometric; one that is surer stays."""
    truth = np.zeros(6)
    mean, others = np.linspace(-1.0, 1.0, 6), np.array([0.1, 0.2, 0.4, 0.8, 1.6, 3.2])

    def numbers(deviations: np.ndarray) -> SelectedNumbers:
        found = points_of(np.stack([mean, np.square(deviations)], axis=1), truth)
        return SelectedNumbers(found.logits, found.labels, found.weights, found.examples)

    ours = numbers(deviation * others * np.array([0.5, 2.0, 0.5, 2.0, 1.0, 1.0]))
    held_out = numbers(np.full(6, 7.0)).no_less_sure(ours, numbers(others))
    np.testing.assert_allclose(np.sqrt(held_out.logits[:, 1]), 7.0 / expected)
    np.testing.assert_array_equal(held_out.logits[:, 0], mean)
