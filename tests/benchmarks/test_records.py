"""What a stopped run of the campaign has tried is known to the next one."""

import pytest

from benchmarks.reliability import __main__ as campaign
from benchmarks.reliability import kills, records, undisturbed, ways
from benchmarks.reliability.records import Records

KEY = ("seed", "number")


def record(seed: int, number: int, *faults: str, sources: str = "one") -> dict:
    return {"seed": seed, "number": number, "faults": list(faults), "sources": sources}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "out" / "kills.jsonl"


def opened(file, sources: str = "one") -> Records:
    return Records(file, KEY, sources)


def test_a_run_goes_on_where_another_was_stopped(file):
    for seed, number in ((1, 0), (0, 2), (0, 0)):
        opened(file).keep({"seed": seed, "number": number, "faults": []})
    assert list(opened(file).missing(range(4), seed=0)) == [1, 3]
    assert list(opened(file, "other").missing(range(4), seed=0)) == [1, 3]
    assert opened(file).all() == [record(0, 0), record(0, 2), record(1, 0)]


def test_what_showed_a_fault_is_tried_again_with_other_sources_alone(file):
    records = opened(file)
    records.keep({"seed": 0, "number": 0, "faults": ["best.weights.h5 differs"]})
    assert not list(records.missing(range(1), seed=0))
    mended = opened(file, "mended")
    assert list(mended.missing(range(1), seed=0)) == [0]
    mended.keep({"seed": 0, "number": 0, "faults": []})
    assert not list(opened(file, "later").missing(range(1), seed=0))
    assert records.all() == [record(0, 0, sources="mended")]


def test_a_line_that_a_killed_run_left_counts_for_nothing(file):
    """Whether the next line is written by a later run, or by another one at the same time."""
    before, beside = opened(file), opened(file)
    before.keep({"seed": 0, "number": 0, "faults": []})
    with file.open("a", encoding="utf-8") as broken:
        broken.write('{"seed": 0, "numb')
    beside.keep({"seed": 0, "number": 1, "faults": []})
    assert opened(file).all() == [record(0, 0), record(0, 1)]


def test_tries_of_another_process_are_in_the_table(file):
    first, second = opened(file), opened(file)
    first.keep({"seed": 0, "number": 0, "faults": []})
    second.keep({"seed": 0, "number": 1, "faults": []})
    assert first.all() == second.all() == [record(0, 0), record(0, 1)]


def test_the_fingerprint_is_of_the_modules(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "ROOT", tmp_path)
    (tmp_path / "gpmodels").mkdir()
    prints = []
    for content in ("a = 1", "a = 2", "a = 1"):
        (tmp_path / "gpmodels" / "a.py").write_text(content)
        prints.append(records.fingerprint_of_sources())
    assert prints[0] == prints[2] != prints[1]
    assert len(prints[0]) == 10


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
    def task(count: int, seed: int, applications: tuple[str, ...] | None = None, sources: str = "one"):
        return campaign.Task(count, seed, tmp_path / "kills.jsonl", sources, tmp_path, applications)

    campaign.run_kills(task(10, 0, ("lane",)))
    assert [application for application, *_ in killed] == ["lane", "lane"]
    rows, faulty = campaign.run_kills(task(10, 0))
    assert len(killed) == 10  # the two of lane are known
    assert sum(row["kills"] for row in rows) == 10
    assert [list(each["faults"]) for each in faulty] == [["a file is left"]]
    campaign.run_kills(task(10, 0))
    assert len(killed) == 10
    rows, faulty = campaign.run_kills(task(10, 0, sources="mended"))
    assert len(killed) == 11  # the one with the fault
    assert killed[-1] == killed[3]
    assert not faulty
    rows, _ = campaign.run_kills(task(3, 1))
    assert sum(row["kills"] for row in rows) == 13


@pytest.mark.usefixtures("killed")
def test_a_number_is_the_same_kill_whatever_else_is_wanted(tmp_path):
    everything = list(kills.run(range(25), 0, tmp_path))
    assert len({(each.application, each.step) for each in everything}) == 25
    own = list(kills.run(range(25), 0, tmp_path, ("sonar",)))
    assert own == [each for each in everything if each.application == "sonar"]
    assert sorted(each.step for each in own) == sorted(ways.STEPS)


def test_ten_kills_on_views_reach_every_step_of_both_ways(tmp_path, monkeypatch, killed):
    monkeypatch.setattr(kills, "undisturbed_seconds", lambda *_: dict.fromkeys(ways.ALL_STEPS, 1.0))
    task = campaign.Task(10, 0, tmp_path / "kills_on_views.jsonl", "one", tmp_path, None)
    rows, _ = campaign.run_kills_on_views(task)
    disturbed = {"cells": ways.STEPS, "video features": ("features", *ways.STEPS[1:])}
    asked = [(way, step) for way, step, _ in killed]
    assert asked == [(way, step) for way, steps in disturbed.items() for step in steps]
    assert all(step in ways.WAYS[way].steps for way, step in asked)
    assert [row["step"] for row in rows] == ["prepare", "features", "train", "evaluate", "export", "predict"]
    assert sum(row["kills"] for row in rows) == 10
