"""Heads that people would take instead go the whole way of any other: trained, resumed, judged, exported."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from data_prep.errors import InputError
from pipelines.bundles.saved_model import verify_bundle
from pipelines.command.config import load_settings
from pipelines.evaluation.evaluate import evaluate as evaluate_run
from pipelines.lane.application import LANE
from pipelines.lane.settings import LaneRun, TrainSettings
from pipelines.runs.description import load_run
from pipelines.runs.models import load_model, make_model
from pipelines.runs.settings import EvaluateSettings
from pipelines.runs.train import train as train_run
from tests.pipelines.tiny_lane import SETTINGS, determinism_ends, export, job, quiet

RIVALS = ("ridge_linear", "laplace", "dropout", "sngp")


def test_laplace_needs_the_linear_head():
    with pytest.raises(InputError, match="laplace is fitted on the trained head linear; name linear as well"):
        load_settings(TrainSettings, overrides=["heads=[laplace, svgp]"])
    chosen = load_settings(TrainSettings, overrides=["heads=[sngp, laplace, linear, ridge_linear]"])
    assert chosen.heads == ("linear", "ridge_linear", "laplace", "sngp")


def test_those_with_settings_have_a_table_of_them():
    chosen = load_settings(TrainSettings, overrides=["sngp.num_features=64", "dropout.rate=0.5"])
    assert chosen.sngp.num_features == 64
    assert chosen.dropout.rate == 0.5


def test_random_features_and_masks_are_drawn_by_the_seed_of_the_run(lane_run):
    of_run = job(lane_run)
    seeds = [of_run.settings.model_copy(update={"seed": seed}) for seed in (0, 0, 1)]
    for name in ("sngp", "dropout"):
        drawn = [make_model(name, LANE, settings, of_run.run).head.get_config()["seed"] for settings in seeds]
        assert drawn == [0, 0, 1]


@pytest.mark.slow  # trains six heads
def test_they_are_trained_resumed_judged_exported_and_verified(lane_data: Path, tmp_path: Path):
    run = tmp_path / "run"
    settings = load_settings(
        TrainSettings, overrides=["sngp.num_features=16", "dropout.num_samples=5", "heads=[linear]"]
    ).model_copy(update=SETTINGS.model_dump(exclude={"heads"}) | {"augmentation": None})

    def train(*heads: str) -> None:
        chosen = settings.model_copy(update={"heads": heads})
        with determinism_ends():
            train_run(LANE, chosen, data=lane_data, out=run, resume=run.exists(), console=quiet())

    train("linear", "ridge_linear", "dropout")
    kept = (run / "heads" / "ridge_linear" / "best.weights.h5").read_bytes()
    train("linear", *RIVALS, "svgp")
    assert load_run(run, LaneRun).heads == ("linear", *RIVALS, "svgp")
    assert (run / "heads" / "ridge_linear" / "best.weights.h5").read_bytes() == kept
    models = {name: load_model(job(run), name) for name in ("pretraining", "linear", *RIVALS)}
    for fitted, stage in (("ridge_linear", "pretraining"), ("laplace", "linear")):
        pairs = zip(models[fitted].network.weights, models[stage].network.weights, strict=True)
        for ours, theirs in pairs:
            np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(models["laplace"].head.kernel, models["linear"].head.kernel)
    image = tf.zeros([1, 16, 24, 3])
    outputs = {name: model(image) for name, model in models.items()}
    for name in ("laplace", "dropout", "sngp"):
        assert np.all(outputs[name]["latent_variance"] > 0.0), name
    np.testing.assert_allclose(outputs["laplace"]["latent_mean"], outputs["linear"]["latent_mean"], atol=1e-5)

    evaluation = evaluate_run(
        LANE,
        EvaluateSettings(resamples=100),
        data=lane_data,
        model=run,
        out=tmp_path / "judged",
        console=quiet(),
    )
    names = [result.name for result in evaluation.results]
    assert [name for name in names if "temperature" not in name] == [
        *("Linear", "Linear, regularised", "Laplace", "MC dropout", "SNGP", "SVGP")
    ]
    assert set(load_run(run, LaneRun).temperatures) == {*RIVALS, "svgp"}
    for name in RIVALS:
        bundle = export(run, tmp_path / name, head=name)
        assert "head" in json.loads((bundle / "metadata.json").read_text())
        assert verify_bundle(bundle).worst < 1e-3
