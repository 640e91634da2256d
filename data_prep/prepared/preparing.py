"""What preparing takes whatever the modality: worker processes, what was left out."""

import multiprocessing
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import joblib
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.backend.process import LokyProcess
from joblib.externals.loky.process_executor import TerminatedWorkerError

from data_prep.errors import InputError, Skipped
from data_prep.files.tables import write_table
from data_prep.prepared.manifest import file_sha256
from data_prep.prepared.tasks import call_in_folder
from data_prep.prepared.workers import Cluster, Workers, ended_its_workers, work_in_order

SKIPPED_NAME = "skipped.csv"

ROUND = 16
"""Items per process between two returns of results."""

Progress = Callable[[str, int, int], None]
"""Function that is called with a description of the stage, the number of files done and of all files."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_in_rounds(
    stage: str,
    function: Callable[..., Any],
    items: Sequence[Item],
    arguments: tuple[Any, ...],
    *,
    jobs: Workers,
    progress: Progress | None,
    file_of: Callable[[Item], Path],
) -> Iterator[tuple[Item, Any]]:
    """Apply a function to each item in worker processes; yield items and results in order.

    Neither the results nor their order depend on where the work is done.

    Args:
        stage: Description of the stage, for `progress`.
        function: Function that is called with an item and `arguments`.
        items: Items to work on.
        arguments: Arguments that are the same for all items.
        jobs: Number of processes, or a cluster.
        progress: Function that is called after each item.
        file_of: Returns the file that an item is read from.

    Yields:
        Each item and what the function returned; or a `Skipped`, where each worker that took the item ended.

    Raises:
        InputError: Fewer than one process, or a worker of the cluster cannot be used.
        ClusterLost: The cluster no longer answers.
    """
    results = (
        work_in_order(jobs, function, items, arguments, file_of)
        if isinstance(jobs, Cluster)
        else _in_rounds(function, items, arguments, jobs, file_of)
    )
    for done, (item, result) in enumerate(results, 1):
        if progress is not None:
            progress(stage, done, len(items))
        yield item, result


def _in_rounds(
    function: Callable[..., Any],
    items: Sequence[Item],
    arguments: tuple[Any, ...],
    jobs: int,
    file_of: Callable[[Item], Path],
) -> Iterator[tuple[Item, Any]]:
    if jobs < 1:
        raise InputError(f"jobs is {jobs}; expected at least 1 process.")
    folder = Path.cwd()

    def call(item: Item) -> tuple[Any, ...]:
        return joblib.delayed(call_in_folder)(folder, function, item, *arguments)

    for start in range(0, len(items), ROUND * jobs):  # in rounds, for results wait in memory
        round_items = items[start : start + ROUND * jobs]
        try:
            results = joblib.Parallel(n_jobs=jobs)(map(call, round_items))
        except TerminatedWorkerError:
            # Any item of the round may have done it: each of them has a second try, alone.
            results = [_alone(call(item), file_of(item)) for item in round_items]
        yield from zip(round_items, results, strict=True)


def _alone(call: tuple[Any, ...], file: Path) -> Any:
    """Return the result of a call in a worker that has nothing else to do, or a `Skipped` where it ended."""
    try:
        return joblib.Parallel(n_jobs=2)([call])[0]  # one process would be this one
    except TerminatedWorkerError:
        return ended_its_workers(file)


def end_workers() -> None:
    """End the processes that wait for work; without it Python waits for them when it exits.

    Each ends when something asks it to, or after five minutes without work, so that on a busy machine a
    command whose work was done might not end.
    """
    if any(isinstance(child, LokyProcess) for child in multiprocessing.active_children()):
        # Where there is no executor, asking for it would start one, and a process that tracks its resources.
        get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


def without_skipped(results: Iterable[Result | Skipped], skipped: list[Skipped]) -> Iterator[Result]:
    """Yield the results that can be used; append the others to `skipped`.

    Args:
        results: What workers return: results, or why something cannot be used.
        skipped: List to append to.
    """
    for result in results:
        if isinstance(result, Skipped):
            skipped.append(result)
        else:
            yield result


class _Surveyed(Protocol):
    @property
    def complaints(self) -> Sequence[Skipped]: ...


Surveyed = TypeVar("Surveyed", bound=_Surveyed)


def with_complaints(results: Iterable[Surveyed | Skipped], skipped: list[Skipped]) -> list[Surveyed]:
    """Return the results that can be used; append the others, and what each complains of, to `skipped`.

    Args:
        results: What workers return: results, each with complaints, or why something cannot be used.
        skipped: List to append to.
    """
    good: list[Surveyed] = []
    for result in without_skipped(results, skipped):
        good.append(result)
        skipped += result.complaints
    return good


def require_good(good: Sequence[object], what: str, folder: Path, skipped: Sequence[Skipped]) -> None:
    """Refuse to go on where nothing is left to work on.

    Args:
        good: Items that can be used.
        what: Name of such an item, such as "pair of image and mask".
        folder: Named in the message.
        skipped: Files that cannot be used, with the reasons.

    Raises:
        InputError: `good` is empty.
    """
    if not good:
        reasons = "\n".join(f"  {entry.reason}" for entry in skipped[:10])
        more = f"\n  and {len(skipped) - 10} more" if len(skipped) > 10 else ""
        raise InputError(f"{folder}: no {what} can be used.\n{reasons}{more}")


def not_found(
    list_file: Path | None, names: Iterable[str] | None, known: Collection[str], skipped: Sequence[Skipped]
) -> list[Skipped]:
    """Report the names of a list for which nothing was found.

    Args:
        list_file: File of the list, or None where there is none.
        names: Names that the list has.
        known: Names that were found.
        skipped: Files that were found but cannot be used; what they have is not said again.

    Returns:
        An entry for each name that is neither known nor that of a skipped file; none without a list.
    """
    if list_file is None:
        return []
    left_out = [entry.file.with_suffix("").as_posix() for entry in skipped]
    return [
        Skipped(
            list_file,
            f"{list_file}: {name!r} is not among what there is to prepare. Add it or correct the list.",
        )
        for name in names or ()
        if name not in known and not any(path.endswith(f"/{name}") for path in left_out)
    ]


def write_skipped(folder: Path, skipped: Iterable[Skipped]) -> None:
    """Write `skipped.csv` with the columns file and reason.

    Args:
        folder: Folder to write into.
        skipped: Entries in the order of the rows.
    """
    rows = ((str(entry.file), entry.reason) for entry in skipped)
    write_table(folder / SKIPPED_NAME, ["file", "reason"], rows)


def checksums(folder: Path, files: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of shards and other files, and of `skipped.csv`, by name, for the manifest.

    Args:
        folder: Folder that has the files.
        files: Names of the files; a name may be there more than once.
    """
    return {name: file_sha256(folder / name) for name in [*sorted(set(files)), SKIPPED_NAME]}
