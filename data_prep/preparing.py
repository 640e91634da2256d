"""What preparing takes whatever the modality: worker processes, what was left out."""

import csv
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import joblib

from data_prep.errors import InputError
from data_prep.manifest import file_sha256
from data_prep.pairing import Skipped

SKIPPED_NAME = "skipped.csv"

ROUND = 16
"""Items per process between two returns of results."""

Progress = Callable[[str, int, int], None]
"""Called with a description of the stage, the number of files done and the number of files in all."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_in_rounds(
    stage: str,
    function: Callable[..., Any],
    items: Sequence[Item],
    arguments: tuple[Any, ...],
    *,
    jobs: int,
    progress: Progress | None,
) -> Iterator[tuple[Item, Any]]:
    """Apply a function to each item in worker processes; yield items and results in order.

    Args:
        stage: what to tell `progress`.
        function: called with an item and `arguments`.
        items: what to work on.
        arguments: the same for all items.
        jobs: number of processes.
        progress: called after each item.

    Yields:
        each item and what the function returned.

    Raises:
        InputError: fewer than one process.
    """
    if jobs < 1:
        raise InputError(f"jobs is {jobs}; expected at least 1 process.")
    done = 0
    for start in range(0, len(items), ROUND * jobs):  # in rounds, for results wait in memory
        round_items = items[start : start + ROUND * jobs]
        results = joblib.Parallel(n_jobs=jobs)(
            joblib.delayed(function)(item, *arguments) for item in round_items
        )
        for item, result in zip(round_items, results, strict=True):
            done += 1
            if progress is not None:
                progress(stage, done, len(items))
            yield item, result


def without_skipped(results: Iterable[Result | Skipped], skipped: list[Skipped]) -> Iterator[Result]:
    """Yield the results that can be used; append the others to `skipped`."""
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
    """As `without_skipped`, of results that may themselves complain of parts that cannot be used."""
    good: list[Surveyed] = []
    for result in without_skipped(results, skipped):
        good.append(result)
        skipped += result.complaints
    return good


def require_good(good: Sequence[object], what: str, folder: Path, skipped: Sequence[Skipped]) -> None:
    """Raise where nothing is left to work on.

    Args:
        good: what can be used.
        what: its name, such as "pair of image and mask".
        folder: named in the message.
        skipped: what cannot be used, with the reasons.

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
    """Say of the names of a list that nothing was found for them.

    Args:
        list_file: the list, or None.
        names: that it has.
        known: names that were found.
        skipped: files that were found but cannot be used; what they have is not said again.
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
    """Write `skipped.csv` with the columns file and reason."""
    with (folder / SKIPPED_NAME).open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "reason"])
        writer.writerows([str(entry.file), entry.reason] for entry in skipped)


def checksums(folder: Path, files: Iterable[str]) -> dict[str, str]:
    """SHA-256 of shards and other files, and of `skipped.csv`, by name, for the manifest."""
    return {name: file_sha256(folder / name) for name in [*sorted(set(files)), SKIPPED_NAME]}
