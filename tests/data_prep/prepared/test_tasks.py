"""How many items a worker is handed at a time, and what it gives back."""

import time
from pathlib import Path

import pytest

from data_prep.prepared.tasks import LONGEST_SECONDS, MOST_ITEMS, Task, TaskResult, TaskSizer


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.0, MOST_ITEMS), (0.001, MOST_ITEMS), (0.0099, 25), (0.1, 2), (0.13, 1), (60.0, 1)],
)
def test_a_task_has_as_many_items_as_take_a_quarter_of_a_second(seconds: float, expected: int) -> None:
    sizer = TaskSizer()
    assert sizer.items_in_a_task() == 1
    sizer.observe(TaskResult(["result"] * 3, [seconds] * 3))
    assert sizer.items_in_a_task() == expected


def test_a_start_that_took_long_is_forgotten_and_items_that_become_slow_are_noticed_at_once() -> None:
    sizer = TaskSizer()
    sizer.observe(TaskResult(["result"], [8.0]))
    assert sizer.items_in_a_task() == 1
    for _ in range(2):
        sizer.observe(TaskResult(["result"] * 32, [0.001] * 32))
    assert sizer.items_in_a_task() == MOST_ITEMS
    sizer.observe(TaskResult(["result"], [60.0]))
    assert sizer.items_in_a_task() == 1


def test_a_task_ends_before_an_item_that_raises_unless_it_is_the_first() -> None:
    done = Task([6, 3, 0, 2]).work(Path.cwd(), divmod_of_six, ())
    assert done.results == [(1, 0), (2, 0)]
    assert len(done.seconds) == 2
    with pytest.raises(ZeroDivisionError):
        Task([0, 2]).work(Path.cwd(), divmod_of_six, ())


def divmod_of_six(number: int) -> tuple[int, int]:
    return divmod(6, number)


def test_a_task_ends_early_where_its_items_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr(time, "perf_counter", lambda: LONGEST_SECONDS * next(clock))
    done = Task(range(5)).work(Path.cwd(), abs, ())
    assert done == TaskResult([0], [LONGEST_SECONDS])
