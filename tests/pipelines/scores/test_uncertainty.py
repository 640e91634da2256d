import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from pipelines.scores.uncertainty import (
    UNCERTAINTY_BINS,
    bin_edges,
    error_auroc,
    histogram_rows,
    referral_accuracy,
    risk_coverage_area,
    risk_coverage_curve,
    uncertainty_bin,
    uncertainty_histogram,
)

LN2 = np.log(2.0)


def _dense(uncertainty, right, num_classes=2):
    _, sparse = histogram_rows("u", [uncertainty_histogram(uncertainty, right, num_classes)])
    return sparse["u/right"].toarray()[0], sparse["u/wrong"].toarray()[0]


def _realistic(random, count=20_000):
    """Mostly confident predictions whose errors sit where the probability is near one half."""
    logit = random.normal(0.0, 6.0, count)
    p = 1.0 / (1.0 + np.exp(-logit))
    confidence = np.maximum(p, 1.0 - p)
    entropy = -p * np.log(p) - (1 - p) * np.log1p(-p)
    return entropy.astype(np.float32), random.random(count) < confidence


def test_bins_keep_the_order_and_lie_between_their_edges():
    u = np.sort(np.concatenate([np.geomspace(1e-10, LN2, 5000), LN2 - np.geomspace(1e-7, 0.3, 5000)]))
    index = uncertainty_bin(u, 2)
    assert (np.diff(index) >= 0).all()
    edges = bin_edges(2)
    assert edges.shape == (UNCERTAINTY_BINS + 1,)
    assert (edges[0], edges[-1]) == (0.0, LN2)
    np.testing.assert_array_less(edges[index] - 1e-9, u)
    np.testing.assert_array_less(u, edges[index + 1] + 1e-9)


def test_the_ends_and_rounding_beyond_them_are_counted():
    histogram = uncertainty_histogram(
        np.array([-1e-7, 0.0, LN2, LN2 + 1e-7]), np.array([True, True, False, True])
    )
    assert histogram.bins.tolist() == [0, UNCERTAINTY_BINS - 1]
    assert histogram.right.tolist() == [2, 1]
    assert histogram.wrong.tolist() == [0, 1]
    assert histogram.total == pytest.approx(2 * LN2)


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.1, 0.8])
def test_impossible_uncertainty_is_refused(value):
    with pytest.raises(ValueError, match=r"expected nats from 0 to ln 2 = 0\.6931"):
        uncertainty_histogram(np.array([0.1, value]), np.array([True, True]))


def test_shapes_must_agree():
    with pytest.raises(ValueError, match="must have one shape"):
        uncertainty_histogram(np.zeros(3), np.ones(2, bool))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_auroc_matches_the_exact_one(seed, scale):
    """Also where all uncertainties are tiny, as mutual information is: equal bins would see one value."""
    u, right = _realistic(np.random.default_rng(seed))
    u = (u * scale).astype(np.float32)
    exact = roc_auc_score(~right, u)
    assert exact > 0.8
    assert error_auroc(*_dense(u, right)) == pytest.approx(exact, abs=3e-4)


def test_auroc_with_exact_ties_matches_the_exact_one():
    random = np.random.default_rng(3)
    u = random.integers(0, 5, 1000) * 0.1
    right = random.random(1000) > u
    assert error_auroc(*_dense(u, right)) == pytest.approx(roc_auc_score(~right, u), abs=1e-12)


def test_edge_cases_are_undefined_or_chance():
    right, wrong = np.array([2.0, 3.0]), np.zeros(2)
    assert np.isnan(error_auroc(right, wrong))
    assert np.isnan(error_auroc(wrong, right))
    assert np.isnan(error_auroc(wrong, wrong))
    assert np.isnan(risk_coverage_area(wrong, wrong))
    assert np.isnan(referral_accuracy(wrong, wrong, 0.1))
    assert referral_accuracy(right, wrong, 0.1) == 1.0
    assert risk_coverage_area(right, wrong) == 0.0
    assert error_auroc(*_dense(np.full(10, 0.3), np.arange(10) > 2)) == 0.5
    assert referral_accuracy(*_dense(np.full(10, 0.3), np.arange(10) > 2), 0.2) == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("right", "wrong", "referred", "expected"),
    [
        ([8, 0], [0, 2], 0.2, 1.0),  # exactly the wrong ones
        ([8, 0], [0, 2], 0.1, 8 / 9),  # one of the two wrong ones is left
        ([4, 4], [0, 2], 0.3, 1 - 1 / 7),  # half of a bin with 4 right and 2 wrong
        ([0, 5, 0, 5], [0, 0, 0, 0], 0.5, 1.0),  # empty bins around the limit
        ([0, 4, 0, 0], [0, 1, 0, 5], 0.5, 0.8),
        ([3, 0], [1, 0], 0.0, 0.75),  # nothing referred
    ],
)
def test_referral_accuracy_by_hand(right, wrong, referred, expected):
    result = referral_accuracy(np.array(right, float), np.array(wrong, float), referred)
    assert result == pytest.approx(expected)


@pytest.mark.parametrize("referred", [0.05, 0.1, 0.2])
def test_referral_accuracy_matches_sorting(referred):
    u, right = _realistic(np.random.default_rng(5))
    kept = right[np.argsort(u, kind="stable")[: round((1 - referred) * u.size)]]
    assert referral_accuracy(*_dense(u, right), referred) == pytest.approx(kept.mean(), abs=2e-4)


def test_risk_coverage_matches_sorting():
    u, right = _realistic(np.random.default_rng(6))
    wrong_kept = np.cumsum(~right[np.argsort(u, kind="stable")])
    risk = wrong_kept / np.arange(1, u.size + 1)
    counts = _dense(u, right)
    assert risk_coverage_area(*counts) == pytest.approx(risk.mean(), rel=0.01)
    curve = risk_coverage_curve(*counts, points=10)
    np.testing.assert_allclose(curve.coverage, np.arange(1, 11) / 10)
    np.testing.assert_allclose(curve.risk, risk[np.arange(1, 11) * u.size // 10 - 1], atol=2e-4)


def test_risk_coverage_area_by_hand():
    # Coverage up to 1/2: no error. Then risk(c) = (c - 1/2) / c: the integral is 1/2 - ln(2)/2.
    assert risk_coverage_area(np.array([2.0, 0.0]), np.array([0.0, 2.0])) == pytest.approx(0.5 - LN2 / 2)


counts = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=8)


@settings(deadline=None)
@given(counts)
def test_scores_agree_with_slow_twins(pairs):
    right, wrong = np.array(pairs, float).T
    if right.sum() and wrong.sum():
        assert error_auroc(right, wrong) == pytest.approx(_slow_auroc(pairs))
    if right.sum() + wrong.sum():
        fine = risk_coverage_curve(right, wrong, points=20_000).risk
        assert risk_coverage_area(right, wrong) == pytest.approx(fine.mean(), abs=5e-4)
        for referred in (0.05, 0.5):
            index = round((1 - referred) * 20_000) - 1
            assert 1 - referral_accuracy(right, wrong, referred) == pytest.approx(fine[index], abs=1e-9)


def _slow_auroc(pairs):
    won = 0.0
    for i, (_, wrong) in enumerate(pairs):
        for j, (right, _) in enumerate(pairs):
            won += wrong * right * (1.0 if i > j else 0.5 if i == j else 0.0)
    return won / (sum(r for r, _ in pairs) * sum(w for _, w in pairs))


@settings(deadline=None)
@given(counts)
def test_leading_axes_are_independent(pairs):
    right, wrong = np.array(pairs, float).T
    both = np.stack([right, right[::-1]]), np.stack([wrong, wrong[::-1]])
    for score in (error_auroc, risk_coverage_area, lambda r, w: referral_accuracy(r, w, 0.1)):
        np.testing.assert_allclose(score(*both)[0], score(right, wrong))
        np.testing.assert_allclose(score(*both)[1], score(right[::-1], wrong[::-1]))
