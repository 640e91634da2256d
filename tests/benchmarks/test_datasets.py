from pathlib import Path

import numpy as np
import pytest

from benchmarks.tabular.datasets import RefusedFileError, load_dataset, load_datasets


def save(folder: Path, **arrays: np.ndarray) -> Path:
    path = folder / "set.npz"
    np.savez(path, **arrays)
    return path


def test_integers_are_classes_from_zero(tmp_path):
    path = save(tmp_path, X=np.eye(4), y=np.array([7, 3, 7, 9]))
    (dataset,) = load_datasets(path)
    assert dataset.task == "classification"
    assert dataset.num_classes == 3
    assert dataset.targets.tolist() == [1, 0, 1, 2]


def test_folds_cover_every_row_once_and_keep_the_classes_shares(tmp_path):
    labels = np.repeat([0, 1], [80, 20])
    (dataset,) = load_datasets(save(tmp_path, X=np.arange(100.0)[:, None], y=labels))
    assert dataset.num_folds() == 10
    tests = [dataset.fold(k, 10)[1] for k in range(10)]
    assert sorted(np.concatenate(tests)) == list(range(100))
    assert all(labels[test].sum() == 2 for test in tests)
    np.testing.assert_array_equal(dataset.fold(3, 10)[1], tests[3])


def test_large_sets_have_three_folds(tmp_path):
    (dataset,) = load_datasets(save(tmp_path, X=np.zeros([5001, 1]), y=np.arange(5001) % 2))
    assert dataset.num_folds() == 3
    assert dataset.num_folds(cut=10) == 10


def test_regression_uses_the_official_split(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"X_train": rng.random((6, 2)), "y_train": rng.random(6)}
    arrays |= {"X_test": rng.random((3, 2)), "y_test": rng.random(3)}
    path = save(tmp_path, X=np.zeros([9, 2]), y=rng.random(9), **arrays)
    (dataset,) = load_datasets(path)
    train, test = dataset.fold(0, 1)
    assert dataset.num_folds(10) == 1
    np.testing.assert_array_equal(dataset.inputs[train], arrays["X_train"])
    np.testing.assert_array_equal(dataset.targets[test], arrays["y_test"])


def test_digits_beside_a_split_are_a_second_set(tmp_path):
    inputs, digits = np.arange(6.0)[:, None], np.array([0, 1, 2, 0, 1, 2])
    path = save(
        tmp_path, X=inputs, y=digits % 2,
        X_train=inputs[:4], y_train=digits[:4] % 2, X_test=inputs[4:], y_test=digits[4:] % 2,
        digit_train=digits[:4], digit_test=digits[4:],
    )  # fmt: skip
    assert [dataset.name for dataset in load_datasets(path)] == ["set", "set_digits"]
    assert load_dataset(tmp_path, "set_digits").targets.tolist() == digits.tolist()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"features": np.eye(2)}, r"found the arrays \['features'\], expected X"),
        (
            {"X": np.eye(2), "y": np.array([0, 1, 1])},
            r"X float64 \[2, 2\], y int64 \[3\], expected X \[N, D\]",
        ),
        ({"X": np.eye(2), "y": np.array(["a", "b"])}, "expected numbers"),
        ({"X": np.full([2, 1], np.nan), "y": np.array([0, 1])}, "NaN"),
        ({"X": np.eye(2), "y": np.array([1, 1])}, "all targets are equal"),
        ({"X": np.array([{}, {}]), "y": np.array([0, 1])}, "without pickled objects"),
    ],
)
def test_what_is_no_data_set_is_refused_with_a_reason(tmp_path, arrays, message):
    path = save(tmp_path, **arrays)
    with pytest.raises(RefusedFileError, match=message):
        list(load_datasets(path))


def test_a_file_that_is_no_archive_is_refused(tmp_path):
    path = tmp_path / "set.npz"
    path.write_bytes(b"not an archive")
    with pytest.raises(RefusedFileError, match=r"set\.npz: cannot be read"):
        list(load_datasets(path))
