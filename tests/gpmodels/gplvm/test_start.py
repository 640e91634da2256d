"""Scaling and principal components, with missing values."""

import numpy as np
import pytest

from gpmodels.gplvm.start import principal_scores, scaling_of


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 2)) @ rng.normal(size=(2, 8)) + 0.05 * rng.normal(size=(60, 8)) + 3.0


def test_one_deviation_for_all_columns_keeps_quiet_ones_quiet(rows):
    rows[:, 0] = 5.0 + 1e-3 * rows[:, 0]
    common, columns = scaling_of(rows, "common"), scaling_of(rows, "columns")
    assert len(set(common.deviation)) == 1
    assert common.standardised(rows)[:, 0].std() < 1e-2
    np.testing.assert_allclose(columns.standardised(rows).std(axis=0), 1.0)
    assert scaling_of(rows, None).deviation.tolist() == [1.0] * 8


def test_constant_columns_stay_finite():
    rows = np.column_stack([np.full(5, 0.1), np.full(5, 1e9)])
    for scale in ("common", "columns", None):
        assert (scaling_of(rows, scale).standardised(rows) == 0.0).all()


@pytest.mark.parametrize("scale", ["common", "columns"])
def test_the_unit_does_not_matter(rows, scale):
    small = 1e-14 * rows
    expected = scaling_of(rows, scale).standardised(rows)
    np.testing.assert_allclose(scaling_of(small, scale).standardised(small), expected, atol=1e-9)
    assert scaling_of(np.zeros((4, 1)), scale).deviation.tolist() == [1.0]


def test_scaling_is_of_what_was_seen(rows):
    holed = np.where(np.random.default_rng(1).random(rows.shape) < 0.2, np.nan, rows)
    standardised = scaling_of(holed, "columns").standardised(holed)
    np.testing.assert_allclose(np.nanmean(standardised, axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.nanstd(standardised, axis=0), 1.0)
    restored = scaling_of(holed, "columns").restored(standardised)
    np.testing.assert_allclose(restored, holed)


@pytest.mark.parametrize("transposed", [False, True])
def test_scores_are_white_and_of_the_largest_components(rows, transposed):
    centred = rows.T - rows.T.mean(axis=0) if transposed else rows - rows.mean(axis=0)
    scores = principal_scores(centred, 2, np.random.default_rng(0))
    np.testing.assert_allclose(scores.T @ scores / len(scores), np.eye(2), atol=1e-9)
    left = np.linalg.svd(centred, full_matrices=False)[0][:, :2]
    np.testing.assert_allclose(np.abs(left.T @ scores) / np.sqrt(len(scores)), np.eye(2), atol=1e-9)


def test_missing_values_hardly_move_the_scores(rows):
    centred = rows - rows.mean(axis=0)
    holed = np.where(np.random.default_rng(1).random(rows.shape) < 0.2, np.nan, centred)
    expected = principal_scores(centred, 2, np.random.default_rng(0))
    found = principal_scores(holed, 2, np.random.default_rng(0))
    correlation = np.linalg.svd(expected.T @ found / 60)[1]
    assert correlation.min() > 0.97


def test_rounding_is_not_taken_for_a_component():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 6))
    scores = principal_scores(rows - rows.mean(axis=0), 4, rng)
    np.testing.assert_allclose(scores[:, :2].std(axis=0), 1.0)
    np.testing.assert_allclose(scores[:, 2:].std(axis=0), 0.1, rtol=0.3)


def test_dimensions_beyond_the_rank_are_small_random_numbers():
    scores = principal_scores(np.outer(np.arange(9.0) - 4.0, [1.0, 0.0, 0.0]), 3, np.random.default_rng(0))
    assert scores[:, 0].std() == pytest.approx(1.0)
    assert 0.0 < scores[:, 1:].std() < 0.3
