"""What was kept of earlier code, unpacked, and commands called in this process."""

import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.cli import make_app

DATA = Path(__file__).with_name("data")

Kept = Callable[[str], Path]


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Where the content of an archive is; tests write elsewhere."""

    @cache
    def unpacked(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        with tarfile.open(DATA / f"{name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        return folder

    return unpacked


def run(*arguments: object) -> str:
    """Call a command in this process; return what it said."""
    result = CliRunner(env={"COLUMNS": None}).invoke(make_app(), [str(argument) for argument in arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output
