"""Which experts have points, and dropping those that have none (thesis 4.3.2.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gpmodels.experts import ExpertsHead
from gpmodels.gp_head import GPHead


def count_assignments(head: GPHead, expert: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """Points of each expert, ``[T]``, or of the one global unit.

    Args:
        head: The head whose gate assigned them.
        expert: Responsible experts, ``[N]``.
    """
    size = head.num_experts if isinstance(head, ExpertsHead) else 1
    return np.bincount(expert, minlength=max(size, 1))


def drop_unused_experts(head: GPHead, count: Callable[[], npt.NDArray[np.int64]]) -> None:
    """Drop experts without points, one at a time, and record the others' counts in the head.

    Dropping one changes the pooled variance of the gate, so all points are counted anew after each drop.

    Args:
        head: Any GP head; one without experts is left alone, but its points are still routed by ``count``.
        count: Routes all training points by the present gate and counts them, ``[T]``.
    """
    while True:
        counts = count()
        if not isinstance(head, ExpertsHead) or not head.num_experts:
            return
        unused = [k for k in head.active_experts if not counts[k]]
        if not unused:
            head.expert_counts.assign(counts)
            return
        head.drop_experts(np.array(unused[:1]))
