"""Subfolders are visited once on each way to them, links followed, without going round in circles."""

import os
from pathlib import Path

import pytest

from data_prep.errors import InputError
from data_prep.files.walking import walked_folders


def visited(folder: Path, **options: Path) -> list[str]:
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


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every folder")
def test_a_folder_that_cannot_be_listed_is_named(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    with pytest.raises(InputError, match=r"closed: cannot be listed \(Permission denied\)"):
        visited(tmp_path)
