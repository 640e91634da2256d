"""Output that is either complete or absent.

Files and folders are written under a temporary name beside their destination and renamed when complete; after
any error nothing is left behind.
"""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data_prep.errors import InputError

_PARTIAL = ".partial-"


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary name to write a file to; rename it to `path` when the block ends without an error.

    Args:
        path: The destination; an existing file is replaced.

    Yields:
        A path in the same folder, to be opened and written by the caller.

    Raises:
        InputError: The system refuses to write (disk full, read-only folder, ...).

    Example:
        >>> with atomic_file(Path("metrics.json")) as temporary:  # doctest: +SKIP
        ...     temporary.write_text("{}")
    """
    temporary = _temporary_sibling(path)
    with _explained(path):
        try:
            yield temporary
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary folder to write into; rename it to `path` when the block ends without an error.

    Args:
        path: The destination; its parents are created. An existing empty folder is replaced.
        overwrite: Whether to replace an existing folder with content. The old one stays until the new one is
            complete.

    Yields:
        An existing, empty folder beside `path`.

    Raises:
        InputError: The destination exists, or the system refuses to write (disk full, read-only folder, ...).
    """
    refuse_existing(path, overwrite=overwrite)
    temporary = _temporary_sibling(path)
    with _explained(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.mkdir()
            yield temporary
            _replace_folder(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Raise `InputError` where `path` is a file, or a folder with content and `overwrite` is false."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path}: is a file; expected a folder to write to. Choose another output folder.")
    if not overwrite and path.is_dir() and any(path.iterdir()):
        raise InputError(
            f"{path}: already exists. Choose another output folder, or replace it with --overwrite."
        )


def _temporary_sibling(path: Path) -> Path:
    path = path.resolve()
    # The suffix stays at the end: some writers choose the format by it, or insist on their own.
    return path.parent / f"{_PARTIAL}{uuid.uuid4().hex[:8]}-{path.name}"


def _replace_folder(temporary: Path, path: Path) -> None:
    if not path.exists():
        temporary.rename(path)
        return
    former = _temporary_sibling(path)
    path.rename(former)
    try:
        temporary.rename(path)
    except OSError:
        former.rename(path)
        raise
    shutil.rmtree(former)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn an `OSError` of writing into an `InputError` that names the destination."""
    try:
        yield
    except OSError as error:
        if any(parent.name.startswith(_PARTIAL) for parent in path.parents):
            raise  # the file is in a folder under its temporary name, and that folder's message says it
        reason = error.strerror or str(error)
        raise InputError(
            f"{path}: cannot be written ({reason}). Nothing was kept. Free some space, check that you may "
            "write there, or choose another output folder."
        ) from error
