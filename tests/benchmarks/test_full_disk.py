"""What a command does wrong that meets an obstacle is noticed."""

import json
from collections import Counter

import pytest

from benchmarks.reliability import full_disk
from benchmarks.reliability.full_disk import (
    FILES,
    FULL,
    NO_READING,
    NO_WRITING,
    READ_ONLY,
    Hindered,
    Plan,
    faults_of,
    names_skipped,
    plan,
    rows_of,
)
from benchmarks.reliability.undisturbed import WAYS_ON_VIEWS, turn_of_views
from benchmarks.reliability.ways import WAYS, Ended, faults_of_again, go, inputs_of

NO_SPACE = "Error: /a/out: No space left on device.\n"


def test_a_number_gives_one_plan_and_numbers_all_kinds():
    plans = [plan(number, 0) for number in range(100)]
    assert plans == [plan(number, 0) for number in range(100)]
    assert plans != [plan(number, 1) for number in range(100)]
    obstacles = Counter(each.obstacle for each in plans)
    assert obstacles.keys() == {FULL, READ_ONLY, NO_WRITING, NO_READING}
    assert obstacles[FULL] > 45
    assert len({(each.application, each.step) for each in plans}) == 25
    assert {each.step for each in plans if each.overwrite} == {"prepare", "export"}
    without = {plan(number, 0, mounts=False).obstacle for number in range(100)}
    assert without == {FILES, NO_WRITING, NO_READING}


def test_tries_on_views_reach_every_step_of_their_ways():
    plans = [plan(number, 0, turn_of=turn_of_views) for number in range(100)]
    reached = {(each.application, each.step) for each in plans}
    assert ("video features", "features") in reached
    assert {name for name, _ in reached} == set(WAYS_ON_VIEWS)
    assert all(step in WAYS[name].steps for name, step in reached)


@pytest.mark.parametrize(
    ("name", "step", "given"),
    [
        ("lane", "prepare", ["data"]),
        ("sonar", "prepare", ["data", "boxes.csv"]),
        ("cells", "prepare", ["data", "test.txt"]),
        ("lane", "train", ["prepare"]),
        ("video features", "features", ["prepare", "clips"]),
        ("video features", "train", ["features"]),
        ("video features", "evaluate", ["features", "train"]),
        ("classify", "export", ["train"]),
        ("cells", "predict", ["export", "new"]),
    ],
)
def test_what_may_not_be_read_is_what_the_step_is_given(name, step, given):
    assert inputs_of(name, step) == given


@pytest.mark.parametrize(
    ("code", "errors", "fault"),
    [
        (1, NO_SPACE, None),
        (2, "Note: nothing.\n" + NO_SPACE, None),
        (0, "", None),
        (3, NO_SPACE, "exit code 3"),
        (None, "", "exit code None"),
        (1, "Error: No space left on device.\n", "the message does not name /a/out"),
        (1, NO_SPACE + NO_SPACE, "2 messages"),
        (1, "Traceback (most recent call last):\n" + NO_SPACE, "on the screen: Traceback"),
        (1, NO_SPACE + "Traceback (most recent call last):\n", "on the screen: Traceback"),
        (1, "W0000 a file could not be flushed\n" + NO_SPACE, "on the screen: W0000"),
    ],
)
def test_faults_of_a_command_that_met_an_obstacle(code, errors, fault):
    found = list(faults_of(Ended(code, "", errors, 1.0, 0.0), "/a/out"))
    assert [fault in each for each in found] == ([] if fault is None else [True])


def test_the_command_must_succeed_without_the_obstacle():
    assert not list(faults_of_again(Ended(0, "", "", 1.0, 0.0)))
    assert not list(faults_of_again(Ended(2, "", "Error: a: already exists.\n", 1.0, 0.0)))
    (fault,) = faults_of_again(Ended(1, "", NO_SPACE, 1.0, 0.0))
    assert fault.startswith("the second command ended with 1")


def test_a_table_of_what_was_left_out_names_it(tmp_path):
    assert not names_skipped(tmp_path / "skipped.csv", "3.png")
    (tmp_path / "skipped.csv").write_text("file,reason\nnew/3.png,new/3.png: cannot be opened\n")
    assert names_skipped(tmp_path / "skipped.csv", "3.png")
    assert not names_skipped(tmp_path / "skipped.csv", "4.png")


def test_a_record_holds_all_of_a_try():
    planned = Plan(3, 1, "lane", "train", FULL, 0.5, overwrite=False)
    tried = Hindered(planned, 1, "./train: No space left on device.", ["a is left"])
    record = json.loads(json.dumps(tried.record))
    assert (record["seed"], record["number"], record["faults"]) == (3, 1, ["a is left"])
    assert Hindered.of_record(record) == tried


def test_rows_count_tries_of_each_obstacle():
    first = Plan(3, 0, "lane", "train", FULL, 0.5, overwrite=False)
    second = Plan(3, 1, "classify", "prepare", FULL, 0.5, overwrite=True)
    third = Plan(3, 2, "lane", "train", NO_READING, 0.5, overwrite=False)
    full, hidden = rows_of(
        [
            Hindered(first, 1, "no space", ()),
            Hindered(second, 3, "", ("exit code 3", "a is left")),
            Hindered(third, 0, "", ()),
        ]
    )
    assert (full["steps"], full["applications"], full["tries"]) == ("prepare, train", "lane, classify", 2)
    assert (full["not in the way"], full["with faults"]) == (0, 1)
    assert full["faults"] == "3-1, classify prepare: exit code 3, a is left"
    assert (hidden["obstacle"], hidden["tries"], hidden["not in the way"]) == (NO_READING, 1, 1)


@pytest.mark.slow
def test_a_hindered_prepare_shows_no_fault(tmp_path):
    go("classify", tmp_path, ("prepare",))
    found = full_disk.hinder(Plan(3, 0, "classify", "prepare", FILES, 0.5, overwrite=True), tmp_path)
    assert found.code in {1, 2}
    assert not found.faults
