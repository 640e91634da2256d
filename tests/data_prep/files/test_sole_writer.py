import errno
import fcntl
import importlib.util
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from data_prep.errors import InputError
from data_prep.files import sole_writer as sole_writer_module
from data_prep.files.sole_writer import sole_writer

HOLD = """
import sys, time
from pathlib import Path
from data_prep.files.sole_writer import sole_writer
with sole_writer(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that writes to the folder `out`."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def test_a_second_command_is_kept_out_until_the_first_ends(tmp_path, holder):
    with (
        pytest.raises(InputError, match=r"out: another command is writing .* give another --out"),
        sole_writer(tmp_path / "out"),
    ):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with sole_writer(tmp_path / "out"):
        (tmp_path / "out" / "file").touch()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["file"]


def test_a_command_that_is_kept_out_leaves_the_folder(tmp_path, holder):
    with pytest.raises(InputError), sole_writer(tmp_path / "out"):
        pass
    assert (tmp_path / "out").is_dir()
    assert holder.poll() is None


def test_other_folders_are_free(tmp_path):
    with sole_writer(tmp_path / "a"), sole_writer(tmp_path / "b"), sole_writer(tmp_path / "a" / "c"):
        pass
    assert not any(tmp_path.iterdir())


def test_a_folder_in_which_nothing_was_written_is_removed(tmp_path):
    with pytest.raises(ValueError, match="no such bundle"), sole_writer(tmp_path / "deep" / "out"):
        raise ValueError("no such bundle")
    assert not (tmp_path / "deep" / "out").exists()


def test_an_empty_folder_of_the_user_stays(tmp_path):
    with sole_writer(tmp_path):
        pass
    assert tmp_path.is_dir()


def test_what_is_no_folder_is_refused_at_once(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    nowhere = "is a link that leads nowhere"
    for name, found in (("link", nowhere), ("file", "is a file"), ("loop", nowhere)):
        message = rf"{name}: {found}; expected a folder to write to\. Choose another output folder\."
        for out in (tmp_path / name, tmp_path / name / "new" / "folder"):
            with pytest.raises(InputError, match=message), sole_writer(out):
                pass
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_that_can_never_be_made_ends_in_an_error(tmp_path, monkeypatch):
    never = Mock(side_effect=FileNotFoundError(errno.ENOENT, "No such file or directory"))
    monkeypatch.setattr(Path, "mkdir", never)  # as below /proc
    with pytest.raises(FileNotFoundError), sole_writer(tmp_path / "out"):
        pass


@pytest.mark.parametrize("error", [FileNotFoundError, FileExistsError])
def test_a_folder_that_is_removed_before_it_is_opened_is_made_again(tmp_path, monkeypatch, error):
    out, opened, left = tmp_path / "out", os.open, [error]

    def open_once_removed(path, *arguments):
        if left and path == out:
            raise left.pop()(path)
        return opened(path, *arguments)

    monkeypatch.setattr(os, "open", open_once_removed)
    with sole_writer(out):
        assert out.is_dir()
    assert not left


def test_a_folder_that_was_removed_meanwhile_is_made_again(tmp_path, monkeypatch):
    out = tmp_path / "out"
    lock, removed = fcntl.flock, []

    def flock(descriptor, operation):
        if not removed:
            removed.append(out.rmdir())
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with sole_writer(out):
        assert out.is_dir()
    assert removed


def test_a_file_system_without_locks_is_told_of(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.EOPNOTSUPP, "not supported")))
    with caplog.at_level(logging.WARNING), sole_writer(tmp_path / "out"):
        pass
    assert "has no locks of folders" in caplog.text
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.EIO, "broken")))
    with pytest.raises(OSError, match="broken"), sole_writer(tmp_path / "out"):
        pass


def test_a_system_without_locks_of_folders_is_told_of(tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as on Windows
    spec = importlib.util.spec_from_file_location("without_fcntl", sole_writer_module.__file__)
    without = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(without)
    monkeypatch.delattr(os, "O_DIRECTORY")
    with caplog.at_level(logging.WARNING), without.sole_writer(tmp_path / "out"):
        assert (tmp_path / "out").is_dir()
    assert caplog.text.count("this system has no locks of folders") == 1
    assert not (tmp_path / "out").exists()
