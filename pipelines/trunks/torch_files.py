"""Reading the arrays of a PyTorch state dict without PyTorch, from a file whose content is known before.

Such a file is a pickle, which may run any program when it is read. So its SHA-256 is compared with a pinned
one before a byte is parsed, and what parses it knows an ordered dictionary, a tensor and its storage, and
nothing else.

The layout is the one before PyTorch 1.6: five pickles after each other (a magic number, the version of the
protocol, facts of the system, the dictionary, the keys of the storages), then each storage: its number of
elements as a little-endian 64-bit integer, and the elements.
"""

import hashlib
import io
import pickle
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from data_prep.errors import InputError

_STORAGES: Final = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}


@dataclass(frozen=True)
class _Storage:
    """Elements that tensors are views of."""

    key: str
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class _Tensor:
    """A view of a storage; offset and strides count elements."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def array(self, elements: NDArray[Any]) -> NDArray[Any]:
        """Return a copy of the view as a contiguous array."""
        steps = tuple(step * elements.itemsize for step in self.strides)
        view = np.lib.stride_tricks.as_strided(elements[self.offset :], self.shape, steps, writeable=False)
        return np.array(view, order="C")


def read_state(path: Path, *, sha256: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a state dict by their names.

    Args:
        path: File that `torch.save` wrote.
        sha256: SHA-256 of its content, in hexadecimal digits.

    Raises:
        InputError: The file cannot be read, or has another content.
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
    file = io.BytesIO(content)
    for _ in range(3):  # the magic number, the version of the protocol, and facts of the system
        _StateUnpickler(file).load()
    tensors: Mapping[str, _Tensor] = _StateUnpickler(file).load()
    dtypes = {tensor.storage.key: tensor.storage.dtype for tensor in tensors.values()}
    storages = {}
    for key in _StateUnpickler(file).load():
        size = int.from_bytes(file.read(8), "little")
        storages[key] = np.frombuffer(file.read(size * dtypes[key].itemsize), dtypes[key])
    return {name: tensor.array(storages[tensor.storage.key]) for name, tensor in tensors.items()}


def _rebuilt(
    storage: _Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any
) -> _Tensor:
    """Take the place of PyTorch's own function of this purpose."""
    return _Tensor(storage, offset, shape, strides)


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
        _, dtype, key, *_ = identifier
        return _Storage(key, dtype)
