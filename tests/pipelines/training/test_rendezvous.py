"""Processes of one training meet, or say who is missing within the time given."""

import socket
import threading
import time

import pytest

from data_prep.errors import InputError
from pipelines.command.strategies import ClusterTask
from pipelines.errors import ProcessLost
from pipelines.training import rendezvous
from pipelines.training.rendezvous import wait_for_processes


def addresses(count: int) -> tuple[str, ...]:
    """Free ports of this machine."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [some.getsockname()[1] for some in sockets]
    for some in sockets:
        some.close()
    return tuple(f"127.0.0.1:{port}" for port in ports)


def outcomes(tasks: list[ClusterTask], *, seconds: float = 20.0) -> list[Exception | None]:
    """Let all tasks meet at once; return what each of them raised."""
    found: list[Exception | None] = [None] * len(tasks)

    def run(place: int) -> None:
        try:
            wait_for_processes(tasks[place], seconds=seconds)
        except (InputError, ProcessLost) as error:
            found[place] = error

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(tasks))]
    for thread in reversed(threads):  # the chief last: workers wait for it
        thread.start()
        time.sleep(0.1)
    for thread in threads:
        thread.join(60.0)
    return found


def tasks_of(all_addresses: tuple[str, ...], numbers: list[int]) -> list[ClusterTask]:
    return [ClusterTask(all_addresses, number, f"worker {number}") for number in numbers]


def test_all_go_on_when_all_are_there_and_the_port_is_free_again():
    all_addresses = addresses(3)
    assert outcomes(tasks_of(all_addresses, [0, 1, 2])) == [None] * 3
    socket.create_server(("127.0.0.1", int(all_addresses[0].rpartition(":")[2]))).close()


@pytest.mark.slow
def test_a_process_that_does_not_come_is_named_in_all_others():
    all_addresses = addresses(3)
    chief, worker = outcomes(tasks_of(all_addresses, [0, 1]), seconds=1.5)
    assert isinstance(chief, ProcessLost)
    assert f"process 3 of 3 ({all_addresses[2]}) did not come within 1.5 seconds" in str(chief)
    assert isinstance(worker, ProcessLost | InputError)


def test_a_worker_waits_for_the_chief_no_longer_than_asked():
    (worker,) = outcomes(tasks_of(addresses(2), [1]), seconds=0.5)
    assert isinstance(worker, ProcessLost)
    assert "did not answer worker 1" in str(worker)


def test_two_processes_with_one_task_are_refused():
    found = outcomes(tasks_of(addresses(3), [0, 1, 1]))
    assert all(isinstance(error, InputError) for error in found)
    assert "Two processes have the task of process 2 of 3" in str(found[0])


def test_another_version_is_refused_in_all(monkeypatch):
    versions = iter(["0.0.1", "0.1.0", "0.1.0", "0.1.0"])
    monkeypatch.setattr(rendezvous, "version", lambda _: next(versions))
    chief, worker = outcomes(tasks_of(addresses(2), [0, 1]))
    assert isinstance(chief, InputError)
    assert isinstance(worker, InputError)
    assert "has gpimaging 0.0.1, but the chief has 0.1.0" in str(chief)


@pytest.mark.slow
def test_a_stranger_does_not_count():
    all_addresses = addresses(2)

    def knock() -> None:
        time.sleep(0.3)
        port = int(all_addresses[0].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\n")

    thread = threading.Thread(target=knock)
    thread.start()
    (chief,) = outcomes(tasks_of(all_addresses, [0]), seconds=2.0)
    thread.join()
    assert isinstance(chief, ProcessLost)


def visit(address: str, words: bytes, seconds: float) -> threading.Thread:
    """Connect to a chief as soon as it listens, say something, and leave after a time."""

    def come() -> None:
        host, _, port = address.rpartition(":")
        for _ in range(100):
            try:
                with socket.create_connection((host, int(port)), timeout=1.0) as connection:
                    connection.sendall(words)
                    time.sleep(seconds)
                return
            except ConnectionError:
                time.sleep(0.02)

    thread = threading.Thread(target=come)
    thread.start()
    return thread


@pytest.mark.slow
def test_a_stranger_who_says_nothing_holds_up_nobody_for_long(monkeypatch):
    monkeypatch.setattr(rendezvous, "_GREETING_SECONDS", 0.3)
    all_addresses = addresses(2)
    stranger = visit(all_addresses[0], b"", 4.0)
    started = time.monotonic()
    assert outcomes(tasks_of(all_addresses, [0, 1])) == [None] * 2
    assert time.monotonic() - started < 4.0
    stranger.join()


def test_a_process_that_ends_and_is_started_again_takes_its_place():
    all_addresses = addresses(3)
    greeting = f"gpimaging {rendezvous.version('gpimaging')} 1\n".encode()
    ended = visit(all_addresses[0], greeting, 0.0)
    found: list[list[Exception | None]] = []
    waiting = threading.Thread(target=lambda: found.append(outcomes(tasks_of(all_addresses, [0, 2]))))
    waiting.start()
    ended.join()
    time.sleep(0.5)  # the chief has seen it come and go
    assert outcomes([ClusterTask(all_addresses, 1, "worker 1")]) == [None]
    waiting.join()
    assert found == [[None, None]]


def test_a_process_of_another_cluster_is_refused_in_all():
    all_addresses = addresses(3)
    chief = ClusterTask(all_addresses[:2], 0, "worker 0")
    other = ClusterTask(all_addresses, 2, "worker 2")
    for error in outcomes([chief, other]):
        assert isinstance(error, InputError)
        assert "whose TF_CONFIG has 2 processes. Give all of them the same cluster" in str(error)


def test_a_port_in_use_is_named():
    with socket.create_server(("", 0)) as taken:
        task = ClusterTask((f"127.0.0.1:{taken.getsockname()[1]}", "127.0.0.1:1"), 0, "worker 0")
        with pytest.raises(InputError, match=r"cannot listen on port .* Choose a free port in TF_CONFIG"):
            wait_for_processes(task)
