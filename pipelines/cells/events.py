"""From candidates with their probabilities to events."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data_prep.cells.candidates import Candidate
from pipelines.cells.scores import NO_EVENT
from pipelines.scores.definitions import AnyFloatArray


@dataclass(frozen=True)
class FoundEvent:
    """A candidate that is taken for an event.

    Attributes:
        candidate: Place and time of the candidate.
        label: Index of its kind among the classes.
        probability: Probability of every class `[C]`.
        predictive_entropy: Predictive entropy, nats.
        mutual_information: Mutual information, nats.
        familiarity: Familiarity; None of a bundle that does not say.
    """

    candidate: Candidate
    label: int
    probability: AnyFloatArray
    predictive_entropy: float
    mutual_information: float
    familiarity: float | None = None

    @property
    def event_probability(self) -> float:
        """Return the probability of all kinds of events together."""
        return float(1.0 - self.probability[NO_EVENT])


def event_label(probability: AnyFloatArray) -> int:
    """Return the most probable kind of event, from the probabilities `[C]` of all classes.

    Example:
        >>> event_label(np.array([0.8, 0.05, 0.15]))
        2
    """
    return int(np.argmax(probability[NO_EVENT + 1 :])) + NO_EVENT + 1


def called_events(probability: AnyFloatArray, threshold: float) -> NDArray[np.int64]:
    """Return the label `[N]` of each candidate: its most probable kind if an event is probable enough.

    Args:
        probability: Probabilities of all classes `[N, C]`.
        threshold: A candidate is called an event if the probability of all kinds together is above this.

    Example:
        >>> called_events(np.array([[0.8, 0.05, 0.15], [0.3, 0.5, 0.2]]), 0.5).tolist()
        [0, 1]
    """
    kinds = probability[:, NO_EVENT + 1 :].argmax(axis=1) + NO_EVENT + 1
    return np.where(1.0 - probability[:, NO_EVENT] > threshold, kinds, NO_EVENT)


def distinct_events(events: Sequence[FoundEvent], radius: float, window: int) -> list[FoundEvent]:
    """Return only the most probable of events near each other in space and time, in the order of time.

    Args:
        events: Events of one sequence.
        radius: Largest distance in pixels of two candidates that show one event.
        window: Largest number of frames between two candidates that show one event.
    """
    kept: list[FoundEvent] = []
    for event in sorted(events, key=lambda event: -event.event_probability):
        if not any(_near(event.candidate, other.candidate, radius, window) for other in kept):
            kept.append(event)
    return sorted(kept, key=lambda event: (event.candidate.frame, event.candidate.row))


def _near(one: Candidate, other: Candidate, radius: float, window: int) -> bool:
    distance = np.hypot(one.row - other.row, one.column - other.column)
    return abs(one.frame - other.frame) <= window and bool(distance <= radius)
