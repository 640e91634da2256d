"""Whole numbers from 0, 1 or 2: how many experts, inducing inputs, layers or classes a model has."""

import numpy as np


def is_count(value: object, *, least: int = 1) -> bool:
    """Whether a setting is an integer, and at least the least one.

    Example:
        >>> is_count(3), is_count(0), is_count(True), is_count(2.0), is_count(0, least=0)
        (True, False, False, False, True)
    """
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least


def check_counts(*, least: int = 1, **settings: object) -> None:
    """Raise where one of some settings of a head is no whole number from the least one.

    Args:
        least: The smallest that is allowed.
        **settings: Values by the names that the message calls them by.

    Raises:
        ValueError: One is below the least, or no whole number.

    Example:
        >>> check_counts(num_layers=2, num_samples=1.5)
        Traceback (most recent call last):
        ...
        ValueError: num_samples must be at least 1, and a whole number, but is 1.5.
    """
    for name, value in settings.items():
        if not is_count(value, least=least):
            raise ValueError(f"{name} must be at least {least}, and a whole number, but is {value!r}.")
