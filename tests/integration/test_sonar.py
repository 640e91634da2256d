"""The whole way of the sonar application by its commands, from marked images to boxes in new ones."""

import csv
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import cv2
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorflow.python.framework.config import disable_op_determinism
from typer.testing import CliRunner

from data_prep.sonar.box_files import read_box_table, read_voc
from data_prep.sonar.images import read_sonar
from pipelines.bundles.metadata import load_metadata
from pipelines.bundles.saved_model import load_signatures
from pipelines.cli import make_app
from pipelines.sonar.settings import SnapshotPreprocessing
from pipelines.sonar.windows import snapshot_of

pytestmark = pytest.mark.slow

TINY = {
    "heads": "[linear, hgp]",
    "pretraining_epochs": 8,
    "head_epochs": 2,
    "steps_per_epoch": 30,
    "batch_size": 20,
    "head_steps": 200,
    "num_experts": 2,
    "num_inducing": 8,
    "panel_images": 1,
}
SETTINGS = [text for key, value in TINY.items() for text in ("--set", f"{key}={value}")]
CLASSES = ("ball", "bar", "background")
SIDE, IMAGE = 16, (120, 160)


def run(*arguments: object, expected: int = 0) -> str:
    """Call a command in this process; return what it said."""
    result = CliRunner(env={"COLUMNS": None}).invoke(make_app(), [str(argument) for argument in arguments])
    assert result.exit_code == expected, (result.output, result.exception)
    return result.output


def sea_floor(rng: np.random.Generator) -> tuple[np.ndarray, list[tuple[str, int, int]]]:
    """A 16-bit image with speckle, and what lies where: bright discs and lines."""
    levels = np.full(IMAGE, 3000.0)
    objects = []
    for name in ("ball", "bar", "ball", "bar"):
        while True:
            top, left = (int(rng.integers(4, side - SIDE - 4)) for side in IMAGE)
            if all(abs(top - t) > 2 * SIDE or abs(left - x) > 2 * SIDE for _, t, x in objects):
                break
        objects.append((name, top, left))
        centre = (left + SIDE // 2, top + SIDE // 2)
        if name == "ball":
            cv2.circle(levels, centre, 5, 8000.0, -1)
        else:
            cv2.line(levels, (left + 1, centre[1]), (left + SIDE - 2, centre[1]), 8000.0, 3)
    speckle = rng.exponential(1.0, IMAGE) * 0.5 + 0.5
    return np.clip(levels * speckle, 0, 65535).astype(np.uint16), objects


class Way:
    """What each step wrote and said."""

    def __init__(self, folder: Path) -> None:
        self.said: dict[str, str] = {}
        self.images, self.survey = folder / "lines", folder / "new survey"
        self.prepared, self.run = folder / "prepared", folder / "run"
        self.evaluation, self.bundle = folder / "evaluation", folder / "bundle"
        self.predictions = folder / "predictions"


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> Way:
    way, rng = Way(tmp_path_factory.mktemp("the whole way")), np.random.default_rng(0)
    way.images.mkdir()
    way.survey.mkdir()
    rows = ["image,x,y,w,h,class"]
    for number in range(12):
        levels, objects = sea_floor(rng)
        name = f"line{number // 2}_{number}.png"
        cv2.imwrite(str(way.images / name), levels)
        rows += [f"{name},{left},{top},{SIDE},{SIDE},{kind}" for kind, top, left in objects]
    table = way.images.parent / "boxes.csv"
    table.write_text("\n".join(rows) + "\n")
    levels, way.objects = sea_floor(rng)
    cv2.imwrite(str(way.survey / "full.png"), levels)
    kind, top, left = way.objects[0]
    cv2.imwrite(str(way.survey / f"{kind}.png"), levels[top - 4 : top + 20, left - 4 : left + 20])
    (way.survey / "Größe.png").write_bytes(b"no image")
    say = way.said
    folders = ("--images", way.images, "--annotations", table, "--out", way.prepared)
    options = ("--window", "24x24", "--size", "16x16", "--group-pattern", "^(line[0-9]+)", "--jobs", 1)
    say["prepare"] = run("sonar", "prepare", *folders, *options, "--set", "background_ratio=1.5")
    try:
        say["train"] = run("sonar", "train", "--data", way.prepared, "--out", way.run, *SETTINGS)
        say["resumed"] = run("sonar", "train", "--data", way.prepared, "--out", way.run, "--resume")
    finally:
        disable_op_determinism()  # other tests go on without
    model = ("--model", way.run)
    say["evaluate"] = run("sonar", "evaluate", "--data", way.prepared, *model, "--out", way.evaluation)
    metrics = ("--metrics", way.evaluation / "metrics.json")
    say["export"] = run("sonar", "export", *model, "--out", way.bundle, *metrics)
    say["verify"] = run("verify", way.bundle)
    # Objects lay in the middle of their training snapshots; a quarter of a window comes near enough to that.
    inputs = ("--input", way.survey, "--refer-above", 0.0, "--set", "stride=0.25")
    say["predict"] = run("sonar", "predict", "--model", way.bundle, *inputs, "--out", way.predictions)
    return way


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_settings_that_do_not_go_with_the_data_are_refused_before_any_training(way, tmp_path):
    likelihood = ("--set", "likelihood=bernoulli")  # for two classes, and there are three
    said = run("sonar", "train", "--data", way.prepared, "--out", tmp_path / "run", *likelihood, expected=2)
    assert "The likelihood 'bernoulli' is for 2 classes, but num_classes is 3" in said
    assert not (tmp_path / "run").exists()


def test_every_step_says_what_it_did(way):
    assert "snapshots of 16 x 16 written to" in way.said["prepare"]
    assert "ball: 24" in way.said["prepare"]
    assert "hgp epoch 2: loss" in way.said["train"]
    assert "mean recall" in way.said["train"]
    assert "epoch 1: loss" not in way.said["resumed"]
    assert "is good" in way.said["verify"]
    assert "2 predictions written" in way.said["predict"]
    assert "Größe.png" in way.said["predict"]
    for text in way.said.values():
        assert "Traceback" not in text


def test_metrics_tell_the_classes_apart(way):
    metrics = json.loads((way.evaluation / "metrics.json").read_text(), parse_constant=pytest.fail)
    assert list(metrics["methods"]) == ["Linear", "Linear + temperature", "HGP", "HGP + temperature"]
    assert json.loads((way.bundle / "metrics.json").read_text()) == metrics
    for method in metrics["methods"].values():
        confusion = np.array(method["confusion"])
        assert confusion.sum() == metrics["data"]["images"]
        recalls = np.diag(confusion) / confusion.sum(axis=1)
        assert list(method["recalls"]) == sorted(CLASSES)
        np.testing.assert_allclose(list(method["recalls"].values()), recalls)
        assert method["scores"]["balanced_accuracy"] == pytest.approx(recalls.mean())
        assert method["scores"]["accuracy"] > 0.6  # of three classes


def test_the_report_is_one_file_with_matrices_and_a_referral_curve(way):
    html = (way.evaluation / "report.html").read_text(encoding="utf-8")
    assert "http" not in html.replace("http://www.w3.org", "")
    chosen = json.loads((way.evaluation / "metrics.json").read_text())["chosen"]
    assert html.count(f'alt="Confusion matrix of {chosen}"') == html.count("Confusion matrix") == 1
    assert 'alt="Referral curves' in html
    assert "Most uncertain images" in html
    assert "lane" not in html.lower()


def test_tensorboard_has_the_scores_and_a_picture(way):
    events = EventAccumulator(str(way.run / "tensorboard" / "hgp"), size_guidance={"images": 0}).Reload()
    assert "balanced_accuracy/selection" in {
        *events.Tags()["scalars"],
        *events.Tags()["tensors"],
    }


def test_a_snapshot_has_the_probabilities_of_the_signature(way):
    (row,) = [row for row in rows(way.predictions / "predictions.csv") if row["file"].endswith("ball.png")]
    metadata = load_metadata(way.bundle)
    snapshots = SnapshotPreprocessing.model_validate(metadata.preprocessing_settings)
    assert snapshots.window == (24, 24)
    assert snapshots.background_classes == ("background",)
    levels = read_sonar(way.survey / "ball.png")
    image = snapshot_of(levels, metadata.network_size, snapshots.normalisation)
    outputs = load_signatures(way.bundle)["serving_default"](images=tf.constant(image[None]))
    probability = [float(row[f"probability of {name}"]) for name in metadata.class_names]
    np.testing.assert_allclose(probability, outputs["probability"][0], atol=1e-5)
    assert (row["boxes"], row["referred"], row["height"]) == ("", "true", "24")
    assert row["label"] == metadata.class_names[int(np.argmax(probability))]


def test_a_full_image_gets_boxes_that_prepare_can_read(way):
    (row,) = [row for row in rows(way.predictions / "predictions.csv") if row["file"].endswith("full.png")]
    (table,) = (way.predictions / "boxes").iterdir()
    found = read_box_table(table).get("full.png", [])
    assert int(row["boxes"]) == len(found) >= 1
    marked = read_voc(way.predictions / "voc" / "full.xml", IMAGE)
    assert marked == found
    near = np.array(
        [
            [
                abs(box.left + 12 - left - SIDE / 2) < SIDE and abs(box.top + 12 - top - SIDE / 2) < SIDE
                for _, top, left in way.objects
            ]
            for box in found
        ]
    )
    assert near.any(axis=0).sum() >= 3  # of four objects
    assert np.sum(~near.any(axis=1)) <= 1  # boxes where nothing is
    assert near.sum(axis=0).max() == 1  # boxes of one object
    for box in rows(table):
        assert 0.5 < float(box["score"]) <= 1
        assert sum(float(box[f"probability of {name}"]) for name in CLASSES) == pytest.approx(1, abs=1e-4)
    assert ET.parse(way.predictions / "voc" / "full.xml").findtext("filename") == "full.png"  # noqa: S314
    picture = cv2.imread(str(way.predictions / "overlays" / "full.png"))
    assert picture.shape == (5 * IMAGE[0], 5 * IMAGE[1], 3)  # large enough to read


def test_a_model_without_background_does_not_search(way, tmp_path):
    options = ("--set", "background_classes=[]", "--set", "mode=full")
    said = run(
        *("sonar", "predict", "--model", way.bundle, "--input", way.survey / "full.png"),
        *("--out", tmp_path / "out", *options),
        expected=2,
    )
    assert "no class of the bundle is background" in " ".join(said.split())
