"""Out-of-fold heads of a small folder, from images to a bundle, and after an interruption."""

import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from rich.console import Console

from pipelines.classify.application import CLASSIFY
from pipelines.runs import folds
from pipelines.runs.folds import trained_folds
from pipelines.runs.job import trained_job
from pipelines.runs.models import load_model
from pipelines.runs.predictors import predictor
from pipelines.runs.train import HeadTraining
from pipelines.scores.held_out import read_held_out
from tests.integration.test_sonar import run
from tests.integration.test_trunks import settings

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("folds"), np.random.default_rng(0)
    for name, level in (("bright", 150), ("dark", 90)):
        (folder / "images" / name).mkdir(parents=True)
        for number in range(25):
            levels = np.clip(rng.normal(level, 60, (20, 20)), 0, 255).astype(np.uint8)
            cv2.imwrite(str(folder / "images" / name / f"{number}.png"), levels)
    run("classify", "prepare", "--images", folder / "images", "--out", folder / "prepared", "--size", "16x16")
    return folder


@pytest.fixture(autouse=True)
def _own_cache_and_three_folds(folder, monkeypatch):
    monkeypatch.setenv("GPIMAGING_CACHE", str(folder / "cache"))
    monkeypatch.setattr(folds, "NUM_FOLDS", 3)


def train(folder: Path, name: str, *more: object, expected: int = 0, **changes: object) -> str:
    where = ("--data", folder / "prepared", "--out", folder / name)
    return run("classify", "train", *where, *settings(**changes), *more, expected=expected)


@pytest.fixture(scope="module")
def trained(folder) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPIMAGING_CACHE", str(folder / "cache"))
        patch.setattr(folds, "NUM_FOLDS", 3)
        said = train(folder, "run", ensemble=2)  # whose members have no folds of their own
    assert (
        "40 images are held out, training examples included, judged by heads that do not see them (3 folds)"
        in said
    )
    assert "So few selection examples" not in said
    return folder / "run"


def test_all_examples_but_the_judged_ones_guarantee(trained, folder, tmp_path):
    guarantees = json.loads((trained / "guarantees.json").read_text())
    assert [entry["record"]["units"] for entry in guarantees["heads"]] == [40, 40]
    data = CLASSIFY.inputs.open(folder / "prepared")
    job = trained_job(CLASSIFY, trained, Console(quiet=True))
    job = job.on(CLASSIFY.inputs.encode(data, job.settings, trained, Console(quiet=True), None), fold=0)
    of_folds = trained_folds(job)
    assert sorted(name for fold in of_folds for name in fold.splits.test) == sorted(job.splits.train)
    held_out = read_held_out(trained / "heads" / "svgp" / "held_out.npz")
    assert held_out.unit.size == 40
    # What is kept of a fold is what the head without it predicts, as sure as the head of all is.
    first = len(job.splits.selection)
    for fold, sharpness in zip(of_folds, job.run.fold_sharpness["svgp"], strict=True):
        model = load_model(fold, "svgp")
        model.set_temperature(job.run.temperatures["svgp"] / sharpness)
        method, judge = predictor("SVGP", model), job.application.judge
        expected = [
            float(judge.outputs(method, example)["probability"])
            for example in judge.examples(job.data, fold.splits.test)
        ]
        found = held_out.probability[first : first + len(expected), 1]
        np.testing.assert_allclose(found, expected, atol=1e-5)
        first += len(expected)
    where = ("--data", folder / "prepared", "--model", trained, "--out", tmp_path / "evaluation")
    run("classify", "evaluate", *where, "--set", "max_errors=[0.5]")
    metrics = json.loads((tmp_path / "evaluation" / "metrics.json").read_text())
    assert "Ensemble of 2" in " ".join(metrics["methods"])
    assert {
        method["guarantee"]["units"] for method in metrics["methods"].values() if method.get("guarantee")
    } == {40}
    run("classify", "export", "--model", trained, "--out", tmp_path / "bundle")
    assert read_held_out(tmp_path / "bundle" / "held_out.npz").unit.size == 40


def test_an_interrupted_training_goes_on_with_the_folds_that_are_left(trained, folder, monkeypatch):
    whole = HeadTraining.train

    def until_the_third(self):
        if self.job.folder.name == "3":
            raise KeyboardInterrupt
        return whole(self)

    monkeypatch.setattr(HeadTraining, "train", until_the_third)
    train(folder, "again", expected=130)
    assert sorted(path.name for path in (folder / "again" / "folds").iterdir()) == ["1", "2"]
    monkeypatch.setattr(HeadTraining, "train", whole)
    train(folder, "again", "--resume")
    for head in ("linear", "svgp"):
        left, right = (
            read_held_out(path / "heads" / head / "held_out.npz") for path in (trained, folder / "again")
        )
        np.testing.assert_allclose(left.probability, right.probability, atol=1e-5)
    train(folder, "again", "--resume", heads="[linear,svgp,ridge_linear]")  # and each fold with its own
    guarantees = json.loads((folder / "again" / "guarantees.json").read_text())
    assert [entry["record"]["units"] for entry in guarantees["heads"]] == [40, 40, 40]
    shutil.rmtree(folder / "again")


def test_a_user_may_do_without(folder):
    train(folder, "without", out_of_fold="false")
    assert not (folder / "without" / "folds").exists()
    guarantees = json.loads((folder / "without" / "guarantees.json").read_text())
    assert {entry["record"]["units"] for entry in guarantees["heads"]} == {6}


def test_the_linear_head_of_numbers_learns_as_long_in_a_fold_as_in_the_run(folder, tmp_path):
    names = sorted(path.relative_to(folder / "images") for path in (folder / "images").glob("*/*.png"))
    levels = [float(cv2.imread(str(folder / "images" / name)).mean()) for name in names]
    rows = [f"{name},{level}" for name, level in zip(names, levels, strict=True)]
    (tmp_path / "levels.csv").write_text("\n".join(["image,value", *rows]), encoding="utf-8")
    where = ("--images", folder / "images", "--table", tmp_path / "levels.csv", "--out", tmp_path / "data")
    run("measure", "prepare", *where, "--size", "16x16")
    out = tmp_path / "run"
    run("measure", "train", "--data", tmp_path / "data", "--out", out, *settings(heads="[linear]"))
    states = [*out.glob("heads/linear/state.json"), *out.glob("folds/*/heads/linear/state.json")]
    assert [json.loads(path.read_text())["epochs_done"] for path in states] == [1] * 4
