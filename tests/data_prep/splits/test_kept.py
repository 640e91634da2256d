"""A data set that grows keeps its split: nothing ever crosses."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_prep.classify.manifest import ClassifyManifest
from data_prep.classify.prepare import prepare_classify
from data_prep.classify.settings import ClassifyPrepareSettings
from data_prep.errors import InputError
from data_prep.prepared.manifest import load_manifest
from data_prep.splits.divide import Assignment
from data_prep.splits.kept import FormerSplit, assign_grown, read_former_split, with_former_shares
from data_prep.splits.settings import SplitSettings

SMALL = ClassifyPrepareSettings(size=(8, 8), test_fraction=0.3)


def picture(seed: int, brightness: int = 0) -> Image.Image:
    """Blobs, different for each seed; a brighter one is a near-duplicate of the first."""
    blobs = np.random.default_rng(seed).integers(0, 230, (5, 5, 3)) + brightness
    return Image.fromarray(blobs.astype(np.uint8)).resize((30, 40), Image.Resampling.BILINEAR)


def add(folder: Path, class_name: str, name: str, image: Image.Image) -> None:
    (folder / class_name).mkdir(parents=True, exist_ok=True)
    image.save(folder / class_name / f"{name}.png")


def sides(folder: Path) -> dict[str, str | int | None]:
    examples = load_manifest(folder, ClassifyManifest).examples
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


def former(**parts: int) -> FormerSplit:
    assigned = {
        name: Assignment(group=f"former {name}", split=("train", "test")[part])
        for name, part in parts.items()
    }
    return FormerSplit(Path("former"), assigned, None, 0.5)


def test_a_new_image_of_both_sides_is_left_out_and_the_old_ones_stay():
    groups = {"a": "joined", "b": "joined", "new": "joined", "c": "c"}
    labels = dict.fromkeys(groups, 0)
    assigned = assign_grown(groups, labels, SplitSettings(), former(a=0, b=1))
    assert "new" not in assigned
    assert (assigned["a"].split, assigned["b"].split) == ("train", "test")
    assert assigned["a"].group != assigned["b"].group  # what is left of the group is on two sides


def test_new_groups_go_where_examples_are_wanted():
    groups = {name: name for name in "abcdefgh"}
    labels = dict.fromkeys(groups, 0)
    assigned = assign_grown(groups, labels, SplitSettings(test_fraction=0.5), former(a=0, b=0, c=0, d=0))
    assert [assigned[name].split for name in "efgh"] == ["test"] * 4


def test_an_image_that_moved_to_another_class_keeps_its_side():
    names = {"cat/7": "cat/7", "dog/1": "dog/1", "dog/2": "dog/2"}
    split = former(**{"dog/7": 1, "dog/1": 0})
    assigned = assign_grown(names, dict.fromkeys(names, 0), SplitSettings(), split)
    assert assigned["cat/7"].split == "test"


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
