"""What the benchmark of heads on videos says of its seeds."""

import pytest

from benchmarks.video_heads import mean_and_deviation


@pytest.mark.parametrize(
    ("values", "text"),
    [([0.9206], "0.9206 ± -"), ([0.8, 0.9], "0.8500 ± 0.0707"), ([0.5] * 3, "0.5000 ± 0.0000")],
)
def test_a_single_seed_has_no_deviation(values, text):
    assert mean_and_deviation(values) == text
