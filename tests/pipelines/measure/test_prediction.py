"""Lines of `measure predict`: intervals of another coverage, and what is referred."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from pydantic import ValidationError

from data_prep.errors import InputError
from data_prep.measure.scale import TargetScale
from pipelines.bundles.line_rules import LineRules
from pipelines.bundles.sources import Source
from pipelines.measure.prediction import NumberPrediction, make_predictor
from pipelines.measure.settings import PredictSettings
from pipelines.scores.held_out import HELD_OUT
from pipelines.scores.numbers import HeldOutNumbers

SCALE = TargetScale(unit="mm", centre=10.0, spread=2.0, lowest=0.0, highest=20.0)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Two hundred held-out images: half of them say 0.1 and are within it, half 1.0 and are not."""
    rng, unit = np.random.default_rng(0), np.arange(200)
    deviation = np.where(unit % 2 == 0, 0.1, 1.0)
    HeldOutNumbers(np.zeros(200), deviation, deviation * rng.normal(size=200), unit).write(
        tmp_path / HELD_OUT
    )
    Image.new("RGB", (8, 8)).save(tmp_path / "image.png")
    return tmp_path


def line_of(
    bundle: Path, scale: TargetScale = SCALE, sd: float = 0.5, **settings: object
) -> NumberPrediction:
    said = {"mean": 10.0, "sd": sd, "lower": 9.0, "upper": 12.0, "familiarity": 0.5}
    metadata = SimpleNamespace(
        network_size=(8, 8),
        name="one",
        application="measure",
        preprocessing_settings={"images": {"fit": "crop"}, "scale": scale.model_dump()},
    )
    predictor = make_predictor(
        lambda **_: {name: tf.constant([value]) for name, value in said.items()},
        metadata,
        bundle,
        PredictSettings(**settings),
        bundle,
    )
    (line,) = predictor(Source(bundle / "image.png", "image"))
    return line


def test_a_line_has_the_interval_of_the_bundle(bundle):
    line = line_of(bundle)
    assert (line.mean, line.sd, line.lower, line.upper) == (10.0, 0.5, 9.0, 12.0)
    assert line.ruled(LineRules(0.0)).decision == "keep"


def test_another_coverage_has_another_width(bundle):
    held_out = HeldOutNumbers.read(bundle / HELD_OUT)
    line = line_of(bundle, coverage=0.5)
    width = 3.0 * held_out.factor(0.5) / held_out.factor(0.9)
    assert line.upper - line.lower == pytest.approx(width)
    assert 0.5 * (line.upper + line.lower) == pytest.approx(10.5)
    logarithm = line_of(bundle, SCALE.model_copy(update={"transform": "log"}), coverage=0.5)
    assert logarithm.upper * logarithm.lower == pytest.approx(9.0 * 12.0)


@pytest.mark.parametrize(("width", "decision"), [(2.9, "refer"), (3.1, "keep")])
def test_a_wide_interval_is_referred(bundle, width, decision):
    assert line_of(bundle, max_width=width).ruled(LineRules(0.0)).decision == decision


@pytest.mark.parametrize(("sd", "decision"), [(0.19, "keep"), (1.9, "refer")])
def test_a_tolerance_is_kept_by_referral(bundle, sd, decision):
    line = line_of(bundle, sd=sd, tolerance=1.0, max_error=0.1)
    assert line.ruled(LineRules(0.0)).decision == decision


def test_what_cannot_be_guaranteed_is_refused(bundle):
    with pytest.raises(InputError, match=r"--tolerance 0.001 with --max-error 0.05 cannot be guaranteed"):
        line_of(bundle, tolerance=0.001)


def test_what_is_unfamiliar_is_referred():
    line = NumberPrediction(file="a", mean=1.0, familiarity=0.001, unfamiliar=True, referred=False)
    assert line.ruled(LineRules(0.0, keep_unfamiliar=False)).decision == "refer"
    assert line.ruled(LineRules(0.0, keep_unfamiliar=True)).decision == "keep"
    assert NumberPrediction(file="a", status="unreadable").ruled(LineRules(0.0)).decision is None


def test_settings_out_of_range_are_refused():
    for settings in ({"coverage": 1.0}, {"max_width": 0.0}, {"max_error": 0.0}):
        with pytest.raises(ValidationError):
            PredictSettings(**settings)
