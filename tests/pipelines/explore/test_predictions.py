"""A table of predictions becomes the error of each example."""

import numpy as np
import pytest

from data_prep.errors import InputError
from pipelines.explore.predictions import read_predicted

FILES = ("cat/1.png", "cat/2.png", "dog/1")
CLASSES = ("cat", "cat", "dog")


def table(path, *lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_rows_belong_to_the_examples_whose_names_end_their_paths(tmp_path):
    path = table(
        tmp_path / "predictions.csv",
        "file,label,probability of cat,probability of dog,status",
        "photos/cat/1.png,cat,0.9,0.1,ok",
        "photos\\dog\\1.jpg,cat,0.7,0.3,ok",
        "photos/bird/9.png,cat,0.5,0.5,ok",
        "photos/cat/2.png,,,,failed",
    )
    found = read_predicted(path, FILES, CLASSES)
    assert found.label == ("cat", "", "cat")
    np.testing.assert_allclose(found.error, [0.1, np.nan, 0.7])
    assert found.missing == 1


def test_a_row_without_a_file_belongs_to_no_example(tmp_path):
    path = table(tmp_path / "p.csv", "file,label", ",cat", "cat/1.png,cat")
    assert read_predicted(path, FILES, CLASSES).label == ("cat", "", "")


def test_names_with_dots_and_names_that_differ_by_a_suffix_are_told_apart(tmp_path):
    files = ("x/slide_1.5", "x/slide_1.7.png", "x/a.png", "x/a.jpg", "x/v_01")
    rows = ["x/slide_1.5.png,A", "x/slide_1.7.png,B", "x/a.jpg,C", "y/x/a.png,D", "x/a,E", "x/v_01.avi,F"]
    path = table(tmp_path / "p.csv", "file,label", *rows)
    assert read_predicted(path, files, ["x"] * 5).label == ("A", "B", "D", "C", "F")


def test_without_probabilities_an_error_is_0_or_1(tmp_path):
    path = table(tmp_path / "p.csv", "file,label", "cat/1.png,cat", "cat/2.png,dog", "dog/1.png,dog")
    assert read_predicted(path, FILES, CLASSES).error.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("lines", "classes", "message"),
    [
        (["file,label", "x.png,cat"], CLASSES, "none of its 1 files is among the 3 examples, such as cat/1"),
        (["file,class", "cat/1.png,cat"], CLASSES, "has no column label"),
        (["file,label,probability of cat", "cat/1.png,cat,2"], CLASSES, "expected a number from 0 to 1"),
        (["file,label", "a/cat/1.png,cat", "b/cat/1.jpg,dog"], CLASSES, "b/cat/1.jpg both fit .* cat/1.png"),
        (["file,label", "cat/1.png,cat"], None, "the examples have no classes"),
    ],
)
def test_tables_that_do_not_fit_are_refused(tmp_path, lines, classes, message):
    path = table(tmp_path / "p.csv", *lines)
    with pytest.raises(InputError, match=message):
        read_predicted(path, FILES, classes)
