"""Predictions for a video over time, and the segments of equal label in them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Timeline:
    """Predictions of a video's windows in the order of time.

    Attributes:
        start: Start of each window `[W]`, seconds.
        end: End of each window `[W]`, seconds.
        probability: Probabilities of the classes `[W, C]`.
        entropy: Predictive entropy `[W]`, nats.
        information: Mutual information `[W]`, nats.
        familiarity: Familiarity `[W]`; None of a bundle that does not say.
    """

    start: Values
    end: Values
    probability: Values
    entropy: Values
    information: Values
    familiarity: Values | None = None

    @cached_property
    def labels(self) -> NDArray[np.intp]:
        """Return the most probable class of each window `[W]`."""
        return np.asarray(self.probability.argmax(axis=1), np.intp)

    @cached_property
    def borders(self) -> Values:
        """Return the times `[W + 1]` in seconds between which each window decides.

        Windows overlap: each decides for the times nearer to its middle than to its neighbours' middles, the
        first from the start of the video and the last to its end.
        """
        middle = 0.5 * (self.start + self.end)
        inner = 0.5 * (middle[1:] + middle[:-1])
        return np.concatenate([self.start[:1], inner, self.end[-1:]])

    def window_at(self, seconds: float) -> int:
        """Return the index of the window that decides for a time."""
        place = int(np.searchsorted(self.borders, seconds, side="right")) - 1
        return min(max(place, 0), len(self.start) - 1)


@dataclass(frozen=True)
class Segment:
    """Neighbouring windows of one label.

    Attributes:
        label: Index of the class.
        start: Start in seconds.
        end: End in seconds.
        windows: Number of windows.
        probability: Probability of the class, mean over the windows.
        entropy: Predictive entropy, mean over the windows, nats.
        information: Mutual information, mean over the windows, nats.
    """

    label: int
    start: float
    end: float
    windows: int
    probability: float
    entropy: float
    information: float


def segments(timeline: Timeline) -> list[Segment]:
    """Merge neighbouring windows of equal label.

    Example:
        >>> seconds, values = np.arange(3.0), np.zeros(3)
        >>> p = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8]])
        >>> [(s.label, s.start, s.end) for s in segments(Timeline(seconds, seconds + 1, p, values, values))]
        [(0, 0.0, 2.0), (1, 2.0, 3.0)]
    """
    labels = timeline.labels
    changes = np.flatnonzero(np.diff(labels)) + 1
    return [
        Segment(
            label=int(labels[first]),
            start=float(timeline.borders[first]),
            end=float(timeline.borders[last]),
            windows=int(last - first),
            probability=float(timeline.probability[first:last, labels[first]].mean()),
            entropy=float(timeline.entropy[first:last].mean()),
            information=float(timeline.information[first:last].mean()),
        )
        for first, last in zip([0, *changes], [*changes, len(labels)], strict=True)
    ]
