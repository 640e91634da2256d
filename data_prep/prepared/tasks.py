"""Tasks: what a worker is handed at a time, as many items as take it a moment. Nothing here is of Dask."""

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from data_prep.errors import InputError

TASK_SECONDS: Final = 0.25
"""Seconds that a task is meant to take: many times what it costs to hand one out (15 to 20 ms), and few
enough that results come steadily and that all workers end at about the same time."""

LONGEST_SECONDS: Final = 4 * TASK_SECONDS
"""Seconds after which a worker gives back what it has not begun: its items are slower than those before."""

MOST_ITEMS: Final = 32
"""Items in a task at most, whatever they take: more would save less than half a millisecond an item, and the
results of a task are in memory together."""

_RECENT_ITEMS: Final = 64  # whose seconds tell what the next ones take: at least two tasks


@dataclass(frozen=True)
class TaskResult:
    """What a worker returns for a task.

    Attributes:
        results: What the function returned for the first items of the task, at least one.
        seconds: What each of them took.
    """

    results: list[Any]
    seconds: list[float]


@dataclass(frozen=True)
class Task:
    """What a worker is handed at a time.

    Attributes:
        items: One item or more, in their order. Dask does not look into them for keys and functions here, as
            it would in a tuple.
    """

    items: Sequence[Any]

    def work(self, folder: Path, function: Callable[..., Any], arguments: tuple[Any, ...]) -> TaskResult:
        """Apply a function to the items, in a worker, one after another.

        An item that the function raises for is raised for only where it is the first one. Otherwise the task
        ends before it, so that the results before it are not lost; it is then handed out again, as the first
        one. A task ends early, too, where its items take longer than `LONGEST_SECONDS`.

        Args:
            folder: Where the command was started.
            function: Function that is called with an item and `arguments`.
            arguments: Arguments that are the same for all items.

        Returns:
            The results of the first items, mostly of all.

        Raises:
            InputError: The folder is not there on this machine.
        """
        done = TaskResult([], [])
        started = time.perf_counter()
        for item in self.items:
            began = time.perf_counter()
            if done.results and began - started > LONGEST_SECONDS:
                break
            try:
                result = call_in_folder(folder, function, item, *arguments)
            except Exception:
                if not done.results:
                    raise
                break  # the item is handed out again, as the first one, where it raises with its traceback
            done.results.append(result)
            done.seconds.append(time.perf_counter() - began)
        return done


@dataclass(frozen=True)
class TaskSizer:
    """Chooses the number of items of a task by the time that the latest finished tasks took.

    Attributes:
        recent: Seconds of the last items.
    """

    recent: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT_ITEMS))

    def observe(self, result: TaskResult) -> None:
        """Take what the items of a task took into account.

        Args:
            result: What a worker returned for the task.
        """
        self.recent.extend(result.seconds)

    def items_in_a_task(self) -> int:
        """Return how many items take `TASK_SECONDS`: from 1, as long as nothing is known, to `MOST_ITEMS`."""
        if not self.recent:
            return 1
        seconds = sum(self.recent) / len(self.recent)
        return max(1, int(TASK_SECONDS / max(seconds, TASK_SECONDS / MOST_ITEMS)))


def call_in_folder(folder: Path, function: Callable[..., Any], item: Any, *arguments: Any) -> Any:
    """Call a function where relative paths mean what they mean to the caller.

    Worker processes outlive a call and stay in the folder that they were started in.

    Args:
        folder: Folder of the caller.
        function: Function that is called with `item` and `arguments`.
        item: Its first argument.
        arguments: Its other arguments.

    Returns:
        What the function returned.

    Raises:
        InputError: The folder is not there on this machine.
    """
    if Path.cwd() != folder:
        try:
            os.chdir(folder)
        except OSError as error:
            raise InputError(
                f"{folder}: a worker cannot enter the folder in which the command was started "
                f"({error.strerror}). All machines of a cluster must see the files under the same paths."
            ) from error
    return function(item, *arguments)
