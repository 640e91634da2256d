"""Several yes/no labels an image from a table to predictions, by the commands of `classify`."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from tensorflow.python.framework.config import disable_op_determinism
from typer.testing import CliRunner

from data_prep.files.images import read_image
from pipelines.bundles.saved_model import load_signatures
from pipelines.cli import make_app

pytestmark = pytest.mark.slow

TINY = {
    "heads": "[linear, ridge_linear, svgp]",
    "network": "FE1",
    "pretraining_epochs": 6,
    "head_epochs": 1,
    "steps_per_epoch": 20,
    "head_steps": 60,
    "num_inducing": 20,
    "selection_fraction": 0.4,
}
LABELS = ("bright", "striped", "red")
COSTS = {"bright": (20, 1, 5), "striped": (3, 2, 1), "red": (1, 30, 9)}
"""What missing a label, a false alarm and a person cost: yes costs least of bright often, of red seldom."""


def run(*arguments: object, code: int = 0) -> str:
    """Call a command in this process; return what it said."""
    result = CliRunner(env={"COLUMNS": None}).invoke(make_app(), [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def draw(folder: Path, count: int = 240) -> None:
    """Write images with each label by itself, of which every fourth is unknown, and the table."""
    rng = np.random.default_rng(0)
    (folder / "images").mkdir()
    rows = [("image", *LABELS, "remark")]
    for number in range(count):
        has = rng.random(3) < (0.5, 0.3, 0.2)
        image = rng.normal(70.0, 12.0, (16, 16, 3)) + 60.0 * has[0]
        image[:, ::4] += 70.0 * has[1]
        image[..., 0] += 60.0 * has[2]
        Image.fromarray(np.clip(image, 0, 255).astype(np.uint8)).save(folder / "images" / f"{number:03d}.png")
        cells = ["" if rng.random() < 0.25 else str(int(one)) for one in has]
        rows.append((f"{number:03d}.png", *cells, "good"))
    with (folder / "labels.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    (folder / "new").mkdir()
    for number in range(3):
        (folder / "images" / f"{number:03d}.png").rename(folder / "new" / f"{number:03d}.png")
    (folder / "new" / "broken.png").write_bytes(b"no image")


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each command said; its folders are in the one named last."""
    folder = tmp_path_factory.mktemp("labels")
    draw(folder)
    said: dict[str, str] = {}
    tiny = [text for key, value in TINY.items() for text in ("--set", f"{key}={value}")]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        table = ["--images", "images", "--table", "labels.csv", "--size", "16x16", "--out", "prepared"]
        said["prepare"] = run("classify", "prepare", *table)
        train = ["classify", "train", "--data", "prepared", "--out", "run"]
        try:
            said["refused"] = run(*train, "--set", "heads=[linear, dfgp]", code=2)
            said["train"] = run(*train, *tiny)
            said["resumed"] = run(*train, "--resume")
            judged = ["--data", "prepared", "--model", "run", "--out", "evaluation"]
            rows = [
                ("label", "missed", "false_alarm", "refer"),
                *((name, *COSTS[name]) for name in sorted(COSTS)),
            ]
            with (folder / "costs.csv").open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(rows)
            said["evaluate"] = run("classify", "evaluate", *judged, "--costs", "costs.csv")
        finally:
            disable_op_determinism()  # other tests go on without
        metrics = ["--metrics", "evaluation/metrics.json"]
        said["export"] = run("classify", "export", "--model", "run", "--out", "bundle", *metrics)
        said["verify"] = run("verify", "bundle")
        new = ["classify", "predict", "--model", "bundle", "--input", "new"]
        said["predict"] = run(*new, "--out", "predictions")
        said["kept"] = run(*new, "--out", "kept", "--max-error", "0.3")
        said["cheapest"] = run(*new, "--out", "cheapest", "--costs", "costs.csv")
        said["both"] = run(*new, "--out", "both", "--costs", "costs.csv", "--max-error", "0.3", code=2)
        said["priced"] = run(
            "classify", "export", "--model", "run", "--out", "priced", "--costs", "costs.csv"
        )
        said["dearer"] = run(*new, "--out", "cheapest", code=2)
        new[3] = "priced"
        said["by costs of the bundle"] = run(*new, "--out", "again")
        said["beside"] = run(*new, "--out", "beside", "--max-error", "0.3")
    said["folder"] = str(folder)
    return said


def test_every_step_says_what_it_did(way):
    assert re.search(
        r"Read as 3 yes/no labels an image, .*: bright \d+ yes, \d+ no, \d+ unknown", way["prepare"]
    )
    assert "no labels were passed over: remark" in way["prepare"]
    assert "dfgp cannot learn several labels an image" in way["refused"]
    assert "by which `predict --max-error` refers answers of each label" in way["train"].replace("\n", " ")
    assert "Judge it with: gpimaging classify evaluate" in way["train"].replace("\n", " ")
    assert "epoch 1: loss" not in way["resumed"]  # nothing is trained again
    assert "Take the" in way["evaluate"]
    assert "is good" in way["verify"]
    assert "broken.png: unreadable" in way["predict"]
    assert "of the kept ones of each label are wrong" in way["kept"].replace("\n", " ")


def test_labels_are_judged_each_and_on_average(way):
    folder = Path(way["folder"])
    metrics = json.loads((folder / "evaluation" / "metrics.json").read_text(encoding="utf-8"))
    assert list(metrics["methods"])[::2] == ["Linear", "Linear, regularised", "SVGP"]
    chosen = metrics["methods"][metrics["chosen"]]
    assert chosen["scores"]["ap"] > 0.8
    assert chosen["scores"]["nll"] < 0.5
    assert {f"auroc/{name}" for name in LABELS} <= chosen["scores"].keys()
    assert chosen["counts"]["known red"] < chosen["counts"]["examples"]
    assert "recalls" not in chosen
    report = (folder / "evaluation" / "report.html").read_text(encoding="utf-8")
    assert "Label striped" in report
    assert "Least expected labels" in report


def test_each_label_has_guarantees_and_costs(way):
    folder = Path(way["folder"])
    metrics = json.loads((folder / "evaluation" / "metrics.json").read_text(encoding="utf-8"))
    assert list(metrics["labels"]) == list(LABELS)
    report = (folder / "evaluation" / "report.html").read_text(encoding="utf-8")
    assert "with 95 % confidence for all labels together" in report
    for label, found in metrics["labels"].items():
        assert found["guarantee"]["confidence"] == pytest.approx(1 - 0.05 / 3)
        assert found["guarantee"]["table"], label  # these labels are easy
        costs = found["costs"]
        missed, false_alarm, refer = COSTS[label]
        assert costs["values"] == [[0, false_alarm, refer], [missed, 0, refer]]
        cheapest = costs["methods"][metrics["chosen"]]
        assert cheapest["decided"]["yes"] > 0.1 or label == "red"
        assert cheapest["mean"] <= cheapest["against"]["always refer"]["mean"]
        assert "always the most probable answer" in cheapest["against"]
        assert f"Guarantees of {label}: " in way["evaluate"].replace("\n", " ")
        assert f"{label}: By the costs given" in way["evaluate"].replace("\n", " ")


def test_answers_are_the_cheapest_ones(way):
    folder = Path(way["folder"])
    for name in ("cheapest", "again"):
        with (folder / name / "predictions.csv").open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["status"] == "ok"]
        for row in rows:
            for label in LABELS:
                yes, (missed, false_alarm, refer) = float(row[f"probability of {label}"]), COSTS[label]
                costs = {"no": missed * yes, "yes": false_alarm * (1 - yes), "refer": refer}
                assert row[f"decision of {label}"] == min(costs, key=lambda answer: costs[answer])
    said = way["cheapest"].replace("\n", " ")
    assert [f"Warning: of {label}: With these costs refer is never" in said for label in LABELS] == [
        *(True, False, True)
    ]
    assert "cheapest already holds predictions by other costs. Run" in way["dearer"].replace("\n", " ")
    assert "Decided by the costs of striped: " in way["by costs of the bundle"]
    assert "Pass --costs or --max-error" in way["both"].replace("\n", " ")
    assert "The costs of the bundle are left out" in way["beside"]
    kept = [(folder / name / "predictions.csv").read_text(encoding="utf-8") for name in ("kept", "beside")]
    answers = [[row.split(",")[-3:] for row in text.splitlines()] for text in kept]
    assert answers[0] == answers[1]


def test_predictions_are_those_of_the_bundle(way):
    folder = Path(way["folder"])
    tables = []
    for name in ("predictions", "kept"):
        with (folder / name / "predictions.csv").open(newline="", encoding="utf-8") as file:
            tables.append({Path(row["file"]).name: row for row in csv.DictReader(file)})
    rows, kept = tables
    assert rows.pop("broken.png")["status"].endswith("or remove it.")
    signature = load_signatures(folder / "bundle")["serving_default"]
    for name, row in rows.items():
        outputs = signature(images=tf.constant(read_image(folder / "new" / name)[None]))
        assert outputs["probability"].shape == (1, 3)
        said = [float(row[f"probability of {label}"]) for label in LABELS]
        np.testing.assert_allclose(outputs["probability"][0], said, atol=2e-6)
        answers = [row[f"decision of {label}"] for label in LABELS]
        assert answers == ["yes" if one > 0.5 else "no" for one in said]
        for label, answer in zip(LABELS, answers, strict=True):
            assert kept[name][f"decision of {label}"] in (answer, "refer")
    assert row["familiarity"]
