"""The whole way of the lane application by its commands, from prepare to predict, interrupted and resumed."""

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2
import h5py
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

from data_prep.lane.manifest import LaneManifest
from data_prep.lane.scenes import write_scenes
from data_prep.prepared.manifest import load_manifest
from pipelines.cli import make_app
from pipelines.evaluation.evaluate import judge
from pipelines.lane.application import LANE, LaneData
from pipelines.runs.job import trained_job
from pipelines.runs.models import make_model
from pipelines.runs.predictors import predictor
from tests.commands import as_a_process_of_its_own

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TINY = {
    "network": "C1K3",
    "heads": "[linear, hgp]",
    "pretraining_epochs": 1,
    "head_epochs": 1,
    "head_steps": 5,
    "num_experts": 2,
    "num_inducing": 5,
    "panel_images": 1,
}


FEW = "So few selection examples"
"""A warning that is due here, and may come before an error."""


def settings(**changes: object) -> list[str]:
    return [text for key, value in {**TINY, **changes}.items() for text in ("--set", f"{key}={value}")]


def run(*arguments: object, expected: int = 0) -> str:
    """Call a command in this process; return what it said."""
    result = CliRunner(env={"COLUMNS": None}).invoke(make_app(), [str(argument) for argument in arguments])
    assert result.exit_code == expected, (result.output, result.exception)
    return result.output


class Way:
    """What each step wrote and said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: dict[str, str] = {}
        self.scenes, self.photographs = folder / "scenes", folder / "my photographs"
        self.prepared, self.run = folder / "prepared", folder / "run"
        self.evaluation, self.bundle, self.predictions = (
            folder / "evaluation",
            folder / "bundle",
            folder / "predictions",
        )


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> Way:
    way = Way(tmp_path_factory.mktemp("the whole way"))
    write_scenes(way.scenes, count=9, seed=0, lane_textures=["brick", "grass"], size=(32, 48))
    write_scenes(way.photographs, count=2, seed=5, lane_textures=["gravel"], size=(50, 40))
    (way.photographs / "images" / "Größe.png").write_bytes(b"no image")
    images, masks = ("--images", way.scenes / "images"), ("--masks", way.scenes / "masks")
    say = way.said
    say["prepare"] = run(
        "lane", "prepare", *images, *masks, "--out", way.prepared, "--size", "16x24", "--jobs", 1
    )
    with as_a_process_of_its_own():
        say["train"] = run("lane", "train", "--data", way.prepared, "--out", way.run, *settings())
    model = ("--model", way.run)
    say["evaluate"] = run("lane", "evaluate", "--data", way.prepared, *model, "--out", way.evaluation)
    metrics = ("--metrics", way.evaluation / "metrics.json")
    say["export"] = run("lane", "export", *model, "--out", way.bundle, *metrics)
    say["verify"] = run("verify", way.bundle)
    inputs = ("--input", way.photographs / "images")
    say["predict"] = run("lane", "predict", "--model", way.bundle, *inputs, "--out", way.predictions)
    return way


def test_every_step_says_what_it_did(way):
    assert "9 examples of 16 x 24" in way.said["prepare"]
    assert "hgp epoch 1: loss" in way.said["train"]
    assert "Linear + temperature" in way.said["evaluate"]
    assert f"gpimaging verify {shlex.quote(str(way.bundle))}" in way.said["export"]
    assert "is good" in way.said["verify"]
    assert "2 predictions written" in way.said["predict"]
    assert "Größe.png" in way.said["predict"]
    for text in way.said.values():
        assert "WARNING" not in text
        assert "Traceback" not in text


def test_metrics_are_those_of_the_bundle_and_finite(way):
    text = (way.evaluation / "metrics.json").read_text(encoding="utf-8")
    metrics = json.loads(text, parse_constant=pytest.fail)
    assert list(metrics["methods"]) == ["Linear", "Linear + temperature", "HGP", "HGP + temperature"]
    assert json.loads((way.bundle / "metrics.json").read_text()) == metrics
    for method in metrics["methods"].values():
        assert set(metrics["scores"]) == set(method["scores"])
        assert method["scores"]["nll"] > 0


def test_the_report_is_one_file(way):
    html = (way.evaluation / "report.html").read_text(encoding="utf-8")
    assert "http" not in html.replace("http://www.w3.org", "")
    assert html.count("data:image/") >= 3


def test_predictions_equal_the_signature_on_the_upright_image(way):
    with (way.predictions / "predictions.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    status = [(Path(row["file"]).name, row["height"], row["status"][:2]) for row in rows]
    assert [s[1:] for s in status if s[0] != "Größe.png"] == [("50", "ok")] * 2
    signature = tf.saved_model.load(str(way.bundle)).signatures["serving_default"]
    for row in rows:
        if row["status"] != "ok":
            continue
        image = np.array(Image.open(row["file"]).convert("RGB"))
        probability = signature(images=image[None])["probability"][0].numpy()
        written = cv2.imread(
            str(way.predictions / "probability" / f"{Path(row['file']).stem}.png"), cv2.IMREAD_UNCHANGED
        )
        np.testing.assert_allclose(written / 65535, probability, atol=1e-4)
        assert float(row["lane_fraction"]) == pytest.approx((probability > 0.5).mean(), abs=1e-4)


def test_errors_have_their_exit_codes(way, tmp_path):
    new = ("--out", tmp_path / "new")
    train = ("lane", "train", "--data", way.prepared)
    predict = ("lane", "predict", "--input", way.scenes / "images")
    again = ("--resume", "--set", "network=C2K3")
    for message, arguments in {
        "already holds a run": (*train, "--out", way.run),
        "cannot be resumed: network changed": (*train, "--out", way.run, *again),
        "already holds predictions by": (
            *(*predict, "--threshold", 0.25),
            *("--model", way.bundle, "--out", way.predictions),
        ),
        "is no bundle: metadata.json": (*predict, "--model", way.run, *new),
        "is no training run": ("lane", "export", "--model", way.bundle, *new),
        "is no bundle": ("verify", way.run),
    }.items():
        said = run(*arguments, expected=2)
        before, label, error = said.rpartition("Error: ")
        assert label
        assert not before or FEW in before
        assert message in error
        assert error.count("\n") == 1
    assert not (tmp_path / "new").exists()


# Interrupted and resumed, in processes of their own ---------------------------------------------------------


@contextmanager
def training(data: Path, out: Path, *options: str) -> Iterator[subprocess.Popen]:
    command = [sys.executable, "-m", "pipelines", "lane", "train", "--data", str(data), "--out", str(out)]
    # A shell has processes in the background, and those that they start, ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [*command, *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, before)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def train_to_the_end(data: Path, out: Path, *options: str) -> None:
    with training(data, out, *options) as process:
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors


def interrupt_when(data: Path, out: Path, stage: str, epoch: int, *options: str) -> None:
    """Press Ctrl-C once a stage has completed an epoch; where the next one is hit is left to chance."""
    path = out / "heads" / stage / "state.json"
    with training(data, out, *options) as process:
        end = time.monotonic() + 600
        while not (path.exists() and json.loads(path.read_text())["epochs_done"] >= epoch):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=600)
    assert process.returncode == 130, errors
    assert "Interrupted. Continue with: gpimaging lane train" in errors
    assert "Traceback" not in errors


def arrays(path: Path) -> dict[str, bytes]:
    """Every array of an HDF5 file."""
    found: dict[str, bytes] = {}

    def keep(name: str, item: h5py.Dataset | h5py.Group) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item[()].tobytes()

    with h5py.File(path) as file:
        file.visititems(keep)
    return found


def result_of(out: Path) -> dict[str, object]:
    """All that a resumed run must repeat: numbers, weights and optimisers of each stage; not the time."""
    result: dict[str, object] = {}
    for folder in sorted((out / "heads").iterdir()):
        state = json.loads((folder / "state.json").read_text())
        state.pop("seconds")
        result[folder.name] = state
        for name in ("best.weights.h5", state["weights"]):
            result[f"{folder.name}/{name}"] = arrays(folder / name)
    description = json.loads((out / "run.json").read_text())
    description.pop("seconds")
    return {**result, "run": description}


@pytest.mark.slow
@pytest.mark.exhaustive  # resumed stages, heads and kept runs have tests, and Ctrl-C has
def test_an_interrupted_run_ends_as_an_uninterrupted_one(way, tmp_path):
    """Ctrl-C in the pretraining, in each head and between them; each time resumed in a new process."""
    options = settings(pretraining_epochs=4, head_epochs=4, points_per_image=100, batch_size=2)
    train_to_the_end(way.prepared, tmp_path / "whole", *options)
    out = tmp_path / "interrupted"
    interrupt_when(way.prepared, out, "pretraining", 1, *options)
    interrupt_when(way.prepared, out, "pretraining", 4, "--resume")
    interrupt_when(way.prepared, out, "linear", 4, "--resume")
    interrupt_when(way.prepared, out, "hgp", 2, "--resume")
    train_to_the_end(way.prepared, out, "--resume")
    whole, resumed = result_of(tmp_path / "whole"), result_of(out)
    assert whole.keys() == resumed.keys()
    for key, value in whole.items():
        assert resumed[key] == value, key
    assert whole["run"]["heads"] == ["linear", "hgp"]
    assert {name for name in whole if "/" not in name} == {"pretraining", "linear", "hgp", "run"}


# Does it learn? ---------------------------------------------------------------------------------------------

LEARNT = 0.75


@pytest.mark.slow
def test_trained_heads_pass_an_f_measure_that_untrained_ones_fail(tmp_path):
    write_scenes(tmp_path, count=60, seed=2, lane_textures=["brick"], size=(48, 64))
    folders = ("--images", tmp_path / "images", "--masks", tmp_path / "masks")
    data, out = tmp_path / "data", tmp_path / "run"
    run("lane", "prepare", *folders, "--out", data, "--size", "24x32", "--jobs", 1)
    options = settings(
        network="C2K3", pretraining_epochs=15, head_epochs=3, head_steps=100, num_inducing=20, batch_size=4
    )
    with as_a_process_of_its_own():
        run("lane", "train", "--data", data, "--out", out, *options)
    run("lane", "evaluate", "--data", data, "--model", out, "--out", tmp_path / "evaluation")
    metrics = json.loads((tmp_path / "evaluation" / "metrics.json").read_text())
    scores = {name: method["scores"]["f_measure"] for name, method in metrics["methods"].items()}
    assert min(scores.values()) >= LEARNT, scores
    manifest, job = load_manifest(data, LaneManifest), trained_job(LANE, out, Console(quiet=True))
    names = [example.name for example in manifest.examples if example.split == "test"]
    for head in ("linear", "hgp"):
        untrained = predictor("untrained", make_model(head, LANE, job.settings, job.run))
        assert (
            judge(LANE.judge, untrained, LANE.judge.examples(LaneData(data, manifest), names)).scores[
                "f_measure"
            ]
            < LEARNT
        )
