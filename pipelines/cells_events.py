"""Events out of candidates with their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from data_prep.cell_candidates import Candidate
from pipelines.cells_scores import NO_EVENT
from pipelines.scores import AnyFloatArray


@dataclass(frozen=True)
class FoundEvent:
    """A candidate that is taken for an event.

    Attributes:
        candidate: Where and when.
        label: Index of its kind among the classes.
        probability: Of every class, ``[C]``.
        predictive_entropy: Nats.
        mutual_information: Nats.
    """

    candidate: Candidate
    label: int
    probability: AnyFloatArray
    predictive_entropy: float
    mutual_information: float

    @property
    def event_probability(self) -> float:
        """Of all kinds of events together."""
        return float(1.0 - self.probability[NO_EVENT])


def event_label(probability: AnyFloatArray) -> int:
    """The most probable kind of event, from the probabilities ``[C]`` of all classes.

    Example:
        >>> event_label(np.array([0.8, 0.05, 0.15]))
        2
    """
    return int(np.argmax(probability[NO_EVENT + 1 :])) + NO_EVENT + 1


def distinct_events(events: Sequence[FoundEvent], radius: float, window: int) -> list[FoundEvent]:
    """Of events that are near each other in space and time, the most probable ones, in the order of time.

    Args:
        events: Of one sequence.
        radius: Up to this distance in pixels, and
        window: up to so many frames apart, two candidates show one event.
    """
    kept: list[FoundEvent] = []
    for event in sorted(events, key=lambda event: -event.event_probability):
        if not any(_near(event.candidate, other.candidate, radius, window) for other in kept):
            kept.append(event)
    return sorted(kept, key=lambda event: (event.candidate.frame, event.candidate.row))


def _near(one: Candidate, other: Candidate, radius: float, window: int) -> bool:
    distance = np.hypot(one.row - other.row, one.column - other.column)
    return abs(one.frame - other.frame) <= window and bool(distance <= radius)
