"""Output appears complete or not at all."""

import errno
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from data_prep.errors import InputError
from data_prep.files.atomic import atomic_file, atomic_folder, files_written, remove_partial_of


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_file_appears_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    with atomic_file(path) as temporary:
        temporary.write_text("1")
        assert not path.exists()
        assert temporary.parent == path.parent
    assert path.read_text() == "1"
    assert entries(tmp_path) == ["metrics.json"]


@pytest.mark.parametrize("name", ["a" * 250 + ".json", "ü" * 120 + ".json"])
def test_the_longest_names_are_written(tmp_path: Path, name: str) -> None:
    with atomic_file(tmp_path / name) as temporary:
        temporary.write_text("1")
        assert temporary.suffix == ".json"
    assert entries(tmp_path) == [name]


def write_half_a_file(path: Path, error: BaseException) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text("half")
        raise error


def write_half_a_folder(path: Path, error: BaseException) -> None:
    with atomic_folder(path) as temporary:
        (temporary / "shard").write_text("half")
        raise error


@pytest.mark.parametrize("write", [write_half_a_file, write_half_a_folder])
@pytest.mark.parametrize(
    ("number", "text"), [(errno.ENOSPC, "No space left on device"), (errno.EROFS, "Read-only file system")]
)
def test_refusal_by_the_system_is_one_clear_message(
    tmp_path: Path, write: Callable[[Path, BaseException], None], number: int, text: str
) -> None:
    with pytest.raises(
        InputError, match=rf"out: cannot be written \({text}\)\. Nothing of it was kept\. Free some space"
    ):
        write(tmp_path / "out", OSError(number, text))
    assert entries(tmp_path) == []


@pytest.mark.parametrize("write", [write_half_a_file, write_half_a_folder])
def test_interruption_leaves_nothing(tmp_path: Path, write: Callable[[Path, BaseException], None]) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "out", KeyboardInterrupt())
    assert entries(tmp_path) == []


def test_file_keeps_its_former_content_after_an_error(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    path.write_text("old")
    with pytest.raises(KeyError):
        write_half_a_file(path, KeyError())
    assert path.read_text() == "old"
    assert entries(tmp_path) == ["metrics.json"]


def test_folder_appears_when_complete_with_its_parents(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    with atomic_folder(path) as temporary:
        (temporary / "shard").write_text("1")
        assert not path.exists()
    assert entries(path) == ["shard"]
    assert entries(path.parent) == ["b"]


def test_folder_with_content_is_replaced_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.mkdir()
    with atomic_folder(path) as temporary:  # empty: nothing to lose
        (temporary / "old").touch()
    with pytest.raises(InputError, match="out: already exists"), atomic_folder(path):
        pass
    with atomic_folder(path, overwrite=True) as temporary:
        (temporary / "new").touch()
        assert entries(path) == ["old"]
    assert entries(path) == ["new"]
    assert entries(tmp_path) == ["out"]


def test_folder_stays_after_a_failed_replacement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out"
    path.mkdir()
    (path / "old").touch()
    rename = Path.rename

    def refuse_new_folder(self: Path, target: Path) -> Path:
        if self.is_dir() and (self / "new").exists():
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse_new_folder)
    with (
        pytest.raises(InputError, match="cannot be written"),
        atomic_folder(path, overwrite=True) as temporary,
    ):
        (temporary / "new").touch()
    assert entries(path) == ["old"]
    assert entries(tmp_path) == ["out"]


def test_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.touch()
    with (
        pytest.raises(InputError, match="out: is a file; expected a folder"),
        atomic_folder(path, overwrite=True),
    ):
        pass
    with pytest.raises(InputError, match="cannot be written"), atomic_folder(path / "below"):
        pass


def test_files_that_are_complete_are_noted_within_the_block(tmp_path):
    def write(name: str, *, broken: bool = False) -> None:
        with atomic_file(tmp_path / name) as temporary:
            temporary.write_text("x")
            if broken:
                raise KeyError(name)

    write("before")
    with files_written() as written:
        write("a")
        with pytest.raises(KeyError):
            write("b", broken=True)
    write("after")
    assert written == [tmp_path / "a"]


LEAVES_HALF_A_FOLDER = """
import os, signal, sys
from pathlib import Path
from data_prep.files.atomic import atomic_folder
with atomic_folder(Path(sys.argv[1])) as folder:
    (folder / "shard").write_text("half")
    print(folder, flush=True)
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.readline()
"""


def half_a_folder(path: Path, how: str) -> subprocess.Popen[str]:
    """A process that has begun to write a folder, and then was killed or goes on when told."""
    process = subprocess.Popen(
        [sys.executable, "-c", LEAVES_HALF_A_FOLDER, str(path), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert Path(process.stdout.readline().strip()).exists()
    return process


def test_what_a_killed_process_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    half_a_folder(tmp_path / "out", "killed").communicate()
    other = half_a_folder(tmp_path / "other out", "killed")
    other.communicate()
    assert len(entries(tmp_path)) == 2
    with atomic_folder(tmp_path / "out") as temporary:
        (temporary / "shard").touch()
    left = [name for name in entries(tmp_path) if name != "out"]
    assert len(left) == 1
    assert left[0].endswith("-other out")


def test_what_a_running_process_writes_is_left_alone(tmp_path: Path) -> None:
    process = half_a_folder(tmp_path / "out", "goes on")
    (other,) = tmp_path.iterdir()
    with pytest.raises(KeyError), atomic_folder(tmp_path / "out"):
        raise KeyError
    assert (other / "shard").read_text() == "half"
    process.communicate("\n")
    assert process.returncode == 0
    assert entries(tmp_path) == ["out"]


def test_what_was_left_of_a_file_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in (".partial-0123abcd-a.json", ".partial-0123abcd-b.json", ".partial-by-hand-a.json", "a.json"):
        (tmp_path / name).touch()
    remove_partial_of(tmp_path / "a.json")
    assert entries(tmp_path) == [".partial-0123abcd-b.json", ".partial-by-hand-a.json", "a.json"]
