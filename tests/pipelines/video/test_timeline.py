"""Segments of equal label: which windows they join, and where they begin and end."""

import numpy as np
import pytest

from pipelines.video.timeline import Timeline, segments


def timeline(labels: list[int], *, step: float = 0.5, length: float = 1.0) -> Timeline:
    start = step * np.arange(len(labels), dtype=float)
    probability = np.full((len(labels), 3), 0.1)
    probability[np.arange(len(labels)), labels] = 0.8
    entropy = np.arange(len(labels), dtype=float)
    return Timeline(start, start + length, probability, entropy, 0.1 * entropy)


def test_overlapping_windows_share_the_time_between_their_middles():
    parts = segments(timeline([1, 1, 0, 2, 2]))
    assert [(part.label, part.start, part.end, part.windows) for part in parts] == [
        (1, 0.0, 1.25, 2),
        (0, 1.25, 1.75, 1),
        (2, 1.75, 3.0, 2),
    ]
    assert [part.entropy for part in parts] == [0.5, 2.0, 3.5]
    assert parts[0].probability == pytest.approx(0.8)
    assert parts[2].information == pytest.approx(0.35)


def test_windows_side_by_side_keep_their_borders():
    assert [(part.start, part.end) for part in segments(timeline([0, 1], step=1.0))] == [(0, 1), (1, 2)]


def test_one_window_is_one_segment():
    (part,) = segments(timeline([2]))
    assert (part.start, part.end) == (0.0, 1.0)


def test_every_moment_has_a_window():
    line = timeline([0, 1, 2])
    assert [line.window_at(seconds) for seconds in (-1.0, 0.0, 0.74, 0.76, 1.3, 2.0, 99.0)] == [
        *(0, 0, 0, 1, 2, 2, 2)
    ]
