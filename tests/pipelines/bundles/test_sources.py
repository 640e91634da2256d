"""What `predict` says of the folders inside its inputs."""

import importlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from data_prep.errors import InputError
from data_prep.files.images import IMAGE_SUFFIXES
from pipelines.bundles.sources import say_unsearched


def test_folders_inside_a_folder_are_named_as_not_searched(tmp_path: Path) -> None:
    for name in ("new/rose/a.png", "new/rose/deep/b.png", "new/lily/deep/c.png", "new/.hidden/a.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "new" / "a.png").touch()
    (tmp_path / "new" / "slide").mkdir()
    (tmp_path / "new" / "slide" / "data.dat").touch()
    (tmp_path / "new" / "slide" / "back").symlink_to(tmp_path / "new")
    (tmp_path / "rose").mkdir()
    console = Console(record=True, width=200)
    inputs = [tmp_path / "new", tmp_path / "rose", tmp_path / "new" / "a.png"]
    say_unsearched(inputs, console, suffixes=IMAGE_SUFFIXES)
    (line,) = console.export_text().splitlines()
    assert f"folders inside {tmp_path / 'new'} are not searched; there are 2 with" in line


@pytest.mark.parametrize("application", ["lane", "sonar", "video", "histopathology", "classify"])
def test_every_application_says_so(application: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(f"pipelines.{application}.predict")
    if application == "lane":  # opens the bundle before it looks for files
        monkeypatch.setattr(module, "open_bundle", lambda *_: (None, SimpleNamespace(promise=None)))
        monkeypatch.setattr(module, "make_predictor", lambda *_: None)
    suffix = ".avi" if application == "video" else ".png"
    for name in ("a", "inside/a"):
        (tmp_path / name).with_suffix(suffix).parent.mkdir(exist_ok=True)
        (tmp_path / name).with_suffix(suffix).touch()
    console = Console(record=True, width=200)
    with pytest.raises(InputError, match="nowhere"):
        module.predict(
            importlib.import_module(f"pipelines.{application}.settings").PredictSettings(),
            inputs=[tmp_path],
            model=tmp_path / "nowhere",
            out=tmp_path / "out",
            console=console,
        )
    assert "are not searched; there are 1 with" in console.export_text()
