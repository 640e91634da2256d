"""Reading the arrays of a PyTorch state dict without PyTorch, from a file whose content is known before.

Such a file is a pickle, which may run any program when it is read. So its SHA-256 is compared with a pinned
one before a byte is parsed, and what parses it knows an ordered dictionary, a tensor and its storage, and
nothing else.

Two layouts exist. The one before PyTorch 1.6 is five pickles after each other (a magic number, the version of
the protocol, facts of the system, the dictionary, the keys of the storages), then each storage: its number of
elements as a little-endian 64-bit integer, and the elements. The later one is a zip archive with the
dictionary as `data.pkl` and a file `data/KEY` for each storage.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from data_prep.errors import InputError

_MAGIC: Final = 0x1950A86A20F9469CFC6C
_PROTOCOL: Final = 1001
_STORAGES: Final = {
    "DoubleStorage": np.dtype("<f8"),
    "FloatStorage": np.dtype("<f4"),
    "HalfStorage": np.dtype("<f2"),
    "LongStorage": np.dtype("<i8"),
    "IntStorage": np.dtype("<i4"),
}


@dataclass(frozen=True)
class _Storage:
    """Elements that tensors are views of."""

    key: str
    dtype: np.dtype[Any]
    size: int


@dataclass(frozen=True)
class _Tensor:
    """A view of a storage; offset and strides count elements."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def array(self, elements: NDArray[Any]) -> NDArray[Any]:
        """Return a copy of the view as a contiguous array.

        Raises:
            ValueError: It reaches beyond the storage.
        """
        if len(self.shape) != len(self.strides) or min((self.offset, *self.shape, *self.strides)) < 0:
            raise ValueError(f"a tensor of shape {self.shape} has strides {self.strides}")
        last = self.offset + sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))
        if 0 not in self.shape and last >= len(elements):
            raise ValueError(f"a tensor of shape {self.shape} reaches beyond its {len(elements)} elements")
        steps = tuple(step * elements.itemsize for step in self.strides)
        view = np.lib.stride_tricks.as_strided(elements[self.offset :], self.shape, steps, writeable=False)
        return np.array(view, order="C")


def read_state(path: Path, *, sha256: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a state dict by their names.

    Args:
        path: File that `torch.save` wrote.
        sha256: SHA-256 of its content, in hexadecimal digits.

    Raises:
        InputError: The file cannot be read, has another content, or is no state dict.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}). Expected a file of weights.") from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise InputError(
            f"{path} has the SHA-256 {found[:12]}... and {len(content)} bytes, but {sha256[:12]}... was "
            "expected: it is damaged, or another file. It was not read further. Install its package again."
        )
    try:
        read = _read_archive if zipfile.is_zipfile(io.BytesIO(content)) else _read_legacy
        return read(content)
    except (ValueError, TypeError, KeyError, IndexError, EOFError, AttributeError, OverflowError) as error:
        raise InputError(f"{path} is no state dict that can be read ({error}).") from error
    except (pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is no state dict that can be read ({error}).") from error


def _read_legacy(content: bytes) -> dict[str, NDArray[Any]]:
    file = io.BytesIO(content)
    magic, protocol, system = (_StateUnpickler(file).load() for _ in range(3))
    if magic != _MAGIC or protocol != _PROTOCOL:
        raise ValueError(f"found magic number {magic!r} and protocol {protocol!r}")
    if not system.get("little_endian", True):
        raise ValueError("its numbers are big-endian")
    tensors = _tensors(_StateUnpickler(file).load())
    needed = {tensor.storage.key: tensor.storage for tensor in tensors.values()}
    storages = {}
    for key in _StateUnpickler(file).load():
        size = int.from_bytes(_exactly(file, 8), "little")
        if key not in needed or size != needed[key].size:
            raise ValueError(f"the storage {key!r} of {size} elements is not what its tensors need")
        dtype = needed[key].dtype
        storages[key] = np.frombuffer(_exactly(file, size * dtype.itemsize), dtype)
    return _arrays(tensors, storages)


def _read_archive(content: bytes) -> dict[str, NDArray[Any]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        (main,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        folder = main.removesuffix("data.pkl")
        if f"{folder}byteorder" in archive.namelist() and archive.read(f"{folder}byteorder") != b"little":
            raise ValueError("its numbers are big-endian")
        tensors = _tensors(_StateUnpickler(io.BytesIO(archive.read(main))).load())
        storages = {
            storage.key: np.frombuffer(archive.read(f"{folder}data/{storage.key}"), storage.dtype)
            for storage in (tensor.storage for tensor in tensors.values())
        }
        return _arrays(tensors, storages)


def _tensors(state: Any) -> dict[str, _Tensor]:
    if not isinstance(state, Mapping) or not all(isinstance(tensor, _Tensor) for tensor in state.values()):
        raise ValueError("not a dictionary of tensors")
    return {str(name): tensor for name, tensor in state.items()}


def _arrays(tensors: Mapping[str, _Tensor], storages: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name: tensor.array(storages[tensor.storage.key]) for name, tensor in tensors.items()}


def _exactly(file: io.BytesIO, size: int) -> bytes:
    """Return the next bytes; raise `EOFError` where the file ends before."""
    read = file.read(size)
    if len(read) < size:
        raise EOFError(f"it ends {size - len(read)} bytes too early")
    return read


def _rebuilt(
    storage: Any,
    offset: Any,
    shape: Any,
    strides: Any,
    _requires_grad: Any = None,
    _hooks: Any = None,
    *_: Any,
) -> _Tensor:
    """Take the place of PyTorch's own function of this purpose."""
    if not isinstance(storage, _Storage):
        raise pickle.UnpicklingError("a tensor without a storage")
    return _Tensor(storage, int(offset), tuple(map(int, shape)), tuple(map(int, strides)))


class _StateUnpickler(pickle.Unpickler):
    """An unpickler that knows ordered dictionaries, tensors and their storages."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what takes the place of a name, or refuse it."""
        known: dict[tuple[str, str], Any] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _rebuilt,
            **{("torch", storage): dtype for storage, dtype in _STORAGES.items()},
        }
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no state dict needs")
        return known[module, name]

    def persistent_load(self, identifier: Any) -> _Storage:
        """Return the storage that a pickle refers to."""
        if not isinstance(identifier, tuple) or identifier[0] != "storage":
            raise pickle.UnpicklingError(f"it refers to {identifier!r}, which is no storage")
        _, dtype, key, _, size, *view = identifier
        if not isinstance(dtype, np.dtype) or any(part is not None for part in view):
            raise pickle.UnpicklingError(f"it refers to {identifier!r}, which is no storage of numbers")
        return _Storage(str(key), dtype, int(size))
