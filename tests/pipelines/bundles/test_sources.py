"""What `predict` says of the folders inside its inputs."""

import importlib
import shlex
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name

import pytest
from rich.console import Console

from data_prep.errors import InputError
from data_prep.files.entries import IMAGE_SUFFIXES
from pipelines.bundles import sources
from pipelines.bundles.sources import find_sources, print_unsearched


def make_files(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def said_of(inputs: Sequence[Path], out: Path) -> list[str]:
    console = Console(record=True, width=200)
    print_unsearched(inputs, out, console, suffixes=IMAGE_SUFFIXES)
    return console.export_text().splitlines()


def test_folders_inside_a_folder_are_named_as_not_searched(tmp_path: Path) -> None:
    new = tmp_path / "new"
    make_files(new, "rose/a.png", "rose/deep/b.png", "lily/deep/c.png", ".hidden/a.png", "slide/data.dat")
    make_files(new, "a.png", "given/a.png")
    make_files(tmp_path, "rose/a.png")
    (new / "slide" / "back").symlink_to(new)
    (line,) = said_of([new, tmp_path / "rose", new / "a.png", new / "given"], tmp_path / "out")
    assert f"folders inside {new} are not searched" in line
    hint = line.partition("--input ")[2]
    assert hint == f"{new}/rose {new}/lily/deep {new}/rose/deep"
    found = find_sources([Path(text) for text in shlex.split(hint)], suffixes=IMAGE_SUFFIXES)
    assert [source.path.name for source in found] == ["a.png", "c.png", "b.png"]
    make_files(new, "a rose/a.png")
    (line,) = said_of([new], tmp_path / "out")
    assert line.endswith(f"--input '{new}/a rose' {new}/given {new}/rose and others")


def test_outputs_of_predictions_are_no_files_to_predict(tmp_path: Path) -> None:
    make_files(tmp_path, "a.png", "before/predictions.csv", "before/overlays/a.png", "now/overlays/a.png")
    assert said_of([tmp_path], tmp_path / "now") == []
    assert len(said_of([tmp_path], tmp_path / "other")) == 1
    make_files(tmp_path, "predictions.csv")
    assert said_of([tmp_path], tmp_path) == []


def test_a_large_tree_is_not_walked_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_files(tmp_path, *(f"0/{number}/a.txt" for number in range(6)), "1/deep/deeper/a.png")
    assert len(said_of([tmp_path], tmp_path / "out")) == 1
    monkeypatch.setattr(sources, "_MOST_ENTRIES", 8)
    assert said_of([tmp_path], tmp_path / "out") == []


@pytest.mark.parametrize("application", ["lane", "sonar", "video", "histopathology", "classify"])
def test_every_application_says_so(application: str, tmp_path: Path) -> None:
    place = (
        "predict_command:predict"
        if application == "sonar"
        else f"prediction:{application.upper()}_PREDICTION"
    )
    step = resolve_name(f"pipelines.{application}.{place}")
    suffix = ".avi" if application == "video" else ".png"
    for name in ("a", "inside/a"):
        (tmp_path / name).with_suffix(suffix).parent.mkdir(exist_ok=True)
        (tmp_path / name).with_suffix(suffix).touch()
    console = Console(record=True, width=200)
    with pytest.raises(InputError, match="nowhere"):
        step(
            importlib.import_module(f"pipelines.{application}.settings").PredictSettings(),
            inputs=[tmp_path],
            model=tmp_path / "nowhere",
            out=tmp_path / "out",
            console=console,
        )
    assert f"pass them too: --input {tmp_path / 'inside'}" in console.export_text()
