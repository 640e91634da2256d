"""When AutoGP may leave the SVGP it starts from: a gain of held-out rows that is clear, and of many rows."""

import dataclasses

import numpy as np
import pytest

from gpmodels.estimators.autogp.estimators import is_clear_gain
from gpmodels.estimators.fitting.mini_batch import Rows


def held_out(count, **settings):
    rows = Rows(np.zeros([count, 1]), np.zeros(count), np.ones(count), np.zeros(1), np.ones(1))
    return dataclasses.replace(rows, **settings)


@pytest.mark.parametrize(
    ("gain", "is_clear"),
    [
        (np.full(1000, 0.05), True),
        (np.full(100, 0.05), False),  # 5 nats in all: one more row can lose more
        (np.r_[np.full(980, 0.1), np.full(20, -4.0)], False),  # a gain in the mean, but not a clear one
        (np.full(1000, -0.1), False),
    ],
)
def test_a_gain_over_the_start_must_be_clear(gain, is_clear):
    start = np.random.default_rng(0).normal(size=len(gain))
    assert is_clear_gain(start + gain, start, held_out(len(gain))) is is_clear


def test_rows_of_a_group_and_of_no_weight_are_no_evidence():
    gain, start = np.full(1000, 0.1), np.zeros(1000)
    assert is_clear_gain(gain, start, held_out(1000, groups=np.arange(1000)))
    assert not is_clear_gain(gain, start, held_out(1000, groups=np.arange(1000) // 50))
    assert not is_clear_gain(gain, start, held_out(1000, weight=np.r_[1.0, np.full(999, 1e-3)]))
