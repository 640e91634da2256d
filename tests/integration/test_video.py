"""The whole way of the video application by its commands: on clips, on cached features, over time."""

import csv
import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import tensorflow as tf
from rich.console import Console
from typer.testing import CliRunner

from data_prep.labelled.dataset import labelled_records
from data_prep.video.clips import video_windows
from data_prep.video.settings import ClipSettings
from pipelines.bundles.metadata import load_metadata
from pipelines.bundles.saved_model import load_signatures
from pipelines.cli import make_app
from pipelines.runs.job import trained_job
from pipelines.runs.models import run_predictors
from pipelines.scores.pool_calibration import at_temperature
from pipelines.video.application import VIDEO, open_videos
from tests.commands import as_a_process_of_its_own

# Of the slow tests, the example of video goes the same way with fewer questions.
pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

TINY = {
    "pretraining_epochs": 20,
    "learning_rate": 2e-3,
    "head_epochs": 2,
    "steps_per_epoch": 15,
    "batch_size": 12,
    "head_steps": 20,
    "num_experts": 2,
    "num_inducing": 8,
    "panel_images": 1,
}
SETTINGS = [text for key, value in TINY.items() for text in ("--set", f"{key}={value}")]
CLASSES = ("Across", "Dim", "Still")
SIZE, RATE = (48, 64), 10


def run(*arguments: object, expected: int = 0) -> str:
    """Call a command in this process; return what it said."""
    result = CliRunner(env={"COLUMNS": None}).invoke(make_app(), [str(argument) for argument in arguments])
    assert result.exit_code == expected, (result.output, result.exception)
    return result.output


def write_video(path: Path, kinds: tuple[str, ...], rng: np.random.Generator, frames: int = 25) -> None:
    """A disc that moves across, dims, or stays as it is; so many frames of each kind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), RATE, SIZE[::-1])
    column, row = int(rng.integers(20, 44)), int(rng.integers(15, 33))
    for kind in kinds:
        for number in range(frames):
            frame = rng.integers(20, 40, (*SIZE, 3), np.uint8)
            swing = np.sin(1.3 * number)
            shift = round(15 * swing) if kind == "Across" else 0
            level = 130 + 100 * swing if kind == "Dim" else 230
            cv2.circle(frame, (column + shift, row), 8, (level,) * 3, -1)
            writer.write(frame)
    writer.release()


class Way:
    """What each step wrote and said."""

    def __init__(self, folder: Path) -> None:
        self.said: dict[str, str] = {}
        self.videos, self.new = folder / "videos", folder / "new"
        self.prepared, self.features = folder / "prepared", folder / "features"
        self.run, self.features_run = folder / "run", folder / "run on features"
        self.evaluation, self.bundle = folder / "evaluation", folder / "bundle"
        self.features_evaluation, self.features_bundle = folder / "features evaluation", folder / "bundle 2"
        self.predictions = folder / "predictions"


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> Way:
    way, rng = Way(tmp_path_factory.mktemp("the whole way")), np.random.default_rng(0)
    for kind in CLASSES:
        for group in range(1, 17):
            write_video(way.videos / kind / f"v_{kind}_g{group:02d}_c01.avi", (kind,), rng)
    write_video(way.new / "both.avi", ("Dim", "Still"), rng, frames=40)
    (way.new / "Größe.mp4").write_bytes(b"no video")
    say, videos = way.said, ("--videos", way.videos, "--out", way.prepared)
    say["prepare"] = run("video", "prepare", *videos, "--frames", 4, "--size", "16x16", "--resize", "16x20")
    clips, features = ("--data", way.prepared), ("--data", way.features)
    with as_a_process_of_its_own():
        options = (*SETTINGS, "--set", "width=4", "--set", "heads=[linear, hgp]")
        say["train"] = run("video", "train", *clips, "--out", way.run, *options)
        say["features"] = run("video", "features", *clips, "--model", way.run, "--out", way.features)
        say["train on features"] = run("video", "train", *features, "--out", way.features_run, *SETTINGS)
        say["resumed"] = run("video", "train", *features, "--out", way.features_run, "--resume")
    model, features_model = ("--model", way.run), ("--model", way.features_run)
    say["evaluate"] = run("video", "evaluate", *clips, *model, "--out", way.evaluation)
    evaluation = ("--out", way.features_evaluation)
    say["evaluate features"] = run("video", "evaluate", *features, *features_model, *evaluation)
    metrics = ("--metrics", way.evaluation / "metrics.json")
    say["export"] = run("video", "export", *model, "--out", way.bundle, *metrics)
    run("video", "export", *features_model, "--out", way.features_bundle, "--set", "head=linear")
    say["verify"] = run("verify", way.bundle) + run("verify", way.features_bundle)
    inputs = ("--input", way.new, "--refer-above", 0.0)
    say["predict"] = run("video", "predict", "--model", way.bundle, *inputs, "--out", way.predictions)
    return way


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_step_says_what_it_did(way):
    assert "192 clips (4 x 16 x 16) of 48 videos written to" in way.said["prepare"]
    assert "Still: 16, 5 of them to judge by" in way.said["prepare"]
    assert "hgp epoch 2: loss" in way.said["train"]
    assert "frames a second in the network" in way.said["features"]
    assert "RBF-SVM: C " in way.said["train on features"]
    assert "epoch 1: loss" not in way.said["resumed"]
    assert "SVM" not in way.said["resumed"]
    assert way.said["verify"].count("is good") == 2
    assert "1 predictions written" in way.said["predict"]
    assert "Größe.mp4" in way.said["predict"]
    assert "of film" in way.said["predict"]
    for text in way.said.values():
        assert "Traceback" not in text


def test_videos_are_judged_and_not_clips(way):
    metrics = json.loads((way.evaluation / "metrics.json").read_text(), parse_constant=pytest.fail)
    assert list(metrics["methods"]) == ["Linear", "Linear + temperature", "HGP", "HGP + temperature"]
    tested = int(metrics["data"]["videos"])
    assert tested == 15
    for method in metrics["methods"].values():
        assert np.sum(method["confusion"]) == tested
        assert list(method["recalls"]) == list(CLASSES)
    assert metrics["methods"]["Linear"]["scores"]["accuracy"] > 0.5  # of three classes
    assert "data:image/png" in (way.evaluation / "report.html").read_text(encoding="utf-8")


def test_machines_are_compared_on_features(way):
    metrics = json.loads((way.features_evaluation / "metrics.json").read_text())
    heads = ["Linear", "Linear + temperature", "SVGP", "SVGP + temperature", "HGP", "HGP + temperature"]
    methods = ["Linear SVM", "RBF-SVM", *heads]
    assert list(metrics["methods"]) == methods
    assert max(method["scores"]["accuracy"] for method in metrics["methods"].values()) > 0.5
    # The report shows the videos although the features have no frames.
    report = (way.features_evaluation / "report.html").read_text(encoding="utf-8")
    assert "data:image/png" in report
    assert "Most uncertain videos" in report
    assert "Seconds each" in report


def test_features_are_extracted_once_and_never_mixed(way, tmp_path):
    data = ("video", "features", "--data", way.prepared, "--out", way.features)
    assert "already has features" in run(*data, "--model", way.run, expected=2)
    assert "extracted now" not in run(*data, "--model", way.run, "--resume")
    (way.features / "video-000003.npz").unlink()
    assert "1 videos extracted now" in run(*data, "--model", way.run, "--resume")
    np.savez(tmp_path / "other.npz", **changed_trunk(way.features / "trunk.safetensors"))
    said = run(*data, "--weights", tmp_path / "other.npz", "--resume", expected=2)
    assert "another network" in said
    said = run(*data[:-1], way.features_run, "--model", way.run, "--resume", expected=2)
    assert "no features to go on with" in said
    said = run("video", "evaluate", "--data", way.features, "--model", way.run, "--out", tmp_path, expected=2)
    assert "needs prepared clips" in said


def changed_trunk(path: Path) -> dict[str, np.ndarray]:
    from pipelines.video.trunk import read_weights  # noqa: PLC0415 - beside its only use

    return {name: array + np.float32(1e-3) for name, array in read_weights(path).items()}


def test_bundle_on_features_has_the_network_inside(way):
    clips, features = open_videos(way.prepared), open_videos(way.features)
    names = [example.name for example in clips.manifest.examples][::12]
    images = np.stack([image for _, image, _ in labelled_records(way.prepared, clips.manifest, names)])
    outputs = load_signatures(way.features_bundle)["serving_default"](clips=tf.constant(images))
    job = trained_job(VIDEO, way.features_run, Console(quiet=True))
    methods = {method.title: method for method in run_predictors(job)}
    cached = tf.constant(features.part(names).features)
    expected = methods["Linear + temperature"].predict(cached)["probability"]
    assert np.ptp(expected, axis=0).max() > 0.05  # clips make a difference
    np.testing.assert_allclose(outputs["probability"], expected, atol=1e-4)
    description = load_metadata(way.features_bundle).signatures["serving_default"].inputs["clips"]
    assert description.shape == (None, 4, 16, 16, 3)


def test_windows_have_the_probabilities_of_the_signature(way):
    metadata = load_metadata(way.bundle)
    clips = list(video_windows(way.new / "both.avi", ClipSettings(**metadata.preprocessing_settings), step=2))
    signature = load_signatures(way.bundle)["serving_default"]
    expected = signature(clips=tf.constant(np.stack([clip.frames for clip in clips])))["probability"]
    windows = rows(way.predictions / "windows" / "both.csv")
    found = [[float(row[f"probability of {name}"]) for name in CLASSES] for row in windows]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    (broken, line) = rows(way.predictions / "predictions.csv")
    assert float(line["duration"]) == pytest.approx(8.0, abs=0.2)
    assert int(line["windows"]) == len(windows) == len(clips)
    assert broken["status"] != "ok"
    of_video = at_temperature(np.mean(found, axis=0), metadata.pool_temperature)
    np.testing.assert_allclose(
        [float(line[f"probability of {name}"]) for name in CLASSES], of_video, atol=1e-4
    )
    parts = rows(way.predictions / "segments" / "both.csv")
    assert [float(part["end_seconds"]) for part in parts[:-1]] == [
        float(part["start_seconds"]) for part in parts[1:]
    ]
    assert {path.name for path in way.predictions.iterdir()} == {
        *("annotated", "plots", "segments", "windows", "predictions.csv", "skipped.csv"),
        *("predict_run.json", "predict_run.jsonl"),
    }


def test_one_network_must_be_named(way, tmp_path):
    said = run("video", "features", "--data", way.prepared, "--out", tmp_path / "out", expected=2)
    assert "pass either --weights" in " ".join(said.split())
    assert not (tmp_path / "out").exists()
