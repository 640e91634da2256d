"""Files as `torch.save` writes them, made without PyTorch."""

import io
import pickle
import sys
import types
from collections import OrderedDict
from typing import Any

import numpy as np

_STORAGE = {"f4": "FloatStorage", "i8": "LongStorage"}


class _View:
    """An array to be written as a tensor: a view of its base, with offset and strides."""

    def __init__(self, array: np.ndarray) -> None:
        base = array
        while base.base is not None:
            base = base.base
        self.base, self.item = base, array.itemsize
        self.offset = (
            array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        ) // self.item
        self.shape, self.strides = array.shape, tuple(step // self.item for step in array.strides)


def _modules() -> dict[str, types.ModuleType]:
    """Modules with PyTorch's names, so that pickle writes these."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in _STORAGE.values():
        setattr(torch, name, type(name, (), {"__module__": "torch", "__qualname__": name}))

    def _rebuild_tensor_v2() -> None: ...

    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    return {"torch": torch, "torch._utils": utils}


def _state(arrays: dict[str, Any]) -> tuple[bytes, dict[str, np.ndarray]]:
    """The pickle of a state dict, and its storages by key."""
    modules, bases = _modules(), {}

    class Tensor:
        def __init__(self, array: np.ndarray) -> None:
            self.view = _View(array)

        def __reduce__(self) -> Any:
            view = self.view
            arguments = (view.base, view.offset, view.shape, view.strides, False, OrderedDict())
            return modules["torch._utils"]._rebuild_tensor_v2, arguments

    class Pickler(pickle.Pickler):
        def persistent_id(self, value: Any) -> Any:
            if not isinstance(value, np.ndarray):
                return None
            key = str(id(value))
            bases[key] = value
            kind = getattr(modules["torch"], _STORAGE[value.dtype.str[1:]])
            return ("storage", kind, key, "cpu", value.size)

    tensors = {
        name: Tensor(value) if isinstance(value, np.ndarray) else value for name, value in arrays.items()
    }
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        buffer = io.BytesIO()
        Pickler(buffer, protocol=2).dump(OrderedDict(tensors))
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
    return buffer.getvalue(), bases


def legacy_file(arrays: dict[str, Any]) -> bytes:
    """The layout before PyTorch 1.6. An array that is a view keeps its strides."""
    state, bases = _state(arrays)
    head = [
        0x1950A86A20F9469CFC6C,
        1001,
        {"protocol_version": 1001, "little_endian": True, "type_sizes": {"long": 4}},
    ]
    parts = [*(pickle.dumps(part, protocol=2) for part in head), state, pickle.dumps(list(bases), protocol=2)]
    for base in bases.values():
        parts += [base.size.to_bytes(8, "little"), base.tobytes()]
    return b"".join(parts)
