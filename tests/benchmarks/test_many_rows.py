"""Rows that are made when they are read, and what training on them reports."""

import numpy as np

from benchmarks.many_rows import NOISE, measured, simulated, table


def test_rows_are_the_same_in_each_pass_and_differ_between_batches():
    data = simulated(300, batch=100)
    first, second = (list(data.as_numpy_iterator()) for _ in range(2))
    assert len(first) == 3
    assert first[0][0].shape == (100, 8)
    np.testing.assert_array_equal(first[2][1], second[2][1])
    assert np.abs(first[0][0] - first[1][0]).min() > 0.0


def test_the_target_is_a_function_of_the_columns_and_noise():
    x, y = next(simulated(20_000, batch=20_000).as_numpy_iterator())
    residual = y - np.sin(2.0 * x[:, 0]) - x[:, 1] * x[:, 2]
    assert abs(residual.std() - NOISE) < 0.01
    assert np.abs(np.corrcoef(residual, x.T)[0, 1:]).max() < 0.03


def test_a_cell_has_time_memory_and_the_error_on_new_rows():
    cell = measured("SVGP", 1000, batch=100)
    assert cell["mib_peak"] >= cell["mib_before"] > 0.0
    assert NOISE < cell["rmse"] < 2.0
    alone = {**measured("rows alone", 1000, batch=100), "rows": 2_000_000, "processor_seconds": 3.0}
    (row,) = table([alone])
    assert row["million rows"] == 2
    assert row["processor seconds a million rows"] == 1.5
    assert row["RMSE on new rows"] == ""
