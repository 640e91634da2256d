"""Guarantees of single classes in an evaluation."""

import numpy as np
import pytest

from benchmarks.simulated_classes import simulated
from pipelines.scores.class_results import COVERAGES, class_results

NAMES = ("a", "b", "c")


def test_each_class_has_the_smallest_share_that_can_be_guaranteed():
    held_out = simulated(np.random.default_rng(0), 900, slope=1.4)
    judged = simulated(np.random.default_rng(1), 4000, slope=1.4)
    found = class_results(held_out, judged, NAMES, shares=(0.2, 0.001, 0.05), noun="images")
    assert [(one.class_name, one.kind) for one in found.limits] == [
        (name, kind) for name in NAMES for kind in ("missed", "false")
    ]
    assert {one.guarantee.max_error for one in found.limits} == {0.05}
    for one in found.limits:
        assert one.judged_share <= 0.06
        assert 0.5 < one.judged_kept < 1
    assert [sets.coverage for sets in found.sets] == list(COVERAGES)
    assert all(sets.covered == pytest.approx(sets.coverage, abs=0.05) for sets in found.sets)


def test_what_no_share_can_be_guaranteed_of_has_the_reason_for_the_largest():
    held_out = simulated(np.random.default_rng(0), 30)
    found = class_results(held_out, held_out, NAMES, shares=(0.01, 0.1), noun="images")
    for one in found.limits:
        assert one.guarantee.max_error == 0.1
        assert one.guarantee.reason.startswith("at least 29 images")
        assert np.isnan(one.judged_share)
        assert np.isnan(one.judged_kept)
