"""examples/classify.sh calls commands that exist, in their order, and repeats none that is finished."""

import os
import shlex
import stat
import subprocess
from pathlib import Path

import typer
from typer.main import get_command

from pipelines.cli import make_app

ROOT = Path(__file__).parents[3]
STAND_IN = """#!/usr/bin/env bash
printf '%q ' "$@" >> called.txt; echo >> called.txt
case "$1 $2" in
    "classify prepare") mkdir -p out/prepared; touch out/prepared/manifest.json ;;
    "classify evaluate") mkdir -p out/evaluation; touch out/evaluation/metrics.json ;;
    "classify predict") mkdir -p out/predictions; touch out/predictions/predictions.csv ;;
esac
"""


def call(folder: Path, *arguments: str, **environment: str) -> str:
    """Run the script with a stand-in for the command; return what it said."""
    command = folder / "bin" / "gpimaging"
    command.parent.mkdir(exist_ok=True)
    command.write_text(STAND_IN)
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    path = os.pathsep.join([str(command.parent), os.environ["PATH"]])
    return subprocess.run(
        [str(ROOT / "examples" / "classify.sh"), *arguments],
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    ).stdout


def test_the_script_calls_each_step_with_options_that_exist(tmp_path: Path) -> None:
    options = ("--set", "network=FE2")
    said = call(tmp_path, "my pictures", "new", "out", *options, TABLE="labels.csv", SIZE="32x32")
    assert said.endswith("Classes, and the least certain images on one sheet: out/predictions\n")
    calls = [shlex.split(line) for line in (tmp_path / "called.txt").read_text().splitlines()]
    assert [" ".join(words[:2]) for words in calls] == [
        "classify prepare",
        "classify train",
        "classify evaluate",
        "classify export",
        "verify out/bundle",
        "classify predict",
    ]
    for words in calls:
        command = get_command(make_app())
        context = typer.Context(command, info_name="gpimaging")
        while hasattr(command, "resolve_command"):
            name, command, words = command.resolve_command(context, words)  # noqa: PLW2901
            context = typer.Context(command, parent=context, info_name=name)
        command.make_context(context.info_name, words, parent=context.parent)
    assert calls[0][2:4] == ["--images", "my pictures"]
    assert calls[0][-2:] == ["--table", "labels.csv"]
    assert calls[1][-2:] == list(options)
    call(tmp_path, "my pictures", "new", "out")
    again = (tmp_path / "called.txt").read_text().splitlines()[len(calls) :]
    assert [" ".join(line.split()[:2]) for line in again] == [
        "classify train",
        "classify export",
        "verify out/bundle",
    ]


def test_the_script_says_how_it_is_used(tmp_path: Path) -> None:
    assert "usage:" in call(tmp_path, "my pictures")
