"""What training points are worth to the GP heads of a run, and where that is said and kept."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from data_prep.errors import InputError
from gpmodels import HybridModel, LinearHead
from gpmodels.statistics.effective_sample import effective_observations, residuals_of
from pipelines.command.config import load_settings
from pipelines.lane.application import LANE
from pipelines.lane.settings import LaneRun, TrainSettings
from pipelines.runs.description import PRETRAINING, head_folder, load_run
from pipelines.runs.models import make_model, run_predictors
from pipelines.runs.observations import POINTS_PER_EXAMPLE, Grouped, count_observations
from pipelines.runs.train import HeadTraining
from tests.pipelines.tiny_lane import SETTINGS, job, quiet


@pytest.fixture(scope="module")
def model() -> HybridModel:
    keras.utils.set_random_seed(0)
    linear = HybridModel(keras.layers.Identity(), LinearHead(), num_data=100)
    linear.build((None, 2))
    return linear


def simulated(correlation: float, examples: int = 900) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Features, labels that repeat each other within a group of about ten, and groups."""
    rng = np.random.default_rng(0)
    groups = np.arange(examples) // 10
    x = rng.normal(size=(examples, 2)).astype(np.float32)
    common = rng.random(examples // 10 + 1)[groups] < correlation
    y = np.where(common, (rng.random(examples // 10 + 1) < 0.5)[groups], rng.random(examples) < 0.5)
    return x, y.astype(np.int32), [str(group) for group in groups]


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_examples_are_counted_by_their_residuals(model, correlation):
    x, y, groups = simulated(correlation)
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(64)
    found = count_observations(model, Grouped(batches, groups), None, seed=0)
    residuals = y - model(x)["probability"].numpy()
    assert found.points == 900
    assert found.groups == 90
    assert found.effective == pytest.approx(effective_observations(groups, residuals), rel=1e-4)
    assert (found.effective > 600) == (correlation == 0.0)


def test_pixels_that_count_are_counted_and_a_sample_tells_how_much_they_repeat_each_other(model):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(6, 40, 50, 2)).astype(np.float32)
    y = (rng.random((6, 1, 1)) < 0.5) * np.ones((6, 40, 50))
    y[:3], y[3:] = 0.0, 1.0
    weight = np.ones((6, 40, 50), np.float32)
    weight[:, :10] = 0.0
    batches = tf.data.Dataset.from_tensor_slices((x, y.astype(np.float32), weight)).batch(4)
    found = count_observations(model, Grouped(batches, list("aabbcc")), None, seed=0)
    assert found.points == 6 * 30 * 50 > 6 * POINTS_PER_EXAMPLE
    assert found.groups == 3
    assert 3.0 <= found.effective < 30.0
    one = Grouped(batches, ["one"] * 6)
    assert count_observations(model, one, None, seed=0) is None
    # One held-out group tells, too: all of its labels are 0.
    new = tf.data.Dataset.from_tensor_slices((x[:3], y[:3].astype(np.float32), weight[:3])).batch(2)
    of_one = count_observations(model, one, Grouped(new, ["new"] * 3), seed=0)
    assert of_one.groups == 1
    assert 1.0 <= of_one.effective < found.effective


def test_a_label_that_nobody_knows_is_no_observation():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 2)).astype(np.float32)
    labels = rng.integers(0, 2, (60, 2)).astype(np.float32)
    labels[::2, 1] = np.nan
    several = HybridModel(
        keras.layers.Identity(), LinearHead(num_classes=2, likelihood="multilabel"), num_data=60
    )
    several.build((None, 2))
    batches = tf.data.Dataset.from_tensor_slices((x, labels)).batch(16)
    found = count_observations(several, Grouped(batches, [str(i // 4) for i in range(60)]), None, seed=0)
    assert found.points == 90


def test_residuals_of_classes_are_label_less_probability():
    logits = np.random.default_rng(2).normal(size=(5, 3))
    expected = np.eye(3)[[0, 2, 1, 1, 0]] - special.softmax(logits, axis=1)
    np.testing.assert_allclose(residuals_of(logits, np.array([0, 2, 1, 1, 0])), expected)
    np.testing.assert_allclose(residuals_of(logits[:, 0], np.ones(5)), 1 - special.expit(logits[:, 0]))


def counted(data, out, wanted, **changes) -> LaneRun:
    """The description of a run after its points are counted."""
    settings = SETTINGS.model_copy(update={"effective_observations": wanted, **changes})
    training = HeadTraining(LANE, settings, data=data, out=out, resume=False, console=quiet())
    out.mkdir()
    training._count_observations(make_model("linear", LANE, settings, training.job.run))
    assert training.job.run.num_effective is None or load_run(out, LaneRun) == training.job.run
    return training.job.run


@pytest.mark.slow
def test_a_run_counts_as_its_setting_says(lane_data, tmp_path):
    assert counted(lane_data, tmp_path / "all", "all").num_effective is None
    assert counted(lane_data, tmp_path / "number", 55.5).num_effective == 55.5
    assert counted(lane_data, tmp_path / "linear", 55.5, heads=("linear",)).num_effective is None
    assert counted(lane_data, tmp_path / "laplace", 55.5, heads=("linear", "laplace")).num_effective == 55.5
    auto = counted(lane_data, tmp_path / "auto", "auto")
    assert auto.counts["train"] <= auto.num_effective < auto.num_data


def test_more_observations_than_training_points_are_refused(lane_data, tmp_path):
    settings = SETTINGS.model_copy(update={"effective_observations": 1e9})
    with pytest.raises(
        InputError, match=r"effective_observations is 1e\+09, more than the \d+ training points"
    ):
        HeadTraining(LANE, settings, data=lane_data, out=tmp_path / "run", resume=False, console=quiet())


@pytest.mark.slow
def test_heads_are_made_and_rows_and_reports_told_with_it(lane_run):
    of_run = job(lane_run)
    other = replace(of_run, run=of_run.run.model_copy(update={"num_effective": 12.0}))
    assert make_model("hgp", LANE, other.settings, other.run).num_effective == 12.0
    for name, count in {"laplace": 12.0, "sngp": 12.0, "linear": None, "ridge_linear": None}.items():
        assert make_model(name, LANE, other.settings, other.run).num_effective == count
    details = {row.title: row.details for row in run_predictors(other)}
    assert details["HGP"]["effective observations"] == 12.0
    assert "effective observations" not in details["Linear"]
    assert "effective observations" not in {row.title: row.details for row in run_predictors(of_run)}["HGP"]


def test_a_resumed_run_keeps_what_its_heads_counted(lane_data, lane_run):
    changed = SETTINGS.model_copy(update={"effective_observations": "auto"})
    with pytest.raises(InputError, match="cannot be resumed: effective_observations changed"):
        HeadTraining(LANE, changed, data=lane_data, out=lane_run, resume=True, console=quiet())
    states = {name: head_folder(lane_run, name) / "state.json" for name in (PRETRAINING, "hgp")}
    assert all(json.loads(path.read_text())["epochs_done"] for path in states.values())


def test_laplace_alone_fixes_what_points_are_worth_too(lane_data, lane_run, tmp_path):
    run = Path(shutil.copytree(lane_run, tmp_path / "run"))
    head_folder(run, "hgp").rename(head_folder(run, "laplace"))
    changed = SETTINGS.model_copy(update={"effective_observations": "auto", "heads": ("linear", "laplace")})
    with pytest.raises(InputError, match="cannot be resumed: effective_observations changed"):
        HeadTraining(LANE, changed, data=lane_data, out=run, resume=True, console=quiet())


@pytest.mark.parametrize("text", ["0", "-3", "some", ".nan", ".inf"])
def test_other_counts_are_refused(text):
    with pytest.raises(InputError, match=re.escape("effective_observations")):
        load_settings(TrainSettings, overrides=[f"effective_observations={text}"])
    assert (
        load_settings(TrainSettings, overrides=["effective_observations=250"]).effective_observations == 250
    )
