"""What an output has otherwise than another one is noticed, and times are not."""

import json
import math

import cv2
import h5py
import numpy as np
import pytest

from benchmarks.reliability.comparison import compared, deviation, differences


def write_output(folder, *, seconds: float = 1.0, loss: float = 0.5, weight: float = 0.0) -> None:
    folder.mkdir()
    (folder / "state.json").write_text(json.dumps({"seconds": seconds, "history": [{"loss": loss}]}))
    (folder / "predictions.csv").write_text(f"file,seconds\na.png,{seconds}\n")
    np.savez(folder / "sample.npz", images=np.zeros(3))
    (folder / "tensorboard").mkdir()
    (folder / "tensorboard" / f"events.{seconds}").touch()
    with h5py.File(folder / "best.weights.h5", "w") as file:
        file.create_dataset("layers/0", data=np.full(2, weight))


def test_times_are_not_compared_and_all_else_is(tmp_path):
    write_output(tmp_path / "a")
    write_output(tmp_path / "b", seconds=2.0)
    assert not list(differences(compared(tmp_path / "a"), compared(tmp_path / "b")))
    write_output(tmp_path / "c", loss=0.6, weight=1.0)
    (tmp_path / "c" / "sample.npz").unlink()
    (tmp_path / "c" / ".partial-0123abcd-x").touch()
    assert list(differences(compared(tmp_path / "a"), compared(tmp_path / "c"))) == [
        ".partial-0123abcd-x was not there undisturbed",
        "best.weights.h5 differs",
        "sample.npz is missing",
        "state.json differs",
    ]


def test_columns_of_a_table_count_though_it_has_no_rows(tmp_path):
    for name, header in (("a", "file,seconds,x"), ("b", "file,x"), ("c", "x,file")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "table.csv").write_text(header + "\n")
    first, without_times, turned = (compared(tmp_path / name) for name in "abc")
    assert not list(differences(first, without_times))
    assert list(differences(first, turned)) == ["table.csv differs"]


def test_small_deviations_count_only_where_none_are_allowed(tmp_path):
    write_output(tmp_path / "a")
    write_output(tmp_path / "b", loss=0.5 + 1e-7, weight=1e-6)
    first, second = compared(tmp_path / "a"), compared(tmp_path / "b")
    assert list(differences(first, second)) == ["best.weights.h5 differs", "state.json differs"]
    assert not list(differences(first, second, tolerance=1e-5))
    assert list(differences(first, second, tolerance=5e-7)) == ["best.weights.h5 differs by 1e-06"]


@pytest.mark.parametrize(
    ("expected", "found", "far"),
    [
        ({"a": 1.0}, {"a": 1.0}, 0.0),
        ({"a": 1.0}, {"b": 1.0}, math.inf),
        ([1, 2], [1], math.inf),
        ("ok", "failed", math.inf),
        ("3.0", "4.0", 0.25),
        ("0.5", "nan", math.inf),
        (math.nan, math.nan, 0.0),
        ("100000001", "100000002", math.inf),
        (1_000_000, 1_000_001, math.inf),
        (np.array([1_000_000]), np.array([1_000_001]), math.inf),
        (np.zeros(2), np.zeros(3), math.inf),
        (np.zeros(2), np.zeros(2, np.float32), math.inf),
        (np.array([1.0, 3.0]), np.array([1.0, 4.0]), 0.25),
        (np.array([1.0]), np.array([np.nan]), math.inf),
        (np.array(["a"]), np.array(["b"]), math.inf),
        (b"ab", b"ac", math.inf),
    ],
)
def test_deviation(expected, found, far):
    assert deviation(expected, found) == far


def test_equal_numbers_of_other_bits_deviate():
    assert 0.0 < deviation(np.array([0.0]), np.array([-0.0])) < 1e-300


def test_neighbouring_levels_of_a_picture_are_rounding(tmp_path):
    pictures = np.full((3, 4, 4), 7, np.uint16)
    pictures[1, 0, 0], pictures[2, 0, 0] = 8, 5
    for name, picture in zip("abc", pictures, strict=True):
        (tmp_path / name).mkdir()
        cv2.imwrite(str(tmp_path / name / "map.png"), picture)
    first, neighbour, far = (compared(tmp_path / name) for name in "abc")
    assert list(differences(first, neighbour)) == ["map.png differs"]
    assert not list(differences(first, neighbour, tolerance=1e-5))
    assert list(differences(first, far, tolerance=1e-5)) == ["map.png differs by 2e-05"]
