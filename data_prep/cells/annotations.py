"""Annotated cell events, and which candidate is which of them."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from data_prep.cells.candidates import Candidate, SurveyedSequence
from data_prep.cells.settings import CellsPrepareSettings
from data_prep.errors import InputError, Skipped
from data_prep.files.tables import read_table, table_number

ANNOTATION_COLUMNS = ("frame", "x", "y", "kind")
"""Columns of a CSV file of events; `sequence` too, where there are several sequences."""


@dataclass(frozen=True)
class CellEvent:
    """An annotated event.

    Attributes:
        frame: Number of the frame in which it is seen to happen, from 0.
        x: Column in pixels.
        y: Row in pixels.
        kind: Kind of event, such as "mitosis"; empty where the annotator could not tell it.
        line: Number of the line in the CSV file, for messages.
    """

    frame: int
    x: float
    y: float
    kind: str
    line: int = 0


@dataclass(frozen=True)
class Matching:
    """Which candidates of a sequence are events.

    Attributes:
        event_of: Number of the event of each matched candidate, by the candidate's number.
        left_out: Numbers of candidates near a matched event that are not its own, or that may be an event.
        unmatched: Numbers of the events without a candidate.
    """

    event_of: Mapping[int, int]
    left_out: frozenset[int]
    unmatched: tuple[int, ...]


def read_annotations(path: Path, settings: CellsPrepareSettings) -> dict[str | None, list[CellEvent]]:
    """Read events from a CSV file with the columns frame, x, y, kind and perhaps sequence.

    A row with a sequence and nothing else says that the sequence shows no event, or no other one. With
    `leave_out_unknown`, a row with a place and no kind says that there may be an event: its candidate is left
    out.

    Args:
        path: The CSV file.
        settings: Settings with the number of the first frame and the names of classes.

    Returns:
        Events of each sequence by its name; all under None where there is no column sequence.

    Raises:
        InputError: The file cannot be read, lacks a column, or a row is not as expected.

    Example:
        >>> read_annotations(Path("events.csv"), CellsPrepareSettings())  # doctest: +SKIP
        {'well_1': [CellEvent(frame=14, x=208.5, y=91.0, kind='mitosis', line=2)]}
    """
    rows = read_table(path, ANNOTATION_COLUMNS, optional=("sequence",))
    events: dict[str | None, list[CellEvent]] = {}
    for line, row in rows.items():
        of_sequence = events.setdefault(row.get("sequence") or None, [])
        if any(row[column] for column in ANNOTATION_COLUMNS):
            of_sequence.append(_event(path, line, row, settings))
    return events


def events_of_sequences(
    path: Path, settings: CellsPrepareSettings, surveyed: Sequence[SurveyedSequence]
) -> tuple[dict[str, list[CellEvent]], list[Skipped]]:
    """Read events and give them to their sequences.

    Args:
        path: The CSV file; see `read_annotations`.
        settings: Settings of `prepare`.
        surveyed: The sequences.

    Returns:
        Events of each annotated sequence by its name, and what cannot be used: events outside their sequence,
        or of one that is not there.

    Raises:
        InputError: The file is not as `read_annotations` expects it, or does not say to which of several
            sequences an event belongs.
    """
    events = read_annotations(path, settings)
    if None in events and len(surveyed) == 1:
        only = surveyed[0].sequence.name
        events[only] = events.pop(None) + events.get(only, [])
    if None in events:
        raise InputError(
            f"{path}: has rows that name no sequence, but there are {len(surveyed)} "
            f"({surveyed[0].sequence.name}, ...). Expected a column sequence with the name of each event's."
        )
    by_name = {one.sequence.name: one for one in surveyed}
    found: dict[str, list[CellEvent]] = {}
    skipped = []
    for name, some in events.items():
        sequence = by_name.get(name or "")
        if sequence is None:
            skipped.append(
                Skipped(
                    path,
                    f"{path}: {len(some)} events of the sequence {name!r}, which is not there. Expected one "
                    f"of {', '.join(sorted(by_name)[:5])}. Correct the name or add the sequence.",
                )
            )
            continue
        outside = {event.line: _outside(path, event, sequence, settings) for event in some}
        found[sequence.sequence.name] = [event for event in some if outside[event.line] is None]
        skipped += [complaint for complaint in outside.values() if complaint is not None]
    return found, skipped


def match_events(
    candidates: Sequence[Candidate], events: Sequence[CellEvent], settings: CellsPrepareSettings
) -> Matching:
    """Match events with candidates, one to one, within a radius and a time window.

    As many as possible are matched; of the ways to do so, the one with the least sum of distances (as shares
    of the radius) and of frames between (as shares of the window and one more). A candidate within the radius
    and window of a matched event that is not its own shows the same event again, as it goes on for more than
    one frame or in more than one piece: it is no example of anything.

    Args:
        candidates: Candidates of one sequence.
        events: Events of the same sequence.
        settings: Settings with the radius and the window.

    Returns:
        Which candidate is which event, which candidates are no example, and the events without a candidate.

    Example:
        >>> some = [Candidate(3, 10.0, 10.0, 50), Candidate(4, 12.0, 10.0, 50), Candidate(9, 10.0, 10.0, 50)]
        >>> match_events(some, [CellEvent(3, 11.0, 10.0, "mitosis")], CellsPrepareSettings())
        Matching(event_of={0: 0}, left_out=frozenset({1}), unmatched=())
    """
    unknown = {number for number, event in enumerate(events) if not event.kind}
    if not candidates or not events:
        return Matching({}, frozenset(), tuple(sorted(set(range(len(events))) - unknown)))
    pairs: dict[int, int] = {}
    showing: set[int] = set()
    for near in _connected(_near(candidates, events, settings), len(candidates)):
        matched = _assignment(near)
        pairs |= matched
        of_matched = np.isin(near.event, list(matched.values()))
        showing.update(near.candidate[of_matched].tolist())
    known = {candidate: event for candidate, event in sorted(pairs.items()) if event not in unknown}
    return Matching(
        event_of=known,
        left_out=frozenset(showing - set(known)),
        unmatched=tuple(sorted(set(range(len(events))) - set(pairs.values()) - unknown)),
    )


@dataclass(frozen=True)
class _Near:
    """Matches that radius and window allow: number of the candidate and of the event, and the cost, [K]."""

    candidate: npt.NDArray[np.int64]
    event: npt.NDArray[np.int64]
    cost: npt.NDArray[np.float64]

    def part(self, which: npt.NDArray[np.int64]) -> "_Near":
        return _Near(self.candidate[which], self.event[which], self.cost[which])


def _near(
    candidates: Sequence[Candidate], events: Sequence[CellEvent], settings: CellsPrepareSettings
) -> _Near:
    """Return every allowed match; one costs at most 2. Others take no memory."""
    places = np.array([(one.column, one.row, one.frame) for one in candidates], np.float64)
    annotated = np.array([(one.x, one.y, one.frame) for one in events], np.float64)
    # A box around what is allowed, a little larger so that no rounding error leaves something out.
    unit = np.array([settings.radius, settings.radius, settings.window + 0.5])
    found = cKDTree(places / unit).query_ball_point(annotated / unit, 1.0 + 1e-6, p=np.inf)
    candidate = np.concatenate([np.asarray(some, np.int64) for some in found])
    event = np.repeat(np.arange(len(events)), [len(some) for some in found])
    apart = np.abs(places[candidate] - annotated[event])
    distance = np.hypot(apart[:, 0], apart[:, 1])
    cost = distance / settings.radius + apart[:, 2] / (settings.window + 1)
    allowed = (distance <= settings.radius) & (apart[:, 2] <= settings.window)
    return _Near(candidate, event, cost).part(np.flatnonzero(allowed))


def _connected(near: _Near, num_candidates: int) -> Iterator[_Near]:
    """Divide allowed matches into those that share neither candidates nor events."""
    num_nodes = num_candidates + int(near.event.max(initial=-1)) + 1
    graph = coo_array(
        (np.ones(len(near.cost)), (near.candidate, num_candidates + near.event)), shape=(num_nodes, num_nodes)
    )
    part = connected_components(graph, directed=False)[1][near.candidate]
    order = np.argsort(part, kind="stable")
    for which in np.split(order, np.flatnonzero(np.diff(part[order])) + 1):
        if len(which):
            yield near.part(which)


def _assignment(near: _Near) -> dict[int, int]:
    """Return the event of each matched candidate: as many as possible, then the least sum of costs."""
    candidates, row = np.unique(near.candidate, return_inverse=True)
    events, column = np.unique(near.event, return_inverse=True)
    # More than all matches can cost together, so that none is given up for cheaper others.
    forbidden = 2.0 * min(len(candidates), len(events)) + 1.0
    cost = np.full((len(candidates), len(events)), forbidden)
    cost[row, column] = near.cost
    rows, columns = linear_sum_assignment(cost)
    return {
        int(candidates[r]): int(events[c])
        for r, c in zip(rows, columns, strict=True)
        if cost[r, c] < forbidden
    }


def _event(path: Path, line: int, row: dict[str, str], settings: CellsPrepareSettings) -> CellEvent:
    try:
        frame, x, y = _whole(row["frame"]), table_number(row["x"]), table_number(row["y"])
    except ValueError as error:
        raise InputError(
            f"{path}, line {line}: {error}. Expected a whole number as frame, and numbers as x and y."
        ) from error
    if not (math.isfinite(x) and math.isfinite(y)):
        raise InputError(f"{path}, line {line}: x {x:g}, y {y:g}. Expected finite numbers, in pixels.")
    if row["kind"] == settings.none_name or not (row["kind"] or settings.leave_out_unknown):
        raise InputError(
            f"{path}, line {line}: the kind is {row['kind']!r}. Expected the name of a kind of event, not "
            f"that of candidates without one ({settings.none_name!r}). Remove the row or name the kind."
        )
    kind = row["kind"] and (settings.one_kind or row["kind"])
    return CellEvent(frame - settings.first_frame, x, y, kind, line)


def _whole(text: str) -> int:
    """Return a whole number, also as pandas writes a column with empty cells: 14.0."""
    if not re.fullmatch(r"[+-]?\d+(\.0+)?", text, re.ASCII):
        raise ValueError(f"{text!r} is no whole number")
    return int(text.partition(".")[0])


def _outside(
    path: Path, event: CellEvent, surveyed: SurveyedSequence, settings: CellsPrepareSettings
) -> Skipped | None:
    height, width = surveyed.size
    if (
        0 <= event.frame < surveyed.num_frames
        and -0.5 <= event.x <= width - 0.5
        and -0.5 <= event.y <= height - 0.5
    ):
        return None
    first, last = settings.first_frame, settings.first_frame + surveyed.num_frames - 1
    return Skipped(
        path,
        f"{path}, line {event.line}: an event in frame {event.frame + first} at x {event.x:g}, y "
        f"{event.y:g}, but {surveyed.sequence.name} has the frames {first} to {last} of {width} x {height} "
        "pixels. Correct the row, or the setting first_frame.",
    )
