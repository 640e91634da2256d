"""Gaussian-process output layers for Keras networks, and estimators: tensors in and tensors out.

Importing this package imports every public class, so that Keras knows them when it loads a file. Only in a
process of the commands (`pipelines`) the first name that is used does so: `gpmodels.registry` is read there
without TensorFlow. `__init__.pyi` lists the classes and where they are.
"""

import sys
from typing import Any

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def import_all() -> None:
    """Import every public class, which registers the heads and models with Keras."""
    for name in __all__:
        globals()[name] = _load(name)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'gpmodels' has no attribute {name!r}")
    import_all()
    return globals()[name]


# A command reads `gpmodels.registry` long before it needs TensorFlow; everybody else gets all of it at once.
if "pipelines" not in sys.modules or "keras" in sys.modules:
    import_all()
