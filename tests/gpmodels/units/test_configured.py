"""Configurations hold the arguments of constructors, those of base classes too."""

from typing import Any

import keras

from gpmodels.units.configured import Configured


class Base(Configured):
    """Has one argument that a subclass chooses, and one that is a name."""

    def __init__(self, chosen: int, /, *, kernel: str = "rbf", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.chosen, self.kernel_name, self.kernel = chosen, kernel, object()


class Own(Base, keras.Model):
    """Adds arguments of its own; `unkept` has no attribute."""

    def __init__(self, widths: tuple[int, ...] = (2, 3), unkept: int = 0, **kwargs: Any) -> None:
        super().__init__(7 + unkept, **kwargs)
        self.widths = widths


def test_arguments_are_found_by_their_names():
    config = Own((4, 5), kernel="linear", name="mine", dtype="float64").get_config()
    assert {name: config[name] for name in ("widths", "kernel", "name")} == {
        "widths": [4, 5],
        "kernel": "linear",
        "name": "mine",
    }
    assert config.keys().isdisjoint({"chosen", "unkept", "self", "kwargs"})
    again = Own.from_config(config)
    assert again.get_config() == config
    assert again.chosen == 7
