"""How well events are found among candidates: F1, precision and recall, besides the scores of all classes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from data_prep.cells.manifest import SequenceFacts
from pipelines.scores.classification import (
    CLASSIFICATION_SCORES,
    ClassificationRecord,
    classification_statistics,
)
from pipelines.scores.definitions import FloatArray, Score, Statistics, ratio

EVENT_GROUP = "Are the events found?"

NO_EVENT = 0
"""Label of candidates that are no event."""


@dataclass(frozen=True)
class CellRecord(ClassificationRecord):
    """All that the scores need to know about one candidate.

    Attributes:
        missed_events: Its share of its sequence's events without a candidate.
    """

    missed_events: float


def missed_events(sequences: Sequence[SequenceFacts], source: Mapping[str, str]) -> dict[str, float]:
    """Divide the events without a candidate evenly among the candidates of their sequence.

    So they count with their sequence, also in a resample. A sequence without any candidate is in no split,
    and its events are not counted.

    Args:
        sequences: Sequences of the manifest.
        source: Sequence of each judged candidate by the candidate's name.

    Returns:
        The share of each candidate by its name.
    """
    missed = {one.name: one.annotations - one.matched for one in sequences}
    number = Counter(source.values())
    return {name: missed[sequence] / number[sequence] for name, sequence in source.items()}


def cell_statistics(records: Sequence[CellRecord]) -> Statistics:
    """Return the rows from which scores are computed, one per candidate."""
    statistics = classification_statistics(records)
    missed = np.array([record.missed_events for record in records])
    return replace(statistics, dense={**statistics.dense, "missed_events": missed})


def _events(sums: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the numbers `[R]` of events given their kind, of candidates called events and of events."""
    confusion = sums["confusion"]  # [R, C, C]
    right, total = np.diagonal(confusion, axis1=-2, axis2=-1), confusion.sum(axis=(-2, -1))
    found = right.sum(axis=-1) - right[..., NO_EVENT]
    called = total - confusion[..., :, NO_EVENT].sum(axis=-1)
    return np.asarray(found), np.asarray(called), np.asarray(total - confusion[..., NO_EVENT, :].sum(axis=-1))


def _precision(sums: Mapping[str, FloatArray]) -> FloatArray:
    found, called, _ = _events(sums)
    return ratio(found, called)


def _recall(sums: Mapping[str, FloatArray], missed: FloatArray | float = 0.0) -> FloatArray:
    found, _, true = _events(sums)
    return ratio(found, true + missed)


def _f1(sums: Mapping[str, FloatArray], missed: FloatArray | float = 0.0) -> FloatArray:
    found, called, true = _events(sums)
    return ratio(2.0 * found, called + true + missed)


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
        lambda sums: _recall(sums, sums["missed_events"]),
        headline=True,
    ),
    Score(
        "event_f1_all",
        "F1 of all events",
        EVENT_GROUP,
        "higher",
        "Harmonic mean of precision and the recall of all events.",
        lambda sums: _f1(sums, sums["missed_events"]),
    ),
    # Nearly all candidates are no event: accuracy and Brier score say little in a short table.
    *(replace(score, headline=score.key in {"nll", "ece"}) for score in CLASSIFICATION_SCORES),
)
