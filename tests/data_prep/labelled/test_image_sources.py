"""Which images a folder or a table gives, and what is said of rows that cannot be used."""

import unicodedata
from pathlib import Path

import pytest

from data_prep.errors import InputError
from data_prep.labelled.image_sources import ImageSource, find_images

FILES = ("cats/1.jpg", "cats/2.JPG", "dogs/1.png", "dogs/deep/er/3.png", "dogs/notes.txt")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    for file in FILES:
        path = tmp_path / "images" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path / "images"


def table(images: Path, *rows: str, header: str = "image,class") -> Path:
    path = images.parent / "labels.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_class_folders(images):
    sources, skipped = find_images(images, None)
    assert [(source.name, source.class_name) for source in sources] == [
        ("cats/1", "cats"),
        ("cats/2", "cats"),
        ("dogs/1", "dogs"),
    ]
    assert {(source.group, source.split) for source in sources} == {(None, None)}
    (reason,) = (entry.reason for entry in skipped)
    assert reason.startswith(
        f"{images / 'dogs' / 'deep'}: a folder inside a class, which is not looked into."
    )


def test_images_of_formats_that_are_not_read_are_named(images):
    (images / "cats" / "IMG_1.HEIC").touch()
    _, skipped = find_images(images, None)
    (reason,) = [entry.reason for entry in skipped if entry.file.name == "IMG_1.HEIC"]
    path = images / "cats" / "IMG_1.HEIC"
    assert reason == f"{path}: .HEIC files are not read. Save the image as JPEG or PNG."


def test_class_folders_one_step_deeper_are_named(images):
    with pytest.raises(
        InputError,
        match=r"0 class folders.* Images lie one level deeper, as in images/cats: expected CLASS/image",
    ):
        find_images(images.parent, None)


def test_a_table_of_paths_in_any_folders(images):
    rows = ("dogs/deep/er/3.png,Schäferhund,b", "cats/1.jpg,Katze,a", r"cats\2.JPG,Katze,a")
    sources, skipped = find_images(images, table(images, *rows, header="image,class,group"))
    assert sources == [
        ImageSource("cats/1", images / "cats/1.jpg", "Katze", "a"),
        ImageSource("cats/2", images / "cats/2.JPG", "Katze", "a"),
        ImageSource("dogs/deep/er/3", images / "dogs/deep/er/3.png", "Schäferhund", "b"),
    ]
    assert skipped == []


def test_a_split_and_semicolons_as_spreadsheets_write_them(images):
    rows = ("cats/1.jpg;cat;Train", "dogs/1.png;dog;TEST")
    sources, _ = find_images(images, table(images, *rows, header="image;class;split"))
    assert [source.split for source in sources] == ["train", "test"]


def test_accents_may_be_composed_or_not(images):
    name = unicodedata.normalize("NFD", "Überraschung.png")
    (images / "dogs" / name).touch()
    rows = ("cats/1.jpg,cat", f"dogs/{unicodedata.normalize('NFC', name)},dog")
    sources, skipped = find_images(images, table(images, *rows))
    assert sources[1].path.is_file()
    assert sources[1].name == unicodedata.normalize("NFC", "dogs/Überraschung")
    assert skipped == []


def test_rows_that_cannot_be_used_are_left_out_with_the_reason(images):
    (images / "dogs" / "1.jpg").touch()
    rows = (
        *("cats/1.jpg,cat", "dogs/deep/er/3.png,dog"),
        *("cats/gone.jpg,cat", "cats/2.JPG,", "../labels.png,cat", "dogs/notes.txt,dog"),
        *("/data/cats/1.jpg,cat", "C:\\cats\\1.jpg,cat"),
        *("dogs/1.png,dog", "dogs/1.jpg,dog"),
    )
    sources, skipped = find_images(images, table(images, *rows))
    assert [source.name for source in sources] == ["cats/1", "dogs/deep/er/3"]
    said = [entry.reason for entry in skipped]
    expected = [
        f"line 4: no file 'cats/gone.jpg' in {images}. Correct the row or add the file.",
        "line 5: no class. Complete the row or remove it.",
        f"line 6: '../labels.png' leads out of {images}. Expected a path inside that folder.",
        "line 7: 'dogs/notes.txt' is no image file.",
        f"line 8: '/data/cats/1.jpg' is absolute. Expected a path from {images} on.",
        f"line 9: 'C:/cats/1.jpg' is absolute. Expected a path from {images} on.",
        "lines 10, 11: several files with the name 'dogs/1' (1.jpg, 1.png). Keep one, or rename the others.",
    ]
    assert len(said) == len(expected)
    for text, part in zip(said, expected, strict=True):
        assert part in text
        assert str(images.parent / "labels.csv") in text


def test_a_row_twice_counts_once_and_two_labels_leave_an_image_out(images):
    rows = ("cats/1.jpg,cat", "cats/1.jpg,cat", "dogs/1.png,dog", "cats/2.JPG,cat", "cats/2.JPG,dog")
    sources, (skipped,) = find_images(images, table(images, *rows))
    assert [source.name for source in sources] == ["cats/1", "dogs/1"]
    assert "lines 5, 6:" in skipped.reason
    assert "has different rows (cat and dog). Keep the right one." in skipped.reason


@pytest.mark.parametrize(
    ("header", "rows", "message"),
    [
        ("scan,diagnosis", ["cats/1.jpg,cat"], "has no column image, class"),
        ("image,class", [], "has no rows"),
        ("image,class", ["cats/1.jpg,cat"], "1 images of 1 classes can be used; expected two classes"),
        (
            "image,class",
            ["cats/gone.jpg,cat", "dogs/1.png,dog"],
            "1 images of 1 classes.*\n.*no file 'cats/gone",
        ),
        ("image,class,split", ["cats/1.jpg,cat,later"], "line 2: split is 'later'; expected train or test"),
    ],
)
def test_tables_that_cannot_be_used(images, header, rows, message):
    with pytest.raises(InputError, match=message):
        find_images(images, table(images, *rows, header=header))


@pytest.mark.parametrize(
    "header", ["filename,label", "Image,Class", "image\tclass", "FILE NAME;category", "path,CLASS,note"]
)
def test_columns_of_usual_names_are_understood(images, header):
    mark = next(mark for mark in "\t;," if mark in header)
    rows = (mark.join(row) for row in (("cats/1.jpg", "cat", "x"), ("dogs/1.png", "dog", "x")))
    rows = [row if "note" in header else row.rpartition(mark)[0] for row in rows]
    sources, skipped = find_images(images, table(images, *rows, header=header))
    assert [(source.name, source.class_name) for source in sources] == [("cats/1", "cat"), ("dogs/1", "dog")]
    assert skipped == []


def test_two_columns_that_may_be_the_class_are_named(images):
    with pytest.raises(InputError, match=r"the columns label and category may each be the class"):
        find_images(images, table(images, "cats/1.jpg,cat,dog", header="image,label,category"))


def test_validation_rows_are_learned_from_where_there_are_test_rows(images):
    rows = ["cats/1.jpg,a,Train", "cats/2.JPG,a,valid", "dogs/1.png,b,TEST"]
    for kept, expected in ((rows, ["train", "train", "test"]), (rows[:2], ["train", "test"])):
        sources, _ = find_images(
            images, table(images, *kept, header="image,class,split"), judged_alone=len(kept) == 2
        )
        assert [source.split for source in sources] == expected
