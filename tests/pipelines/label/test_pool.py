"""Which images there are, with their groups and the labels that are known."""

import pytest

from data_prep.errors import InputError
from pipelines.label.pool import find_pool
from pipelines.label.settings import LabelSettings
from tests.pipelines.label.small_images import write_images


def labels(pool):
    return {image.name: image.label for image in pool.images}


def test_class_folders_are_labels(tmp_path):
    write_images(tmp_path, ["cat/1.png", "dog/1.png", "dog/2.png", "unlabelled/1.png", "3.png"])
    pool = find_pool(tmp_path, LabelSettings())
    assert labels(pool) == {
        "3.png": "",
        "cat/1.png": "cat",
        "dog/1.png": "dog",
        "dog/2.png": "dog",
        "unlabelled/1.png": "",
    }
    assert pool.classes == ("cat", "dog")


def test_where_classes_are_named_other_folders_are_none(tmp_path):
    write_images(tmp_path, ["cat/1.png", "patient 7/1.png"])
    pool = find_pool(tmp_path, LabelSettings(classes=("cat", "dog")))
    assert labels(pool) == {"cat/1.png": "cat", "patient 7/1.png": ""}


def test_a_table_gives_classes_and_groups_where_it_has_them(tmp_path):
    write_images(tmp_path, ["1.png", "2.png", "3.png", "4.png"])
    table = tmp_path / "table.csv"
    table.write_text("file,label,group\n1.png,cat,a\n2.png,,a\n3.png,n/a,\n", encoding="utf-8")
    pool = find_pool(tmp_path, LabelSettings(), table=table)
    assert labels(pool) == {"1.png": "cat", "2.png": "", "3.png": ""}
    assert [image.group for image in pool.images] == ["a", "a", "3.png"]
    assert pool.searched_distance == -1


def test_a_table_may_have_the_column_of_images_alone(tmp_path):
    write_images(tmp_path, ["1.png"])
    table = tmp_path / "table.csv"
    table.write_text("image\n1.png\n../1.png\n", encoding="utf-8")
    pool = find_pool(tmp_path, LabelSettings(), table=table)
    assert labels(pool) == {"1.png": ""}
    assert "leads out of" in pool.skipped[0].reason


@pytest.mark.parametrize(
    ("settings", "groups", "distance"),
    [
        ({}, ["p1 a", "p1 b", "p2 a", "p2 b"], 6),
        ({"group_pattern": r"^(p\d)"}, ["p1", "p1", "p2", "p2"], -1),
        ({"consecutive": 4}, ["/0"] * 4, -1),
        ({"duplicate_distance": 2, "consecutive": 4}, ["/0"] * 4, 2),
    ],
)
def test_groups_are_those_of_prepare(tmp_path, settings, groups, distance):
    write_images(tmp_path, ["p1 a.png", "p1 b.png", "p2 a.png", "p2 b.png"])
    pool = find_pool(tmp_path, LabelSettings(**settings))
    assert [image.group for image in pool.images] == groups
    assert pool.searched_distance == distance


@pytest.mark.parametrize("name", ["a\nb.png", " a.png", "a\\b.png", "a\tb.png"])
def test_a_name_that_no_table_can_hold_is_left_out(tmp_path, name):
    write_images(tmp_path, ["1.png", name])
    pool = find_pool(tmp_path, LabelSettings())
    assert [image.name for image in pool.images] == ["1.png"]
    assert "Rename the file" in pool.skipped[0].reason


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="has no image that can be used"):
        find_pool(tmp_path, LabelSettings())


@pytest.mark.parametrize("classes", [("a", "a"), ("a ", "b"), ("", "b"), ("a\n", "b")])
def test_classes_that_nobody_could_tell_apart_are_refused(classes):
    with pytest.raises(ValueError, match="expected"):
        LabelSettings(classes=classes)
