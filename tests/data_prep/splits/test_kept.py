"""A data set that grows keeps its split: nothing ever crosses."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from PIL import Image

from data_prep.classify.manifest import ClassifyManifest
from data_prep.classify.prepare import prepare_classify
from data_prep.classify.settings import ClassifyPrepareSettings
from data_prep.errors import InputError
from data_prep.labelled.preparing import PrepareResult
from data_prep.prepared.manifest import load_manifest
from data_prep.sonar.manifest import SonarManifest
from data_prep.sonar.prepare import prepare_sonar
from data_prep.sonar.settings import SonarPrepareSettings
from data_prep.splits.divide import Assignment
from data_prep.splits.groups import settings_groups
from data_prep.splits.kept import (
    FormerSplit,
    assign_grown,
    kept_note,
    read_former_split,
    require_same_grouping,
    with_former_shares,
)
from data_prep.splits.settings import ImageSplitSettings, SplitSettings

SMALL = ClassifyPrepareSettings(size=(8, 8), test_fraction=0.3)


def picture(seed: int, brightness: int = 0) -> Image.Image:
    """Blobs, different for each seed; a brighter one is a near-duplicate of the first."""
    blobs = np.random.default_rng(seed).integers(0, 230, (5, 5, 3)) + brightness
    return Image.fromarray(blobs.astype(np.uint8)).resize((30, 40), Image.Resampling.BILINEAR)


def add(folder: Path, class_name: str, name: str, image: Image.Image) -> None:
    (folder / class_name).mkdir(parents=True, exist_ok=True)
    image.save(folder / class_name / f"{name}.png")


def prepare(application: str, images: Path, out: Path, **changes: object) -> PrepareResult[Any]:
    if application == "sonar":
        settings = SonarPrepareSettings(size=(8, 8), duplicate_distance=-1).model_copy(update=changes)
        return prepare_sonar(images, out, settings)
    return prepare_classify(images, out, SMALL.model_copy(update=changes))


def sides(folder: Path, application: str = "classify") -> dict[str, str | int | None]:
    kind = SonarManifest if application == "sonar" else ClassifyManifest
    examples = load_manifest(folder, kind).examples
    return {one.name: one.split if one.fold is None else one.fold for one in examples}


@pytest.mark.parametrize("folds", [None, 3])
def test_ten_rounds_and_nothing_ever_crosses(tmp_path, folds):
    rng = np.random.default_rng(1)
    images, seeds = tmp_path / "images", 0
    twins: dict[str, str] = {}  # near-duplicate of an earlier image, and that image
    before: dict[str, str | int | None] = {}
    settings = SMALL.model_copy(update={"folds": folds}) if folds else SMALL
    for number in range(11):
        for _ in range(24 if not number else int(rng.integers(1, 6))):
            class_name, seeds = ("cat", "dog")[seeds % 2], seeds + 1
            add(images, class_name, f"{seeds:03d}", picture(seeds))
        for old in rng.permutation(sorted(before))[: 2 if number else 0]:
            class_name, seed = str(old).split("/")
            twins[f"{class_name}/{seed}-{number}"] = old
            add(images, class_name, f"{seed}-{number}", picture(int(seed[:3]), number))
        former = {"keep_split": tmp_path / f"{number - 1}"} if number else {}
        grown = settings.model_copy(update=former)
        prepare_classify(images, tmp_path / f"{number}", grown)
        after = sides(tmp_path / f"{number}")
        assert all(after[name] == side for name, side in before.items())
        assert all(after[twin] == after[old] for twin, old in twins.items())
        before = after
    assert len(before) > 60
    shares = [list(before.values()).count(part) / len(before) for part in set(before.values())]
    assert min(shares) == pytest.approx(1 / folds if folds else 0.3, abs=0.04)


def former(digests: Mapping[str, str] | None = None, /, **parts: int) -> FormerSplit:
    assigned = {
        name: Assignment(group=f"former {name}", split=("train", "test")[part])
        for name, part in parts.items()
    }
    return FormerSplit(Path("former"), assigned, None, 0.5, digests or {})


def grown(
    groups: dict[str, str], split: FormerSplit, *, digests: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Assignment]:
    settings = SplitSettings(test_fraction=split.test_fraction)
    known = dict.fromkeys(groups, "") | digests
    return assign_grown(groups, dict.fromkeys(groups, 0), known, settings, split)


def test_a_new_image_of_both_sides_is_left_out_and_the_old_ones_stay():
    groups = {"a": "joined", "b": "joined", "new": "joined", "c": "c"}
    assigned = grown(groups, former(a=0, b=1))
    assert "new" not in assigned
    assert (assigned["a"].split, assigned["b"].split) == ("train", "test")
    assert assigned["a"].group != assigned["b"].group  # what is left of the group is on two sides


def test_new_groups_go_where_examples_are_wanted():
    groups = {name: name for name in "abcdefgh"}
    assigned = grown(groups, former(a=0, b=0, c=0, d=0))
    assert [assigned[name].split for name in "efgh"] == ["test"] * 4


def test_an_image_of_another_name_is_recognised_by_its_digest():
    split = former({"dog/7": "07", "dog/1": "01"}, **{"dog/7": 1, "dog/1": 0})
    found = split.of({"cat/7": "07", "dog/1": "07", "cat/1": "1f", "cat/2": ""})
    assert {name: one.split for name, one in found.items()} == {"cat/7": "test", "dog/1": "test"}


def test_names_alone_recognise_nothing_but_themselves():
    names = ["cat/000", "dog/000", "cat/001", "flat2"]
    split = former(**{"cat/000": 1, "cat/001": 0, "bird/000": 1, "flat1": 1})
    assert split.of(dict.fromkeys(names, "")).keys() == {"cat/000", "cat/001"}


def test_files_that_are_renumbered_keep_the_sides_of_their_pixels():
    split = former({"0": "00", "1": "01", "2": "02"}, **{"0": 0, "1": 1, "2": 0})
    found = split.of({"0": "01", "1": "02", "2": "new"})
    assert {name: one.split for name, one in found.items()} == {"0": "test", "1": "train"}


def test_a_digest_of_both_sides_is_no_match():
    split = former({"a": "01", "b": "01", "c": "02", "d": "02"}, a=0, b=1, c=1, d=1)
    assert split.of({"new": "01", "other": "02"}).keys() == {"other"}


def test_a_new_image_is_left_out_of_a_torn_group_and_a_renamed_one_is_not():
    groups = {"a": "joined", "x/b": "joined", "x/new": "joined"}
    split = former({"a": "0a", "b": "0b"}, a=0, b=1, new=1)
    assigned = grown(groups, split, digests={"a": "0a", "x/b": "0b", "x/new": "0c"})
    assert {name: one.split for name, one in assigned.items()} == {"a": "train", "x/b": "test"}


@pytest.mark.parametrize("application", ["classify", "sonar"])
def test_renamed_and_moved_images_keep_their_side(tmp_path, application):
    for seed in range(12):
        add(tmp_path / "images", ("cat", "dog")[seed % 2], f"{seed:02d}", picture(seed))
    prepare(application, tmp_path / "images", tmp_path / "old")
    moved = {}
    for number, name in enumerate(sorted(sides(tmp_path / "old", application))):
        moved[name] = f"{('dog', 'cat')[number % 2]}/new{number}"
        (tmp_path / "images" / f"{name}.png").rename(tmp_path / "images" / f"{moved[name]}.png")
    (tmp_path / "images" / f"{moved.pop('cat/00')}.png").unlink()
    result = prepare(application, tmp_path / "images", tmp_path / "new", keep_split=tmp_path / "old")
    before, after = sides(tmp_path / "old", application), sides(tmp_path / "new", application)
    assert after == {new: before[name] for name, new in moved.items()}
    assert "11 examples keep the side" in result.kept[0]
    assert "0 new ones" in result.kept[0]
    assert "; 1 of that folder are gone" in result.kept[0]


def test_a_copy_beside_its_original_hides_no_image_that_is_gone():
    split = former({"a": "01", "b": "02"}, a=0, b=1)
    digests = {"a": "01", "copy": "01"}
    note = kept_note(grown({name: name for name in digests}, split, digests=digests), digests, split)
    assert "; 1 of that folder are gone" in note


def test_manifests_without_digests_count_by_name(tmp_path):
    for seed in range(8):
        add(tmp_path / "images", ("cat", "dog")[seed % 2], f"{seed:02d}", picture(seed))
    prepare("classify", tmp_path / "images", tmp_path / "old")
    content = json.loads((tmp_path / "old" / "manifest.json").read_text())
    for example in content["examples"]:
        assert example.pop("digest")
    (tmp_path / "old" / "manifest.json").write_text(json.dumps(content))
    assert read_former_split(tmp_path / "old").digests == {}
    prepare("classify", tmp_path / "images", tmp_path / "new", keep_split=tmp_path / "old")
    assert sides(tmp_path / "new") == sides(tmp_path / "old")


@pytest.mark.parametrize(
    ("name", "value", "option"),
    [
        ("group_pattern", "^c", "--group-pattern"),
        ("group_list", "groups.csv", "--group-list"),
        ("consecutive", 3, "--set consecutive=3"),
    ],
)
def test_the_grouping_of_the_former_folder_must_be_repeated(tmp_path, name, value, option):
    write_former(tmp_path, **{name: value})
    kept = ImageSplitSettings(keep_split=tmp_path)
    with pytest.raises(InputError, match=f"{name} .* Repeat {option}"):
        settings_groups(["cat/1"], kept)
    require_same_grouping(kept.model_copy(update={name: "another"}), read_former_split(tmp_path))
    write_former(tmp_path, group_pattern=None, group_list=None, consecutive=1)
    assert settings_groups(["cat/1"], kept) == []
    write_former(tmp_path, consecutive=3)
    assert settings_groups(["cat/1"], SplitSettings(keep_split=tmp_path)) == []  # has no such setting


def write_former(folder: Path, *, num_folds: int | None = None, **settings: object) -> None:
    place = {"fold": 0} if num_folds else {"split": "train"}
    content = {
        "num_folds": num_folds,
        "settings": {"test_fraction": 0.5} | settings,
        "examples": [{"name": "cat/1", "group": "cat/1"} | place],
    }
    (folder / "manifest.json").write_text(json.dumps(content))


@pytest.mark.parametrize("fold", [-1, 3, None])
def test_a_fold_that_is_none_of_the_folds_is_no_split(tmp_path, fold):
    write_former(tmp_path, num_folds=3)
    assert read_former_split(tmp_path).num_folds == 3
    content = json.loads((tmp_path / "manifest.json").read_text())
    content["examples"][0]["fold"] = fold
    for num_folds in (3, None):
        (tmp_path / "manifest.json").write_text(json.dumps(content | {"num_folds": num_folds}))
        with pytest.raises(InputError, match="says nothing of a split"):
            read_former_split(tmp_path)


@pytest.mark.parametrize("fraction", [-0.1, 1.5, float("nan"), "0.5", True, None])
def test_a_share_that_is_none_is_no_split(tmp_path, fraction):
    write_former(tmp_path, test_fraction=fraction)
    with pytest.raises(InputError, match="says nothing of a split"):
        read_former_split(tmp_path)


def test_a_manifest_in_the_place_of_its_folder_is_refused(tmp_path):
    write_former(tmp_path, test_fraction=1)
    assert read_former_split(tmp_path).test_fraction == 1
    with pytest.raises(InputError, match=f"is a file, .*Give the folder, such as {tmp_path}"):
        read_former_split(tmp_path / "manifest.json")


def test_left_out_images_are_listed_and_the_counts_are_said(tmp_path):
    images = tmp_path / "images"
    for seed in range(12):
        add(images, ("cat", "dog")[seed % 2], f"{seed:02d}", picture(seed))
    separate = SMALL.model_copy(update={"duplicate_distance": -1})
    add(images, "cat", "00b", picture(0, 9))  # torn from the first, since nothing looked for it
    lists = tmp_path / "test.txt"
    lists.write_text("cat/00\ndog/01\n")
    prepare_classify(images, tmp_path / "old", separate.model_copy(update={"test_list": lists}))
    add(images, "cat", "00c", picture(0, 5))
    result = prepare_classify(
        images, tmp_path / "new", SMALL.model_copy(update={"keep_split": tmp_path / "old"})
    )
    assert sides(tmp_path / "new") == sides(tmp_path / "old")
    assert [entry.file.as_posix() for entry in result.skipped] == ["cat/00c"]
    assert "several sides" in result.skipped[0].reason
    assert "13 examples keep the side" in result.kept[0]


def test_the_shares_of_the_former_folder_hold_unless_others_are_given():
    split = FormerSplit(Path("old"), {}, None, 0.25)
    assert with_former_shares(SplitSettings(), split).test_fraction == 0.25
    assert with_former_shares(SplitSettings(test_fraction=0.4), split).test_fraction == 0.4
    with pytest.raises(InputError, match="folds is 3, but old"):
        with_former_shares(SplitSettings(folds=3), split)


def test_what_cannot_be_kept_is_said_before_the_images_are_read(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_former_split(tmp_path / "none")
    (tmp_path / "manifest.json").write_text(json.dumps({"examples": [], "settings": {}}))
    with pytest.raises(InputError, match="says nothing of a split"):
        read_former_split(tmp_path)
    with pytest.raises(ValueError, match="keep_split or lists"):
        SplitSettings(keep_split=tmp_path, test_list=tmp_path / "test.txt")


def test_a_folder_of_other_images_is_refused(tmp_path):
    for folder, first in (("one", 0), ("two", 20)):
        for seed in range(first, first + 8):
            add(tmp_path / folder, ("cat", "dog")[seed % 2], f"{seed:02d}", picture(seed))
    prepare_classify(tmp_path / "one", tmp_path / "old", SMALL)
    with pytest.raises(InputError, match="has none of these 8 examples"):
        prepare_classify(
            tmp_path / "two", tmp_path / "new", SMALL.model_copy(update={"keep_split": tmp_path / "old"})
        )
    assert not (tmp_path / "new").exists()
