"""The whole way of the histopathology application by its commands, on features and on towers."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from tensorflow.python.framework.config import disable_op_determinism
from typer.testing import CliRunner

from data_prep.histopathology.stains import REFERENCE_STAINS, from_density
from pipelines.bundles.metadata import load_metadata
from pipelines.bundles.saved_model import load_signatures
from pipelines.cli import make_app
from pipelines.scores.pool_calibration import at_temperature

pytestmark = pytest.mark.slow

TINY = {
    "pretraining_epochs": 2,
    "head_epochs": 2,
    "steps_per_epoch": 15,
    "batch_size": 20,
    "head_steps": 20,
    "num_experts": 2,
    "num_inducing": 6,
    "components": 4,
    "panel_images": 1,
}
SETTINGS = [text for key, value in TINY.items() for text in ("--set", f"{key}={value}")]
PATCH, IMAGE = 32, (64, 96)


def run(*arguments: object, expected: int = 0) -> str:
    """Call a command in this process; return what it said."""
    try:
        texts = ["histopathology", *map(str, arguments)]
        if arguments[0] == "verify":
            texts = texts[1:]
        result = CliRunner(env={"COLUMNS": "200"}).invoke(make_app(), texts)
    finally:
        disable_op_determinism()  # other tests go on without
    assert result.exit_code == expected, (result.output, result.exception)
    return result.output


def tissue(seed: int, *, tumour: bool) -> np.ndarray:
    """Two stains in random amounts; a tumour has more haematoxylin, in finer grains; the corner is glass."""
    rng = np.random.default_rng(seed)
    grain = 2 if tumour else 8
    shape = (IMAGE[0] // grain + 1, IMAGE[1] // grain + 1, 2)
    amounts = rng.uniform(0.1, 1.0, shape) * ((1.4, 0.5) if tumour else (0.6, 1.0))
    amounts = np.kron(amounts, np.ones((grain, grain, 1)))[: IMAGE[0], : IMAGE[1]]
    amounts[:PATCH, :PATCH] = 0
    return from_density(amounts @ REFERENCE_STAINS)


class Way:
    """Folders of the steps, and what each said."""

    def __init__(self, folder: Path) -> None:
        self.images, self.table, self.new = folder / "slides", folder / "labels.csv", folder / "new"
        self.prepared, self.run, self.evaluation = folder / "prepared", folder / "run", folder / "evaluation"
        self.bundle, self.predictions = folder / "bundle", folder / "predictions"
        self.trained = folder / "bundle of a trained head"
        self.towers, self.towers_bundle = folder / "towers", folder / "towers bundle"
        self.said: dict[str, str] = {}


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> Way:
    way = Way(tmp_path_factory.mktemp("the whole way"))
    rows = ["file,label,patient"]
    for number in range(24):
        name = f"slide {number}.png"
        path = way.images / name if number < 22 else way.new / name
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(tissue(number, tumour=number % 2 == 1)).save(path)
        if number < 22:
            rows.append(f"{name},{('benign', 'tumour')[number % 2]},P{number // 2 % 8}")
    (way.new / "Größe.png").write_bytes(b"no image")
    Image.fromarray(np.full((*IMAGE, 3), 250, np.uint8)).save(way.new / "glass.png")
    way.table.write_text("\n".join(rows) + "\n")
    say, data = way.said, ("--data", way.prepared)
    folders = ("--images", way.images, "--labels", way.table, "--out", way.prepared)
    say["prepare"] = run("prepare", *folders, "--patch-size", PATCH, "--set", "size=[32, 32]", "--jobs", 1)
    say["train"] = run("train", *data, "--out", way.run, *SETTINGS)
    say["evaluate"] = run("evaluate", *data, "--model", way.run, "--out", way.evaluation)
    metrics = ("--metrics", way.evaluation / "metrics.json")
    say["export"] = run("export", "--model", way.run, "--out", way.bundle, *metrics)
    say["verify"] = run("verify", way.bundle)
    # Of so few patients the run names the linear head, which two epochs teach little.
    run("export", "--model", way.run, "--out", way.trained, "--set", "head=dfgp_mkl", *metrics)
    say["predict"] = run("predict", "--model", way.trained, "--input", way.new, "--out", way.predictions)
    heads = ("--features", "cnn", "--head", "dfgp-mkl")
    say["towers"] = run("train", *data, "--out", way.towers, *heads, *SETTINGS)
    say["towers export"] = run("export", "--model", way.towers, "--out", way.towers_bundle)
    say["towers verify"] = run("verify", way.towers_bundle)
    return way


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_step_says_what_it_did(way):
    # Of six patches of an image one is glass.
    assert "110 patches of 22 images (657 features each" in way.said["prepare"]
    assert "8 groups" in way.said["prepare"]
    assert "Weights of the views: " in way.said["train"]
    assert "RBF-SVM: C" in way.said["train"]
    assert "DFGP-MKL" in way.said["evaluate"]
    assert "is good" in way.said["verify"]
    assert "2 predictions written" in way.said["predict"]
    assert "Größe.png" in way.said["predict"]
    assert "glass.png: only background" in way.said["predict"]
    assert "Weights of the views: " in way.said["towers"]
    assert "is good" in way.said["towers verify"]
    for text in way.said.values():
        assert "Traceback" not in text


def test_images_are_judged_by_all_heads(way):
    metrics = json.loads((way.evaluation / "metrics.json").read_text())
    titles = set(metrics["methods"])
    assert titles >= {"Linear SVM", "RBF-SVM", "Linear", "SVGP", "HGP", "DFGP", "DFGP-MKL"}
    assert metrics["methods"]["DFGP-MKL"]["scores"]["accuracy"] > 0.8
    manifest = json.loads((way.prepared / "manifest.json").read_text())
    tested = {entry["source"] for entry in manifest["examples"] if entry["split"] == "test"}
    assert f"histopathology: {len(tested)} test examples" in way.said["evaluate"]
    weights = json.loads((way.run / "run.json").read_text())["view_weights"]
    assert list(weights) == ["intensity", "box_counting", "lbp", "sift"]
    assert sum(weights.values()) == pytest.approx(1.0, abs=1e-3)


def test_the_head_to_take_is_named_and_exported(way):
    choice = json.loads((way.run / "run.json").read_text())["choice"]
    assert choice["judged"] == "images"
    assert set(choice["nlls"]) >= {"linear", "svgp", "hgp", "dfgp", "dfgp_mkl"}
    sentence = f"Take the {choice['head']} head: "
    for step in ("train", "evaluate", "export"):
        assert sentence in way.said[step]
    assert f"The {choice['head']} head, which the run chose (--set head=" in way.said["export"]
    metrics = json.loads((way.evaluation / "metrics.json").read_text())
    assert metrics["choice"].startswith(sentence)
    assert metrics["methods"][metrics["chosen"]]["guarantee"]["source"]["head"] == choice["head"]
    report = (way.evaluation / "report.html").read_text(encoding="utf-8")
    assert report.index(sentence) < report.index("No referral threshold") < report.index("Before you read on")
    details = metrics["methods"]["HGP + temperature"]["details"]
    assert set(details) >= {"temperature", "temperature of images"}  # each patient has images of both classes
    assert "temperature of patients" not in details


def test_what_has_no_one_class_is_not_judged(way, tmp_path):
    manifest = json.loads((way.prepared / "manifest.json").read_text())
    tested = [entry for entry in manifest["examples"] if entry["split"] == "test"]
    folders = ("--data", way.prepared, "--model", way.run)
    said = run("evaluate", *folders, "--out", tmp_path / "patches", "--set", "by=patch")
    assert f"histopathology: {len(tested)} test examples" in said
    # Every patient has images of both classes.
    said = run("evaluate", *folders, "--out", tmp_path / "patients", "--set", "by=patient", expected=2)
    assert "one patient may have patches of several classes" in said


def test_predictions_are_of_images_with_maps_and_geojson(way):
    lines = {Path(row["file"]).name: row for row in rows(way.predictions / "predictions.csv")}
    assert lines["slide 22.png"]["label"] == "benign"
    assert lines["slide 23.png"]["label"] == "tumour"
    assert float(lines["slide 23.png"]["judged"]) == pytest.approx(5 / 6)
    assert lines["glass.png"]["status"] != "ok"
    patches = rows(way.predictions / "patches" / "slide 23.csv")
    assert [(row["row"], row["column"]) for row in patches] == [
        *(("0", "32"), ("0", "64"), ("32", "0"), ("32", "32"), ("32", "64")),
    ]
    mean = np.mean([float(row["probability of tumour"]) for row in patches])
    temperature = load_metadata(way.trained).pool_temperature
    description = json.loads((way.run / "run.json").read_text())
    assert temperature == description["pool_temperatures"]["dfgp_mkl"]["images"]
    (_, p) = at_temperature(np.array([1 - mean, mean]), temperature)
    assert float(lines["slide 23.png"]["probability of tumour"]) == pytest.approx(p, abs=1e-4)
    content = json.loads((way.predictions / "geojson" / "slide 23.geojson").read_text())
    first = content["features"][0]
    assert first["geometry"]["coordinates"][0][0] == [32, 0]
    assert first["properties"]["classification"]["name"] in {"benign", "tumour"}
    with Image.open(way.predictions / "maps" / "slide 23.png") as picture:
        assert np.asarray(picture).std() > 10


def test_the_bundle_takes_one_input_for_each_view(way):
    metadata = load_metadata(way.bundle)
    inputs = metadata.signatures["serving_default"].inputs
    assert {name: tensor.shape for name, tensor in inputs.items()} == {
        "intensity": (None, 78),
        "box_counting": (None, 21),
        "lbp": (None, 174),
        "sift": (None, 384),
    }
    preprocessing = json.loads((way.bundle / "preprocessing.json").read_text())
    assert preprocessing["settings"]["patch_size"] == PATCH


def test_features_of_another_version_are_refused(way, tmp_path):
    copy = tmp_path / "bundle"
    for path in way.bundle.rglob("*"):
        target = copy / path.relative_to(way.bundle)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            target.write_bytes(path.read_bytes())
    file = copy / "preprocessing.json"
    changed = json.loads(file.read_text()) | {"extractor": "histopathology 0"}
    file.write_text(json.dumps(changed))
    metadata = json.loads((copy / "metadata.json").read_text())
    del metadata["sha256"]["preprocessing.json"]
    (copy / "metadata.json").write_text(json.dumps(metadata))
    said = run("predict", "--model", copy, "--input", way.new, "--out", tmp_path / "out", expected=2)
    assert "histopathology 0" in said
    assert "prepare and train again" in said


def test_towers_are_served_from_the_bytes_of_files(way):
    signature = load_signatures(way.towers_bundle)["serve_bytes"]
    outputs = signature(encoded=tf.constant([(way.new / "slide 22.png").read_bytes()]))
    assert outputs["probability"].shape == (1, 2)
    assert outputs["original_size"].numpy().tolist() == [list(IMAGE)]


def test_an_unknown_head_is_refused(way, tmp_path):
    said = run("train", "--data", way.prepared, "--out", tmp_path / "run", "--head", "other", expected=2)
    assert "other" in said
    assert not (tmp_path / "run").exists()
