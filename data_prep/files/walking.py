"""A folder and its subfolders, one after another."""

from collections.abc import Iterator
from pathlib import Path

from data_prep.errors import InputError, Skipped
from data_prep.files.entries import is_folder, listed


def walked_folders(
    folder: Path, *, leave_out: Path | None = None, closed: list[Skipped] | None = None
) -> Iterator[tuple[Path, list[Path]]]:
    """Yield a folder and all that it holds, a folder before its subfolders, in the order of their names.

    Hidden folders are passed over. Links to folders are followed, but not to a folder that the link lies in:
    it has nothing new, and no end.

    Args:
        folder: The folder.
        leave_out: Folder that is passed over; None for none.
        closed: List to which subfolders are appended that cannot be listed; None where all are needed.

    Yields:
        A folder, and its entries in the order of their names.

    Raises:
        InputError: The folder cannot be listed, or a subfolder cannot and all are needed.
    """
    left_out = None if leave_out is None else leave_out.resolve()
    pending: list[tuple[Path, tuple[Path, ...]]] = [(folder, (folder.resolve(),))]
    while pending:
        current, around = pending.pop()
        try:
            entries = listed(current)
        except InputError as error:
            if closed is None or current == folder:
                raise
            closed.append(Skipped(current, str(error)))
            continue
        yield current, entries
        inside = [(entry, entry.resolve()) for entry in entries if _is_visible_folder(entry)]
        pending += [
            (entry, (*around, place))
            for entry, place in reversed(inside)
            if place != left_out and place not in around
        ]


def _is_visible_folder(path: Path) -> bool:
    return not path.name.startswith(".") and is_folder(path)
