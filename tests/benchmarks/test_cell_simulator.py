"""Simulated events: what is annotated is there to be found, and nothing else is changed."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.cells.simulator import (
    EVENTS_NAME,
    SEQUENCES_NAME,
    SimulationSettings,
    simulate_events,
    synthetic_frames,
    write_simulated,
)
from data_prep.cells.annotations import match_events
from data_prep.cells.candidates import survey_sequence
from data_prep.cells.sequences import find_sequences
from data_prep.cells.settings import CellsPrepareSettings
from data_prep.errors import InputError

SETTINGS = SimulationSettings(mitoses=3, apoptoses=3, roundings=1)


@pytest.fixture(scope="module")
def frames() -> list[np.ndarray]:
    return synthetic_frames(16, (200, 240), seed=0)


@pytest.mark.slow
def test_seeds_decide_all(frames: list[np.ndarray]) -> None:
    one, again, other = (simulate_events(frames, SETTINGS, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.frames, again.frames)
    assert one.events == again.events != other.events
    np.testing.assert_array_equal(frames, synthetic_frames(16, (200, 240), seed=0))  # given ones stay


def test_every_simulated_event_is_a_candidate(frames: list[np.ndarray], tmp_path: Path) -> None:
    simulated = simulate_events(frames, SETTINGS, seed=2)
    write_simulated(tmp_path / "simulated", {"a": simulated})
    (sequence,), _ = find_sequences(tmp_path / "simulated" / SEQUENCES_NAME)
    assert len(sequence.frames) == 16
    settings = CellsPrepareSettings()
    surveyed = survey_sequence(sequence, settings)
    assert match_events(surveyed.candidates, simulated.events, settings).unmatched == ()
    rows = (tmp_path / "simulated" / EVENTS_NAME).read_text(encoding="utf-8").splitlines()
    assert rows[0] == "sequence,frame,x,y,kind"
    assert len(rows) == 1 + 6


def test_a_dividing_cell_is_round_and_then_two() -> None:
    blank = [np.full((160, 160), 128, np.uint8)] * 14
    settings = SimulationSettings(
        mitoses=1, apoptoses=0, roundings=0, spreading=(9, 9), rounding=(1, 1), contrast=(1, 1)
    )
    simulated = simulate_events(blank, settings, seed=0)
    (event,) = simulated.events
    before, after = simulated.frames[event.frame - 1], simulated.frames[event.frame + 1]
    middle = round(event.y), round(event.x)
    assert before.max() > 200  # bright
    assert before[middle] < 110  # around a dark middle
    assert after[middle] > before[middle] + 20  # which is now between two cells


def test_bad_requests_are_explained(frames: list[np.ndarray]) -> None:
    with pytest.raises(InputError, match="at least 4 of one size"):
        simulate_events([frames[0], frames[1][:50], frames[2], frames[3]], seed=0)
    with pytest.raises(InputError, match="100 cells do not fit"):
        simulate_events(frames, SimulationSettings(mitoses=100, apoptoses=0, roundings=0), seed=0)
    with pytest.raises(InputError, match="more than 60"):
        simulate_events([np.zeros((50, 90), np.uint8)] * 5, seed=0)
