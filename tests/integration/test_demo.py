"""The demo finds lanes of an unseen material by trained heads only, and notices an obstacle."""

import csv
import json
import re
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from data_prep.errors import InputError
from data_prep.lane.manifest import LaneManifest
from data_prep.prepared.manifest import load_manifest
from data_prep.splits.divide import manifest_splits
from pipelines.bundles.saved_model import verify_bundle
from pipelines.evaluation.evaluate import judge
from pipelines.lane.application import LANE, LaneData
from pipelines.lane.demo import MAX_ERROR, SETTINGS, Plan, run_demo
from pipelines.lane.settings import TrainSettings
from pipelines.runs.description import PRETRAINING
from pipelines.runs.job import trained_job
from pipelines.runs.models import load_model, make_model
from pipelines.runs.predictors import predictor
from pipelines.scores.unfamiliar_scores import unfamiliar_scores
from tests.commands import as_a_process_of_its_own

GOOD_F_MEASURE = 0.90
SHORT_UNSEEN = 4


METHODS = ["Linear", "Linear + temperature", "SVGP", "SVGP + temperature", "HGP", "HGP + temperature"]


@dataclass(frozen=True)
class Demo:
    """A finished demo: where it wrote, and what it said in one line."""

    out: Path
    said: str


def finished(out: Path, plan: Plan) -> Demo:
    printed = StringIO()
    with as_a_process_of_its_own():
        run_demo(out, seed=0, overwrite=False, console=Console(file=printed, width=100), plan=plan)
    return Demo(out, " ".join(printed.getvalue().split()))


@pytest.fixture(scope="module")
def short(tmp_path_factory) -> Demo:
    """All steps, with a network that is too small and trained too briefly to be good."""
    brief = {"network": "C1K3", "pretraining_epochs": 2, "head_steps": 20, "num_inducing": 8}
    plan = Plan(
        size=(24, 32),
        num_learnt=20,
        num_held_out=100,
        num_unseen=SHORT_UNSEEN,
        training=TrainSettings.model_validate({**SETTINGS.model_dump(), **brief}),
    )
    return finished(tmp_path_factory.mktemp("short") / "out", plan)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Demo:
    return finished(tmp_path_factory.mktemp("whole") / "out", Plan())


@pytest.mark.slow
def test_every_step_leaves_what_the_end_names(short):
    out = short.out
    assert list(json.loads((out / "evaluation" / "metrics.json").read_text())["methods"]) == METHODS
    assert verify_bundle(out / "bundle").worst < 1e-5
    for name in ("unseen", "obstacle"):
        pictures = list((out / "predictions" / name / "overlays").iterdir())
        assert len(pictures) == len(predictions(out / "predictions" / name)) == SHORT_UNSEEN
    assert (out / "evaluation" / "report.html").is_file()
    assert f"Look at: {out / 'evaluation' / 'report.html'}" in short.said
    assert re.search(r"(Guaranteed|Not guaranteed)[^:]*: at most 6 % of the pixels wrong", short.said)
    assert "Flagged as unfamiliar: " in short.said


@pytest.mark.slow
@pytest.mark.exhaustive  # a short one goes all steps; test_lane.py finds lanes of one material
def test_every_row_finds_unseen_lanes(whole):
    methods = json.loads((whole.out / "evaluation" / "metrics.json").read_text())["methods"]
    assert list(methods) == METHODS
    scores = {name: method["scores"]["f_measure"] for name, method in methods.items()}
    assert min(scores.values()) >= GOOD_F_MEASURE, scores


@pytest.mark.slow
@pytest.mark.exhaustive  # of the whole demo
def test_untrained_head_fails_that(whole):
    job = trained_job(LANE, whole.out / "run", Console(quiet=True))
    data = whole.out / "prepared"
    manifest = load_manifest(data, LaneManifest)
    trained = load_model(job, PRETRAINING)
    model = make_model("hgp", LANE, job.settings, job.run)
    model.network.set_weights(trained.network.get_weights())
    examples = LANE.judge.examples(LaneData(data, manifest), manifest_splits(manifest).test)
    result = judge(LANE.judge, predictor("untrained", model), examples)
    assert result.scores["f_measure"] < GOOD_F_MEASURE
    assert np.isfinite(result.scores["nll"])


@pytest.mark.slow
@pytest.mark.exhaustive  # of the whole demo
def test_guarantee_is_made_and_what_came_of_it_is_said(whole):
    metrics = json.loads((whole.out / "evaluation" / "metrics.json").read_text())
    (guaranteed,) = metrics["methods"][metrics["chosen"]]["guarantee"]["rows"]
    assert guaranteed["max_error"] == MAX_ERROR
    assert guaranteed["threshold"] is not None
    assert "Guaranteed of images like the training's: at most 6 % of the pixels wrong" in whole.said
    verdict = "not kept there" if guaranteed["judged_error"] > MAX_ERROR else ": kept there"
    assert verdict in whole.said


@pytest.mark.slow
@pytest.mark.exhaustive  # of the whole demo
def test_obstacle_is_told_and_flagged_better_than_by_chance(whole):
    free, obstructed = (unfamiliar(whole.out / "predictions" / name) for name in ("unseen", "obstacle"))
    assert unfamiliar_scores(free, obstructed).auroc > 0.6
    assert obstructed.mean() > 2 * free.mean()
    assert "Flagged as unfamiliar: " in whole.said
    assert len(list((whole.out / "predictions" / "obstacle" / "overlays").iterdir())) == obstructed.size


def unfamiliar(folder: Path) -> np.ndarray:
    return np.array([float(line["unfamiliar_fraction"]) for line in predictions(folder)])


def predictions(folder: Path) -> list[dict[str, str]]:
    with (folder / "predictions.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_second_demo_replaces_only_a_demo(short, tmp_path):
    with pytest.raises(InputError, match="--overwrite"):
        run_demo(short.out, seed=0, overwrite=False, console=Console(quiet=True))
    precious = tmp_path / "precious"
    precious.mkdir()
    with pytest.raises(InputError, match="not written by a demo"):
        run_demo(precious, seed=0, overwrite=True, console=Console(quiet=True))
    assert precious.exists()
