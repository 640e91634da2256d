"""Where files are worked on: processes of this machine, or the workers of a Dask cluster.

Everything about Dask is here. It is imported when a cluster is asked for, since it is optional.
"""

import asyncio
import concurrent.futures
import logging
import re
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

from data_prep.errors import ClusterLost, InputError, Skipped
from data_prep.prepared.tasks import Task, TaskResult, TaskSizer

WINDOW: Final = 16
"""Items per worker that are handed out before their results have come back, where nobody asks for fewer and
`WINDOW_TASKS` are not more."""

WINDOW_TASKS: Final = 4
"""Tasks per worker that are handed out at least, where nobody asks for fewer items: new ones follow when half
of them are back, so that a worker always has one to go on with. A task has `MOST_ITEMS` at most, so no more
than 128 results per worker are in memory, and so many only of items that take 8 ms or less."""

_LOCAL: Final = re.compile(r"local:([1-9]\d*)")
_ADDRESS: Final = re.compile(r"(tcp|tls|ws|wss)://[^/\s]+:\d+")

_CONNECT_SECONDS: Final = 10.0
_WORKER_SECONDS: Final = 30.0  # until the first worker of a cluster has to be there
_LOOK_AGAIN_SECONDS: Final = 10.0  # between two looks at whether a cluster still has workers

_HOW_TO_START: Final = (
    "Start a scheduler with `dask scheduler`, and workers with `dask worker {address} --nthreads 1`; or give "
    "--cluster local:4 for four processes of this machine."
)

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Cluster:
    """A Dask cluster that is connected; see `open_cluster`.

    Attributes:
        address: What the user gave for it, for messages.
        client: The `distributed.Client`.
    """

    address: str
    client: Any


Workers = int | Cluster
"""A number of processes on this machine, or a cluster."""


class _ForeignWorkerError(Exception):
    """A worker that joined a running step cannot be used; the message says why."""


@contextmanager
def open_cluster(address: str) -> Iterator[Cluster]:
    """Connect to a Dask cluster, or start one of processes on this machine.

    Args:
        address: `tcp://HOST:PORT` of a scheduler that runs, or `local:N` for N processes of this machine.

    Yields:
        The cluster, whose workers run this version of gpimaging.

    Raises:
        InputError: The address is none, Dask is not installed, nothing answers at the address, no worker is
            there, or a worker cannot be used.
    """
    local = _LOCAL.fullmatch(address)
    if local is None and not _ADDRESS.fullmatch(address):
        raise InputError(
            f"--cluster {address}: expected tcp://HOST:PORT of a Dask scheduler, such as tcp://host:8786, or "
            "local:N for N processes of this machine, such as local:4."
        )
    distributed = _import_distributed()
    with ExitStack() as stack:
        # A scheduler on its way out logs and warns of what this module says in one message.
        stack.enter_context(_silence())
        if local is None:
            client = _connect(distributed, address)
        else:
            client = stack.enter_context(_local_cluster(distributed, int(local[1])))
        stack.callback(_close, client)
        cluster = Cluster(address, client)
        _require_workers(distributed, cluster)
        _require_same_version(cluster)
        yield cluster


def work_in_order(
    cluster: Cluster,
    function: Callable[..., Any],
    items: Sequence[Item],
    arguments: tuple[Any, ...],
    file_of: Callable[[Item], Path],
    ahead: int | None = None,
) -> Iterator[tuple[Item, Any]]:
    """Apply a function to each item on the workers of a cluster; yield items and results in order.

    Only a window of items is handed out at a time, so memory does not grow with their number. Quick items go
    several in a task, by what those before took, for a task costs more than they do. What a worker had when
    it ended is done again by another one.

    Args:
        cluster: The cluster.
        function: Function that is called with an item and `arguments`; importable by the workers.
        items: Items to work on.
        arguments: Arguments that are the same for all items.
        file_of: Returns the file that an item is read from.
        ahead: Items per worker that are handed out before their results have come back, where they are large,
            each in a task of its own; None for `WINDOW` or `WINDOW_TASKS`, whichever is more.

    Yields:
        Each item and what the function returned, or a `Skipped` where each worker that took the item ended:
        once beside others, and once more while it was the only item handed out.

    Raises:
        Exception: What the function raises for an item, after the results of the items before it. One that
            was not the first item of its task is worked on once more before that.
        InputError: A worker that joined later cannot be used.
        ClusterLost: The scheduler no longer answers, or has no workers any more.
    """
    distributed = _import_distributed()
    call = _Call(function, arguments, Path.cwd(), version("gpimaging"))
    sizer = TaskSizer()
    waiting: deque[_OpenTask] = deque()
    handed_out = 0
    with _explained(cluster):
        while handed_out < len(items) or waiting:
            size = sizer.items_in_a_task() if ahead is None else 1
            window = (ahead or max(WINDOW, WINDOW_TASKS * size)) * max(1, _num_workers(cluster))
            not_back = sum(len(task.items) for task in waiting)
            if not_back <= window // 2:
                some = items[handed_out : handed_out + window - not_back]
                waiting.extend(_hand_out(cluster, call, some, size, are_large=ahead is not None))
                handed_out += len(some)
            _wait(distributed, cluster, [waiting[0]])
            if waiting[0].future.status == "error":
                failed = waiting.popleft()
                yield from _second_tries(distributed, cluster, call, failed, waiting, file_of)
                continue
            done = []  # none where a worker ended after its work: then the scheduler has it done again
            while waiting and waiting[0].future.status == "finished":
                done.append(waiting.popleft())
            for number, (task, result) in enumerate(zip(done, _gather(cluster, done), strict=True), 1):
                sizer.observe(result)
                results = result.results
                yield from zip(task.items[: len(results)], results, strict=True)
                if len(results) < len(task.items):  # the rest comes before the results of the next task
                    rest = task.items[len(results) :]
                    again = _hand_out(cluster, call, rest, sizer.items_in_a_task())
                    waiting.extendleft(reversed(again + done[number:]))
                    break


@dataclass(frozen=True)
class _OpenTask:
    """A task that was handed out.

    Attributes:
        items: The items of it.
        future: The `distributed.Future` of their `TaskResult`.
    """

    items: Sequence[Any]
    future: Any


@dataclass(frozen=True)
class _Call:
    """What a worker does with the items of a task.

    Attributes:
        function: Called with an item and `arguments`.
        arguments: The same for all items.
        folder: Where the command was started: relative paths begin there.
        version: Of gpimaging, where the command was started.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    folder: Path
    version: str

    def __call__(self, task: Task) -> TaskResult:
        complaint = _complaint(self.version)
        if complaint is not None:  # workers may join at any time
            raise _ForeignWorkerError(complaint)
        return task.work(self.folder, self.function, self.arguments)


def _hand_out(
    cluster: Cluster, call: _Call, items: Sequence[Any], size: int = 1, *, are_large: bool = False
) -> list[_OpenTask]:
    """Hand out items in tasks of `size` items, and the last of what is left."""
    tasks = [Task(items[start : start + size]) for start in range(0, len(items), size)]
    with warnings.catch_warnings():
        if are_large:  # images in memory come with the call: without a file there is no other way
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        futures = cluster.client.map(call, tasks, pure=False, key="gpimaging")
    return [_OpenTask(task.items, future) for task, future in zip(tasks, futures, strict=True)]


def _second_tries(
    distributed: ModuleType,
    cluster: Cluster,
    call: _Call,
    failed: _OpenTask,
    others: Sequence[_OpenTask],
    file_of: Callable[[Any], Path],
) -> Iterator[tuple[Any, Any]]:
    """Yield the items of a task whose worker ended and their results, doing each once more, alone.

    Where a worker ends, all that it was given is in doubt, so what was handed out is waited for first.
    """
    if not isinstance(failed.future.exception(), distributed.KilledWorker):
        failed.future.result()  # raises what the function raised
    _wait(distributed, cluster, others)
    for item in failed.items:
        [alone] = _hand_out(cluster, call, [item])
        _wait(distributed, cluster, [alone])
        if alone.future.status != "error":
            result = _gather(cluster, [alone])[0].results[0]
        elif isinstance(alone.future.exception(), distributed.KilledWorker):
            result = ended_its_workers(file_of(item))
        else:
            result = alone.future.result()  # raises what the function raised
        # Else an item that is done is made anew where the next one ends the worker that has its result.
        alone.future.release()
        yield item, result


def ended_its_workers(file: Path) -> Skipped:
    """Return why a file is left out that no worker came back from, though the last one had it alone."""
    return Skipped(
        file,
        f"{file}: every worker that opened it ended without an answer, the last one with it alone. "
        "It may need more memory than a worker has, or crash a library. Save the file anew, or give the "
        "workers more memory.",
    )


def _wait(distributed: ModuleType, cluster: Cluster, tasks: Sequence[_OpenTask]) -> None:
    """Wait until all tasks have ended, as long as there are workers."""

    def wait(seconds: float) -> None:
        with cluster.client.as_current():
            distributed.wait([task.future for task in tasks], timeout=seconds)

    _while_there_are_workers(cluster, wait)


def _gather(cluster: Cluster, tasks: Sequence[_OpenTask]) -> list[TaskResult]:
    """Return the results of tasks, as long as there are workers: some may have to be made once more."""

    async def gather() -> list[TaskResult]:
        return list(await cluster.client.gather([task.future for task in tasks], asynchronous=True))

    gathered = asyncio.run_coroutine_threadsafe(gather(), cluster.client.loop.asyncio_loop)

    def wait(seconds: float) -> list[TaskResult]:
        if not concurrent.futures.wait([gathered], timeout=seconds).done:
            raise TimeoutError
        return gathered.result()

    return _while_there_are_workers(cluster, wait)


def _while_there_are_workers(cluster: Cluster, wait: Callable[[float], Result]) -> Result:
    """Call a function again and again until it raises no `TimeoutError`.

    Raises:
        ClusterLost: There is no worker for too long.
    """
    without_workers = 0.0
    while True:
        try:
            return wait(_LOOK_AGAIN_SECONDS)
        except TimeoutError:
            without_workers = 0.0 if _num_workers(cluster) else without_workers + _LOOK_AGAIN_SECONDS
            if without_workers > _WORKER_SECONDS:
                raise ClusterLost(
                    f"--cluster {cluster.address}: has no workers any more. "
                    f"{_HOW_TO_START.format(address=cluster.address)}"
                ) from None


def _num_workers(cluster: Cluster) -> int:
    if cluster.client.status != "running":  # Dask tried to connect again, and has given up
        raise _lost(cluster)
    try:
        return len(cluster.client.nthreads())
    except OSError as error:
        raise _lost(cluster) from error


@contextmanager
def _explained(cluster: Cluster) -> Iterator[None]:
    """Turn the errors of a cluster that is gone or cannot be used into those of this project."""
    from distributed import client  # noqa: PLC0415 - optional
    from distributed.comm.core import CommClosedError  # noqa: PLC0415 - optional

    # Version 2024.8 raises a bare `Exception` instead, which `_num_workers` forestalls.
    closed: type[Exception] = getattr(client, "ClosedClientError", CommClosedError)
    try:
        yield
    except (concurrent.futures.CancelledError, CommClosedError, closed) as error:
        raise _lost(cluster) from error
    except _ForeignWorkerError as error:
        raise InputError(f"--cluster {cluster.address}: {error}") from error


def _lost(cluster: Cluster) -> ClusterLost:
    return ClusterLost(
        f"--cluster {cluster.address}: the scheduler no longer answers. Start it and its workers again."
    )


def _import_distributed() -> ModuleType:
    try:
        import dask  # noqa: PLC0415 - optional

        with dask.config.set({"logging": dict.fromkeys(_LOGGERS, "critical")}):
            import distributed  # noqa: PLC0415 - optional; sets up its log on import
    except ImportError as error:
        raise InputError(
            f"--cluster needs Dask, which cannot be imported ({error}). Install it with `pip install "
            "'gpimaging[cluster]'`, or leave --cluster out."
        ) from error
    return distributed


_LOGGERS: Final = ("distributed", "distributed.client", "distributed.gc", "tornado", "tornado.application")


@contextmanager
def _silence() -> Iterator[None]:
    """Keep what Dask logs and warns of off the screen."""
    loggers = [logging.getLogger(name) for name in (*_LOGGERS, "asyncio")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _connect(distributed: ModuleType, address: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other versions of Dask on the two sides mostly work together
            return distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--cluster {address}: no Dask scheduler answers there. {_HOW_TO_START.format(address=address)}"
        ) from error


@contextmanager
def _local_cluster(distributed: ModuleType, number: int) -> Iterator[Any]:
    import dask  # noqa: PLC0415 - optional

    # The first worker that ends puts its files in doubt, and they are tried again one by one.
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(
            n_workers=number,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as processes,
    ):
        yield distributed.Client(processes, set_as_default=False)


def _close(client: Any) -> None:
    client.close(timeout=_CONNECT_SECONDS)


def _require_workers(distributed: ModuleType, cluster: Cluster) -> None:
    try:
        cluster.client.wait_for_workers(1, timeout=_WORKER_SECONDS)
    except (TimeoutError, distributed.TimeoutError) as error:
        raise InputError(
            f"--cluster {cluster.address}: the scheduler has no workers. Start some with `dask worker "
            f"{cluster.address} --nthreads 1`."
        ) from error


def _require_same_version(cluster: Cluster) -> None:
    answers = cluster.client.run(_complaint, version("gpimaging"), on_error="return")
    for worker, answer in answers.items():
        if isinstance(answer, ImportError):
            raise InputError(
                f"--cluster {cluster.address}: the worker {worker} cannot import gpimaging ({answer}). "
                f"Install gpimaging[cluster] {version('gpimaging')} where the workers run."
            )
        if isinstance(answer, BaseException):
            raise answer
        if answer is not None:
            raise InputError(f"--cluster {cluster.address}: {answer}")


def _complaint(wanted: str, dask_worker: Any = None) -> str | None:
    """Return why the worker in which this is called cannot be used, None where it can.

    Args:
        wanted: Version of gpimaging where the command was started.
        dask_worker: The worker, which Dask gives by this name outside of tasks.
    """
    from distributed import get_worker  # noqa: PLC0415 - optional

    worker = dask_worker or get_worker()
    found = version("gpimaging")
    if found != wanted:
        return (
            f"the worker {worker.address} has gpimaging {found}, but the command was started by gpimaging "
            f"{wanted}. Install the same version in both places."
        )
    if worker.state.nthreads != 1:
        return (
            f"the worker {worker.address} has {worker.state.nthreads} threads; expected one, for files are "
            "read by processes. Start workers with `dask worker ADDRESS --nworkers auto --nthreads 1`."
        )
    return None
