"""How many inducing inputs and experts an estimator takes for a number of rows."""

import math

import numpy as np

from gpmodels.units.counts import is_count


def default_num_inducing(setting: int | str, num_rows: int) -> int:
    """Return M, the number asked for, at most N; `"auto"` takes 2.5 % of N as the thesis, within 50 and 250.

    Raises:
        ValueError: The setting is neither `"auto"` nor a positive integer.

    Example:
        >>> default_num_inducing("auto", 4000)
        100
    """
    if setting == "auto":
        setting = int(np.clip(round(num_rows / 40), 50, 250))
    if not is_count(setting):
        raise ValueError(f'num_inducing must be "auto" or a positive integer, but is {setting!r}.')
    return min(int(setting), num_rows)


def expert_size(setting: int | None, num_rows: int) -> dict[str, int]:
    """Return the head's setting for M of each expert, empty where it is that of the global unit."""
    if setting is None:
        return {}
    if not is_count(setting):
        raise ValueError(f"num_expert_inducing must be a positive integer or None, but is {setting!r}.")
    return {"num_expert_inducing": min(int(setting), num_rows)}


FEWEST_ROWS_FOR_EXPERTS = 1000
"""Below, `num_experts="auto"` takes none: a few hundred rows cannot feed several sets of lengthscales."""


def default_num_experts(setting: int | str, num_rows: int, *, fewest: int = 0) -> int:
    """Return T at the start: as asked for; `"auto"` is √N/10 within 3 and 30, `fewest` below 1000 rows.

    Raises:
        ValueError: The setting is neither `"auto"` nor an integer from 0.

    Example:
        >>> default_num_experts("auto", 10_000), default_num_experts("auto", 500)
        (10, 0)
    """
    if setting == "auto":
        if num_rows < FEWEST_ROWS_FOR_EXPERTS:
            return min(fewest, num_rows)
        return int(np.clip(round(math.sqrt(num_rows) / 10), 3, 30))
    if not is_count(setting, least=0):
        raise ValueError(f'num_experts must be "auto" or an integer from 0, but is {setting!r}.')
    return min(int(setting), num_rows)
