"""Learning curves of transfer: what is drawn, how it is scored, and what is said of it."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from sklearn.metrics import roc_auc_score

from data_prep.errors import InputError
from pipelines.histopathology.settings import TransferSettings
from pipelines.histopathology.transfer_draws import Tissue, draws, evenly, projected
from pipelines.histopathology.transfer_methods import (
    CURVE_SCORES,
    POOLED,
    SOURCE,
    WITH,
    WITHOUT,
    auc_shares,
    is_of_one_class,
    scored,
    source_probability,
    target_probabilities,
)
from pipelines.histopathology.transfer_report import (
    Curves,
    curves_figure,
    difference,
    metrics_content,
    report_text,
    said_lines,
    sign_flip_p_value,
)
from pipelines.scores.metrics import plain

NAMES = ("benign", "malignant")
FOLDER = Path("prepared")


def tissue(seed: int = 0, *, groups: int = 6, per_image: int = 3, shift: float = 1.5) -> Tissue:
    """Two images of each class in each group, whose first feature tells the classes apart."""
    rng = np.random.default_rng(seed)
    image = np.repeat(np.arange(4 * groups), per_image)
    label = image % 2
    x = rng.normal(size=(len(image), 3))
    x[:, 0] += shift * label
    return Tissue(x, label, image, image // 4, tuple(f"P{k}" for k in range(groups)))


def drawn(target: Tissue, **settings: Any) -> list[Any]:
    chosen = TransferSettings(**{"labels": (2, 4), "repeats": 4, "source_patches": 20, **settings})
    return draws(tissue(1), target, chosen, NAMES, FOLDER)


def test_judged_groups_are_apart_and_labels_grow():
    target = tissue()
    for draw in drawn(target):
        judged = set(target.group[draw.judged])
        assert len(judged) == 3
        for count, rows in draw.labelled.items():
            assert np.bincount(target.label[rows]).tolist() == [count, count]
            assert not judged & set(target.group[rows])
        assert set(draw.labelled[2]) < set(draw.labelled[4])
        assert np.bincount(tissue(1).label[draw.source]).tolist() == [10, 10]


def test_draws_are_those_of_the_seed_however_many_there_are():
    target = tissue()
    first, again, other = drawn(target, repeats=2), drawn(target), drawn(target, seed=1)
    assert all(np.array_equal(a.judged, b.judged) for a, b in zip(first, again, strict=False))
    assert all(np.array_equal(a.labelled[4], b.labelled[4]) for a, b in zip(first, again, strict=False))
    assert any(not np.array_equal(a.labelled[4], b.labelled[4]) for a, b in zip(again, other, strict=True))


def test_a_labelled_image_has_all_of_its_patches():
    target = tissue()
    for draw in drawn(target, by="image"):
        images, counts = np.unique(target.image[draw.labelled[4]], return_counts=True)
        assert len(images) == 8
        assert (counts == 3).all()


@pytest.mark.parametrize(
    ("settings", "groups", "message"),
    [
        (
            {"labels": (40,)},
            6,
            "prepared has 36 patches of the class benign, but the largest number of labels",
        ),
        ({"labels": (13,), "by": "image"}, 6, "prepared has 12 images of the class benign"),
        ({"labels": (20,)}, 6, "with 3 of 6 groups kept apart to judge by, the others have at most 18 of"),
        ({"labels": (2,)}, 1, "prepared has one group of patches"),
    ],
)
def test_too_few_patches_are_counted(settings, groups, message):
    with pytest.raises(InputError, match=message):
        drawn(tissue(groups=groups), **settings)


def test_a_class_in_one_group_alone_cannot_be_judged():
    target = tissue()
    odd = Tissue(
        target.x, np.where(target.group == 0, target.label, 0), target.image, target.group, target.group_names
    )
    with pytest.raises(InputError, match="has the class malignant in one group alone"):
        drawn(odd)


def test_numbers_of_labels_are_sorted_and_given_once():
    assert TransferSettings(labels=(20, 5)).labels == (5, 20)
    for wrong in ((5, 5), (0,), ()):
        with pytest.raises(ValidationError):
            TransferSettings(labels=wrong)


def test_classes_share_what_is_taken():
    assert evenly([100, 100, 100], 200) == [67, 67, 66]
    assert evenly([5, 0, 100], 50) == [5, 0, 45]


def test_folders_are_brought_to_one_scale():
    rng = np.random.default_rng(0)
    one = rng.normal(size=(50, 4)).astype(np.float32)
    other = 100.0 * rng.normal(size=(40, 4)) + 7.0
    other[:, 3] = 1.0  # does not vary
    first, second = projected(one, other, 9)
    assert first.shape == (50, 4)
    assert second.shape == (40, 4)
    np.testing.assert_allclose(first.mean(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(second.mean(axis=0), 0.0, atol=1e-6)
    assert first.var(axis=0).sum() == pytest.approx(4.0, rel=1e-5)
    assert second.var(axis=0).sum() == pytest.approx(3.0, rel=1e-5)


@pytest.mark.parametrize("classes", [2, 3])
def test_shares_add_up_to_the_auc(classes):
    rng = np.random.default_rng(classes)
    label = rng.integers(classes, size=60)
    probability = rng.dirichlet(np.ones(classes), 60).round(1)  # with ties
    probability[:, 0] = 1.0 - probability[:, 1:].sum(axis=1)
    given = probability[:, 1] if classes == 2 else probability
    expected = roc_auc_score(label, given, multi_class="ovr", average="macro")
    assert auc_shares(probability, label).sum() == pytest.approx(expected)


def test_scores_are_sums_over_groups():
    target = tissue()
    rows = np.flatnonzero(target.group < 3)
    right = np.random.default_rng(0).uniform(0.3, 0.99, len(rows))
    one = np.where(target.label[rows] == 1, right, 1.0 - right)
    found = scored(np.stack([1.0 - one, one], axis=1), target, rows)
    assert set(found.shares) == {"P0", "P1", "P2"}
    for key in ("auc", "image_auc", "accuracy", "nll"):
        assert sum(share[key] for share in found.shares.values()) == pytest.approx(found.scores[key])
    assert found.scores["accuracy"] == pytest.approx(np.mean(right > 0.5))
    assert found.scores["nll"] == pytest.approx(-np.log(right).mean())
    assert found.scores["auc"] == pytest.approx(roc_auc_score(target.label[rows], one))
    assert 0.0 < found.scores["ece"] < 1.0


def test_images_of_two_classes_have_no_score():
    target = tissue()
    mixed = Tissue(target.x, target.label, target.image // 2, target.group, target.group_names)
    assert is_of_one_class(target).all()
    assert not is_of_one_class(mixed).any()
    found = scored(np.full((len(target.label), 2), 0.5), mixed, np.arange(len(target.label)))
    assert math.isnan(found.scores["image_auc"])
    assert found.scores["auc"] == pytest.approx(0.5)


@pytest.mark.parametrize("count", [1, 4])
def test_all_methods_judge_from_few_labels(count):
    source, target = tissue(1, groups=10), tissue(2)
    draw = draws(source, target, TransferSettings(labels=(count,), source_patches=60), NAMES, FOLDER)[0]
    x = target.x[draw.judged]
    found, said = target_probabilities(source, draw.source, target, draw.labelled[count], x, 2, 0)
    found[SOURCE] = source_probability(source, draw.source, x, 2)
    assert set(found) == {WITH, WITHOUT, POOLED, SOURCE}
    for probability in found.values():
        np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert scored(found[WITH], target, draw.judged).scores["auc"] > 0.75
    assert 0.0 < said["mixing"] < 1.0


def test_a_source_of_one_class_is_not_judged_alone():
    source, target = tissue(1), tissue(2)
    benign = np.flatnonzero(source.label == 0)
    assert source_probability(source, benign, target.x, 2) is None
    rows = np.array([0, 1, 3, 4])
    found, _ = target_probabilities(source, benign, target, rows, target.x, 2, 0)
    assert found[WITH].shape == (len(target.x), 2)


def test_random_signs_tell_how_clear_a_difference_is():
    assert sign_flip_p_value(np.ones(8)) == 2.0 / 2.0**8
    assert sign_flip_p_value(np.array([1.0, -1.0])) == 1.0
    assert sign_flip_p_value(np.zeros(3)) == 1.0
    assert math.isnan(sign_flip_p_value(np.zeros(0)))
    assert sign_flip_p_value(np.ones(30)) == pytest.approx(1e-4, rel=0.01)


def record(repeat: int, gain: float, *, alone: bool = True) -> dict[str, Any]:
    """A repeat in which transfer gains some AUC, all of it in four groups alike."""
    noise = 0.01 * np.random.default_rng(repeat).normal()

    def result(auc: float) -> dict[str, Any]:
        scores = {score.key: 0.3 for score in CURVE_SCORES} | {"auc": auc, "image_auc": None}
        groups = {f"P{k}": {"auc": auc / 8, "accuracy": 0.3 / 8, "nll": 0.3 / 8} for k in range(8)}
        return {"scores": scores, "groups": groups}

    by_labels = {
        str(count): {
            "patches": 2 * count,
            "methods": {WITH: result(0.7 + own + noise), WITHOUT: result(0.7), POOLED: result(0.71)},
        }
        for count, own in ((5, gain), (20, 0.0))
    }
    source = result(0.65) if alone else None
    return {"repeat": repeat, "source_patches": 20, "judged_patches": 30, "labels": by_labels, SOURCE: source}


def curves(gain: float, *, alone: bool = True, repeats: int = 6) -> Curves:
    return Curves(
        settings=TransferSettings(labels=(5, 20), repeats=repeats),
        source="colon",
        data="breast",
        inputs={"source": "a", "data": "b"},
        patches={"source": 100, "data": 90},
        class_names=NAMES,
        lacking=() if alone else ("malignant",),
        groups=tuple(f"P{k}" for k in range(8)),
        records=[record(repeat, gain, alone=alone) for repeat in range(repeats)],
    )


@pytest.mark.parametrize(("gain", "verb"), [(0.074, "gains"), (-0.074, "loses")])
def test_what_transfer_gives_is_said(gain, verb):
    lines = said_lines(curves(gain))
    assert lines[0].startswith(f"With 5 labels a class transfer {verb} 7.")
    assert "points of AUC (p .008)" in lines[0]
    assert lines[1].startswith("With 20 labels a class transfer makes no clear difference: ")
    worth = [line for line in lines if "on average" in line]
    assert worth == (
        ["Transfer with 5 labels a class reaches on average the AUC that takes more than 20 without."]
        if gain > 0
        else []
    )
    assert "The source alone, without any label of the data, has an AUC of .650." in lines


def test_p_is_the_larger_one_of_two():
    found = difference(curves(0.02), WITHOUT, 5, "auc")
    assert found.p_value == max(found.p_value_groups, found.p_value_repeats)
    assert (found.groups, found.repeats) == (8, 6)
    assert math.isnan(difference(curves(0.02), WITHOUT, 5, "ece").p_value)
    alone = difference(curves(0.02, repeats=1), WITHOUT, 5, "auc")
    assert math.isnan(alone.p_value)
    assert alone.difference == pytest.approx(0.02, abs=0.03)


def test_results_are_json_a_picture_and_a_report():
    found = curves(0.1)
    content = json.loads(json.dumps(plain(metrics_content(found)), allow_nan=False))
    assert content["summary"]["5"][WITHOUT]["auc"]["mean"] == pytest.approx(0.7)
    assert content["summary"]["5"][WITH]["image_auc"]["mean"] is None
    assert len(content["differences"]) == 6
    assert len(content["runs"]) == 6
    svg = curves_figure(found)
    assert svg.count("Patch AUC") == 1
    assert "Image AUC" not in svg  # undefined
    assert svg == curves_figure(found)
    report = report_text(found)
    assert "| Without transfer, 5 labels |" in report
    assert "![Learning curves](learning_curves.svg)" in report


def test_a_source_that_lacks_a_class_is_reported():
    found = curves(0.1, alone=False)
    lines = said_lines(found)
    assert "The source has no patch of the class malignant." in lines
    assert any(line.startswith("The source alone is not judged") for line in lines)
    assert "Source alone," not in report_text(found)
    assert "Source alone" not in curves_figure(found)
