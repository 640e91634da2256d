"""The batch scripts in `examples/` run, tiny, and leave behind what the documentation says."""

import csv
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from benchmarks.cells.simulator import (
    SimulationSettings,
    simulate_events,
    synthetic_frames,
    write_simulated,
)
from data_prep.histopathology.stains import REFERENCE_STAINS, from_density
from data_prep.lane.scenes import write_scenes
from gpmodels.networks.res3d import Res3D, torchvision_state

ROOT = Path(__file__).parents[2]
SONAR_PAGE = (ROOT / "docs" / "sonar.md").read_text(encoding="utf-8")
LANE_PAGE = "\n\n".join(
    (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("lane.md", "steps.md")
)
CELLS_PAGE = (ROOT / "docs" / "cells.md").read_text(encoding="utf-8")
HISTOPATHOLOGY_PAGE = (ROOT / "docs" / "histopathology.md").read_text(encoding="utf-8")
VIDEO_PAGE = (ROOT / "docs" / "video.md").read_text(encoding="utf-8")
TINY = (
    "network=C1K3",
    "heads=[linear, hgp]",
    "pretraining_epochs=1",
    "head_epochs=1",
    "head_steps=20",
    "num_experts=2",
    "num_inducing=8",
)

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Example:
    """A finished run of the script: where it wrote, and what it said."""

    out: Path
    said: str


@pytest.fixture(scope="module")
def example(tmp_path_factory) -> Example:
    folder = tmp_path_factory.mktemp("lane example")
    write_scenes(folder / "walks", count=12, seed=0, lane_textures=["brick", "grass"], size=(48, 64))
    write_scenes(folder / "new", count=2, seed=9, lane_textures=["gravel"], size=(60, 50))
    said = run_lane_script(folder)
    return Example(folder / "out", said)


def run_lane_script(folder: Path, *, expected: int = 0) -> str:
    """Run examples/lane.sh with the environment's own command; return what it said."""
    arguments = ["walks/images", "walks/masks", "new/images", "out"]
    return run_script("lane.sh", folder, arguments, settings=TINY, size="24x32", expected=expected)


def run_script(
    name: str,
    folder: Path,
    arguments: list[str],
    *,
    settings: tuple[str, ...],
    size: str,
    environment: dict[str, str] | None = None,
    expected: int = 0,
) -> str:
    """Run a script of examples/ with the environment's own command; return what it said."""
    options = [text for setting in settings for text in ("--set", setting)]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    process = subprocess.run(
        [str(ROOT / "examples" / name), *arguments, *options],
        cwd=folder,
        env={**os.environ, "PATH": path, "SIZE": size, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert process.returncode == expected, process.stdout
    return process.stdout


def test_script_writes_report_bundle_and_predictions(example):
    assert "12 examples of 24 x 32" in example.said
    metrics = json.loads((example.out / "evaluation" / "metrics.json").read_text(encoding="utf-8"))
    assert list(metrics["methods"]) == ["Linear", "Linear + temperature", "HGP", "HGP + temperature"]
    assert (example.out / "evaluation" / "report.html").stat().st_size > 10_000
    enclosed = json.loads((example.out / "bundle" / "metrics.json").read_text(encoding="utf-8"))
    assert enclosed == metrics
    with (example.out / "predictions" / "predictions.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [(line["height"], line["width"], line["status"]) for line in lines] == [("60", "50", "ok")] * 2
    assert example.said.endswith("Masks, maps and overlays: out/predictions\n")


def test_columns_outputs_and_scores_are_the_documented_ones(example):
    header = (example.out / "predictions" / "predictions.csv").read_text(encoding="utf-8").splitlines()[0]
    metadata = json.loads((example.out / "bundle" / "metadata.json").read_text(encoding="utf-8"))
    tensors = {
        name
        for signature in metadata["signatures"].values()
        for part in ("inputs", "outputs")
        for name in signature[part]
    }
    files = {f"`{path.name}`" for path in (example.out / "bundle").iterdir() if path.is_file()}
    documented = set(re.findall(r"`[^`\n]+`", LANE_PAGE))
    assert {f"`{name}`" for name in (*header.split(","), *tensors)} <= documented
    assert files - {"`fingerprint.pb`"} <= documented  # TensorFlow's own
    written = {path.name for path in (example.out / "predictions").iterdir() if path.is_dir()}
    assert written == set(re.findall(r"^\| `(\w+)/NAME\.\w+` \|", LANE_PAGE, re.MULTILINE))


def test_tensorboard_tags_are_the_documented_ones(example):
    tags = set()
    for stage in (example.out / "run" / "tensorboard").iterdir():
        events = EventAccumulator(str(stage))
        events.Reload()
        tags |= set(events.Tags()["tensors"])
    general = {re.sub(r"^images/.*", "images/NAME", re.sub(r"expert_\d+$", "expert_k", tag)) for tag in tags}
    table = LANE_PAGE.partition("| Tag | Meaning |")[2].partition("\n\n")[0]
    first_cells = "\n".join(row.split("|")[1] for row in table.splitlines() if row.startswith("|"))
    assert general == set(re.findall(r"`([^`]+)`", first_cells))


def test_bundle_serves_with_tensorflow_alone(example, tmp_path):
    programs = re.findall(r"^```python\n(.*?)^```", LANE_PAGE, re.MULTILINE | re.DOTALL)
    (program,) = (one for one in programs if "tf.saved_model.load" in one)
    (tmp_path / "models_saved").mkdir()
    (tmp_path / "models_saved" / "lane").symlink_to(example.out / "bundle")
    (photo,) = (example.out.parent / "new" / "images").glob("*00000*.jpg")
    (tmp_path / "photo.jpg").symlink_to(photo)
    check = "import sys; assert not {'gpmodels', 'pipelines', 'gpflow', 'data_prep'} & set(sys.modules)\n"
    process = subprocess.run(
        [sys.executable, "-c", program + check], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    assert "photo of [60 50] pixels, maps of (1, 24, 32)" in process.stdout


def test_script_called_again_repeats_nothing(example):
    checkpoint = example.out / "run" / "heads" / "hgp" / "state.json"
    predictions = example.out / "predictions" / "predictions.csv"
    before = [path.stat().st_mtime_ns for path in (checkpoint, predictions)]
    said = run_lane_script(example.out.parent)
    assert "hgp epoch" not in said
    assert [path.stat().st_mtime_ns for path in (checkpoint, predictions)] == before


def test_script_stops_at_the_first_error(tmp_path):
    said = run_lane_script(tmp_path, expected=2)
    assert "walks/images" in said
    assert "Report" not in said


SONAR_TINY = (
    "heads=[linear, hgp]",
    "pretraining_epochs=1",
    "head_epochs=1",
    "steps_per_epoch=5",
    "batch_size=8",
    "head_steps=5",
    "num_experts=2",
    "num_inducing=4",
)


@pytest.mark.exhaustive  # the other scripts and the steps of each application are run
def test_sonar_script_writes_what_is_documented(tmp_path):
    rng = np.random.default_rng(0)
    for label, name in enumerate(("background", "mine")):
        (tmp_path / "snapshots" / name).mkdir(parents=True)
        for number in range(16):
            levels = rng.integers(0, 60 + 180 * label, (20, 20), np.uint8)
            cv2.imwrite(str(tmp_path / "snapshots" / name / f"{number}.png"), levels)
    (tmp_path / "survey").mkdir()
    cv2.imwrite(str(tmp_path / "survey" / "line.png"), rng.integers(0, 60, (90, 50), np.uint8))
    cv2.imwrite(str(tmp_path / "survey" / "snapshot.png"), rng.integers(0, 60, (20, 20), np.uint8))
    arguments = ["snapshots", "-", "survey", "out"]
    said = run_script("sonar.sh", tmp_path, arguments, settings=SONAR_TINY, size="8x8")
    assert said.endswith("Classes, boxes and pictures: out/predictions\n")
    out = tmp_path / "out"
    with (out / "predictions" / "predictions.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [line["status"] for line in lines] == ["ok", "ok"]
    documented = set(re.findall(r"`[^`\n]+`", SONAR_PAGE))
    classes = {"probability of background", "probability of mine"}
    assert {f"`{name}`" for name in lines[0].keys() - classes} <= documented
    for folder, suffix in (("boxes", "csv"), ("voc", "xml"), ("overlays", "png")):
        assert [path.name for path in (out / "predictions" / folder).iterdir()] == [f"line.{suffix}"]
        assert f"`{folder}/<name>.{suffix}`" in documented
    metadata = json.loads((out / "bundle" / "metadata.json").read_text(encoding="utf-8"))
    outputs = metadata["signatures"]["serving_default"]["outputs"]
    assert {f"`{name}`" for name in outputs} <= documented
    assert outputs["probability"]["shape"] == [None, 2]
    assert json.loads((out / "bundle" / "metrics.json").read_text(encoding="utf-8"))["methods"]


def test_video_script_writes_what_is_documented(tmp_path):
    rng = np.random.default_rng(0)
    for level, name in ((60, "Dark"), (200, "Light")):
        for number in range(1, 7):
            write_video(tmp_path / "videos" / name / f"v_{name}_g{number:02d}_c01.avi", level, rng)
    write_video(tmp_path / "new" / "film.avi", 60, rng)
    trunk = Res3D(2)
    trunk.build((None, 2, 16, 16, 3))
    np.savez(tmp_path / "weights.npz", **torchvision_state(trunk))
    settings = (*SONAR_TINY, "svms=[linear_svm]")
    environment = {"FRAMES": "2", "RESIZE": "16x16", "WEIGHTS": "weights.npz"}
    said = run_script(
        "video.sh",
        tmp_path,
        ["videos", "new", "out"],
        settings=settings,
        size="16x16",
        environment=environment,
    )
    assert said.endswith("Tables, plots and videos: out/predictions\n")
    predictions = tmp_path / "out" / "predictions"
    documented = set(re.findall(r"`[^`\n]+`", VIDEO_PAGE))
    classes = {"probability of Dark", "probability of Light"}
    for table in (predictions / "predictions.csv", *predictions.glob("*/film.csv")):
        with table.open(encoding="utf-8") as file:
            (first, *_) = csv.DictReader(file)
        assert {f"`{name}`" for name in first.keys() - classes} <= documented
    for folder, suffix in (("windows", "csv"), ("segments", "csv"), ("plots", "png"), ("annotated", "mp4")):
        assert [path.name for path in (predictions / folder).iterdir()] == [f"film.{suffix}"]
        assert f"`{folder}/<name>.{suffix}`" in documented
    metadata = json.loads((tmp_path / "out" / "bundle" / "metadata.json").read_text(encoding="utf-8"))
    signature = metadata["signatures"]["serving_default"]
    assert {f"`{name}`" for name in (*signature["inputs"], *signature["outputs"])} <= documented


@pytest.mark.exhaustive  # the other scripts and the steps of each application are run
def test_cells_script_writes_what_is_documented(tmp_path):
    simulation = SimulationSettings(mitoses=2, apoptoses=2, roundings=0)
    sequences = {
        name: simulate_events(synthetic_frames(8, (160, 200), seed=seed), simulation, seed=seed)
        for seed, name in enumerate("abcd")
    }
    write_simulated(tmp_path / "simulated", sequences)
    settings = ("heads=[linear, dfgp_mkl]", *SONAR_TINY[1:], "components=4", "selection_fraction=0.4")
    said = run_script(
        "cells.sh",
        tmp_path,
        ["simulated/sequences", "simulated/events.csv", "simulated/sequences/d", "out"],
        settings=settings,
        size="",
        environment={"ONE_KIND": "event"},
    )
    assert said.endswith("Events and marked sequences: out/predictions\n")
    predictions = tmp_path / "out" / "predictions"
    documented = set(re.findall(r"`[^`\n]+`", CELLS_PAGE))
    for table in (predictions / "predictions.csv", predictions / "events.csv"):
        header = table.read_text(encoding="utf-8").splitlines()[0].split(",")
        classes = {"probability of none", "probability of event"}
        assert {f"`{name}`" for name in set(header) - classes} <= documented
    assert [path.name for path in (predictions / "marked").iterdir()] == ["d.tif"]
    metadata = json.loads((tmp_path / "out" / "bundle" / "metadata.json").read_text(encoding="utf-8"))
    signature = metadata["signatures"]["serving_default"]
    assert {f"`{name}`" for name in (*signature["inputs"], *signature["outputs"])} <= documented


@pytest.mark.exhaustive  # the other scripts and the steps of each application are run
def test_histopathology_script_writes_what_is_documented(tmp_path):
    rng = np.random.default_rng(0)
    rows = ["file,label,patient"]
    for number in range(18):
        label = ("benign", "tumour")[number % 2]
        grain = 8 if number % 2 else 2
        amounts = rng.uniform(0.2, 1.0, (64 // grain, 64 // grain, 2))
        tissue = from_density(np.kron(amounts, np.ones((grain, grain, 1))) @ REFERENCE_STAINS)
        path = tmp_path / ("new" if number > 15 else "biopsies") / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        cv2.imwrite(str(path), tissue[..., ::-1])
        if number <= 15:
            rows.append(f"{number}.png,{label},P{number // 2}")
    (tmp_path / "labels.csv").write_text("\n".join(rows) + "\n")
    said = run_script(
        "histopathology.sh",
        tmp_path,
        ["biopsies", "labels.csv", "new", "out"],
        settings=("heads=[linear, dfgp_mkl]", *SONAR_TINY[1:], "components=4", "svms=[]"),
        size="",
        environment={"PATCH": "32"},
    )
    assert "out/evaluation/report.html" in said
    predictions = tmp_path / "out" / "predictions"
    documented = set(re.findall(r"`[^`\n]+`", HISTOPATHOLOGY_PAGE))
    for table in (predictions / "predictions.csv", predictions / "patches" / "16.csv"):
        header = table.read_text(encoding="utf-8").splitlines()[0].split(",")
        classes = {"probability of benign", "probability of tumour"}
        assert {f"`{name}`" for name in set(header) - classes} <= documented
    assert sorted(path.name for path in (predictions / "maps").iterdir()) == ["16.png", "17.png"]
    metadata = json.loads((tmp_path / "out" / "bundle" / "metadata.json").read_text(encoding="utf-8"))
    signature = metadata["signatures"]["serving_default"]
    assert {f"`{name}`" for name in (*signature["inputs"], *signature["outputs"])} <= documented


def write_video(path: Path, level: int, rng: np.random.Generator) -> None:
    """Two seconds of noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, (32, 24))
    for _ in range(20):
        writer.write(rng.integers(level, level + 40, (24, 32, 3), np.uint8))
    writer.release()
