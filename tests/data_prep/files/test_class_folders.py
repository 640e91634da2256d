"""Which files of class folders count, and which are complained about."""

import unicodedata
from pathlib import Path

import pytest

from data_prep.errors import InputError
from data_prep.files.class_folders import alike_names, class_folder_names, find_class_files, lost_classes
from data_prep.files.split_folders import split_note

SUFFIXES = {".avi", ".mp4"}


def touched(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def test_files_are_named_after_class_and_stem(tmp_path: Path) -> None:
    decomposed = unicodedata.normalize("NFD", "Läufe/zähe.MP4")
    touched(
        tmp_path,
        decomposed,
        "Go/b.avi",
        "Go/a.avi",
        "Go/.c.avi",
        "Go/notes.txt",
        ".git/a.avi",
        "list.txt",
        ".a.avi",
    )
    files, skipped = find_class_files(tmp_path, SUFFIXES, "video")
    assert [(file.name, file.class_name) for file in files] == [
        ("Go/a", "Go"),
        ("Go/b", "Go"),
        ("Läufe/zähe", "Läufe"),
    ]
    assert files[2].path == tmp_path / decomposed
    assert skipped == []


def test_what_cannot_be_used_is_complained_about(tmp_path: Path) -> None:
    touched(
        tmp_path, "A/a.avi", "A/a.mp4", "A/b.avi", "B/a.avi", "C/notes.txt", "D/\udcff.avi", "\udcfe/a.avi"
    )
    touched(tmp_path, "loose.avi")
    files, skipped = find_class_files(tmp_path, SUFFIXES, "video")
    assert [file.name for file in files] == ["A/b", "B/a"]
    expected = [
        "a.avi: several files with the stem 'a' (a.avi, a.mp4). Keep one.",
        "a.mp4: several files with the stem 'a' (a.avi, a.mp4). Keep one.",
        "C: a class without a video file. Add videos or remove the folder.",
        "\udcff.avi: the file name is not valid UTF-8. Rename the file.",
        "loose.avi: in no class. Move it into the folder of its class.",
        "\udcfe: the name is not valid UTF-8. Rename the folder.",
    ]
    assert [entry.reason.rsplit("/", 1)[-1] for entry in skipped] == expected
    (lost,) = lost_classes({"B"}, tmp_path, "video")
    assert lost.reason.endswith("B: none of the class's videos can be read. Replace or remove them.")


def test_of_two_spellings_of_a_folder_the_names_stay_different(tmp_path: Path) -> None:
    for form in ("NFC", "NFD"):
        touched(tmp_path, unicodedata.normalize("NFC", f"B/{form}.avi"))
        touched(tmp_path, f"{unicodedata.normalize(form, 'é')}/a.avi")
        touched(tmp_path, f"{unicodedata.normalize(form, 'é')}/{form}.avi")
    files, skipped = find_class_files(tmp_path, SUFFIXES, "video")
    assert [file.name for file in files] == ["B/NFC", "B/NFD", "é/NFC", "é/NFD", "é/a"]
    (left_out,) = skipped
    assert left_out.file == tmp_path / "é" / "a.avi"
    assert "é already has a file of this name" in unicodedata.normalize("NFC", left_out.reason)


def test_two_classes_are_needed(tmp_path: Path) -> None:
    touched(tmp_path, "A/a.avi", "B/b.png")
    with pytest.raises(
        InputError, match=r"1 class folders with video files; .* two classes, or a list\. Check"
    ):
        find_class_files(tmp_path, SUFFIXES, "video", instead="a list")
    with pytest.raises(InputError, match=r"nowhere: cannot be listed \(No such file or directory\)"):
        find_class_files(tmp_path / "nowhere", SUFFIXES, "video")


def test_folders_called_train_and_test_give_the_split(tmp_path: Path) -> None:
    for part in ("train", "Val", "test"):
        touched(tmp_path, f"{part}/ring/a.avi", f"{part}/bar/b.avi")
    files, skipped = find_class_files(tmp_path, SUFFIXES, "video")
    assert [(file.name, file.class_name, file.side) for file in files] == [
        (f"{part}/{name}", name.partition("/")[0], side)
        for part, side in (("Val", "train"), ("test", "test"), ("train", "train"))
        for name in ("bar/b", "ring/a")
    ]
    assert skipped == []
    assert class_folder_names(tmp_path) == {"ring", "bar"}
    (note,) = split_note(tmp_path)
    assert "Val for training, test for the test, train for training" in note


def test_classes_that_are_called_train_and_test_stay_classes(tmp_path: Path) -> None:
    touched(tmp_path, "train/a.avi", "test/b.avi")
    files, _ = find_class_files(tmp_path, SUFFIXES, "video")
    assert [(file.class_name, file.side) for file in files] == [("test", None), ("train", None)]
    assert split_note(tmp_path) == ()


def test_files_one_level_deeper_are_named_without_advice_that_loses_some(tmp_path: Path) -> None:
    touched(tmp_path, "cat/day1/a.avi", "cat/day2/a.avi", "dog/day1/a.avi")
    with pytest.raises(InputError, match=r"Videos lie one level deeper, as in cat/day1: expected CLASS/vid"):
        find_class_files(tmp_path, SUFFIXES, "video")


def test_an_empty_class_counts_where_all_is_judged(tmp_path: Path) -> None:
    touched(tmp_path, "good/a.avi")
    (tmp_path / "bad").mkdir()
    files, skipped = find_class_files(tmp_path, SUFFIXES, "video", judged_alone=True)
    assert [file.class_name for file in files] == ["good"]
    assert skipped == []
    assert class_folder_names(tmp_path) == {"bad", "good"}
    with pytest.raises(InputError, match=r"1 class folders with video files"):
        find_class_files(tmp_path, SUFFIXES, "video")


def test_classes_whose_names_differ_by_case_blanks_or_accents_are_named() -> None:
    (note,) = alike_names(["Rose", "rosé ", "tulip", "cat 1", "cat 2"])
    assert note.startswith("the classes 'Rose' and 'rosé ' differ by case, blanks or accents alone")
    assert alike_names(["+", "-", "a", "a+", "a++"]) == ()


def test_characters_that_nobody_sees_are_no_difference() -> None:
    (note,) = alike_names(["cat", "cat\u200b", "dog"])
    assert "'cat' and 'cat\\u200b'" in note


def test_a_class_that_may_be_a_missing_label_is_named() -> None:
    (note,) = alike_names(["1", "2", " N/A"])
    assert note == "the class ' N/A' may mean that there is no label. If so, leave its images out."


def test_classes_that_are_the_same_number_are_named() -> None:
    (note,) = alike_names(["1", "1.0", "10", "2"])
    assert note == "the classes '1' and '1.0' are the same number. If they are one, give them one name."
    assert alike_names(["-1", "1", "1.5", "15", "1e3", "inf", "Inf."]) == ()


@pytest.mark.parametrize("others", [["0", "1", "2"], ["car"]])
def test_unknown_may_mean_that_there_is_no_label(others) -> None:
    (note,) = alike_names([*others, "unknown"])
    assert note.startswith("the class 'unknown' may mean that there is no label")


@pytest.mark.parametrize("names", [["0", "other"], ["2019", "2020", "control"], ["-1", "1", "mine"]])
def test_a_word_among_numbers_is_a_class(names) -> None:
    assert alike_names(names) == ()
