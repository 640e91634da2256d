"""Output appears complete or not at all."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from data_prep.errors import InputError
from data_prep.files.atomic import atomic_file, atomic_folder


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
        InputError, match=rf"out: cannot be written \({text}\)\. Nothing was kept\. Free some space"
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
