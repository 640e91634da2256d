"""Lines of `measure predict`: intervals of another coverage, and what is referred."""

import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from pydantic import ValidationError
from rich.console import Console

from data_prep.errors import InputError
from data_prep.measure.scale import TargetScale
from pipelines.bundles.line_rules import LineRules
from pipelines.bundles.sources import Source
from pipelines.measure.prediction import (
    MEASURE_PREDICTION,
    NumberGroupAnswer,
    NumberPrediction,
    is_above,
    make_predictor,
    number_group_rules,
)
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


def metadata_of(scale: TargetScale) -> SimpleNamespace:
    return SimpleNamespace(
        least_familiarity=0.001,
        network_size=(8, 8),
        name="one",
        application="measure",
        preprocessing_settings={"images": {"fit": "crop"}, "scale": scale.model_dump()},
    )


def line_of(
    bundle: Path,
    scale: TargetScale = SCALE,
    sd: float = 0.5,
    lower: float = 9.0,
    upper: float = 12.0,
    **settings: object,
) -> NumberPrediction:
    said = {"mean": 10.0, "sd": sd, "lower": lower, "upper": upper, "familiarity": 0.5}
    predictor = make_predictor(
        lambda **_: {name: tf.constant([value]) for name, value in said.items()},
        metadata_of(scale),
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


def test_an_interval_of_a_count_widens_about_its_mean_and_ends_at_zero(bundle):
    scale = SCALE.model_copy(update={"transform": "count", "centre": 0.0, "spread": 1.0})
    held_out = HeldOutNumbers.read(bundle / HELD_OUT)
    line = line_of(bundle, scale, lower=8.0, coverage=0.5)
    half = 2.0 * held_out.factor(0.5) / held_out.factor(0.9)
    assert (line.lower, line.upper) == pytest.approx((10.0 - half, 10.0 + half))
    assert line_of(bundle, scale, lower=0.0, upper=25.0).lower == 0.0


@pytest.mark.parametrize("offset", [0.0, 0.1, 0.5])
def test_an_interval_that_begins_at_the_least_possible_number_is_finite(bundle, offset):
    """Where 32 bits round the lower end to -offset, its logarithm would make both ends NaN."""
    scale = SCALE.model_copy(update={"transform": "log", "offset": offset})
    line = line_of(bundle, scale, lower=-offset)
    assert line.lower == pytest.approx(-offset, abs=1e-6)
    assert line.upper == pytest.approx(12.0)


@pytest.mark.parametrize(("coverage", "is_said"), [(0.99, False), (0.999, True)])
def test_a_coverage_that_too_few_groups_can_check_is_warned_of(bundle, coverage, is_said):
    settings = PredictSettings(coverage=coverage)
    predictor = make_predictor(lambda **_: {}, metadata_of(SCALE), bundle, settings, bundle)
    console = Console(record=True, quiet=False, file=io.StringIO())
    MEASURE_PREDICTION.finish(SimpleNamespace(predictor=predictor, sources=(), console=console))
    said = "intervals of 99.9 % take 999 held-out groups, but the bundle has 200" in console.export_text()
    assert said == is_said


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


def test_few_groups_are_warned_of_without_a_coverage_too(bundle):
    ones, units = np.ones(8), np.arange(8)
    HeldOutNumbers(0.0 * ones, ones, ones, units).write(bundle / HELD_OUT)
    predictor = make_predictor(lambda **_: {}, metadata_of(SCALE), bundle, PredictSettings(), bundle)
    assert "intervals of 90 % take 9 held-out groups, but the bundle has 8" in predictor.note


def test_a_share_of_errors_without_a_tolerance_is_refused():
    with pytest.raises(ValidationError, match="there is no tolerance"):
        PredictSettings(max_error=0.05)


def test_what_is_unfamiliar_is_referred():
    line = NumberPrediction(file="a", mean=1.0, familiarity=0.001, unfamiliar=True, referred=False)
    assert line.ruled(LineRules(0.0, keep_unfamiliar=False)).decision == "refer"
    assert line.ruled(LineRules(0.0, keep_unfamiliar=True)).decision == "keep"
    assert NumberPrediction(file="a", status="unreadable").ruled(LineRules(0.0)).decision is None


def test_settings_out_of_range_are_refused():
    for settings in ({"coverage": 1.0}, {"max_width": 0.0}, {"max_error": 0.0, "tolerance": 1.0}):
        with pytest.raises(ValidationError):
            PredictSettings(**settings)


def rules_of(bundle: Path, scale: TargetScale = SCALE, size: int = 4, **settings: object):
    """How groups are answered by 100 held-out groups, whose images have one error in common."""
    rng = np.random.default_rng(0)
    error = np.repeat(rng.normal(size=100), size)
    unit = np.repeat(np.arange(100), size)
    HeldOutNumbers(np.zeros(unit.size), np.ones(unit.size), error, unit).write(bundle / HELD_OUT)
    given = PredictSettings(by="folder", **settings)
    console = Console(record=True, file=io.StringIO(), width=400)
    how = number_group_rules(given, metadata_of(scale), bundle=bundle, judged="images", console=console)
    return how, console.export_text()


def member(mean: float, **changes: object) -> NumberPrediction:
    return NumberPrediction(**{"file": "a", "mean": mean, "sd": 2.0, "familiarity": 0.5, **changes})


def test_a_group_has_the_mean_of_its_images_and_what_their_errors_share(bundle):
    how, said = rules_of(bundle)
    assert "The errors of a group's images have the correlation 1.00, by 100 held-out groups" in said
    answer = how.answer("one", [member(9.0), member(12.0)])
    assert (answer.file, answer.images, answer.left_out) == ("one", 2, 0)
    assert answer.mean == 10.5
    assert answer.sd == pytest.approx(2.0 * how.pooling.scale)
    assert answer.upper - answer.mean == pytest.approx(how.factor * answer.sd)
    assert answer.lower < answer.mean
    assert (answer.decision, answer.familiarity) == ("keep", 1.0)
    assert NumberGroupAnswer.columns()[:4] == ["group", "images", "left_out", "mean"]
    assert set(NumberGroupAnswer.columns()) <= set(answer.cells())


def test_a_group_of_logarithms_has_its_interval_above_zero(bundle):
    how, _ = rules_of(bundle, SCALE.model_copy(update={"transform": "log", "centre": 0.0, "spread": 1.0}))
    answer = how.answer("one", [member(2.0), member(8.0)])
    assert 0.0 < answer.lower < answer.mean < answer.upper
    assert answer.upper - answer.mean > answer.mean - answer.lower


@pytest.mark.parametrize(
    ("settings", "members"),
    [
        ({}, [member(1.0), NumberPrediction(file="b", status="unreadable")]),
        ({}, [NumberPrediction(file="b", status="unreadable")]),
        ({"max_width": 0.1}, [member(1.0)]),
        ({"tolerance": 5.0, "max_error": 0.3}, [member(1.0)] * 3),  # held-out groups have 4
        ({"tolerance": 6.0, "max_error": 0.1}, [member(1.0, sd=20.0)] * 4),
        ({}, [member(1.0, familiarity=0.001)] * 2),
        ({}, [member(1.0), member(90.0, unfamiliar=True)]),
    ],
)
def test_a_group_is_referred_where_it_is_not_like_the_held_out_ones(bundle, settings, members):
    how, _ = rules_of(bundle, **settings)
    answer = how.answer("one", members)
    assert (answer.referred, answer.decision) == (True, "refer")
    assert how.answer("one", [member(1.0)] * 4).referred is ("max_width" in settings)


def test_groups_of_one_image_tell_nothing_of_groups(bundle):
    with pytest.raises(InputError, match=r"belong to no groups of several \(1 in each .* at least 1.5 are"):
        rules_of(bundle, size=1)


def test_images_of_groups_are_referred_for_nothing_but_unfamiliarity():
    given = PredictSettings(by="folder", max_width=1.0, tolerance=2.0, coverage=0.8)
    assert given.of_members() == PredictSettings(coverage=0.8)


def test_there_is_no_int8_for_numbers():
    with pytest.raises(ValueError, match="runtime\n  Input should be 'tensorflow'"):
        PredictSettings(runtime="int8")


def test_a_group_of_unfamiliar_images_is_unfamiliar_where_pooled_familiarities_cannot_tell(bundle):
    how, _ = rules_of(bundle)
    how = replace(how, rules=LineRules(1 / 126, keep_unfamiliar=False))  # twice that is above .01
    images = [member(1.0, familiarity=1 / 126, unfamiliar=True)] * 2
    answer = how.answer("one", images)
    assert (answer.referred, answer.unfamiliar, answer.decision) == (True, True, "refer")
    kept = replace(how, rules=LineRules(1 / 126, keep_unfamiliar=True)).answer("one", images)
    assert (kept.referred, kept.unfamiliar, kept.decision) == (False, True, "keep")
    few = how.answer("one", [*images[:1], member(1.0), member(1.0)])
    assert (few.referred, few.unfamiliar) == (False, None)


def test_one_deviation_for_all_is_kept_whatever_its_rounding(bundle):
    """The held-out deviation has 64 bits, that of a bundle 32: rounding must not refer everything."""
    for deviation in np.random.default_rng(0).uniform(0.1, 9.0, 30):
        assert not is_above(float(np.float32(deviation)), deviation)
        assert is_above(1.0001 * deviation, deviation)
    how, said = rules_of(bundle, tolerance=6.0, max_error=0.1)
    same = [member(1.0, sd=float(np.float32(2.0 * how.largest_sd / (2.0 * how.pooling.scale))))] * 4
    assert how.answer("one", same).referred is False
    assert "Groups are kept up to a standard deviation of" in said
    assert "of what is kept is then off by more than 6, with 95 % confidence" in said
