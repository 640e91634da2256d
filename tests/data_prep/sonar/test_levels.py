"""Speckle normalisation: independent of gain and depth, the same one by one and in a batch."""

import numpy as np
import pytest
from pydantic import ValidationError

from data_prep.sonar.levels import normalise_speckle, prepare_snapshot, prepare_snapshots, resize_levels
from data_prep.sonar.settings import SpeckleNormalisation

LOG = SpeckleNormalisation()
NONE = SpeckleNormalisation(method="none")


def speckled(*shape: int) -> np.ndarray:
    """Rayleigh-distributed levels, as a single look of a sonar has."""
    return np.random.default_rng(0).rayleigh(20.0, shape).astype(np.float32)


def test_result_does_not_depend_on_the_gain() -> None:
    levels = speckled(24, 20)
    np.testing.assert_array_equal(normalise_speckle(levels, LOG), normalise_speckle(0.125 * levels, LOG))


def test_sixteen_bits_give_the_result_of_eight() -> None:
    levels = np.clip(speckled(24, 20), 0, 255).astype(np.uint8)
    deep = levels.astype(np.uint16) * 257
    for settings in (LOG, NONE):
        np.testing.assert_array_equal(normalise_speckle(deep, settings), normalise_speckle(levels, settings))
    assert resize_levels(deep, (7, 9)).max() <= 255
    np.testing.assert_allclose(resize_levels(deep, (7, 9)), resize_levels(levels, (7, 9)), rtol=1e-5)


def test_percentiles_become_black_and_white() -> None:
    settings = SpeckleNormalisation(percentiles=(10, 80))
    result = normalise_speckle(speckled(100, 100), settings)
    assert (result == 0).mean() == pytest.approx(0.10, abs=0.01)
    assert (result == 255).mean() == pytest.approx(0.20, abs=0.01)


def test_equal_factors_become_equal_steps() -> None:
    # A geometric series: but for the offset, the logarithm is a straight line.
    steps = np.diff(normalise_speckle(1000.0 * 2.0 ** np.arange(6).reshape(1, 6), LOG)[0, 2:].astype(int))
    assert steps.max() - steps.min() <= 5


def test_a_batch_is_normalised_one_by_one() -> None:
    batch = np.stack([speckled(8, 8), 9 * speckled(8, 8)[::-1]])
    np.testing.assert_array_equal(
        normalise_speckle(batch, LOG), [normalise_speckle(one, LOG) for one in batch]
    )


@pytest.mark.parametrize("level", [0, 77])
def test_a_single_level_becomes_black(level: int) -> None:
    assert not normalise_speckle(np.full((5, 5), level, np.uint8), LOG).any()


def test_without_normalisation_levels_stay() -> None:
    levels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    snapshot = prepare_snapshot(levels, (16, 16), NONE)
    assert snapshot.dtype == np.uint8
    np.testing.assert_array_equal(snapshot, np.repeat(levels[:, :, np.newaxis], 3, axis=2))


def test_many_snapshots_are_prepared_as_one_by_one() -> None:
    pieces = [np.rint(speckled(*size)).astype(np.uint16) for size in ((20, 12), (9, 9), (40, 31))]
    together = prepare_snapshots(pieces, (8, 6), LOG)
    np.testing.assert_array_equal(together, [prepare_snapshot(piece, (8, 6), LOG) for piece in pieces])


def test_only_levels_of_one_channel_are_taken() -> None:
    with pytest.raises(ValueError, match=r"Expected uint8 or uint16 levels \[height, width\], found float64"):
        resize_levels(np.ones((4, 4)), (2, 2))


def test_percentiles_must_be_in_order() -> None:
    with pytest.raises(ValidationError, match="the lower one first"):
        SpeckleNormalisation(percentiles=(99, 1))
