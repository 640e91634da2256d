"""Maps of an image's probability: what is fitted, and divisions by whole groups."""

import numpy as np
import pytest

from benchmarks.pool_maps import Tissue, divided, fitted_slope_and_offsets, mapped, rows_of
from pipelines.runs.selection import SelectedPools


def pools(p: np.ndarray, labels: np.ndarray) -> SelectedPools:
    return SelectedPools(np.stack([1 - p, p], axis=1), labels, tuple(map(str, range(len(p)))))


def test_offsets_find_a_class_that_is_more_frequent_than_the_images_say():
    p, labels = np.full(2000, 0.5), (np.arange(2000) % 4 > 0).astype(int)
    slope, low, high = fitted_slope_and_offsets(pools(p, labels), 1.0)
    assert high - low == pytest.approx(np.log(3.0), rel=0.01)
    assert slope == pytest.approx(1.0)
    logits = mapped(pools(p, labels), pools(p[:1], labels[:1]))
    assert list(logits) == ["none", "temperature", *(f"slope and offsets ({d})" for d in (0.25, 0.5, 1))]
    np.testing.assert_allclose(logits["temperature"], logits["none"])


def test_strong_priors_leave_the_map_alone():
    found = fitted_slope_and_offsets(pools(np.array([0.7]), np.array([1])), 1e-4)
    np.testing.assert_allclose(found, [1.0, 0.0, 0.0], atol=0.1)


def test_groups_stay_together_and_every_map_is_scored():
    rng = np.random.default_rng(0)
    images = np.repeat(np.arange(24), 5)
    labels = images % 2
    features = rng.normal(0, 1, (120, 60)) + labels[:, None] * rng.normal(0, 0.5, 60)
    tissue = Tissue(features, labels, (images // 3).astype(str), images.astype(str))
    parts = divided(tissue, rng)
    assert np.sum(parts, axis=0).tolist() == [1] * 120
    for part in parts:
        assert not set(tissue.groups[part]) & set(tissue.groups[~part])
    rows = rows_of("tissue", tissue, 1.0, 2)
    assert [row.map for row in rows][:2] == ["none", "temperature"]
    assert rows[0].difference == 0.0
    assert all(np.isfinite(row.nll) and 0.0 <= row.accuracy <= 1.0 for row in rows)
