"""The way of the page docs/classify.md by its own program and commands, from digits to a contact sheet."""

import csv
import json
import re
import shlex
from pathlib import Path

import cv2
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.config import disable_op_determinism
from typer.testing import CliRunner

from data_prep.files.images import read_image
from pipelines.bundles.metadata import load_metadata
from pipelines.bundles.saved_model import load_signatures
from pipelines.cli import make_app

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "classify.md").read_text(encoding="utf-8")
TINY = {
    "heads": "[linear, svgp]",
    "pretraining_epochs": 3,
    "head_epochs": 1,
    "steps_per_epoch": 40,
    "head_steps": 100,
    "num_inducing": 20,
    "panel_images": 1,
}
CLASSES = [f"digit {digit}" for digit in range(10)]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def run(*arguments: object) -> str:
    """Call a command in this process; return what it said."""
    result = CliRunner(env={"COLUMNS": None}).invoke(make_app(), [str(argument) for argument in arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each command of the page said; its folders are in the present one."""
    folder = tmp_path_factory.mktemp("digits")
    said: dict[str, str] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (program,) = blocks("python")
        exec(compile(program, "program", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own documentation
        (folder / "new" / "kaputt.png").write_bytes(b"no image")
        commands = next(block for block in blocks("bash") if "--images digits" in block)
        try:
            for line in commands.replace("\\\n", " ").splitlines():
                _, application, step, *options = shlex.split(line)
                if step == "train":  # what the test asks for beats what the page says
                    options += [text for key, value in TINY.items() for text in ("--set", f"{key}={value}")]
                if step == "export":
                    options += ["--format", "litert"]
                said[step] = run(application, step, *options)
        finally:
            disable_op_determinism()  # other tests go on without
        said["verify"] = run("verify", "bundle")
    said["folder"] = str(folder)
    return said


def test_every_step_says_what_it_did(way):
    assert "1767 images of 16 x 16 written to prepared" in way["prepare"]
    assert re.search(r"digit 3: \d+, \d+ of them to judge by", way["prepare"])
    assert "Warning: 1767 of 1767 images are smaller than 16 x 16 (the median is 8 x 8)" in way["prepare"]
    assert "svgp epoch 1: loss" in way["train"]
    assert "is good" in way["verify"]
    assert "30 predictions written to predictions" in way["predict"]
    assert "kaputt.png: unreadable" in way["predict"]
    assert "predictions/contact_sheet.png" in way["predict"]
    assert "LiteRT runs network.tflite of the bundle." in way["predict"]


def test_the_heads_tell_digits_apart(way):
    metrics = json.loads((Path(way["folder"]) / "evaluation" / "metrics.json").read_text(encoding="utf-8"))
    assert list(metrics["methods"]) == ["Linear", "Linear + temperature", "SVGP", "SVGP + temperature"]
    for method in metrics["methods"].values():
        assert method["scores"]["accuracy"] > 0.8
        assert list(method["recalls"]) == CLASSES
    report = (Path(way["folder"]) / "evaluation" / "report.html").read_text(encoding="utf-8")
    assert f'alt="Confusion matrix of {metrics["chosen"]}"' in report


def predicted(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "predictions.csv").open(newline="", encoding="utf-8") as file:
        return {Path(row["file"]).name: row for row in csv.DictReader(file)}


def test_predictions_are_those_of_the_bundle_and_documented(way):
    folder = Path(way["folder"])
    rows = predicted(folder / "predictions")
    assert rows.pop("kaputt.png")["status"].endswith("or remove it.")
    documented = set(re.findall(r"`[^`\n]+`", PAGE))
    row = next(iter(rows.values()))
    columns = {f"probability of {name}" for name in CLASSES}
    assert {f"`{name}`" for name in row.keys() - columns} <= documented
    where = ("--model", folder / "bundle", "--input", folder / "new", "--out", folder / "by_tensorflow")
    assert "LiteRT" not in run("classify", "predict", *where, "--set", "runtime=tensorflow")
    by_tensorflow = predicted(folder / "by_tensorflow")
    for key in (*columns, "predictive_entropy", "mutual_information"):
        for name, line in rows.items():
            assert float(line[key]) == pytest.approx(float(by_tensorflow[name][key]), rel=1e-5, abs=1e-5)
    metadata = load_metadata(folder / "bundle")
    assert metadata.preprocessing_settings == {"fit": "crop", "levels": None}
    assert metadata.kinds == ("grey",)
    assert {f"`{name}`" for name in metadata.signatures["serve_bytes"].outputs} <= documented
    name = next(iter(rows))
    encoded = (folder / "new" / name).read_bytes()
    signatures = load_signatures(folder / "bundle")
    served = signatures["serve_bytes"](encoded=tf.constant([encoded]))["probability"][0]
    image = read_image(folder / "new" / name)
    default = signatures["serving_default"](images=tf.constant(image[None]))["probability"][0]
    written = [float(rows[name][f"probability of {label}"]) for label in metadata.class_names]
    np.testing.assert_allclose(written, served, atol=1e-5)
    np.testing.assert_allclose(written, default, atol=1e-5)
    digits = [int(label["label"].split()[1]) for label in rows.values()]
    assert len(set(digits)) > 5
    sheet = cv2.imread(str(folder / "predictions" / "contact_sheet.png"))
    assert sheet.shape[1] == 8 * 176
