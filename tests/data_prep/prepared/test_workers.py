"""A Dask cluster gives what processes give: in order, a window at a time, whoever is killed."""

import csv
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from data_prep.errors import ClusterLost, InputError, Skipped
from data_prep.prepared import tasks, workers
from data_prep.prepared.preparing import run_in_rounds
from data_prep.prepared.tasks import MOST_ITEMS, TaskSizer
from data_prep.prepared.workers import WINDOW, Cluster, open_cluster, work_in_order

ROOT = Path(__file__).parents[3]


def work(cluster: Cluster, function, items, *arguments, progress=None) -> Iterator[tuple]:
    """Apply a function to numbers whose files are called `file 1` and so on."""
    return run_in_rounds(
        "Powers",
        function,
        items,
        arguments,
        jobs=cluster,
        progress=progress,
        file_of=lambda number: Path(f"file {number}"),
    )


@pytest.fixture
def address() -> str:
    """Where nothing answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch):
    """A function that starts a scheduler with workers in this process, and returns it."""
    distributed = pytest.importorskip("distributed", reason="Dask is optional (gpimaging[cluster])")
    monkeypatch.setattr(workers, "_WORKER_SECONDS", 0.3)
    started = []

    def start(number: int, threads: int = 1):
        cluster = distributed.LocalCluster(
            n_workers=number,
            processes=False,
            threads_per_worker=threads,
            dashboard_address="127.0.0.1:0",
            protocol="tcp",
        )
        started.append(cluster)
        return cluster

    yield start
    for cluster in started:
        cluster.close()


def test_results_come_in_the_order_of_the_items(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WINDOW", 2)
    calls: list[tuple[str, int, int]] = []
    results = work(cluster, pow, range(2, 9), 2, progress=lambda *call: calls.append(call))
    assert list(results) == [(n, n * n) for n in range(2, 9)]
    assert calls == [("Powers", n, 7) for n in range(1, 8)]
    assert list(work(cluster, pow, [], 2)) == []


@pytest.fixture
def handed_out(monkeypatch: pytest.MonkeyPatch) -> list[list[list[int]]]:
    """Items of the tasks that are handed out together, which are appended as they are."""
    together: list[list[list[int]]] = []
    hand_out = workers._hand_out

    def kept(*arguments, **keywords):
        tasks = hand_out(*arguments, **keywords)
        together.append([list(task.items) for task in tasks])
        return tasks

    monkeypatch.setattr(workers, "_hand_out", kept)
    return together


@pytest.fixture
def set_size(monkeypatch: pytest.MonkeyPatch):
    """A function that sets the number of items in a task, whatever they take."""

    def set_to(size: int) -> None:
        monkeypatch.setattr(TaskSizer, "items_in_a_task", lambda _: size)

    return set_to


@pytest.mark.parametrize(("size", "window"), [(1, 3), (5, 4 * 5)])
def test_only_a_window_is_handed_out_at_a_time_and_no_worker_is_left_without_a_task(
    size, window, cluster: Cluster, handed_out, set_size, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "WINDOW", 3)
    monkeypatch.setattr(workers, "WINDOW_TASKS", 4 if size > 1 else 1)
    set_size(size)
    not_back = []
    for seen, _ in enumerate(work(cluster, pow, range(150), 2)):
        not_back.append(sum(len(items) for tasks in handed_out for items in tasks) - seen)
    assert [item for tasks in handed_out for items in tasks for item in items] == list(range(150))
    assert max(not_back) == window * len(cluster.client.nthreads())


def test_fewer_large_items_are_handed_out_ahead_and_dask_says_nothing_of_their_size(
    cluster: Cluster, handed_out, set_size
) -> None:
    set_size(5)  # which is not for large items
    items = [bytes(6_000_000)] * 6  # of two, Dask would warn
    found = work_in_order(cluster, len, items, (), lambda _: Path("memory"), ahead=1)
    assert [result for _, result in found] == [6_000_000] * 6
    assert max(len(tasks) for tasks in handed_out) == len(cluster.client.nthreads())
    assert {len(items) for tasks in handed_out for items in tasks} == {1}


def test_quick_items_are_handed_out_one_by_one_and_then_several_in_a_task(
    cluster: Cluster, handed_out
) -> None:
    assert list(work(cluster, pow, range(500), 2)) == [(n, n * n) for n in range(500)]
    sizes = [len(items) for tasks in handed_out for items in tasks]
    first = WINDOW * len(cluster.client.nthreads())
    assert sizes[:first] == [1] * first
    assert 1 < max(sizes) <= MOST_ITEMS
    assert sum(sizes) == 500


def nap(number: int, seconds: float) -> int:
    time.sleep(seconds)
    return number


def test_slow_items_stay_alone(cluster: Cluster, handed_out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WINDOW", 1)
    monkeypatch.setattr(workers, "WINDOW_TASKS", 1)
    assert list(work(cluster, nap, range(8), 0.13)) == [(n, n) for n in range(8)]
    assert {len(items) for tasks in handed_out for items in tasks} == {1}


def test_items_that_turn_out_to_be_slow_go_to_the_other_workers_and_come_back_in_order(
    cluster: Cluster, handed_out, set_size, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "LONGEST_SECONDS", 0.01)
    set_size(8)
    assert list(work(cluster, nap, range(24), 0.006)) == [(n, n) for n in range(24)]
    [first, *later] = handed_out
    assert first == [list(range(start, start + 8)) for start in (0, 8, 16)]
    again = [items for tasks in later for items in tasks]  # what a worker did not begin in time
    assert again[0][-1] == 7
    assert {len(items) for items in again} <= set(range(1, 8))


def test_what_a_function_raises_is_raised_as_it_is(cluster: Cluster) -> None:
    with pytest.raises(ZeroDivisionError):
        list(work(cluster, divmod, [1], 0))


def inverse(number: int, zero: int) -> float:
    return 1 / (number - zero)


def test_what_a_function_raises_in_the_middle_of_a_task_comes_after_the_results_before_it(
    cluster: Cluster, handed_out, set_size
) -> None:
    set_size(4)
    results = work(cluster, inverse, range(20), 6)
    assert [next(results) for _ in range(6)] == [(number, 1 / (number - 6)) for number in range(6)]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert [4, 5, 6, 7] in handed_out[0]


@pytest.mark.parametrize(
    "text", ["host:8786", "local", "local:0", "local:x", "http://host:8786", "tcp://host", "tcp://:8786/x"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with (
        pytest.raises(InputError, match=r"--cluster .*: expected tcp://HOST:PORT of a Dask scheduler"),
        open_cluster(text),
    ):
        pass


def test_without_dask_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'gpimaging\[cluster\]'"), open_cluster("local:1"):
        pass


def test_an_unreachable_scheduler_is_named_and_how_to_start_one(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="Dask is optional (gpimaging[cluster])")
    monkeypatch.setattr(workers, "_CONNECT_SECONDS", 0.3)
    expected = f"{address}: no Dask scheduler answers there. Start a scheduler with `dask scheduler`, and"
    with pytest.raises(InputError, match=expected), open_cluster(address):
        pass


def test_a_scheduler_without_workers_is_refused(scheduler) -> None:
    with (
        pytest.raises(InputError, match=r"has no workers\. Start some with `dask worker tcp://"),
        open_cluster(scheduler(0).scheduler_address),
    ):
        pass


def test_workers_with_several_threads_are_refused(scheduler) -> None:
    address = scheduler(1, threads=2).scheduler_address
    with pytest.raises(InputError, match="has 2 threads; expected one"), open_cluster(address):
        pass


def test_workers_of_another_version_are_refused(scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    address = scheduler(1).scheduler_address
    main = threading.current_thread()
    with open_cluster(address) as cluster:  # and those that join later
        found = {True: "1.2", False: "1.1"}
        monkeypatch.setattr(workers, "version", lambda _: found[threading.current_thread() is main])
        expected = r"has gpimaging 1\.1, but the command was started by gpimaging 1\.2\. Install the same"
        with pytest.raises(InputError, match=expected):
            list(work(cluster, pow, [1], 2))
    with pytest.raises(InputError, match=expected), open_cluster(address):
        pass


def test_a_lost_scheduler_ends_the_step(scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_CONNECT_SECONDS", 0.5)
    processes = scheduler(1)
    with open_cluster(processes.scheduler_address) as cluster:
        results = work(cluster, pow, range(100), 2)
        assert next(results) == (0, 0)
        processes.close()
        with pytest.raises(ClusterLost, match=r"no longer answers\. Start it and its workers again\."):
            list(results)


def test_a_scheduler_that_was_lost_while_the_command_was_busy_ends_the_step(scheduler) -> None:
    with open_cluster(scheduler(1).scheduler_address) as cluster:
        results = work(cluster, pow, range(100), 2)
        assert next(results) == (0, 0)
        cluster.client.close()  # as Dask does when it has tried to connect again for too long
        with pytest.raises(ClusterLost, match=r"no longer answers\. Start it and its workers again\."):
            list(results)


def test_lost_workers_end_the_step(scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_LOOK_AGAIN_SECONDS", 0.2)
    processes = scheduler(1)
    with open_cluster(processes.scheduler_address) as cluster:
        results = work(cluster, pow, range(100), 2)
        next(results)
        processes.scale(0)
        with pytest.raises(ClusterLost, match="has no workers any more"):
            list(results)


# With processes


@pytest.fixture(scope="module")
def processes() -> Iterator[Cluster]:
    pytest.importorskip("distributed", reason="Dask is optional (gpimaging[cluster])")
    with open_cluster("local:2") as cluster:
        yield cluster


def end_worker_at(number: int, deadly: tuple[int, ...], marks: Path) -> tuple[int, int]:
    """Return a number and its square; end the process at some numbers, and once more when a mark is there."""
    with (marks / str(number)).open("a") as mark:
        mark.write(".")
    once = marks / "once"
    if number in deadly or (number == 7 and not once.exists()):
        once.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.02)
    return number, number * number


@pytest.mark.slow
def test_a_killed_worker_costs_nothing_and_a_deadly_file_is_skipped_after_two_tries(
    processes: Cluster, tmp_path: Path
) -> None:
    results = dict(work(processes, end_worker_at, range(60), (13, 40), tmp_path))
    assert list(results) == list(range(60))
    skipped = {number: result for number, result in results.items() if isinstance(result, Skipped)}
    assert sorted(skipped) == [13, 40]
    assert skipped[13].file == Path("file 13")
    assert skipped[13].reason.startswith("file 13: every worker that opened it ended without an answer")
    assert all(results[number] == (number, number**2) for number in results.keys() - skipped.keys())
    assert {number: len((tmp_path / str(number)).read_text()) for number in (7, 13, 40)} == {
        7: 2,
        13: 2,
        40: 2,
    }


@pytest.mark.slow
def test_of_a_task_that_ends_its_workers_only_the_deadly_file_is_skipped(
    processes: Cluster, tmp_path: Path, handed_out, set_size
) -> None:
    set_size(8)
    (tmp_path / "once").touch()
    results = list(work(processes, end_worker_at, range(48), (11,), tmp_path))
    assert list(range(8, 16)) in handed_out[0]
    assert [number for number, _ in results] == list(range(48))
    [skipped] = [result for _, result in results if isinstance(result, Skipped)]
    assert skipped.file == Path("file 11")
    assert all(result == (n, n * n) for n, result in results if n != 11)
    tries = [len((tmp_path / str(number)).read_text()) for number in range(8, 16)]
    assert tries == [2, 2, 2, 2, 1, 1, 1, 1]


@pytest.mark.slow
def test_relative_paths_are_those_of_the_present_folder(
    processes: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "here").write_text(name)
        monkeypatch.chdir(tmp_path / name)
        texts = list(work(processes, Path.read_text, [Path("here")] * 4))
        assert [text for _, text in texts] == [name] * 4


@pytest.mark.slow
def test_the_command_prepares_the_same_folder_and_says_nothing_of_dask(tmp_path: Path, write_pairs) -> None:
    pytest.importorskip("distributed", reason="Dask is optional (gpimaging[cluster])")
    images, masks = write_pairs([f"walk_{number}" for number in range(10)])
    (images / "walk_3.png").write_bytes(b"broken")
    for out, where in (("one", ("--jobs", "1")), ("two", ("--cluster", "local:2"))):
        command = [sys.executable, "-m", "pipelines", "lane", "prepare", "--images", images, "--masks", masks]
        ended = subprocess.run(
            [*command, "--size", "6x8", "--out", tmp_path / out, *where],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "distributed" not in ended.stdout
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    with (tmp_path / "two" / "skipped.csv").open(newline="", encoding="utf-8") as file:
        assert [row["file"] for row in csv.DictReader(file)] == [str(images / "walk_3.png")]
