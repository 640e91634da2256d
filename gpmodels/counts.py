"""Whole numbers from 1: how many inducing inputs, layers or samples a model has."""

from __future__ import annotations

import numpy as np


def is_count(value: object) -> bool:
    """Whether a setting is a positive integer.

    Example:
        >>> is_count(3), is_count(0), is_count(True), is_count(2.0)
        (True, False, False, False)
    """
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) > 0


def check_counts(**settings: object) -> None:
    """Raise where one of some settings of a head is no whole number from 1.

    Args:
        **settings: Values by the names that the message calls them by.

    Raises:
        ValueError: One is below 1, or no whole number.

    Example:
        >>> check_counts(num_layers=2, num_samples=1.5)
        Traceback (most recent call last):
        ...
        ValueError: num_samples must be at least 1, and a whole number, but is 1.5.
    """
    for name, value in settings.items():
        if not is_count(value):
            raise ValueError(f"{name} must be at least 1, and a whole number, but is {value!r}.")
