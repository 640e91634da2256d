"""Paths of other programs mean the example whose name ends them."""

from pathlib import Path

import pytest

from data_prep.errors import InputError
from data_prep.files.name_ends import values_by_name

TABLE = Path("table.csv")


def found(files: list[str], names: list[str]) -> dict[str, int]:
    return values_by_name(TABLE, ((file, number) for number, file in enumerate(files)), names)


def test_the_longest_end_counts_and_suffixes_do_not():
    names = ["cat/3", "3", "dog/3.png"]
    assert found(["photos/cat/3.jpg", "x/3.tif", "dog\\3.png"], names) == {"cat/3": 0, "3": 1, "dog/3.png": 2}


def test_names_that_differ_by_the_suffix_alone_need_it():
    assert found(["a/1.png", "a/1.webp"], ["1.png", "1.jpg"]) == {"1.png": 0}


def test_accents_are_one_name_however_they_are_spelled():
    assert found(["Do\u0308rr.png"], ["D\u00f6rr.png"]) == {"D\u00f6rr.png": 0}


def test_two_paths_of_one_name_are_refused():
    with pytest.raises(InputError, match=r"table.csv: a/1.png and b/1.png both fit the example 1"):
        found(["a/1.png", "b/1.png"], ["1"])
