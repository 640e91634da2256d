"""Annotated events read from CSV and matched one to one with candidates."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from data_prep.cells.annotations import (
    CellEvent,
    Matching,
    events_of_sequences,
    match_events,
    read_annotations,
)
from data_prep.cells.candidates import Candidate, SurveyedSequence
from data_prep.cells.sequences import CellSequence
from data_prep.cells.settings import CellsPrepareSettings
from data_prep.errors import InputError

SETTINGS = CellsPrepareSettings(radius=10.0, window=1)


def surveyed(name: str) -> SurveyedSequence:
    return SurveyedSequence(CellSequence(name, Path(name)), (80, 100), 6, None, (), ())


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def at(frame: int, x: float, y: float = 10.0) -> Candidate:
    return Candidate(frame, row=y, column=x, area=20)


def event(frame: int, x: float, y: float = 10.0) -> CellEvent:
    return CellEvent(frame, x, y, "mitosis")


def test_rows_become_events(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "sequence,frame,x,y,kind\nb,3,1.5,2,mitosis\nb,4,5,6,death\nc,,,,\n")
    events = read_annotations(path, SETTINGS.model_copy(update={"first_frame": 1}))
    assert events == {
        "b": [CellEvent(2, 1.5, 2.0, "mitosis", 2), CellEvent(3, 5.0, 6.0, "death", 3)],
        "c": [],
    }
    one = read_annotations(path, SETTINGS.model_copy(update={"one_kind": "event"}))
    assert {e.kind for e in one["b"]} == {"event"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1.5,2,3,mitosis", "line 2: .*Expected a whole number as frame"),
        ("1.05,2,3,mitosis", "line 2: .*Expected a whole number as frame"),
        ("nan,2,3,mitosis", "line 2: .*Expected a whole number as frame"),
        ("1_0,2,3,mitosis", "line 2: '1_0' is no whole number"),
        ("1,2_0,3,mitosis", "line 2: .*'2_0'"),
        ("\n1,٢,3,mitosis", "line 3: .*'٢'"),
        ("1,nan,3,mitosis", "finite"),
        ("1,2,,mitosis", "line 2"),
        ("1,2,3,none", "the kind is 'none'"),
        ("1,2,3,", "line 2: the kind is ''"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_annotations(write(tmp_path / "a.csv", f"frame,x,y,kind\n{row}\n"), SETTINGS)


def test_an_event_without_a_kind_leaves_its_candidates_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "frame,x,y,kind\n1,5,10,\n1,95,10,\n1,40,10,mitosis\n")
    for one_kind in (None, "event"):
        settings = SETTINGS.model_copy(update={"leave_out_unknown": True, "one_kind": one_kind})
        events = read_annotations(path, settings)[None]
        assert [event.kind for event in events] == ["", "", settings.one_kind or "mitosis"]
        found = match_events([at(1, 5.0), at(2, 7.0), at(1, 40.0)], events, settings)
        assert (dict(found.event_of), found.left_out, found.unmatched) == ({2: 2}, {0, 1}, ())
        assert match_events([], events, settings).unmatched == (2,)


def test_no_event_is_none_where_all_kinds_are_one(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "frame,x,y,kind\n1,2,3,none\n")
    with pytest.raises(InputError, match="the kind is 'none'"):
        read_annotations(path, SETTINGS.model_copy(update={"one_kind": "event"}))


def test_frames_as_pandas_writes_them_beside_empty_cells(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "sequence,frame,x,y,kind\na,10.0,2.0,3.0,mitosis\nb,,,,\n")
    assert read_annotations(path, SETTINGS) == {"a": [CellEvent(10, 2.0, 3.0, "mitosis", 2)], "b": []}


def test_events_go_to_their_sequences(tmp_path: Path) -> None:
    text = "frame,x,y,kind,sequence\n1,2,3,mitosis,a\n6,2,3,mitosis,a\n1,100,3,mitosis,a\n1,2,3,mitosis,z\n"
    found, skipped = events_of_sequences(write(tmp_path / "a.csv", text), SETTINGS, [surveyed("a")])
    assert found == {"a": [CellEvent(1, 2.0, 3.0, "mitosis", 2)]}
    reasons = sorted(entry.reason.split(":", 1)[1] for entry in skipped)
    assert "line 3" in skipped[0].reason
    assert "frames 0 to 5 of 100 x 80 pixels" in reasons[1]
    assert "'z', which is not there" in reasons[0]
    plain = write(tmp_path / "b.csv", "frame,x,y,kind\n1,2,3,mitosis\n")
    assert len(events_of_sequences(plain, SETTINGS, [surveyed("a")])[0]["a"]) == 1
    with pytest.raises(InputError, match="column sequence"):
        events_of_sequences(plain, SETTINGS, [surveyed("a"), surveyed("b")])


def test_most_matches_first_then_the_nearest() -> None:
    # The first event's nearest candidate is the only one that the second event can have.
    candidates = [at(1, 0.0), at(1, 9.0)]
    matching = match_events(candidates, [event(1, 8.0), event(1, 19.0)], SETTINGS)
    assert matching.event_of == {0: 0, 1: 1}
    assert (matching.left_out, matching.unmatched) == (frozenset(), ())
    crossed = match_events([at(1, 0.0), at(1, 6.0)], [event(1, 5.0), event(1, 1.0)], SETTINGS)
    assert crossed.event_of == {0: 1, 1: 0}


def test_radius_and_window_bound_a_match() -> None:
    for candidate in (at(3, 10.1), at(5, 0.0), at(1, 0.0)):
        assert match_events([candidate], [event(3, 0.0)], SETTINGS).unmatched == (0,)
    for candidate in (at(3, 10.0), at(4, 0.0), at(2, 0.0)):
        assert match_events([candidate], [event(3, 0.0)], SETTINGS).event_of == {0: 0}
    assert match_events([at(3, 9.0), at(4, 0.5)], [event(3, 0.0)], SETTINGS).event_of == {1: 0}


def test_what_shows_a_matched_event_again_is_left_out() -> None:
    candidates = [at(3, 0.0), at(3, 4.0), at(4, 0.0), at(5, 0.0), at(3, 50.0)]
    matching = match_events(candidates, [event(3, 0.0), event(0, 90.0)], SETTINGS)
    assert matching.event_of == {0: 0}
    assert matching.left_out == {1, 2}
    assert matching.unmatched == (1,)


def test_matching_is_one_to_one_and_unhurt_by_nothing() -> None:
    rng = np.random.default_rng(0)
    candidates = [at(int(f), *rng.uniform(0, 60, 2)) for f in rng.integers(1, 6, 40)]
    events = [event(int(f), *rng.uniform(0, 60, 2)) for f in rng.integers(1, 6, 15)]
    matching = match_events(candidates, events, SETTINGS)
    assert len(set(matching.event_of.values())) == len(matching.event_of)
    assert len(matching.event_of) + len(matching.unmatched) == 15
    assert not matching.left_out & matching.event_of.keys()
    # All at once, as a dense assignment has it.
    places = np.array([(one.column, one.row) for one in candidates])[:, np.newaxis]
    distance = np.linalg.norm(places - np.array([(one.x, one.y) for one in events]), axis=2)
    apart = np.abs(np.subtract.outer([one.frame for one in candidates], [one.frame for one in events]))
    allowed = (distance <= 10) & (apart <= 1)
    rows, columns = linear_sum_assignment(np.where(allowed, distance / 10 + apart / 2, 100))
    pairs = zip(rows.tolist(), columns.tolist(), strict=True)
    assert matching.event_of == {c: e for c, e in pairs if allowed[c, e]}
    assert match_events([], events, SETTINGS).unmatched == tuple(range(15))
    assert match_events(candidates, [], SETTINGS) == Matching({}, frozenset(), ())


@pytest.mark.slow
def test_matching_takes_memory_for_what_is_near_alone() -> None:
    rng = np.random.default_rng(0)
    frames, (x, y) = rng.integers(0, 500, 10_000), rng.uniform(0, 2000, (2, 10_000))
    candidates = [at(int(f), a, b) for f, a, b in zip(frames, x, y, strict=True)]
    events = [event(int(frames[i]), x[i], y[i]) for i in range(1500)]
    tracemalloc.start()
    matching = match_events(candidates, events, SETTINGS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert matching.event_of == {i: i for i in range(1500)}
    assert peak < 2e7  # a number for each pair would be 1.2e8
