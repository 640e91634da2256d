"""Votes for the class of an image from a table to predictions, by the commands of `classify`."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tensorflow.python.framework.config import disable_op_determinism

from tests.integration.test_several_labels import TINY, run

pytestmark = pytest.mark.slow

VOTERS = 5


def draw(folder: Path, count: int = 240) -> None:
    """Write images between black and white, on which voters disagree the more, the greyer they are."""
    rng = np.random.default_rng(0)
    (folder / "images").mkdir()
    rows = [("image", "class", "group")]
    for number in range(count):
        name, level = f"{number:03d}.png", rng.uniform()
        pixels = np.clip(255 * level + rng.normal(0.0, 12.0, (16, 16, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / "images" / name)
        light = rng.binomial(VOTERS, 1.0 / (1.0 + np.exp(-8.0 * (level - 0.5))))
        votes = ["light"] * light + ["dark"] * (VOTERS - light)
        rows += [(name, vote, f"g{number // 2}") for vote in votes]
    with (folder / "votes.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each command said; its folders are in the one named last."""
    folder = tmp_path_factory.mktemp("votes")
    draw(folder)
    said: dict[str, str] = {}
    tiny = [text for key, value in TINY.items() for text in ("--set", f"{key}={value}")]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        table = ["--images", "images", "--table", "votes.csv", "--set", "votes=true"]
        said["prepare"] = run("classify", "prepare", *table, "--size", "16x16", "--out", "prepared")
        train = ["classify", "train", "--data", "prepared", "--out", "run"]
        judged = ["classify", "evaluate", "--data", "prepared", "--model", "run", "--out", "evaluation"]
        try:
            said["refused"] = run(*train, "--set", "heads=[linear, dfgp]", code=2)
            said["train"] = run(*train, *tiny)
            said["resumed"] = run(*train, "--resume")
            said["groups"] = run(*judged, "--set", "by=group", code=2)
            said["evaluate"] = run(*judged)
        finally:
            disable_op_determinism()  # other tests go on without
        said["export"] = run("classify", "export", "--model", "run", "--out", "bundle")
        said["verify"] = run("verify", "bundle")
        new = ["classify", "predict", "--model", "bundle", "--input", "images", "--out", "predictions"]
        said["predict"] = run(*new, "--max-error", "0.4")
    said["folder"] = str(folder)
    return said


def test_every_step_says_what_it_did(way):
    assert "Read as votes for dark, light" in way["prepare"].replace("\n", " ")
    assert "heads: dfgp cannot learn votes" in way["refused"]
    assert "epoch 1: loss" not in way["resumed"]  # nothing is trained again
    assert "leave by=group out" in way["groups"].replace("\n", " ")
    assert "is good" in way["verify"]


def test_the_report_tells_disagreement_from_what_is_not_known(way):
    metrics = json.loads((Path(way["folder"]) / "evaluation" / "metrics.json").read_text(encoding="utf-8"))
    scores = metrics["methods"][metrics["chosen"]]["scores"]
    assert 0.2 < scores["votes_entropy"] < 0.5
    assert scores["votes_excess"] < 0.2
    assert scores["votes_told"] > 0.5
    assert scores["accuracy"] > 0.8


def test_the_probabilities_are_the_shares_of_the_votes(way):
    with (Path(way["folder"]) / "predictions" / "predictions.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    grey = [np.asarray(Image.open(row["file"])).mean() / 255 for row in _absolute(rows, way)]
    expected = 1.0 / (1.0 + np.exp(-8.0 * (np.array(grey) - 0.5)))
    found = np.array([float(row["probability of light"]) for row in rows])
    assert np.abs(found - expected).mean() < 0.12


def _absolute(rows, way):
    return [{**row, "file": str(Path(way["folder"]) / row["file"])} for row in rows]
