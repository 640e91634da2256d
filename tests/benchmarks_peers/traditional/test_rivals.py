"""Traditional detectors beside the heads: their probabilities, and the file of their temperatures."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.peers.traditional import rivals
from benchmarks.peers.traditional.rivals import (
    TEMPERATURES,
    TraditionalDetectors,
    read_temperatures,
    traditional_predictor,
)
from data_prep.errors import InputError
from pipelines.lane.application import LANE
from pipelines.runs.train import train
from tests.pipelines import tiny_lane


def fake(score: float):
    return lambda image: SimpleNamespace(score=np.full(image.shape[:2], score, np.float32))


def test_probabilities_are_those_of_scores_at_the_temperature(monkeypatch):
    monkeypatch.setattr(rivals, "DETECTORS", {"edge": ("Edges", fake(3.0))})
    found = traditional_predictor("edge", 1.5).outputs(np.zeros((4, 6, 3), np.uint8))
    p = 1 / (1 + np.exp(-2.0))
    np.testing.assert_allclose(found["probability"], np.full((4, 6), p), rtol=1e-6)
    entropy = -p * np.log(p) - (1 - p) * np.log(1 - p)
    np.testing.assert_allclose(found["predictive_entropy"], np.full((4, 6), entropy), rtol=1e-5)
    assert (found["label"] == 1).all()
    assert (found["mutual_information"] == 0).all()


def test_a_damaged_file_of_temperatures_is_refused(tmp_path):
    assert read_temperatures(tmp_path) == {}
    (tmp_path / TEMPERATURES).write_text('{"temperatures": {"edge": "warm"}}')
    with pytest.raises(InputError, match="Expected the temperatures of traditional detectors"):
        read_temperatures(tmp_path)


@pytest.mark.slow
def test_a_run_fits_temperatures_and_judges_the_detectors(tmp_path):
    settings = tiny_lane.SETTINGS.model_copy(update={"heads": ("linear",)})
    application, model = replace(LANE, rivals=(TraditionalDetectors(),)), tmp_path / "run"
    with tiny_lane.determinism_ends():
        train(
            application,
            settings,
            data=tiny_lane.prepare(tmp_path),
            out=model,
            resume=False,
            console=tiny_lane.quiet(),
        )
    assert set(read_temperatures(model)) == {"edge", "border"}
    rows = TraditionalDetectors().predictors(tiny_lane.job(model), {})
    assert [row.title for row in rows] == ["Edges", "Borders and segmentation"]
    image = tf.zeros([1, *tiny_lane.SIZE, 3])
    for row in rows:
        assert row.predict(image)["probability"].shape == (1, *tiny_lane.SIZE)
