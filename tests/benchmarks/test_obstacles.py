"""Obstacles are in a command's way until they are lifted."""

import errno
import os
import subprocess
import sys

import pytest

from benchmarks.reliability.obstacles import (
    can_mount,
    forbidden,
    full_disk,
    read_only_disk,
    small_disk,
    small_files,
)

WRITE = """
import sys
with open(sys.argv[1], "wb") as file:
    file.write(bytes(int(sys.argv[2])))
"""


@pytest.fixture
def disk(tmp_path):
    if not can_mount(tmp_path):
        pytest.skip("file systems can be mounted by root alone")
    with small_disk(tmp_path):
        yield tmp_path


def write(path, size, preparation=None) -> str:
    """Write a file in a process of its own; return what it said last."""
    command = [sys.executable, "-c", WRITE, str(path), str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=preparation)
    return done.stderr.strip().rpartition("\n")[2]


def test_a_disk_is_full_until_there_is_room(disk):
    (disk / "before").write_bytes(bytes(50_000))
    obstacle = full_disk(disk, 20_000)
    assert write(disk / "small", 10_000, obstacle.preparation) == ""
    assert os.strerror(errno.ENOSPC) in write(disk / "large", 20_000, obstacle.preparation)
    obstacle.lift()
    assert write(disk / "large", 2_000_000) == ""


def test_a_disk_is_read_only_until_it_is_not(disk):
    (disk / "before").write_bytes(b"a")
    obstacle = read_only_disk(disk)
    assert os.strerror(errno.EROFS) in write(disk / "after", 1, obstacle.preparation)
    assert (disk / "before").read_bytes() == b"a"
    obstacle.lift()
    assert write(disk / "after", 1) == ""


def test_a_file_has_a_largest_size(tmp_path):
    preparation = small_files(5_000).preparation
    assert write(tmp_path / "small", 5_000, preparation) == ""
    assert os.strerror(errno.EFBIG) in write(tmp_path / "large", 5_001, preparation)


def test_permissions_bind_root_too(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with forbidden(folder, 0o555) as obstacle:
        assert os.strerror(errno.EACCES) in write(folder / "a", 1, obstacle.preparation)
        obstacle.lift()
        assert write(folder / "a", 1, obstacle.preparation) == ""
    assert folder.stat().st_mode & 0o777 == 0o755
