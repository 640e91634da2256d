"""The deep ensemble of a run: members from other seeds, each trained once, and one row in the report."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from data_prep.errors import InputError
from gpmodels import HybridModel, LinearHead
from gpmodels.likelihoods.logits import ensemble_predictions
from gpmodels.networks.encoder_decoder import encoder_decoder
from pipelines.command.config import load_settings
from pipelines.command.folders import RUN
from pipelines.evaluation.evaluate import evaluate as evaluate_run
from pipelines.evaluation.warnings import ensemble_warnings
from pipelines.lane.application import LANE
from pipelines.lane.settings import LaneRun, TrainSettings
from pipelines.runs.description import load_run
from pipelines.runs.ensemble import ensemble_predictor, member_job, trained_members
from pipelines.runs.models import load_model
from pipelines.runs.settings import EvaluateSettings
from pipelines.runs.train import train as train_run
from tests.pipelines.tiny_lane import SETTINGS, determinism_ends, job, quiet

# What it predicts -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_members_that_average_over_samples_count_with_what_they_predict():
    images = np.random.default_rng(0).uniform(0, 255, (1, 8, 8, 3)).astype(np.float32)
    members = []
    for seed in (0, 1):
        network = encoder_decoder("C2K3", dropout=0.5, num_samples=4, seed=seed)
        members.append(HybridModel(network, LinearHead(), num_data=64))
        members[-1](images)
        members[-1].head.kernel.assign(20.0 * members[-1].head.kernel)  # samples that disagree
    found = ensemble_predictor(members).predict(tf.constant(images))["probability"]
    of_members = [member(images)["probability"] for member in members]
    np.testing.assert_allclose(found, np.mean(of_members, axis=0), atol=1e-5)
    of_mean_logits = scipy.special.expit([member(images)["latent_mean"] for member in members])
    assert np.abs(found - of_mean_logits.mean(axis=0)).max() > 0.01


def test_of_numbers_its_variance_is_that_of_the_members_and_between_them():
    members = []
    for bias in (1.0, 3.0):
        head = LinearHead(likelihood="gaussian")
        members.append(HybridModel(tf.keras.layers.Identity(), head, num_data=9))
        members[-1].build((None, 2))
        head.bias.assign(bias)
        head.kernel.assign([0.0, 0.0])
    found = ensemble_predictor(members).predict(tf.zeros([1, 2]))
    assert {name: round(float(value[0]), 5) for name, value in found.items()} == {
        "mean": 2.0,
        "variance": 1.1,
        "latent_variance": 1.0,
    }


@pytest.mark.parametrize("num_classes", [2, 4])
def test_it_is_the_mean_of_its_members(num_classes):
    logits = np.random.default_rng(0).normal(size=(3, 2, 5) + ((num_classes,) if num_classes > 2 else ()))
    outputs = ensemble_predictions(tf.constant(logits), num_classes)
    both = logits if num_classes > 2 else np.stack([np.zeros_like(logits), logits], axis=-1)
    each = scipy.special.softmax(both, axis=-1)
    mean = each.mean(axis=0)
    np.testing.assert_allclose(outputs["probability"], mean if num_classes > 2 else mean[..., 1])
    np.testing.assert_array_equal(outputs["label"], mean.argmax(axis=-1))
    entropy = scipy.special.entr(mean).sum(axis=-1)
    np.testing.assert_allclose(outputs["predictive_entropy"], entropy)
    information = entropy - scipy.special.entr(each).sum(axis=-1).mean(axis=0)
    np.testing.assert_allclose(outputs["mutual_information"], information, atol=1e-12)
    np.testing.assert_allclose(outputs["latent_variance"], logits.var(axis=0), atol=1e-12)


@pytest.mark.slow
def test_an_ensemble_of_one_is_its_linear_head(lane_run):
    linear = load_model(job(lane_run), "linear")
    image = tf.constant(np.random.default_rng(0).uniform(0, 255, (1, 16, 24, 3)), tf.float32)
    outputs = ensemble_predictor([linear]).predict(image)
    for name, value in linear(image).items():
        assert outputs[name].shape == value.shape
        np.testing.assert_allclose(outputs[name], value, atol=1e-6, err_msg=name)


# What it is made of ---------------------------------------------------------------------------------------


def test_members_differ_in_their_seeds_and_in_nothing_else(lane_run):
    run = job(lane_run)
    run = replace(run, run=run.run.model_copy(update={"refitted_folds": 5}))
    members = [member_job(run, number) for number in (2, 3)]
    assert [member.run.refitted_folds for member in members] == [0, 0]
    assert len({run.settings.seed, *(member.settings.seed for member in members)}) == 3
    for number, member in zip((2, 3), members, strict=True):
        assert member.folder == lane_run / "ensemble" / str(number)
        assert member.run.heads == ()
        same = {"seed": run.settings.seed, "heads": run.settings.heads}
        assert member.settings.model_copy(update=same) == run.settings


def test_a_run_without_members_has_no_row(lane_run):
    run = job(lane_run)
    assert trained_members(run) == []
    assert trained_members(replace(run, settings=run.settings.model_copy(update={"ensemble": 3}))) == []


def test_missing_members_are_told(lane_run):
    run = job(lane_run)
    assert ensemble_warnings(run) == ()
    (warning,) = ensemble_warnings(replace(run, settings=run.settings.model_copy(update={"ensemble": 3})))
    assert "an ensemble of 3, whose member 2 is not trained: no ensemble is judged" in warning


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["ensemble=1"], "an ensemble has at least 2 members"),
        (["ensemble=5", "heads=[svgp]"], "the first member of an ensemble is the head linear"),
    ],
)
def test_settings_without_sense_are_refused(overrides, message):
    with pytest.raises(InputError, match=message):
        load_settings(TrainSettings, overrides=overrides)


@pytest.mark.slow  # trains three networks
def test_it_is_trained_resumed_and_judged(lane_data: Path, tmp_path: Path):
    out = tmp_path / "run"
    settings = SETTINGS.model_copy(update={"heads": ("linear",), "head_epochs": 1, "augmentation": None})

    def train(ensemble: int, **changes: object) -> None:
        chosen = settings.model_copy(update={"ensemble": ensemble, **changes})
        with determinism_ends():
            train_run(LANE, chosen, data=lane_data, out=out, resume=out.exists(), console=quiet())

    train(2)
    first = {path: path.read_bytes() for path in out.rglob("*.weights.h5")}
    train(3)
    assert {path: path.read_bytes() for path in first} == first
    members = trained_members(job(out))
    assert [member.folder.name for member in members] == ["run", "2", "3"]
    kernels = [load_model(member, "linear").head.kernel.numpy() for member in members]
    assert not np.allclose(kernels[0], kernels[1])
    assert not np.allclose(kernels[1], kernels[2])
    evaluation = evaluate_run(
        LANE,
        EvaluateSettings(resamples=100),
        data=lane_data,
        model=out,
        out=tmp_path / "judged",
        console=quiet(),
    )
    rows = {result.name: result for result in evaluation.results}
    assert next(iter(rows)) == "Ensemble of 3"
    seconds = sum(sum(load_run(member.folder, LaneRun).seconds.values()) for member in members)
    assert rows["Ensemble of 3"].details["training seconds"] == pytest.approx(seconds, abs=0.2)
    (out / "ensemble" / "3" / RUN).write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        trained_members(job(out))
