import math

import pytest

from benchmarks.tabular.summary import fold_means, paired_test, seconds_to_reach, spread


def record(fold: int, seed: int, error: float) -> dict:
    return {"cell": {"fold": fold, "seed": seed}, "measures": {"error": error}, "seconds": 1.0}


def test_seeds_are_averaged_before_folds():
    records = [record(0, 0, 1.0), record(0, 1, 3.0), record(1, 0, 5.0), record(1, 1, 5.0)]
    assert fold_means(records, "error") == {0: 2.0, 1: 5.0}
    result = spread(records, "error")
    assert (result.mean, result.deviation) == pytest.approx((3.5, math.sqrt(4.5)))


def test_one_fold_is_spread_over_seeds_and_one_record_over_nothing():
    assert spread([record(0, 0, 1.0), record(0, 1, 3.0)], "error").deviation == pytest.approx(math.sqrt(2.0))
    assert math.isnan(spread([record(0, 0, 1.0)], "error").deviation)


def test_the_signed_rank_test_needs_six_pairs():
    worse = dict.fromkeys(range(6), 2.0)
    ours = {fold: 1.0 - 0.1 * fold for fold in range(6)}
    result = paired_test(ours, worse)
    assert (result.test, result.pairs) == ("Wilcoxon", 6)
    assert result.p_value == pytest.approx(2 / 2**6)
    assert result.difference == pytest.approx(-1.25)
    five = {fold: ours[fold] for fold in range(5)}
    assert paired_test(five, worse).test == "paired t"


def test_only_common_folds_are_compared():
    assert paired_test({0: 1.0}, {1: 2.0}) is None
    result = paired_test({0: 1.0, 1: 5.0}, {1: 2.0, 2: 0.0})
    assert (result.difference, result.test) == (3.0, "none")
    assert math.isnan(result.p_value)


@pytest.mark.parametrize("folds", [3, 8])
def test_equal_results_are_no_difference(folds):
    values = dict.fromkeys(range(folds), 0.0)
    assert paired_test(values, values).p_value == 1.0


def test_seconds_to_reach():
    curve = [{"seconds": 1.0, "nlp": 0.5}, {"seconds": 2.0, "nlp": 0.2}, {"seconds": 3.0, "nlp": 0.3}]
    assert seconds_to_reach(curve, 0.25) == 2.0
    assert seconds_to_reach(curve, 0.1) == math.inf
