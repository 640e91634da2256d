"""Seconds that an answer, the next question and a refit take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pipelines.label.learning.learner import Learner

_REPEATS = 20
_SIZES = ((1_000, 200, 3), (10_000, 1_000, 10))
"""Images of the pool, labelled training images, classes."""

_FEATURES = 1280


def times() -> list[dict[str, Any]]:
    """Return a row for each size of a made-up pool: Gaussian features, classes that linear functions tell."""
    return [_row(*size) for size in _SIZES]


def _row(count: int, num_labelled: int, num_classes: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(count, _FEATURES)).astype(np.float32)
    features[:, :32] *= 6.0
    label = (features[:, :32] @ rng.normal(size=(32, num_classes))).argmax(axis=1)
    names = [f"image {number}" for number in range(count)]
    started = time.perf_counter()
    learner = Learner(features, names, num_classes)
    start = time.perf_counter() - started
    given = np.full(count, -1)
    order = learner.next(min(count, num_labelled * 5 // 4 + _REPEATS * 2)).tolist()
    given[order[: -_REPEATS * 2]] = label[order[: -_REPEATS * 2]]
    learner.set_labels(given)
    refit = _seconds(learner.refit, 3)
    updates, nexts = [], []
    for row in order[-_REPEATS:]:
        updates += _seconds(lambda row=row: learner.update(row, int(label[row])), 1)
        nexts += _seconds(lambda: learner.next(5), 1)
    return {
        "images": count,
        "labels": int(np.sum(given >= 0)),
        "classes": num_classes,
        "start": f"{start:.2f}",
        "update, median": f"{np.median(updates):.3f}",
        "update, slowest": f"{max(updates):.3f}",
        "next five after it, median": f"{np.median(nexts):.3f}",
        "next five, slowest": f"{max(nexts):.3f}",
        "refit, slowest": f"{max(refit):.1f}",
    }


def _seconds(call: Callable[[], object], repeats: int) -> list[float]:
    found = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        found.append(time.perf_counter() - started)
    return found
