"""What a stopped run of the campaign has tried is known to the next one."""

import pytest

from benchmarks.reliability import __main__ as campaign
from benchmarks.reliability import kills, undisturbed
from benchmarks.reliability.kills import Kill
from benchmarks.reliability.records import Records

KEY = ("seed", "number")


def record(seed: int, number: int, *faults: str) -> dict:
    return {"seed": seed, "number": number, "faults": list(faults)}


def test_a_run_goes_on_where_another_was_stopped(tmp_path):
    first = Records(tmp_path / "out" / "kills.jsonl", KEY)
    for each in (record(1, 0), record(0, 2), record(0, 0)):
        first.keep(each)
    second = Records(tmp_path / "out" / "kills.jsonl", KEY)
    assert list(second.missing(range(4), seed=0)) == [1, 3]
    assert second.all == [record(0, 0), record(0, 2), record(1, 0)]


def test_what_showed_a_fault_is_tried_again_and_its_last_try_counts(tmp_path):
    records = Records(tmp_path / "kills.jsonl", KEY)
    records.keep(record(0, 0, "best.weights.h5 differs"))
    assert list(records.missing(range(1), seed=0)) == [0]
    records.keep(record(0, 0))
    for known in (records, Records(tmp_path / "kills.jsonl", KEY)):
        assert known.all == [record(0, 0)]
        assert not list(known.missing(range(1), seed=0))


def test_an_incomplete_line_is_dropped(tmp_path):
    file = tmp_path / "kills.jsonl"
    Records(file, KEY).keep(record(0, 0))
    with file.open("a", encoding="utf-8") as opened:
        opened.write('{"seed": 0, "numb')
    records = Records(file, KEY)
    assert records.all == [record(0, 0)]
    records.keep(record(0, 1))
    assert Records(file, KEY).all == [record(0, 0), record(0, 1)]


@pytest.fixture
def killed(monkeypatch):
    """Kills that only tell what was asked for; the fourth shows a fault."""
    asked = []

    def kill(application, step, share, **_):
        asked.append((application, step, share))
        return True, ("a file is left",) if len(asked) == 4 else ()

    monkeypatch.setattr(kills, "kill", kill)
    monkeypatch.setattr(kills, "undisturbed_seconds", lambda *_: dict.fromkeys(undisturbed.STEPS, 1.0))
    return asked


def test_kills_of_all_runs_are_in_the_table(tmp_path, killed):
    def task(count: int, seed: int, applications: tuple[str, ...] | None = None) -> campaign.Task:
        return campaign.Task(count, seed, tmp_path / "kills.jsonl", tmp_path, applications)

    campaign.run_kills(task(10, 0, ("lane",)))
    assert [application for application, *_ in killed] == ["lane", "lane"]
    rows, faulty = campaign.run_kills(task(10, 0))
    assert len(killed) == 10  # the two of lane are known
    assert sum(row["kills"] for row in rows) == 10
    assert [list(each["faults"]) for each in faulty] == [["a file is left"]]
    rows, faulty = campaign.run_kills(task(10, 0))
    assert len(killed) == 11  # the one with the fault
    assert killed[-1] == killed[3]
    assert not faulty
    rows, _ = campaign.run_kills(task(3, 1))
    assert sum(row["kills"] for row in rows) == 13


@pytest.mark.usefixtures("killed")
def test_a_number_is_the_same_kill_whatever_else_is_wanted(tmp_path):
    everything = list(kills.run(range(25), 0, tmp_path))
    assert len({(each.application, each.step) for each in everything}) == 25
    own = list(kills.run(range(25), 0, tmp_path, ("sonar",), ("export",)))
    assert [(each.application, each.step) for each in own] == [("sonar", "export")]
    assert all(isinstance(each, Kill) for each in own)
    assert own[0].share in {each.share for each in everything if each.number == own[0].number}
