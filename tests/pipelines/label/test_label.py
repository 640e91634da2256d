"""The command as a whole: from a folder to labels that `prepare` takes."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from rich.console import Console
from starlette.testclient import TestClient
from typer.testing import CliRunner

from data_prep.classify.prepare import prepare_classify
from data_prep.errors import InputError
from data_prep.files.sole_writer import sole_writer
from pipelines.cli import make_app
from pipelines.command.config import CONFIG_NAME, load_settings
from pipelines.label import steps
from pipelines.label.settings import LabelSettings
from tests.pipelines.label.small_images import CLASSES, truth
from tests.pipelines.label.test_encoding import MadeTrunk

ROOT = Path(__file__).parents[3]


def run_label(monkeypatch, images, out, *, answers, settings=None, wait_for_features=True):
    """Run the command, answer some questions, and return what it printed."""
    settings = settings or LabelSettings(classes=CLASSES)

    def serve(app, listening):
        port = listening.getsockname()[1]
        token = re.search(rf"http://127\.0\.0\.1:{port}/(\S+)/", console.export_text(clear=False))[1]
        client = TestClient(app, base_url=f"http://127.0.0.1:{port}/{token}/")
        while wait_for_features and not client.get("progress").json()["ready"]:
            time.sleep(0.01)
        question = client.post("question", json={"tab": "1"}).json()["question"]
        for _ in range(answers):
            given = {"images": [question["number"]], "class_name": truth(question["name"])}
            reply = client.post("answer", json={"tab": "1", "verdict": "class", **given})
            question = reply.json()["question"]

    console = Console(record=True, width=200, highlight=False)
    monkeypatch.setattr(steps, "loaded_trunk", lambda *_: MadeTrunk())
    monkeypatch.setattr(steps, "_serve", serve)
    pool = steps.open_pool(settings, images, out)
    steps.label_pool(pool, settings, out, is_browser_opened=False, console=console)
    return console.export_text()


def test_the_table_of_labels_is_one_that_prepare_takes(tmp_path, images, monkeypatch):
    out = tmp_path / "labels"
    printed = run_label(monkeypatch, images, out, answers=30)
    assert f"gpimaging classify prepare --images {images} --table {out / 'labels.csv'}" in printed
    result = prepare_classify(images, tmp_path / "prepared", table=out / "labels.csv")
    assert result.manifest.num_examples == 30
    assert result.manifest.class_names == CLASSES
    assert [entry.reason for entry in result.skipped] == []


@pytest.mark.slow
def test_run_again_it_keeps_classes_answers_and_features(tmp_path, images, monkeypatch):
    out = tmp_path / "labels"
    run_label(monkeypatch, images, out, answers=5)
    settings = load_settings(LabelSettings, config=out / CONFIG_NAME)
    assert settings.classes == CLASSES
    printed = run_label(monkeypatch, images, out, answers=3, settings=settings)
    assert len((out / "answers.jsonl").read_text().splitlines()) == 8
    assert "dark" in printed


def test_one_class_trains_no_model(tmp_path, images, monkeypatch):
    printed = run_label(monkeypatch, images, tmp_path / "labels", answers=0)
    assert "A model needs labels of two classes." in printed
    assert "prepare" not in printed


def command(*arguments):
    return CliRunner().invoke(make_app(), ["label", *map(str, arguments)])


def test_a_second_server_of_a_folder_is_refused(tmp_path, images):
    out = tmp_path / "labels"
    with sole_writer(out):
        result = command(images, "--out", out, "--classes", "a,b", "--no-browser")
    assert result.exit_code == 2
    assert "another command is writing to this folder" in result.stderr


def test_without_the_extra_it_says_what_to_install(tmp_path, images, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = command(images, "--out", tmp_path / "labels", "--classes", "a,b", "--no-browser")
    assert result.exit_code == 2
    assert "pip install 'gpimaging[label]'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--classes", "a,a"), "classes"),
        (("--classes", "a"), "1 classes are known (a); expected two at least"),
        (("--set", "classes=[a, b]", "--group-pattern", "("), "not a regular expression"),
        (("--table", "no.csv"), "--table no.csv: does not exist"),
    ],
)
def test_slips_are_named(tmp_path, images, arguments, message, monkeypatch):
    monkeypatch.setattr(steps, "loaded_trunk", lambda *_: MadeTrunk())
    result = command(images, "--out", tmp_path / "labels", "--no-browser", *arguments)
    assert result.exit_code == 2, result.exception
    assert message in result.stderr


@pytest.mark.slow
def test_ctrl_c_ends_the_real_command_and_says_what_comes_next(tmp_path, images):
    out = tmp_path / "labels"
    options = ("--out", out, "--classes", "dark,light", "--no-browser", "--set", "weights=none")
    command = [sys.executable, "-u", "-m", "pipelines", "label", images, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        address = re.search(r"http://\S+", process.stdout.readline())[0]
        for number, name in enumerate(("dark", "light")):
            given = {"tab": "1", "images": [number], "verdict": "class", "class_name": name}
            assert httpx.post(f"{address}answer", json=given).status_code == 200
        process.send_signal(signal.SIGINT)
        printed = process.stdout.read()
    assert process.returncode == 0
    assert "gpimaging classify train --data" in printed
    assert len((out / "labels.csv").read_text().splitlines()) == 3


def test_a_port_that_is_taken_is_named():
    with steps._listening("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"--port {port}: cannot be listened on"):
            steps._listening("127.0.0.1", port)
