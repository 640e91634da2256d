"""The way of docs/measure.md by its own program and commands, from drawn drops to their diameters."""

import csv
import json
import re
import shlex
from pathlib import Path

import cv2
import numpy as np
import pytest
from tensorflow.python.framework.config import disable_op_determinism
from typer.testing import CliRunner

from pipelines.bundles.metadata import load_metadata
from pipelines.cli import make_app

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "measure.md").read_text(encoding="utf-8")
TINY = {
    "heads": "[linear, ridge_linear, svgp]",
    "pretraining_epochs": 2,
    "head_epochs": 1,
    "steps_per_epoch": 30,
    "head_steps": 100,
    "num_inducing": 20,
    "panel_images": 1,
}


def run(*arguments: object) -> str:
    """Call a command in this process; return what it said."""
    result = CliRunner(env={"COLUMNS": None}).invoke(make_app(), [str(argument) for argument in arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each command of the page said; its folders are in the present one."""
    folder = tmp_path_factory.mktemp("drops")
    said: dict[str, str] = {}
    (program,), (_, commands) = (
        re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
        for language in ("python", "bash")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(compile(program, "program", "exec"), {})  # noqa: S102 - our own documentation
        (folder / "new" / "broken.png").write_bytes(b"no image")
        try:
            for line in commands.splitlines():
                _, application, step, *options = shlex.split(line)
                if step == "train":  # what the test asks for beats what the page says
                    options += [text for key, value in TINY.items() for text in ("--set", f"{key}={value}")]
                said[step] = run(application, step, *options)
            said["resumed"] = run("measure", "train", "--data", "prepared", "--out", "run", "--resume")
        finally:
            disable_op_determinism()  # other tests go on without
        said["verify"] = run("verify", "bundle")
        judged = ["measure", "evaluate", "--data", "prepared", "--model", "run", "--set", "by=group"]
        said["by group"] = run(*judged, "--out", "groups", "--unfamiliar", "new")
        (Path("new") / "broken.png").unlink()
        tables = ["image,group", *(f"{number}.png,drop {number // 2}" for number in range(380, 400))]
        Path("drops.csv").write_text("\n".join(tables), encoding="utf-8")
        new = ["measure", "predict", "--model", "bundle", "--input", "new", "--out", "answers"]
        said["answers"] = run(*new, "--by", "drops.csv")
        untempered = ["measure", "export", "--model", "run", "--out", "other", "--set", "tempered=false"]
        refused = CliRunner().invoke(make_app(), untempered)
        said["refused"] = f"{refused.exit_code} {refused.output}"
    said["folder"] = str(folder)
    return said


def test_every_step_says_what_it_did(way):
    assert "380 images of 32 x 32, value in mm written to prepared" in way["prepare"]
    assert "Warning" not in way["prepare"]
    assert "Numbers are learned as standardised: mean" in way["train"]
    assert re.search(r"can check intervals of up to \d+ %", way["train"])
    assert re.search(r"Intervals of the svgp head, .*90 %: \d", way["train"])
    assert re.search(r"(?s)svgp: trained alone.{,120}selection\s+standardised\s+NLL", way["train"])
    assert "epoch 1: loss" not in way["resumed"]  # nothing is trained again
    assert "Take the" in way["evaluate"]
    assert "is good" in way["verify"]
    assert re.match(r"2 Error: tempered: false is of classes alone", way["refused"])
    assert "20 predictions written to predictions" in way["predict"]
    assert "broken.png: unreadable" in way["predict"]


def test_intervals_and_groups_are_judged(way):
    metrics = json.loads((Path(way["folder"]) / "evaluation" / "metrics.json").read_text(encoding="utf-8"))
    assert list(metrics["methods"])[::2] == ["Linear", "Linear, regularised", "SVGP"]
    chosen = metrics["methods"][metrics["chosen"]]
    assert chosen["scores"]["r2"] > 0.5
    covered = [interval["covered"] for interval in chosen["intervals"]]
    assert covered == sorted(covered)
    assert 0.75 <= covered[2] <= 1.0
    assert sum(group["examples"] for group in chosen["groups"]) == 76
    report = (Path(way["folder"]) / "evaluation" / "report.html").read_text(encoding="utf-8")
    assert f'alt="Predicted against true numbers of {metrics["chosen"]} with intervals"' in report


def test_two_pictures_of_a_drop_have_one_answer(way):
    folder = Path(way["folder"])
    judged = [json.loads((folder / name / "metrics.json").read_text()) for name in ("evaluation", "groups")]
    alone, grouped = (one["methods"][one["chosen"]] for one in judged)
    assert grouped["counts"]["examples"] == 38
    assert "38 test examples" in way["by group"]
    assert grouped["scores"]["rmse"] < alone["scores"]["rmse"]
    assert grouped["intervals"][2]["covered"] >= 0.75
    with (folder / "answers" / "groups.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10
    assert {row["images"] for row in rows} == {"2"}
    with (folder / "answers" / "predictions.csv").open(newline="", encoding="utf-8") as file:
        means = [float(row["mean"]) for row in csv.DictReader(file)]
    assert float(rows[0]["mean"]) == pytest.approx(np.mean(means[:2]), rel=1e-4)
    assert float(rows[0]["lower"]) < float(rows[0]["mean"]) < float(rows[0]["upper"])
    assert re.search(r"The errors of a group's images have the correlation 0\.\d+, by \d+", way["answers"])


def test_predictions_are_in_the_unit_and_documented(way):
    folder = Path(way["folder"])
    with (folder / "predictions" / "predictions.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["status"] == "ok"]
    assert {f"`{name}`" for name in rows[0]} <= set(re.findall(r"`[^`\n]+`", PAGE))
    lower, mean, upper = (np.array([float(row[key]) for row in rows]) for key in ("lower", "mean", "upper"))
    assert ((lower < mean) & (mean < upper)).all()
    assert ((mean > 0.0) & (mean < 11.0)).all()
    metadata = load_metadata(folder / "bundle")
    assert metadata.signatures["serving_default"].outputs["mean"].unit == "mm"
    assert {f"`{name}`" for name in metadata.signatures["serve_bytes"].outputs} <= set(
        re.findall(r"`\w+`", PAGE)
    )
    assert list((folder / "run" / "tensorboard").glob("*/events*"))


def test_counts_go_all_the_way(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = ["image,value"]
    for number in range(260):
        count, picture = int(rng.integers(0, 13)), rng.normal(60.0, 6.0, (48, 48))
        for y, x in rng.integers(4, 44, (count, 2)):
            picture[y - 2 : y + 3, x - 2 : x + 3] += 110.0
        folder = Path("new" if number >= 240 else "spots")
        folder.mkdir(exist_ok=True)
        cv2.imwrite(str(folder / f"{number:03d}.png"), np.clip(picture, 0, 255).astype(np.uint8))
        if number < 240:
            rows.append(f"{number:03d}.png,{count}")
    Path("counts.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    settings = {**TINY, "heads": "[linear, svgp]", "network": "FE1", "likelihood": "negative_binomial"}
    try:
        run(
            "measure",
            "prepare",
            "--images",
            "spots",
            "--table",
            "counts.csv",
            "--out",
            "prepared",
            "--size",
            "48x48",
        )
        sets = [text for key, value in settings.items() for text in ("--set", f"{key}={value}")]
        said = run(
            "measure", "train", "--data", "prepared", "--out", "run", *sets, "--set", "pretraining_epochs=8"
        )
        run("measure", "evaluate", "--data", "prepared", "--model", "run", "--out", "evaluation")
    finally:
        disable_op_determinism()
    assert "Numbers are learned as counts, as they are" in said
    metrics = json.loads(Path("evaluation/metrics.json").read_text(encoding="utf-8"))
    chosen = metrics["methods"][metrics["chosen"]]["scores"]
    assert chosen["r2"] > 0.5
    assert chosen["nll"] < 2.5  # that of the shares of the counts is log 13, 2.56
    run("measure", "export", "--model", "run", "--out", "bundle", "--metrics", "evaluation/metrics.json")
    assert "is good" in run("verify", "bundle")
    run("measure", "predict", "--model", "bundle", "--input", "new", "--out", "predictions")
    with Path("predictions/predictions.csv").open(newline="", encoding="utf-8") as file:
        found = [
            {key: float(row[key]) for key in ("mean", "sd", "lower", "upper")} for row in csv.DictReader(file)
        ]
    assert len(found) == 20
    assert min(row["lower"] for row in found) == 0.0
    assert all(
        row["lower"] < row["mean"] < row["upper"] and row["sd"] ** 2 > 0.99 * row["mean"] for row in found
    )
