"""Reading a state dict without PyTorch: strides, and everything that is refused."""

import hashlib
import pickle
from pathlib import Path

import numpy as np
import pytest

from data_prep.errors import InputError
from pipelines.trunks.torch_files import read_state
from tests.pipelines.trunks.torch_file import legacy_file


def read(folder: Path, content: bytes) -> dict[str, np.ndarray]:
    path = folder / "state.pth"
    path.write_bytes(content)
    return read_state(path, sha256=hashlib.sha256(content).hexdigest())


def test_arrays_come_back_with_their_strides_and_offsets(tmp_path):
    base = np.arange(60, dtype=np.float32)
    cube = np.arange(24, dtype=np.float32)
    arrays = {
        "plain": np.arange(6, dtype=np.float32),
        "transposed": cube.reshape(2, 3, 4).transpose(2, 0, 1),  # not contiguous
        "part": base[7:55].reshape(4, 12)[1:3, 2:10:3],  # an offset, and steps
        "shared": base[10:12],  # another view of the same storage
        "steps": np.array([3], np.int64).reshape(()),
    }
    found = read(tmp_path, legacy_file(arrays))
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].flags.c_contiguous
        np.testing.assert_array_equal(found[name], array)


def test_a_file_of_another_content_is_not_parsed(tmp_path, monkeypatch):
    path = tmp_path / "state.pth"
    path.write_bytes(legacy_file({"a": np.zeros(3, np.float32)}))
    monkeypatch.setattr(
        "pipelines.trunks.torch_files._StateUnpickler", lambda _: pytest.fail("it was parsed")
    )
    with pytest.raises(
        InputError, match=r"has the SHA-256 .* but 000000000000\.\.\. was expected.*not read further"
    ):
        read_state(path, sha256="0" * 64)
    with pytest.raises(InputError, match="cannot be read"):
        read_state(tmp_path / "missing.pth", sha256="0" * 64)


class Evil:
    def __reduce__(self):
        return print, ("run",)


def test_a_name_that_no_state_dict_needs_is_refused(tmp_path, capsys):
    with pytest.raises(
        pickle.UnpicklingError, match=r"asks for (builtins|__builtin__)\.print, which no state dict needs"
    ):
        read(tmp_path, legacy_file({"a": np.zeros(3, np.float32), "b": Evil()}))
    assert capsys.readouterr().out == ""
