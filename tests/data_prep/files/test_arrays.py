"""Named arrays are read back, and damaged files are refused by one kind of error."""

from pathlib import Path

import numpy as np
import pytest

from data_prep.files.arrays import read_arrays


def test_arrays_come_back_by_their_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", first=np.arange(3), second=np.ones((2, 2), np.float32))
    found = read_arrays(tmp_path / "a.npz")
    assert list(found) == ["first", "second"]
    np.testing.assert_array_equal(found["first"], np.arange(3))
    assert found["second"].dtype == np.float32


@pytest.mark.parametrize("damage", ["missing", "text", "single", "cut", "object", "compression", "encrypted"])
def test_what_is_no_archive_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.npz"
    if damage == "text":
        path.write_text("no archive")
    elif damage == "single":
        with path.open("wb") as file:
            np.save(file, np.ones(3))
    elif damage == "cut":
        np.savez(path, first=np.arange(1000))
        path.write_bytes(path.read_bytes()[:500])
    elif damage == "object":
        np.savez(path, first=np.array([{}], dtype=object))
    elif damage in {"compression", "encrypted"}:
        np.savez(path, first=np.arange(3))
        content = bytearray(path.read_bytes())
        header = content.rindex(b"PK\x01\x02")  # of the member, in the directory at the end
        content[header + (10 if damage == "compression" else 8)] = 99 if damage == "compression" else 1
        path.write_bytes(content)
    with pytest.raises(
        ValueError,
        match=r"not supported|encrypted|No such file|pickled|single array|File is not|Object arrays",
    ):
        read_arrays(path)
