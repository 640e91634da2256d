"""Shifts change images as they say, more with each strength, and nothing but the images."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import ndimage

from pipelines.scores.metrics import metrics_content
from pipelines.scores.report import Gallery, render_report
from pipelines.scores.shifts import (
    SHIFTS,
    STRENGTHS,
    ShiftedScores,
    mean_over_kinds,
    shift_sentences,
    shifted,
)
from pipelines.scores.unfamiliar_scores import UnfamiliarResult, unfamiliar_scores
from tests.pipelines.scores.test_report import CREATED


@pytest.fixture
def picture() -> np.ndarray:
    levels = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(64, 80, 3)), (2, 2, 0))
    return np.clip(110 + 200 * levels, 0, 255).astype(np.uint8)


@pytest.mark.parametrize("kind", SHIFTS)
def test_each_strength_changes_more_than_the_one_before(kind, picture):
    changes = [
        np.abs(shifted(kind, picture, strength).astype(float) - picture).mean() for strength in STRENGTHS
    ]
    assert changes[0] > 0.5
    assert all(more > less for less, more in itertools.pairwise(changes))


def test_shifts_do_what_their_names_say(picture):
    levels = picture.astype(float)
    assert shifted("brightness", picture, 2).mean() == pytest.approx(levels.mean() + 40, abs=2)
    flat = shifted("contrast", picture, 5).astype(float)
    assert flat.std() == pytest.approx(0.2 * levels.std(), rel=0.05)
    assert flat.mean() == pytest.approx(levels.mean(), abs=1)
    # The variance of a blurred picture is less, and that of noise is what was asked for.
    assert shifted("blur", picture, 3).std() < levels.std()
    grey = np.full((64, 64, 3), 128, np.uint8)
    assert shifted("noise", grey, 1).std() == pytest.approx(8, rel=0.05)


@pytest.mark.parametrize("kind", SHIFTS)
def test_stacks_are_shifted_image_by_image_and_the_same_each_time(kind, picture):
    stack = np.stack([picture, picture[::-1]])
    found = shifted(kind, stack, 3, seed=5)
    assert found.shape == stack.shape
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, shifted(kind, stack, 3, seed=5))
    np.testing.assert_array_equal(found[0], shifted(kind, picture, 3, seed=5))


def test_what_is_no_image_is_refused(picture):
    with pytest.raises(ValueError, match="expected uint8 images"):
        shifted("blur", picture.astype(float), 1)
    with pytest.raises(ValueError, match="a strength is one of"):
        shifted("blur", picture, 0)


def test_unfamiliar_scores_equal_counting():
    generator = np.random.default_rng(1)
    known, unknown = generator.normal(size=300).round(1), generator.normal(1, 1, size=200).round(1)
    found = unfamiliar_scores(known, unknown)
    pairs = (unknown[:, None] > known).mean() + 0.5 * (unknown[:, None] == known).mean()
    assert found.auroc == pytest.approx(pairs)
    limits = [limit for limit in np.unique(unknown) if (unknown >= limit).mean() >= 0.95]
    assert found.fpr95 == pytest.approx((known >= max(limits)).mean())
    with pytest.raises(ValueError, match="need both"):
        unfamiliar_scores(known, np.zeros(0))


@pytest.mark.slow
def test_metrics_and_report_show_shifts_and_unfamiliar_images(evaluation):
    name = evaluation.results[-1].name
    scores = tuple(
        ShiftedScores(kind, strength, 0.1 * strength, 0.02, 0.9 - 0.1 * strength, float("nan"))
        for kind in SHIFTS
        for strength in (0, *STRENGTHS)
    )
    assert mean_over_kinds(scores, "nll") == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5])
    found = {"familiarity_distance": unfamiliar_scores(np.zeros(4), np.ones(7))}
    unfamiliar = UnfamiliarResult(7, found, 0.0, 0.5)
    judged = replace(evaluation, shifted={name: scores}, unfamiliar={name: unfamiliar})
    written = json.loads(json.dumps(metrics_content(judged), allow_nan=False))["methods"]
    assert written[name]["unfamiliar"]["scores"]["familiarity_distance"] == {"auroc": 1.0, "fpr95": 0.0}
    assert written[name]["unfamiliar"]["number"] == 7
    first = written[name]["shifted"][0]
    assert first == {
        "kind": "brightness", "strength": 0, "nll": 0.0, "ece": 0.02, "kept": 0.9, "unfamiliar": None,
    }  # fmt: skip
    assert written[evaluation.results[0].name]["shifted"] == []
    page = render_report("T", judged, Gallery(), CREATED)
    assert "What if light, focus or camera change?" in page
    assert "7 images of another kind" in page
    plain = render_report("T", evaluation, Gallery(), CREATED)
    assert "What if light" not in plain
    assert "Is it noticed when something else comes?" not in plain


def test_the_scores_at_the_strongest_shift_are_said():
    scores = [
        ShiftedScores(kind, strength, nll=0.1 + strength, ece=0.01, kept=1.0, unfamiliar=0.0)
        for kind in ("blur", "noise")
        for strength in (0, 5)
    ]
    assert shift_sentences({"HGP": scores}) == [
        "HGP: on the most shifted images NLL is 5.100 instead of 0.100, and ECE 0.010 instead of 0.010."
    ]
    assert shift_sentences({}) == []
