"""What is kept of the held-out predictions."""

import numpy as np
import pytest

from benchmarks.simulated_classes import simulated
from data_prep.errors import InputError
from pipelines.scores.held_out import HeldOut, class_place, read_held_out


def test_what_is_written_is_read(tmp_path):
    held_out = simulated(np.random.default_rng(0), 20, groups=7)
    held_out.write(tmp_path / "a.npz")
    read = read_held_out(tmp_path / "a.npz")
    for name, array in held_out.arrays().items():
        np.testing.assert_allclose(read.arrays()[name], array)
    assert read.has_classes


def test_maps_have_no_classes(tmp_path):
    maps = HeldOut(np.array([0.1, 0.2]), np.zeros(2), np.array([0, 1]), np.zeros(0, int), np.zeros(0))
    maps.write(tmp_path / "a.npz")
    assert not read_held_out(tmp_path / "a.npz").has_classes


@pytest.mark.parametrize(
    "changed",
    [
        {"uncertainty": np.array([np.nan, 0.0])},
        {"unit": np.array([0, 2])},
        {"truth": np.array([0, 3])},
        {"truth": np.array([0])},
        {"probability": np.full((2, 2), np.nan)},
        {"probability": np.zeros((3, 2))},
        {"error": np.array([0.0, 2.0])},
        {"error": None},
    ],
)
def test_a_damaged_file_is_named(tmp_path, changed):
    good = HeldOut(np.zeros(2), np.zeros(2), np.arange(2), np.array([0, 1]), np.eye(2)).arrays()
    arrays = {name: value for name, value in (good | changed).items() if value is not None}
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=r"a\.npz is damaged .* continue the training with --resume"):
        read_held_out(tmp_path / "a.npz")


def test_a_bundle_of_an_earlier_version_is_named(tmp_path):
    with pytest.raises(InputError, match=r"does not hold what its model predicts .* with --resume"):
        read_held_out(tmp_path / "held_out.npz")


def test_the_quantile_counts_each_unit_the_same():
    uncertainty = np.array([0.1, 0.9, 0.9, 0.9, 0.2, 0.3])
    held_out = HeldOut(uncertainty, np.zeros(6), np.array([0, 1, 1, 1, 2, 3]), np.zeros(0, int), np.zeros(0))
    assert held_out.quantile(0.25) == (0.3, 0.25)
    assert np.mean(uncertainty > 0.3) == 0.5  # of the examples, but one unit of four
    assert held_out.quantile(0.99) == (0.1, 0.75)


def test_classes_are_found_by_name():
    assert class_place("b", ["a", "b"]) == 1
    with pytest.raises(InputError, match="found the class 'c', expected one of a, b"):
        class_place("c", ["a", "b"])
