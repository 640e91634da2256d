import numpy as np
import pytest
import scipy.sparse

from pipelines.scores import definitions
from pipelines.scores.definitions import Score, Statistics, ratio


def _statistics(num_examples: int) -> Statistics:
    random = np.random.default_rng(0)
    return Statistics(
        tuple(f"image {i}" for i in range(num_examples)),
        {"count": random.random(num_examples), "table": random.random((num_examples, 2, 3))},
        {"histogram": scipy.sparse.csr_array(random.integers(0, 2, (num_examples, 5)).astype(float))},
    )


def test_sums_weigh_every_row(monkeypatch):
    monkeypatch.setattr(definitions, "EXAMPLES_PER_BLOCK", 2)
    statistics = _statistics(5)
    weights = np.array([[1.0, 0.0, 2.0, 0.0, 3.0], [0.0, 1.0, 0.0, 0.0, 0.0]])
    sums = statistics.sums(weights)
    rows = {**statistics.dense, "histogram": statistics.sparse["histogram"].toarray()}
    assert set(sums) == set(rows)
    assert len(sums) == 3
    for key, row in rows.items():
        np.testing.assert_allclose(sums[key][0], row[0] + 2 * row[2] + 3 * row[4])
        np.testing.assert_allclose(sums[key][1], row[1])


def test_a_score_that_does_not_apply_is_undefined():
    score = Score("a", "A", "All", "higher", "", lambda sums: sums["missing"], needs=("missing",))
    assert np.isnan(score.evaluate(_statistics(2))).tolist() == [True]


def test_ratio_is_undefined_where_the_denominator_is_zero():
    np.testing.assert_array_equal(
        ratio(np.array([1.0, 1.0, 0.0]), np.array([4.0, 0.0, 0.0])), [0.25, np.nan, np.nan]
    )


def test_bad_rows_are_refused():
    with pytest.raises(ValueError, match="no examples to score"):
        Statistics((), {}, {})
    with pytest.raises(ValueError, match="more than once: b"):
        Statistics(("a", "b", "b"), {}, {})
    with pytest.raises(ValueError, match="'count' has 1 rows, expected one for each of 2"):
        Statistics(("a", "b"), {"count": np.ones(1)}, {})
