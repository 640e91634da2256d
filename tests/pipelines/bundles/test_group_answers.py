"""Answers for groups: means of images, calibrated and guaranteed by held-out groups."""

import csv
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from data_prep.errors import InputError
from pipelines.bundles.group_answers import (
    GROUPS,
    GroupRules,
    group_rules,
    groups_of,
    pooled_by_unit,
    write_groups,
)
from pipelines.bundles.line_rules import LineRules
from pipelines.bundles.prediction_lines import ClassPredictionLine
from pipelines.classify.settings import PredictSettings
from pipelines.command.config import load_settings
from pipelines.scores.guarantee_thresholds import SelectiveErrors, referral_threshold
from pipelines.scores.held_out import HELD_OUT, HeldOut

from .test_line_rules import NAMES, metadata

TWO = NAMES[:2]


def of_groups(rng: np.random.Generator, groups: int, size: int = 5) -> HeldOut:
    """Images of groups: a group has a class and a doubt of its own, which its images share in part."""
    truth = rng.integers(0, 2, groups)
    doubt = rng.exponential(1.0, groups) * np.where(truth == 1, 1.0, -1.0)
    unit = np.repeat(np.arange(groups), size)
    logit = doubt[unit] + 0.8 * rng.normal(size=groups)[unit] + rng.normal(size=unit.size)
    p = 1 / (1 + np.exp(-logit))
    probability = np.stack([1 - p, p], axis=1)
    entropy = -np.sum(probability * np.log(probability), axis=1)
    wrong = (probability.argmax(axis=1) != truth[unit]).astype(float)
    return HeldOut(entropy, wrong, unit, truth[unit], probability)


def line(file: str, malignant: float, **changes) -> ClassPredictionLine:
    given = {
        "label": TWO[int(malignant > 0.5)],
        "predictive_entropy": 0.3,
        "mutual_information": 0.1,
        "probability": dict(zip(TWO, (1 - malignant, malignant), strict=True)),
        "referred": False,
        "familiarity": 0.5,
    }
    return ClassPredictionLine(file=file, **{**given, **changes})


def written(tmp_path, lines, how: GroupRules, group_by: str = "folder") -> tuple[list[dict[str, str]], str]:
    console = Console(file=StringIO(), width=500)
    write_groups(lines, group_by, how, tmp_path, class_names=TWO, console=console)
    with (tmp_path / GROUPS).open(encoding="utf-8") as file:
        return list(csv.DictReader(file)), console.file.getvalue()


def settings(**given) -> PredictSettings:
    return load_settings(PredictSettings, options={"by": "folder", **given})


def test_a_held_out_group_is_the_calibrated_mean_of_its_images():
    held_out = of_groups(np.random.default_rng(0), 200)
    groups, temperature = pooled_by_unit(held_out)
    mean = held_out.probability.reshape(200, 5, 2).mean(axis=1)
    assert temperature < 1  # a mean over images is too even
    powers = mean ** (1 / temperature)
    np.testing.assert_allclose(groups.probability, powers / powers.sum(axis=1, keepdims=True), rtol=1e-6)
    np.testing.assert_array_equal(groups.truth, held_out.truth[::5])
    np.testing.assert_array_equal(groups.error, groups.predicted != groups.truth)
    assert groups.num_units == 200
    losses = [-np.log(part[np.arange(200), groups.truth]).mean() for part in (mean, groups.probability)]
    assert losses[1] < losses[0]


def test_groups_of_several_classes_or_none_have_no_answer():
    held_out = of_groups(np.random.default_rng(0), 3)
    held_out.truth[0] = 1 - held_out.truth[0]
    with pytest.raises(InputError, match="1 of 3 held-out groups have images of several classes"):
        pooled_by_unit(held_out)
    maps = HeldOut(np.zeros(2), np.zeros(2), np.arange(2), np.zeros(0, int), np.zeros(0))
    with pytest.raises(InputError, match="no example is given one class"):
        pooled_by_unit(maps)


def test_what_is_guaranteed_of_groups_is_kept():
    rng = np.random.default_rng(1)
    population, temperature = pooled_by_unit(of_groups(rng, 20_000))
    broken, given = 0, 0
    for _ in range(150):
        groups, own = pooled_by_unit(of_groups(rng, 150))
        errors = SelectiveErrors(groups.uncertainty, groups.error, groups.unit)
        assert errors.is_binomial
        found = referral_threshold(errors, 0.2)
        if found.threshold is None:
            continue
        given += 1
        # The entropy at another temperature, which orders groups alike.
        p = 1 / (
            1 + np.exp(-np.log(population.probability / population.probability[:, ::-1]) * temperature / own)
        )
        entropy = -np.sum(p * np.log(np.maximum(p, 1e-300)), axis=1)
        broken += population.error[entropy <= found.threshold].mean() > 0.2
    assert given > 100
    assert broken <= 15  # of 150 with five percent each, more come once in a hundred times


def test_rules_are_those_of_the_held_out_groups(tmp_path):
    of_groups(np.random.default_rng(0), 300).write(tmp_path / HELD_OUT)
    of_two = metadata(class_names=TWO)
    console = Console(file=StringIO(), width=500)
    how = group_rules(settings(max_error=0.1), of_two, bundle=tmp_path, judged="images", console=console)
    groups, temperature = pooled_by_unit(of_groups(np.random.default_rng(0), 300))
    assert how.temperature == pytest.approx(temperature, rel=1e-3)
    assert how.usual_size == 5
    said = console.file.getvalue()
    assert "of all groups below that at most 0.1 are wrong" in said
    assert "the 300 groups that this was found with" in said
    kept = groups.uncertainty <= how.refer_above
    assert 0.2 < kept.mean() < 1
    assert groups.error[kept].mean() < 0.1
    plain = group_rules(settings(refer_above=0.2), of_two, bundle=tmp_path, judged="images", console=console)
    assert plain.refer_above == 0.2
    members = settings(max_error=["malignant=0.1"], refer_above=None).of_members()
    assert members.max_error == ()


def test_without_held_out_groups_nothing_is_guaranteed_of_groups(tmp_path):
    of_groups(np.random.default_rng(0), 100, size=1).write(tmp_path / HELD_OUT)
    of_two = metadata(class_names=TWO)
    console = Console(file=StringIO(), width=500)
    with pytest.raises(InputError, match=r"belong to no groups of several \(1 on average\)"):
        group_rules(settings(max_error=0.1), of_two, bundle=tmp_path, judged="images", console=console)
    how = group_rules(settings(refer_above=0.3), of_two, bundle=tmp_path, judged="images", console=console)
    assert (how.temperature, how.refer_above) == (1.0, 0.3)
    assert "The mean of a group is not calibrated" in console.file.getvalue()


def test_the_table_has_an_answer_for_each_group(tmp_path):
    lines = [
        line("new/ann/1.png", 0.9),
        line("new/ann/2.png", 0.7, familiarity=0.001),
        line("new/bob/1.png", 0.1, familiarity=0.001),
        line("new/bob/2.png", 0.2, status="cannot be read"),
        line("new/eve/1.png", 0.6),
    ]
    how = GroupRules(0.5, 0.5, LineRules(0.001, keep_unfamiliar=False), usual_size=4.0)
    rows, said = written(tmp_path, lines, how)
    assert list(rows[0]) == [
        *("group", "images", "label", "predictive_entropy", "mutual_information", "referred", "familiarity"),
        *("unfamiliar", "probability of benign", "probability of malignant"),
    ]
    assert [(row["group"], row["images"], row["label"], row["referred"]) for row in rows] == [
        ("new/ann", "2", "malignant", "false"),
        ("new/bob", "1", "benign", "true"),  # unfamiliar, though sure
        ("new/eve", "1", "malignant", "true"),  # unsure
    ]
    assert float(rows[0]["probability of malignant"]) == pytest.approx(0.64 / 0.68)
    assert "3 groups of 4 inputs" in said
    assert "2 referred to a person" in said
    assert "a group has 1.3 inputs on average, and a held-out one had 4.0" in said


def test_a_table_names_the_group_of_each_image(tmp_path):
    table = tmp_path / "patients.csv"
    table.write_text("File;Group\nann/1.png;Ann\nnew/bob/1.png;Ann\nelsewhere.png;Eve\n", encoding="utf-8")
    assert groups_of(["new/ann/1.png", "new/bob/1.png"], str(table)) == ["Ann", "Ann"]
    with pytest.raises(InputError, match=r"1 of 2 inputs have no group, first new/eve/1\.png"):
        groups_of(["new/ann/1.png", "new/eve/1.png"], str(table))
    with pytest.raises(InputError, match=r"line 2: new/ann/1\.png and old/ann/1\.png both end in"):
        groups_of(["new/ann/1.png", "old/ann/1.png"], str(table))
    table.write_text("image,group\nann/1.png,Ann\nnew/ann/1.png,Bob\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"line 3: new/ann/1\.png is in Ann and in Bob"):
        groups_of(["new/ann/1.png"], str(table))


def test_where_nothing_has_a_class_there_are_no_groups(tmp_path):
    how = GroupRules(1.0, None, LineRules(), None)
    with pytest.raises(InputError, match="no input was given a class of its own"):
        written(tmp_path, [line("a.png", 0.5, probability={})], how)
