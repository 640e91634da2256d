import math
import time
from dataclasses import replace

import numpy as np
import pytest

from pipelines.scores.bootstrap import PairedDifference, paired_bootstrap, summarise_seeds
from pipelines.scores.classification import (
    CLASSIFICATION_SCORES,
    classification_record,
    classification_statistics,
)
from pipelines.scores.results import score_values


def _records(seed, sharpness, examples=20, predictions=200):
    """Labels drawn from one truth for every sharpness; the probability is right at sharpness 1."""
    records = []
    for i in range(examples):
        random = np.random.default_rng([seed, i])
        logit = random.normal(0, 3, predictions)
        label = (random.random(predictions) < 1 / (1 + np.exp(-logit))).astype(int)
        p = 1 / (1 + np.exp(-sharpness * logit))
        entropy = -p * np.log(p) - (1 - p) * np.log1p(-p)
        records.append(classification_record(str(i), label, p, {"predictive_entropy": entropy}))
    return records


def _statistics(*arguments, **keywords):
    return classification_statistics(_records(*arguments, **keywords))


SCORES = [score for score in CLASSIFICATION_SCORES if score.key != "auroc_mutual_information"]


def test_the_better_calibrated_method_is_found():
    result = paired_bootstrap(_statistics(0, 1.0), _statistics(0, 2.0), SCORES, resamples=500)
    for key in ("nll", "ece", "brier"):
        difference = result[key]
        assert difference.difference < 0
        assert difference.lower <= difference.difference <= difference.upper < 0
        assert difference.p_value == pytest.approx(2 / 501)
    # Scaling the logits changes neither labels nor the order of the uncertainties.
    assert result["accuracy"] == PairedDifference(0.0, 0.0, 0.0, 1.0, 500)
    assert abs(result["auroc_predictive_entropy"].difference) < 1e-4


def test_resamples_match_a_loop_over_records():
    """The slow twin: draw the records themselves and score them anew."""
    method, baseline = _records(1, 1.0, examples=6), _records(1, 2.0, examples=6)
    result = paired_bootstrap(
        classification_statistics(method), classification_statistics(baseline), SCORES, resamples=50, seed=3
    )
    random = np.random.default_rng(3)
    slow = []
    for weights in random.multinomial(6, np.full(6, 1 / 6), 50):
        index = np.repeat(np.arange(6), weights)
        values = []
        for records in (method, baseline):
            drawn = [_renamed(records[i], str(n)) for n, i in enumerate(index)]
            values.append(score_values(SCORES, classification_statistics(drawn)))
        slow.append([values[0][score.key] - values[1][score.key] for score in SCORES])
    lower, upper = np.quantile(np.array(slow), [0.025, 0.975], axis=0)
    np.testing.assert_allclose([result[score.key].lower for score in SCORES], lower, atol=1e-10)
    np.testing.assert_allclose([result[score.key].upper for score in SCORES], upper, atol=1e-10)


def _renamed(record, name):
    return type(record)(**{**record.__dict__, "name": name})


@pytest.mark.slow
def test_the_interval_covers_the_truth_as_often_as_it_says():
    """Differences of means of independent examples with a known expectation of 0."""
    score = [next(score for score in CLASSIFICATION_SCORES if score.key == "brier")]
    covered = []
    for seed in range(80):
        a = _statistics(1000 + seed, 1.0, examples=30, predictions=5)
        b = _statistics(5000 + seed, 1.0, examples=30, predictions=5)
        difference = paired_bootstrap(a, b, score, resamples=200, seed=seed)["brier"]
        covered.append(difference.lower <= 0 <= difference.upper)
    assert 0.85 <= np.mean(covered) <= 1.0


def test_undefined_scores_stay_undefined():
    score = [score for score in CLASSIFICATION_SCORES if score.key == "auroc_mutual_information"]
    result = paired_bootstrap(_statistics(0, 1.0), _statistics(0, 2.0), score, resamples=20)
    difference = result["auroc_mutual_information"]
    assert math.isnan(difference.difference)
    assert math.isnan(difference.p_value)
    assert difference.resamples == 0


def test_one_example_gives_a_difference_and_no_interval():
    difference = paired_bootstrap(_statistics(0, 1.0, examples=1), _statistics(0, 2.0, examples=1), SCORES)[
        "nll"
    ]
    assert difference.difference < 0
    assert math.isnan(difference.lower)
    assert math.isnan(difference.p_value)


def test_different_examples_cannot_be_paired():
    with pytest.raises(ValueError, match="same examples in the same order"):
        paired_bootstrap(_statistics(0, 1.0), _statistics(0, 1.0, examples=5), SCORES)


def test_the_same_seed_gives_the_same_result():
    a, b = _statistics(0, 1.0, examples=5), _statistics(0, 2.0, examples=5)
    first, again, other = (paired_bootstrap(a, b, SCORES, resamples=50, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.slow
def test_a_hundred_images_take_seconds():
    a, b = (_statistics(0, s, examples=100, predictions=5000) for s in (1.0, 2.0))
    start = time.perf_counter()
    paired_bootstrap(a, b, SCORES)
    assert time.perf_counter() - start < 30.0  # 1.5 s on two cores, most of it for the histograms


def test_seeds_are_summarised():
    summary = summarise_seeds([{"nll": 1.0, "ece": math.nan}, {"nll": 3.0, "ece": 2.0}])
    assert summary["nll"].mean == 2.0
    assert summary["nll"].standard_deviation == pytest.approx(math.sqrt(2))
    assert (summary["ece"].mean, summary["ece"].runs) == (2.0, 1)
    assert math.isnan(summary["ece"].standard_deviation)
    assert math.isnan(summarise_seeds([{"ece": math.nan}])["ece"].mean)


def test_runs_with_different_scores_are_refused():
    with pytest.raises(ValueError, match="no runs"):
        summarise_seeds([])
    with pytest.raises(ValueError, match="different scores"):
        summarise_seeds([{"nll": 1.0}, {"ece": 1.0}])


def test_groups_are_resampled_as_a_whole():
    """Copies of an example in its group add nothing: the interval is that of the groups."""
    single, single_other = _statistics(0, 1.0), _statistics(0, 2.0)
    many, many_other = (
        classification_statistics(
            [
                replace(record, name=f"{record.name}#{copy}")
                for record in _records(0, sharpness)
                for copy in range(5)
            ]
        )
        for sharpness in (1.0, 2.0)
    )
    groups = [name.partition("#")[0] for name in many.names]
    expected = paired_bootstrap(single, single_other, SCORES, resamples=200)
    grouped = paired_bootstrap(many, many_other, SCORES, groups=groups, resamples=200)
    apart = paired_bootstrap(many, many_other, SCORES, resamples=200)
    for key, difference in expected.items():
        assert grouped[key].lower == pytest.approx(difference.lower)
        assert grouped[key].upper == pytest.approx(difference.upper)
    width = expected["brier"].upper - expected["brier"].lower
    assert apart["brier"].upper - apart["brier"].lower < 0.7 * width


def test_one_group_gives_no_interval():
    statistics, other = _statistics(0, 1.0), _statistics(0, 2.0)
    result = paired_bootstrap(statistics, other, SCORES, groups=["a"] * len(statistics.names))
    assert all(np.isnan(difference.lower) for difference in result.values())
    with pytest.raises(ValueError, match="1 groups for"):
        paired_bootstrap(statistics, other, SCORES, groups=["a"])


@pytest.mark.parametrize(("groups", "least"), [(2, 0.5), (5, 0.0625), (10, 2 / 101)])
def test_few_groups_that_agree_prove_little(groups, least):
    """However clear the difference, n groups cannot show more than n equal signs."""
    good, bad = (_statistics(0, sharpness, examples=20) for sharpness in (3.0, 0.3))
    names = [str(number % groups) for number in range(20)]
    difference = paired_bootstrap(good, bad, SCORES, groups=names, resamples=100)["brier"]
    assert difference.upper < 0 or difference.lower > 0
    assert difference.p_value == pytest.approx(least)
