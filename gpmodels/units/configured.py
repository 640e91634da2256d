"""Layers and networks that Keras makes anew from the arguments of their constructors."""

import inspect
from typing import Any

import keras

_OWN = frozenset({"self", "dtype", "name"})
"""Arguments that Keras describes itself."""


class Configured(keras.layers.Layer):
    """A layer or network that keeps each argument of its constructor as an attribute of the same name.

    Its configuration is read from there. Where the argument names a part that has its name, as `kernel` may,
    the attribute is `kernel_name`. Arguments that are handed on to base classes are found at those, but for
    positional ones, which subclasses choose.
    """

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal layer or network."""
        config: dict[str, Any] = super().get_config()
        for cls in type(self).__mro__:
            if issubclass(cls, Configured) and "__init__" in vars(cls):
                for argument in inspect.signature(cls.__init__).parameters.values():
                    if argument.kind is not argument.POSITIONAL_ONLY and argument.name not in _OWN:
                        config |= self._argument(argument.name)
        return config

    def _argument(self, name: str) -> dict[str, Any]:
        """Return an argument by its name; nothing where no attribute has it."""
        for attribute in (f"{name}_name", name):
            if hasattr(self, attribute):
                return {name: _with_lists(getattr(self, attribute))}
        return {}


def _with_lists(value: Any) -> Any:
    """Return tuples, and the lists that Keras tracks, as lists, which JSON can hold."""
    return [_with_lists(part) for part in value] if isinstance(value, list | tuple) else value
