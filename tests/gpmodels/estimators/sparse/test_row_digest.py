"""The digest of rows: alike for the same ones in any order and for no others, above all of whole numbers."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from gpmodels.estimators.sparse import row_digest as module
from gpmodels.estimators.sparse.row_digest import row_digest


def test_files_of_every_release_have_the_same_digest():
    x = np.arange(6.0).reshape(3, 2)
    assert row_digest(x, np.array([0.0, 1.0, 2.0])) == 856222399965345.0


def test_order_memory_and_byte_order_make_no_difference(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 3)), rng.normal(size=300)
    expected, order = row_digest(x, y), rng.permutation(300)
    assert row_digest(x[order], y[order]) == expected
    assert row_digest(np.asfortranarray(x), y) == expected
    assert row_digest(x.astype(">f8"), y) == expected
    monkeypatch.setattr(module, "_CHUNK_VALUES", 40)  # 30 parts, whose sum exceeds 64 bits
    assert row_digest(x, y) == expected


def test_minus_zero_is_zero():
    x = np.array([[0.0, 1.0]])
    assert row_digest(-x * [1.0, -1.0], x[:, 0]) == row_digest(x, x[:, 0])


@pytest.mark.parametrize("of", ["labels", "columns", "values"])
def test_no_exchange_of_small_whole_numbers_goes_unseen(of):
    rng = np.random.default_rng(0)
    x, y = rng.integers(3, size=(200, 4)).astype(float), rng.integers(2, size=200).astype(float)
    expected, seen = row_digest(x, y), 0
    for _ in range(300):
        other, labels = x.copy(), y.copy()
        i, j = rng.choice(200, 2, replace=False)
        k, m = rng.choice(4, 2, replace=False)
        if of == "labels":
            labels[[i, j]] = labels[[j, i]]
        elif of == "columns":
            other[:, [k, m]] = other[:, [m, k]]
        else:
            other[i, k], other[i, m] = other[i, m], other[i, k]
        before = sorted(map(tuple, np.column_stack([x, y])))
        if sorted(map(tuple, np.column_stack([other, labels]))) != before:
            seen += 1
            assert row_digest(other, labels) != expected
    assert seen > 50


def test_columns_of_digits_cannot_be_exchanged():
    x, y = load_digits(return_X_y=True)
    expected = row_digest(x, y)
    for k in range(63):
        order = np.arange(64)
        order[[k, k + 1]] = k + 1, k
        assert row_digest(x[:, order], y) != expected or (x[:, k] == x[:, k + 1]).all()
