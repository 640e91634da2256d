"""How well events are found among candidates: F1, precision and recall, besides the scores of all classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pipelines.classification_scores import CLASSIFICATION_SCORES
from pipelines.scores import FloatArray, Score, ratio

EVENT_GROUP = "Are the events found?"

NO_EVENT = 0
"""Label of the candidates that are no event."""


def _found(confusion: FloatArray) -> FloatArray:
    """Events ``[R]`` that are given their kind, from ``[R, C, C]``."""
    right = np.diagonal(confusion, axis1=-2, axis2=-1)
    return np.asarray(right.sum(axis=-1) - right[..., NO_EVENT])


def _predicted(confusion: FloatArray) -> FloatArray:
    return np.asarray(confusion.sum(axis=(-2, -1)) - confusion[..., :, NO_EVENT].sum(axis=-1))


def _true(confusion: FloatArray) -> FloatArray:
    return np.asarray(confusion.sum(axis=(-2, -1)) - confusion[..., NO_EVENT, :].sum(axis=-1))


def _precision(sums: Mapping[str, FloatArray]) -> FloatArray:
    return ratio(_found(sums["confusion"]), _predicted(sums["confusion"]))


def _recall(sums: Mapping[str, FloatArray]) -> FloatArray:
    return ratio(_found(sums["confusion"]), _true(sums["confusion"]))


def _f1(sums: Mapping[str, FloatArray]) -> FloatArray:
    confusion = sums["confusion"]
    return ratio(2.0 * _found(confusion), _predicted(confusion) + _true(confusion))


CELL_SCORES: tuple[Score, ...] = (
    Score(
        "event_f1",
        "F1 of events",
        EVENT_GROUP,
        "higher",
        "Harmonic mean of precision and recall of the events (DFGP paper, table 2); right are those that are "
        "given their kind. Events without a candidate are not counted.",
        _f1,
        headline=True,
    ),
    Score(
        "event_precision",
        "Precision",
        EVENT_GROUP,
        "higher",
        "Share of the candidates called an event that are one, of that kind.",
        _precision,
        headline=True,
    ),
    Score(
        "event_recall",
        "Recall",
        EVENT_GROUP,
        "higher",
        "Share of the events with a candidate that are found, with their kind.",
        _recall,
        headline=True,
    ),
    # Nearly all candidates are no event: accuracy and Brier score say little in a short table.
    *(replace(score, headline=score.key in {"nll", "ece"}) for score in CLASSIFICATION_SCORES),
)
