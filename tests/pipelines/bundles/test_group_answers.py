"""Answers for groups: means of images, with the rules of held-out groups."""

import csv
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from data_prep.errors import InputError
from pipelines.bundles.group_answers import GROUPS, GroupRules, group_rules, groups_of, write_groups
from pipelines.bundles.line_rules import LineRules
from pipelines.bundles.prediction_lines import ClassPredictionLine
from pipelines.classify.settings import PredictSettings
from pipelines.command.config import load_settings
from pipelines.scores.held_out import HELD_OUT, HeldOut
from pipelines.scores.held_out_groups import pooled_by_unit

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


def written(tmp_path, lines, how: GroupRules) -> tuple[list[dict[str, str]], str]:
    console = Console(file=StringIO(), width=500)
    groups = groups_of([Path(one.file) for one in lines], "folder", console)
    write_groups(lines, groups, how, tmp_path, class_names=TWO, console=console)
    with (tmp_path / GROUPS).open(encoding="utf-8") as file:
        return list(csv.DictReader(file)), console.file.getvalue()


def settings(**given) -> PredictSettings:
    return load_settings(PredictSettings, options={"by": "folder", **given})


def rules(bundle: Path, **given) -> tuple[GroupRules, str]:
    console = Console(file=StringIO(), width=500)
    of_two = metadata(class_names=TWO)
    how = group_rules(settings(**given), of_two, bundle=bundle, judged="images", console=console)
    return how, console.file.getvalue()


def write_costs(folder: Path) -> Path:
    (folder / "costs.csv").write_text("class,benign,malignant\nbenign,0,1\nmalignant,9,0\n")
    return folder / "costs.csv"


def test_rules_are_those_of_the_held_out_groups(tmp_path):
    of_groups(np.random.default_rng(0), 300).write(tmp_path / HELD_OUT)
    how, said = rules(tmp_path, max_error=0.1)
    groups = pooled_by_unit(of_groups(np.random.default_rng(0), 300))
    assert how.temperature == pytest.approx(groups.temperature, rel=1e-3)
    assert (how.usual_size, how.least_size) == (5, 5)
    assert "of all groups below that at most 0.1 are wrong" in said
    assert "the 300 groups that this was found with" in said
    kept = groups.predictions.uncertainty <= how.refer_above
    assert 0.2 < kept.mean() < 1
    assert groups.predictions.error[kept].mean() < 0.1
    plain, _ = rules(tmp_path, refer_above=0.2, costs=write_costs(tmp_path))
    assert (plain.refer_above, plain.least_size) == (0.2, 0)
    assert plain.rules.costs is not None
    members = settings(max_error=["malignant=0.1"]).of_members()
    assert (members.max_error, members.by) == ((), None)


def test_without_held_out_groups_nothing_is_guaranteed_of_groups(tmp_path):
    with pytest.raises(InputError, match=r"holds no predictions of held-out images\. Continue its training"):
        rules(tmp_path, max_error=0.1)
    of_groups(np.random.default_rng(0), 100, size=1).write(tmp_path / HELD_OUT)
    with pytest.raises(InputError, match=r"groups of several \(1 in each on average, at least 1.5 are"):
        rules(tmp_path, max_error=0.1)
    mixed = of_groups(np.random.default_rng(0), 100)
    mixed.truth[0] = 1 - mixed.truth[0]
    mixed.write(tmp_path / HELD_OUT)
    with pytest.raises(InputError, match=r"1 of the 100 held-out groups of .* have images of several"):
        rules(tmp_path, max_error=0.1)
    how, said = rules(tmp_path, refer_above=0.3)
    assert how.temperature == 1.0
    of_groups(np.random.default_rng(0), 100, size=1).write(tmp_path / HELD_OUT)
    how, said = rules(tmp_path, refer_above=0.3, costs=write_costs(tmp_path))
    assert (how.temperature, how.refer_above) == (1.0, 0.3)
    assert how.rules.costs is not None
    assert "The mean of a group is not calibrated, since the held-out images" in said


def test_the_table_has_an_answer_for_each_group(tmp_path):
    lines = [
        line("new/ann/1.png", 0.9),
        line("new/ann/2.png", 0.7, familiarity=0.001),
        line("new/bob/1.png", 0.1, familiarity=0.001),
        line("new/eve/1.png", 0.6),
    ]
    how = GroupRules(0.5, 0.5, LineRules(0.001, keep_unfamiliar=False), usual_size=4.0)
    rows, said = written(tmp_path, lines, how)
    assert list(rows[0]) == [
        *("group", "images", "left_out", "label", "predictive_entropy", "mutual_information", "referred"),
        *("familiarity", "unfamiliar", "probability of benign", "probability of malignant"),
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


def test_a_group_that_is_not_complete_goes_to_a_person(tmp_path):
    lines = [
        line("new/ann/1.png", 0.99),
        line("new/ann/2.png", 0.99, status="cannot be read", probability={}),
        line("new/bob/1.png", 0.99, status="cannot be read", probability={}),
        line("new/eve/1.png", 0.99),
        line("new/zoe/1.png", 0.99),
        line("new/zoe/2.png", 0.99),
    ]
    rows, said = written(tmp_path, lines, GroupRules(1.0, None, LineRules(), least_size=2))
    found = {
        row["group"][4:]: (row["images"], row["left_out"], row["label"], row["referred"]) for row in rows
    }
    assert found == {
        "ann": ("1", "1", "malignant", "true"),
        "bob": ("0", "1", "", "true"),
        "eve": ("1", "0", "malignant", "true"),  # smaller than held-out groups
        "zoe": ("2", "0", "malignant", "false"),
    }
    assert "Warning: 2 of them have inputs that could not be predicted" in said
    assert "Warning: 3 of them have fewer than 2 inputs, which nearly all held-out groups have" in said


def test_a_table_names_the_group_of_each_image(tmp_path):
    table = tmp_path / "patients.csv"
    files = [Path("new/ann/1.png"), Path("new/bob/1.png"), Path("old/ann/1.png")]
    console = Console(file=StringIO(), width=500)
    table.write_text("File;Group\nann/1.png;Ann\nnew/bob/1.png;Ann\nelsewhere.png;Eve\n", encoding="utf-8")
    assert groups_of(files[:2], str(table), console) == {"new/ann/1.png": "Ann", "new/bob/1.png": "Ann"}
    assert "1 rows of" in console.file.getvalue()
    assert "name no input, first elsewhere.png" in console.file.getvalue()
    with pytest.raises(InputError, match=r"1 of 2 inputs have no group, first new/eve/1\.png"):
        groups_of([files[0], Path("new/eve/1.png")], str(table), console)
    with pytest.raises(InputError, match=r"line 2: new/ann/1\.png and old/ann/1\.png both end in"):
        groups_of(files, str(table), console)
    table.write_text("image,group\nann/1.png,Ann\nnew/ann/1.png,Bob\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"line 3: new/ann/1\.png is in Ann and Bob"):
        groups_of(files[:1], str(table), console)


def test_folders_that_are_no_groups_are_named():
    console = Console(file=StringIO(), width=500)
    groups_of([Path("new/1.png"), Path("new/ann/1.png"), Path("new/bob/1.png")], "folder", console)
    assert "images that lie in new itself, beside folders of groups, count as one" in console.file.getvalue()
    console = Console(file=StringIO(), width=500)
    groups_of([Path("new/1.png"), Path("new/2.png")], "folder", console)
    assert "all inputs lie in one folder, and are one group" in console.file.getvalue()
