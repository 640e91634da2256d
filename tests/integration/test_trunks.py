"""A trunk in the place of the sonar application's own network, from images to predictions."""

import json
import re
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
import tensorflow as tf
from rich.console import Console
from tensorflow.python.framework.config import disable_op_determinism

from data_prep.labelled.dataset import labelled_records
from data_prep.prepared.manifest import load_manifest
from data_prep.sonar.manifest import SonarManifest
from gpmodels.networks.efficientnet_lite import EfficientNetLite0
from pipelines.bundles.saved_model import load_signatures
from pipelines.command import remote
from pipelines.evaluation.evaluate import evaluate
from pipelines.runs.models import load_model
from pipelines.runs.predictors import Predictor
from pipelines.sonar.application import SONAR
from pipelines.sonar.settings import EvaluateSettings
from pipelines.trunks.application import TRUNK_FILE
from pipelines.trunks.weights import load_trunk
from tests.integration.test_sonar import run
from tests.pipelines import tiny_lane

pytestmark = pytest.mark.slow

TINY = {
    "network": "efficientnet_lite0",
    "weights": "none",
    "smallest_side": 32,
    "components": 6,
    "heads": "[linear, svgp]",
    "pretraining_epochs": 1,
    "head_epochs": 1,
    "steps_per_epoch": 10,
    "batch_size": 10,
    "head_steps": 20,
    "num_inducing": 5,
    "panel_images": 1,
}


def settings(**changes: object) -> list[str]:
    return [text for key, value in {**TINY, **changes}.items() for text in ("--set", f"{key}={value}")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("trunk"), np.random.default_rng(0)
    for name, level in (("bright", 200), ("dark", 40)):
        (folder / "images" / name).mkdir(parents=True)
        for number in range(16):
            levels = np.clip(rng.normal(level, 30, (20, 20)), 0, 255).astype(np.uint8)
            cv2.imwrite(str(folder / "images" / name / f"{number}.png"), levels)
    run("sonar", "prepare", "--images", folder / "images", "--out", folder / "prepared", "--size", "16x16")
    return folder


@pytest.fixture(autouse=True)
def _own_cache(folder, monkeypatch):
    monkeypatch.setenv("GPIMAGING_CACHE", str(folder / "cache"))
    yield
    disable_op_determinism()  # other tests go on without


def train(folder: Path, name: str, *more: object, expected: int = 0, **changes: object) -> str:
    where = ("--data", folder / "prepared", "--out", folder / name)
    return run("sonar", "train", *where, *settings(**changes), *more, expected=expected)


def test_a_frozen_trunk_goes_the_whole_way(folder, tmp_path):
    said = train(folder, "frozen")
    assert "The images of 16 x 16 are smaller than efficientnet_lite0 makes use of" in said
    assert "Computing the features of 32 images" in said
    description = json.loads((folder / "frozen" / "run.json").read_text())
    assert description["trunk"]["name"] == "efficientnet_lite0"
    assert description["trunk"]["size"] == [16, 16]
    assert len(description["trunk"]["sha256"]) == 64
    model = ("--model", folder / "frozen")
    said = run("sonar", "evaluate", "--data", folder / "prepared", *model, "--out", tmp_path / "evaluation")
    assert "Computing the features" not in said
    run("sonar", "export", *model, "--out", tmp_path / "bundle")
    assert "is good" in run("verify", tmp_path / "bundle")
    quantised = ("--format", "litert", "--quantise", "int8", "--data", folder / "prepared")
    said = run("sonar", "export", *model, "--out", tmp_path / "int8", *quantised)
    after, before = re.findall(r"NLL of the \d+ held-out images (\d\.\d+) instead of (\d\.\d+)\.", said)[0]
    assert float(after) == pytest.approx(float(before), abs=0.1)
    assert "network_int8.tflite/probability" in run("verify", tmp_path / "int8")
    metadata = json.loads((tmp_path / "bundle" / "metadata.json").read_text())
    assert "enlarging until the shorter side has 32 pixels" in metadata["preprocessing"]
    inputs = ("--input", folder / "images" / "bright", "--out", tmp_path / "predictions")
    assert "16 predictions written" in run("sonar", "predict", "--model", tmp_path / "bundle", *inputs)


def test_the_bundle_predicts_what_the_run_judged(folder, tmp_path, monkeypatch):
    """Features, judged from the cache, and the images that a bundle takes lead to one probability."""
    judged: dict[tuple[str, bytes], float] = {}
    outputs = Predictor.outputs

    def remember(self, features):
        found = outputs(self, features)
        judged[self.title, np.asarray(features).tobytes()] = float(found["probability"])
        return found

    monkeypatch.setattr(Predictor, "outputs", remember)
    model = ("--model", folder / "frozen")
    run("sonar", "evaluate", "--data", folder / "prepared", *model, "--out", tmp_path / "evaluation")
    run(
        "sonar",
        "export",
        *model,
        "--out",
        tmp_path / "bundle",
        "--set",
        "tempered=false",
        "--set",
        "head=svgp",
    )
    predict = load_signatures(tmp_path / "bundle")["serving_default"]
    manifest = load_manifest(folder / "prepared", SonarManifest)
    names = [one.name for one in manifest.examples if one.split == "test"]
    images = [image for _, image, _ in labelled_records(folder / "prepared", manifest, names)]
    found = predict(images=tf.constant(np.stack(images)))["probability"].numpy()
    expected = np.array([probability for (title, _), probability in judged.items() if title == "SVGP"])
    assert np.ptp(expected) > 1e-2
    # Of the selection part, too, which a guarantee is given by: each of the test part must be among them.
    nearest = np.abs(found[:, 1:] - expected).min(axis=1)
    np.testing.assert_allclose(nearest, 0.0, atol=1e-5)


def test_another_trunk_is_refused(folder, tmp_path):
    shutil.copytree(folder / "frozen", tmp_path / "frozen")
    said = train(folder, "frozen", "--resume", expected=2, seed=1)
    assert "seed" in said
    assert "trunk" in said
    other = EfficientNetLite0()
    other.build((None, None, None, 3))
    other.save_weights(tmp_path / "other.weights.h5")
    said = train(folder, "frozen", "--resume", expected=2, weights=tmp_path / "other.weights.h5")
    assert "weights" in said
    assert "trunk changed" in said.replace("\n", " ") or "trunk, " in said
    path = tmp_path / "frozen" / TRUNK_FILE
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    model = ("--model", tmp_path / "frozen")
    said = run(
        *("sonar", "evaluate", "--data", folder / "prepared", *model, "--out", tmp_path / "evaluation"),
        expected=2,
    )
    assert "is not the trunk that" in said
    said = run("sonar", "export", *model, "--out", tmp_path / "bundle", expected=2)
    assert "is not the trunk that" in said


def test_a_cluster_judges_as_one_process_does(folder, cluster, tmp_path, monkeypatch):
    """What is prepared, shifted or unfamiliar is seen by workers, with the weights that the run keeps."""
    (tmp_path / "unknown").mkdir()
    for number in range(3):
        image = np.full((16, 16), 80 * number, np.uint8)
        cv2.imwrite(str(tmp_path / "unknown" / f"{number}.png"), image)
    asked = EvaluateSettings(
        shifted=True, shifted_examples=10, unfamiliar=tmp_path / "unknown", resamples=100, gallery_images=0
    )
    found = []
    for name, where in (("one", None), ("cluster", cluster)):
        monkeypatch.setenv("GPIMAGING_CACHE", str(tmp_path / name / "cache"))
        remote.made.cache_clear()
        evaluate(
            SONAR,
            asked,
            data=folder / "prepared",
            model=folder / "frozen",
            out=tmp_path / name / "evaluation",
            console=Console(quiet=True),
            cluster=where,
        )
        features = sorted((tmp_path / name / "cache").rglob("*.safetensors"))
        metrics = json.loads((tmp_path / name / "evaluation" / "metrics.json").read_text())
        for method in metrics["methods"].values():
            del method["seconds_per_image"], method["peak_memory_bytes"]
        found.append(([path.read_bytes() for path in features], metrics))
        assert bool(remote.made.cache_info().misses) == (where is not None)
    assert len(found[0][0]) == 1
    assert found[0] == found[1]


def test_last_blocks_are_trained_from_the_images(folder, tmp_path):
    said = train(folder, "tuned", unfreeze_blocks=1, heads="[linear]", steps_per_epoch=3)
    assert "Computing the features" not in said
    assert not (folder / "tuned" / TRUNK_FILE).exists()
    model = ("--model", folder / "tuned")
    run("sonar", "evaluate", "--data", folder / "prepared", *model, "--out", tmp_path / "evaluation")
    run("sonar", "export", *model, "--out", tmp_path / "bundle")
    assert "is good" in run("verify", tmp_path / "bundle")
    assert "its last 1 blocks trained with the heads" in (tmp_path / "bundle" / "metadata.json").read_text()


def test_weights_that_are_not_there_are_named_before_anything_is_written(folder):
    said = train(folder, "never", weights="missing.safetensors", expected=2)
    assert "missing.safetensors cannot be read as weights" in said.replace("\n", " ")
    assert not (folder / "never").exists()
    said = train(folder, "never", unfreeze_blocks=40, expected=2)
    assert "must be from 0 to 17, but is 40" in said.replace("\n", " ")


@pytest.mark.exhaustive  # the networks' own tests have the decoder
def test_a_lane_network_begins_with_a_trunk_as_encoder(tmp_path):
    settings = tiny_lane.SETTINGS.model_copy(
        update={
            "network": "efficientnet_lite0",
            "weights": "none",
            "unfreeze_blocks": 1,
            "heads": ("linear",),
        }
    )
    model = tiny_lane.train(tiny_lane.prepare(tmp_path), tmp_path / "run", settings)
    network = load_model(tiny_lane.job(model), "linear").network
    begun, found = (
        load_trunk("efficientnet_lite0", "none", seed=settings.seed).arrays(),
        network.encoder.arrays(),
    )
    changed = {name for name, array in found.items() if (array != begun[name]).any()}
    assert {"_blocks.15._depthwise_conv.weight"} <= changed
    assert all(name.startswith("_blocks.15.") and "_bn" not in name for name in changed)
    bundle = tiny_lane.export(model, tmp_path / "bundle", head="linear")
    assert "is good" in run("verify", bundle)
    image = np.zeros((1, 40, 50, 3), np.uint8)
    outputs = load_signatures(bundle)["serving_default"](images=tf.constant(image))
    assert outputs["probability"].shape == (1, 40, 50)
