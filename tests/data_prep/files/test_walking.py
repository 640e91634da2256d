"""Subfolders are visited once on each way to them, links followed, without going round in circles."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from data_prep.errors import InputError, Skipped
from data_prep.files.entries import walked_folders


def close(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a folder refuse to be listed, also for root."""
    plain = Path.iterdir

    def iterdir(self: Path) -> Iterator[Path]:
        if self == folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return plain(self)

    monkeypatch.setattr(Path, "iterdir", iterdir)


def visited(folder: Path, **options: Any) -> list[str]:
    return [found.relative_to(folder).as_posix() for found, _ in walked_folders(folder, **options)]


def test_links_to_folders_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    for folder in (root / "b" / "inner", root / "a", root / ".hidden", elsewhere / "deep"):
        folder.mkdir(parents=True)
    (root / "c").symlink_to(elsewhere)
    (root / "b" / "up").symlink_to(root)
    (elsewhere / "deep" / "back").symlink_to(elsewhere)
    (elsewhere / "loop").symlink_to("loop")
    assert visited(root) == [".", "a", "b", "b/inner", "c", "c/deep"]
    assert visited(root, leave_out=elsewhere) == [".", "a", "b", "b/inner"]
    assert [path.name for path in dict(walked_folders(root))[root / "b"]] == ["inner", "up"]


def test_a_folder_that_cannot_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("closed", "open"):
        (tmp_path / name).mkdir()
    close(tmp_path / "closed", monkeypatch)
    skipped: list[Skipped] = []
    assert visited(tmp_path, closed=skipped) == [".", "open"]
    assert [entry.file for entry in skipped] == [tmp_path / "closed"]
    assert "closed: cannot be listed (Permission denied)" in skipped[0].reason
    with pytest.raises(InputError, match=r"closed: cannot be listed \(Permission denied\)"):
        visited(tmp_path)
    with pytest.raises(InputError, match=r"closed: cannot be listed"):
        visited(tmp_path / "closed", closed=skipped)
