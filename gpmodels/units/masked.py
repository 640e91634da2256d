"""Refusing arrays whose masked entries NumPy would hand on as if they were values."""

from typing import Any

import numpy as np


def check_unmasked(*arrays: Any) -> None:
    """Refuse masked arrays with masked entries: what lies under the mask would be taken for values.

    Raises:
        ValueError: With the number of masked entries.

    Example:
        >>> check_unmasked(np.ma.masked_array([1.0, 2.0], mask=[False, False]), None)
    """
    for values in arrays:
        if not isinstance(values, np.ma.MaskedArray):
            continue
        if number := int(np.sum(np.broadcast_to(values.mask, values.shape))):
            raise ValueError(
                f"{number} of {values.size} entries of an array are masked, and what lies under the mask "
                "would be taken for values. Fill them with .filled(...), or leave such rows out."
            )
