"""Tables of images with several yes/no labels."""

from pathlib import Path

import pytest
from PIL import Image

from data_prep.classify.labels import LabelTable, read_labels
from data_prep.classify.manifest import ClassifyManifest, MultilabelManifest
from data_prep.classify.prepare import prepare_classify
from data_prep.classify.settings import ClassifyPrepareSettings
from data_prep.errors import InputError
from data_prep.prepared.manifest import application_of, load_manifest

HEADER = "image,head,tail"
ROWS = ("a.png,1,0", "b.png,0,", "c.png,0,1", "d.png,1,1")


def write(folder: Path, *rows: str, header: str = HEADER) -> Path:
    for shade, row in enumerate(rows):
        Image.new("RGB", (4, 4), (40 * shade, 9 * shade, 0)).save(
            folder / row.replace(";", ",").split(",")[0]
        )
    table = folder / "table.csv"
    table.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return table


def read(folder: Path, *rows: str, header: str = HEADER, **options: bool) -> LabelTable | None:
    return read_labels(folder, write(folder, *rows, header=header), **options)


def test_an_empty_cell_is_a_label_that_nobody_knows(tmp_path):
    found = read(tmp_path, *ROWS)
    assert found.names == ("head", "tail")
    assert [one.labels for one in found.sources] == [(1, 0), (0, None), (0, 1), (1, 1)]
    assert [one.class_name for one in found.sources] == ["head", "no label", "tail", "head"]
    assert found.notes == ()


def test_what_pandas_writes_of_missing_labels_is_understood(tmp_path):
    found = read(tmp_path, "a.png,1.0,0.0", "b.png,0.0,", "c.png,,1.0")
    assert [one.labels for one in found.sources] == [(1, 0), (0, None), (None, 1)]


def test_the_rarest_label_divides(tmp_path):
    rows = ("a.png,1,1,0", "b.png,1,0,1", "c.png,1,0,1", "d.png,0,0,0")
    found = read(tmp_path, *rows, header="image,head,tail,neck")
    assert [one.class_name for one in found.sources] == ["tail", "neck", "neck", "no label"]


@pytest.mark.parametrize("header", ["image,class,tail", "image,Label,tail", "file,category,tail"])
def test_a_column_of_classes_makes_it_a_table_of_classes(tmp_path, header):
    assert read(tmp_path, *ROWS, header=header) is None


@pytest.mark.parametrize(
    ("header", "rows"),
    [("image,head", ("a.png,1", "b.png,0")), ("image,x,head", ("a.png,7.5,1", "b.png,3,0"))],
)
def test_one_column_of_labels_is_not_several(tmp_path, header, rows):
    assert read(tmp_path, *rows, header=header) is None


def test_groups_splits_and_other_columns_are_no_labels(tmp_path):
    rows = ("a.png,1,0,p,35,train", "b.png,0,1,p,41,train", "c.png,1,0,q,7,test")
    found = read(tmp_path, *rows, header="image,head,tail,group,age,split")
    assert found.names == ("head", "tail")
    assert [(one.group, one.split) for one in found.sources] == [
        ("p", "train"),
        ("p", "train"),
        ("q", "test"),
    ]
    assert found.notes == ("Columns of the table that are no labels were passed over: age.",)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            ("a.png,1,0", "b.png,0,2", "c.png,0,1"),
            r"line 3: the label tail is '2'. Expected 1 for yes, 0 for no",
        ),
        (("a.png,1,0", "b.png,0,yes", "c.png,0,1"), "the label tail is 'yes'"),
        (("a.png,1,0", "b.png,0,0"), "the label tail is 0 in all 2 images where it is known"),
        (("a.png,1,1", "b.png,0,1", "c.png,1,"), "the label tail is 1 in all 2 images"),
        (("a.png,1,", "b.png,0,"), "the column tail is empty in all images"),
    ],
)
def test_labels_of_which_nothing_can_be_learned_are_refused(tmp_path, rows, said):
    with pytest.raises(InputError, match=said):
        read(tmp_path, *rows)


def test_a_folder_to_judge_by_may_have_labels_of_one_kind(tmp_path):
    assert read(tmp_path, "a.png,1,0", "b.png,0,0", judged_alone=True).names == ("head", "tail")


def test_a_row_without_any_label_is_left_out(tmp_path):
    found = read(tmp_path, *ROWS, "e.png,,")
    assert [one.name for one in found.sources] == ["a", "b", "c", "d"]
    assert "all labels of e are empty. Add one, or remove the row." in found.skipped[0].reason


def test_two_rows_of_an_image_with_other_labels_contradict(tmp_path):
    found = read(tmp_path, *ROWS, "e.png,0,0", "a.png,1,1")
    assert "has different rows (1,0 and 1,1)" in found.skipped[0].reason


def test_a_prepared_folder_has_the_labels_and_says_so(tmp_path):
    rows = [f"{row[0]}{number}{row[1:]}" for number in range(3) for row in ROWS]
    table = write(tmp_path, *rows)
    settings = ClassifyPrepareSettings(size=(4, 4), duplicate_distance=-1, test_fraction=0.25)
    prepare_classify(tmp_path, tmp_path / "out", settings, table=table)
    manifest = load_manifest(tmp_path / "out", MultilabelManifest)
    assert application_of(tmp_path / "out") == "multilabel"
    assert manifest.label_names == ("head", "tail")
    assert {one.name[0]: one.labels for one in manifest.examples} == {
        "a": (1, 0), "b": (0, None), "c": (0, 1), "d": (1, 1),
    }  # fmt: skip
    assert str(manifest.targets(["b0"])) == "[(0.0, nan)]"
    said = (
        "prepared with several yes/no labels for each image, expected one class for each image, as the model"
    )
    with pytest.raises(InputError, match=said):
        load_manifest(tmp_path / "out", ClassifyManifest)
    fewer = manifest.model_dump() | {"label_names": ("head", "tail", "neck")}
    with pytest.raises(ValueError, match="not one label for each of head, tail, neck"):
        MultilabelManifest.model_validate(fewer)


def test_classes_are_not_named_for_labels(tmp_path):
    table = write(tmp_path, *ROWS)
    with pytest.raises(InputError, match="the table has several labels an image and no classes"):
        prepare_classify(
            tmp_path, tmp_path / "out", ClassifyPrepareSettings(classes=("head", "tail")), table=table
        )
