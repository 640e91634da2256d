"""How well events are found among candidates: F1, precision and recall, besides the scores of all classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data_prep.cells_manifest import SequenceFacts
from pipelines.classification_scores import (
    CLASSIFICATION_SCORES,
    ClassificationRecord,
    classification_statistics,
)
from pipelines.scores import FloatArray, Score, Statistics, ratio

EVENT_GROUP = "Are the events found?"

NO_EVENT = 0
"""Label of the candidates that are no event."""


@dataclass(frozen=True)
class CellRecord(ClassificationRecord):
    """All that the scores need to know of one candidate.

    Args:
        missed_events: its share of its sequence's events without a candidate.
    """

    missed_events: float


def missed_events(sequences: Sequence[SequenceFacts], source: Mapping[str, str]) -> dict[str, float]:
    """The events without a candidate, divided evenly among the candidates of their sequence.

    So they count with their sequence, in a resample too. Those of a sequence without any candidate are in no
    split, and count in none.

    Args:
        sequences: of the manifest.
        source: sequence of each judged candidate, by the candidate's name.

    Returns:
        share of each candidate, by name.
    """
    missed = {one.name: one.annotations - one.matched for one in sequences}
    number = Counter(source.values())
    return {name: missed[sequence] / number[sequence] for name, sequence in source.items()}


def cell_statistics(records: Sequence[CellRecord]) -> Statistics:
    """The rows from which scores are computed, one per candidate."""
    statistics = classification_statistics(records)
    missed = np.array([record.missed_events for record in records])
    return replace(statistics, dense={**statistics.dense, "missed_events": missed})


def event_scores(
    truth: NDArray[np.integer[Any]], called: NDArray[np.integer[Any]], num_classes: int, missed: float
) -> dict[str, float]:
    """The :data:`EVENT_SCORES` of some candidates, NaN where undefined.

    Args:
        truth: Class of each, ``[N]``.
        called: What it is called, ``[N]``.
        num_classes: C.
        missed: Number of events without a candidate.

    Example:
        >>> event_scores(np.array([0, 1, 1]), np.array([0, 1, 0]), 2, missed=1.0)["event_f1_all"]
        0.5
    """
    confusion = np.zeros((1, num_classes, num_classes))
    np.add.at(confusion[0], (truth, called), 1.0)
    sums = {"confusion": confusion, "missed_events": np.array([missed], np.float64)}
    return {score.key: float(score.value(sums)[0]) for score in EVENT_SCORES}


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


def _recall_of_all(sums: Mapping[str, FloatArray]) -> FloatArray:
    return ratio(_found(sums["confusion"]), _true(sums["confusion"]) + sums["missed_events"])


def _f1_of_all(sums: Mapping[str, FloatArray]) -> FloatArray:
    confusion = sums["confusion"]
    return ratio(2.0 * _found(confusion), _predicted(confusion) + _true(confusion) + sums["missed_events"])


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
    Score(
        "event_recall_all",
        "Recall of all events",
        EVENT_GROUP,
        "higher",
        "Share of all annotated events that are found, with their kind; an event without a candidate is not.",
        _recall_of_all,
        headline=True,
    ),
    Score(
        "event_f1_all",
        "F1 of all events",
        EVENT_GROUP,
        "higher",
        "Harmonic mean of precision and the recall of all events.",
        _f1_of_all,
    ),
    # Nearly all candidates are no event: accuracy and Brier score say little in a short table.
    *(replace(score, headline=score.key in {"nll", "ece"}) for score in CLASSIFICATION_SCORES),
)

EVENT_SCORES = tuple(score for score in CELL_SCORES if score.group == EVENT_GROUP)
"""Those of the events alone."""
