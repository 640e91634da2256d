"""The demo finds lanes of an unseen material by trained heads only, and notices an obstacle."""

import csv
import json
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from data_prep.errors import InputError
from data_prep.lane.manifest import LaneManifest
from data_prep.prepared.manifest import load_manifest
from data_prep.splits.divide import manifest_splits
from pipelines.lane.application import LANE
from pipelines.lane.demo import MAX_ERROR, run_demo
from pipelines.runs.application import Prepared
from pipelines.runs.description import PRETRAINING
from pipelines.runs.evaluate import judge
from pipelines.runs.job import trained_job
from pipelines.runs.models import load_model, make_model
from pipelines.runs.predictors import predictor
from pipelines.scores.novelty import novelty_scores
from tests.commands import as_a_process_of_its_own

GOOD_F_MEASURE = 0.90


@pytest.fixture(scope="module")
def printed() -> StringIO:
    return StringIO()


@pytest.fixture(scope="module")
def demo(tmp_path_factory, printed):
    out = tmp_path_factory.mktemp("demo") / "out"
    with as_a_process_of_its_own():
        run_demo(out, seed=0, overwrite=False, console=Console(file=printed, width=100))
    return out


@pytest.mark.slow
def test_every_row_finds_unseen_lanes(demo):
    methods = json.loads((demo / "evaluation" / "metrics.json").read_text())["methods"]
    assert list(methods) == [
        *("Linear", "Linear + temperature", "SVGP", "SVGP + temperature", "HGP", "HGP + temperature")
    ]
    assert {
        name: m["scores"]["f_measure"] for name, m in methods.items() if m["scores"]["f_measure"] < 0.9
    } == {}


@pytest.mark.slow
def test_untrained_head_fails_that(demo):
    job = trained_job(LANE, demo / "run", Console(quiet=True))
    data = demo / "prepared"
    manifest = load_manifest(data, LaneManifest)
    trained = load_model(job, PRETRAINING)
    model = make_model("hgp", LANE, job.settings, job.run)
    model.network.set_weights(trained.network.get_weights())
    examples = LANE.judge.examples(Prepared(data, manifest), manifest_splits(manifest).test)
    result = judge(LANE.judge, predictor("untrained", model), examples)
    assert result.scores["f_measure"] < GOOD_F_MEASURE
    assert np.isfinite(result.scores["nll"])


@pytest.mark.slow
def test_promise_is_made_and_what_came_of_it_is_said(demo, printed):
    method = json.loads((demo / "evaluation" / "metrics.json").read_text())["methods"]["HGP + temperature"]
    (promised,) = method["promise"]["rows"]
    assert promised["max_error"] == MAX_ERROR
    assert promised["threshold"] is not None
    said = printed.getvalue().replace("\n", " ")
    assert "Promised of images like the training's: at most 6 % of the pixels wrong" in said
    verdict = "not kept there" if promised["judged_error"] > MAX_ERROR else ": kept there"
    assert verdict in said


@pytest.mark.slow
def test_obstacle_is_told_and_flagged_better_than_by_chance(demo, printed):
    free, obstructed = (
        np.array([float(line["unfamiliar_fraction"]) for line in predictions(demo / "predictions" / name)])
        for name in ("unseen", "obstacle")
    )
    assert novelty_scores(free, obstructed).auroc > 0.6
    assert obstructed.mean() > 2 * free.mean()
    assert "Flagged as unfamiliar: " in printed.getvalue()
    assert len(list((demo / "predictions" / "obstacle" / "overlays").iterdir())) == obstructed.size


def predictions(folder: Path) -> list[dict[str, str]]:
    with (folder / "predictions.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_second_demo_replaces_only_a_demo(demo, tmp_path):
    with pytest.raises(InputError, match="--overwrite"):
        run_demo(demo, seed=0, overwrite=False, console=Console(quiet=True))
    precious = tmp_path / "precious"
    precious.mkdir()
    with pytest.raises(InputError, match="not written by a demo"):
        run_demo(precious, seed=0, overwrite=True, console=Console(quiet=True))
    assert precious.exists()
